"""Compiles the kernels of rounds: two shards and a resolver judge a few pages of our own before the first real one."""

import numpy as np

from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.kernels import EDITED, STORY
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.ahead import BucketPrefetch
from spotsieve.stream.sharding.answering import find_shard_candidates
from spotsieve.stream.sharding.confirming import apply_confirmations, confirm
from spotsieve.stream.sharding.filing import index_round
from spotsieve.stream.sharding.hosts import resolve_hosts
from spotsieve.stream.sharding.keys import lay_out_keys, read_round
from spotsieve.stream.sharding.resolving import resolve
from spotsieve.stream.sharding.resolving_hosts import check_speculation, merge_resolutions
from spotsieve.stream.sharding.rounds import next_round
from spotsieve.stream.sharding.shares import Share

_SHARES = (Share(0, 2), Share(1, 2))
_OTHER = " ".join(reversed(STORY.split()))
"""A text whose buckets the first round leaves alone."""


def compile_rounds(scheme: Scheme, limits: Limits) -> None:
    """Judge two rounds of pages of several hosts: the second one meets what the first has filed, and was read ahead."""
    states, number = [MemoryState() for _ in _SHARES], 0
    aheads = [BucketPrefetch(state) for state in states]
    records = [_record(0, scheme, STORY, EDITED, "<p>no", STORY), _record(1, scheme, EDITED, STORY, _OTHER)]
    for offset, record in enumerate(records):
        round_ = next_round([(offset, record)], 0, states[0].clock, number, 0, len(record.signatures))
        each = [read_round(round_.signatures, scheme, *one) for one in zip(aheads, _SHARES, strict=True)]
        parts = list(zip(each, aheads, _SHARES, strict=True))
        met = [
            find_shard_candidates(round_.signatures, held, scheme, state, limits, share) for held, state, share in parts
        ]
        if scheme.bars is None:
            laid = lay_out_keys(round_.signatures, scheme)
            resolved = resolve(round_, laid, scheme, limits, met)
        else:
            confirms = [confirm(round_.signatures, met, scheme, state, share) for _, state, share in parts]
            met = apply_confirmations(met, confirms)
            # No page is filed by this guess, so it is wrong, and the check of wrong guesses runs too.
            speculation = np.zeros(len(record.signatures), np.bool_)
            while True:
                walks = [
                    resolve_hosts(round_, held, scheme, state, limits, met, speculation) for held, state, _ in parts
                ]
                checked = check_speculation(round_, scheme, limits, met, walks, speculation)
                if checked.speculation is None:
                    break
                speculation = checked.speculation
            resolved = merge_resolutions(round_, scheme, met, walks, checked)
        for state, (held, ahead, share) in zip(states, parts, strict=True):
            for coming in records[offset + 1 :]:
                ahead.read(offset + 1, coming.signatures, scheme, share)
            index_update = index_round(round_, resolved, held, scheme, ahead, limits, share)
            state.file(index_update, offset + 1, 0)
            ahead.changed(index_update.keys)
        number = resolved.next_number


def _record(offset: int, scheme: Scheme, *bodies: str) -> LogRecord:
    pages = [
        Page("warm", 0, 10 * offset + row, f"https://{row % 3}.example/", body.encode(), True, 0)
        for row, body in enumerate(bodies)
    ]
    return LogRecord(bytes(16), offset, bytes(16), scheme.sign(pages), 0)
