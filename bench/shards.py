"""`python -m bench.shards [PAGES] [ROUND]` measures the CPU and the bytes per page of shards and resolver.

`make scale` (bench/scale) uses these figures.

The pages come from the index benchmark (CandidateLoad), under the default scheme. All roles run in one process, one
after the other, over states on disk, as they are deployed. Each role is charged from the bytes that it reads to the
bytes that it sends. Indexing is also charged with the work of RocksDB's background threads, which it causes. A shard
reads the buckets of a round ahead, before it indexes the previous round; "alone" is the time of a shard that reads
nothing ahead, and is part of no sum. The single-process judge also runs over a state on disk, so the ratio compares
like with like. Only the second half of the run counts. Sizes of states are taken after RocksDB has compacted them.
"""

import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.speed.index_load import CandidateLoad
from spotsieve.state.horizon import Clock
from spotsieve.state.log.record import decode, encode
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.judge import KEEP_FIRST, judge
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.sharding.bucket_prefetch import BucketPrefetch
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.confirmation import apply_confirmations, confirm
from spotsieve.stream.sharding.hosts import first_speculation, merge_resolutions, resolve_hosts
from spotsieve.stream.sharding.indexing import index_round
from spotsieve.stream.sharding.keys import ShardReads, read_round
from spotsieve.stream.sharding.records.frame import (
    KIND_CANDIDATES,
    KIND_CONFIRMATIONS,
    KIND_OUTCOME,
    KIND_RESOLUTIONS,
    ColumnReader,
    decode_body,
    decode_round_record,
    encode_round_record,
    range_of,
)
from spotsieve.stream.sharding.records.resolver import read_outcome, write_outcome
from spotsieve.stream.sharding.records.shard import (
    read_candidates,
    read_confirmations,
    read_resolutions,
    write_candidates,
    write_confirmations,
    write_resolutions,
)
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import Round, next_round
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sharding.speculation import check_speculation
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

SCHEME, INDEX, DIGEST = SpotsieveScheme(SpotsieveSettings()), IndexSettings(), bytes(16)
LIMITS = Limits(INDEX.bucket_cap, INDEX.candidate_limit or SCHEME.candidate_limit, KEEP_FIRST)
NUMBERS = (1, 2, 4, 8)
LOG_PAGES = 512
"""Pages of a log record of a service (service.batch_pages)."""
Figures = dict[str, float]


class CpuAccount:
    """CPU seconds by role and step. The working thread is charged by step, all other threads under "threads"."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)
        self._begun = _of_others()

    @contextmanager
    def to(self, what: str) -> Iterator[None]:
        """Charge the block to a step."""
        begun = time.thread_time()
        yield
        self.seconds[what] += time.thread_time() - begun

    @property
    def threads(self) -> float:
        """CPU seconds of RocksDB's threads since the account was opened."""
        return _of_others() - self._begun


def _of_others() -> float:
    return time.process_time() - time.thread_time()


def made_log(pages: int, a_round: int, digest: bytes = DIGEST) -> list[bytes]:
    """Log records of `a_round` pages, generated from a seed. digest: digest of the settings"""
    load = CandidateLoad(pages, np.random.default_rng(pages))
    return [
        encode(load.signatures(first, min(first + a_round, pages)), bytes(16), number, digest)
        for number, first in enumerate(range(0, pages, a_round))
    ]


def measure_one(log: Sequence[bytes], counted: int) -> Figures:
    """Figures of the single-process judge over its state. counted: pages in the second half of the log"""
    charged = CpuAccount()
    with states_on_disk(1) as (state,):
        for offset, record in enumerate(log):
            if offset == len(log) // 2:
                charged = CpuAccount()
            with charged.to("judge"):
                verdicts, index_update = judge(decode(record).signatures, SCHEME, state, LIMITS.cap, LIMITS.candidates)
                state.file(index_update, offset + 1, 0)
            del verdicts
        seconds = charged.seconds["judge"] + charged.threads
        return {"judge_us": seconds / counted * 1e6, "state_bytes": state_bytes([state])}


@contextmanager
def states_on_disk(number: int) -> Iterator[list[State]]:
    """States in a folder of their own, which is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        directories = [Path(folder) / str(one) for one in range(number)]
        yield [opened.enter_context(disk_state(one, "{}", "log", INDEX)) for one in directories]


def state_bytes(stored: Sequence[State]) -> float:
    """Bytes of all table files once they are compacted, for each indexed page."""
    return sum(state.compact() for state in stored) / max(state.entry_count for state in stored)


def measure_shards(log: Sequence[bytes], coming: bytes, counted: int, number: int) -> Figures:
    """Figures of the resolver and `number` shards, round by round, and of a shard that rebuilds its state from the log.

    coming: the record behind the log. It is only read ahead, so that the last round reads ahead like every other one.
    """
    with states_on_disk(number) as states:
        figures, outcomes = _measure_shards(log, coming, counted, number, states)
        figures |= {"state_bytes": state_bytes(states)}
    seconds = sum(_measure_rebuild(log, outcomes, Share(one, number)) for one in range(number))
    return figures | {"rebuild_us": seconds / counted * 1e6}


def _measure_shards(
    log: Sequence[bytes], coming: bytes, counted: int, number: int, states: Sequence[State]
) -> tuple[Figures, list[bytes]]:
    """The figures, and the outcomes of all rounds."""
    shares = [Share(one, number) for one in range(number)]
    charged, sent, resolutions = CpuAccount(), Counter[int](), 0
    aheads = [BucketPrefetch(state) for state in states]
    entry_count, stored_entries, outcomes = 0, 0, list[bytes]()
    for offset, (record, following) in enumerate(pairwise([*log, coming])):
        if offset == len(log) // 2:
            charged, sent, resolutions = CpuAccount(), Counter(), 0
        with charged.to("resolver: read"):
            records = [(offset, decode(record))]
        with charged.to("resolver"):
            round_ = next_round(records, 0, Clock(), entry_count, 0, 2**30)
        responses, reads = list[bytes](), dict[Share, ShardReads]()
        signatures = round_.signatures
        for share, state, ahead in zip(shares, states, aheads, strict=True):
            with charged.to("shard: keys and buckets"):
                reads[share] = read_round(signatures, SCHEME, ahead, share)
            with charged.to("alone: keys and buckets"):
                read_round(signatures, SCHEME, state, share)
            with charged.to("shard: answer"):
                shard_candidates = find_shard_candidates(signatures, reads[share], SCHEME, state, LIMITS, share)
                responses.append(
                    _publish(round_, KIND_CANDIDATES, share, write_candidates(shard_candidates, entry_count), sent)
                )
        candidates, confirmed = dict[Share, list[ShardCandidates]](), list[bytes]()
        for share, state in zip(shares, states, strict=True):
            with charged.to("shard: confirm"):
                candidates[share] = [read_candidates(_columns(record, number), entry_count) for record in responses]
                confirms = confirm(round_, reads[share], candidates[share], SCHEME, state, share)
                body = write_confirmations(confirms, 0, entry_count)
                confirmed.append(_publish(round_, KIND_CONFIRMATIONS, share, body, sent))
        with charged.to("resolver: read"):
            met = [read_candidates(_columns(record, number), entry_count) for record in responses]
            met = _with_confirms(met, confirmed, entry_count)
        speculations = dict[Share, Speculation]()
        read = dict[Share, list[ShardCandidates]]()
        while True:
            resolutions += 1
            resolution = list[bytes]()
            for share, state in zip(shares, states, strict=True):
                with charged.to("shard: walk"):
                    if share not in read:
                        read[share] = _with_confirms(candidates[share], confirmed, entry_count)
                        # Every shard computes the first speculation from the same responses, so nobody sends it.
                        speculations[share] = first_speculation(round_, read[share])
                    speculation = speculations[share]
                    found = resolve_hosts(round_, reads[share], SCHEME, state, LIMITS, read[share], speculation)
                    body = write_resolutions(found, speculation, entry_count)
                    resolution.append(_publish(round_, KIND_RESOLUTIONS, share, body, sent))
            with charged.to("resolver"):
                all_resolutions = [read_resolutions(_columns(record, number), entry_count)[0] for record in resolution]
                checked = check_speculation(round_, SCHEME, LIMITS, met, all_resolutions, speculations[shares[0]])
            if checked.speculation is None:
                break
            speculations = dict.fromkeys(shares, checked.speculation)
        with charged.to("resolver"):
            resolved = merge_resolutions(round_, SCHEME, met, all_resolutions, checked.postings)
            outcome = _publish(round_, KIND_OUTCOME, Share(0, number), write_outcome(resolved), sent)
            outcomes.append(outcome)
        with charged.to("worker: outcomes"):
            verdicts = _outcome_of(outcome, number, entry_count).verdicts
        with charged.to("worker: originals"):
            list(verdicts.originals)
        for share, ahead in zip(shares, aheads, strict=True):
            with charged.to("shard: read"):
                after = decode(following).signatures
            with charged.to("shard: ahead"):
                ahead.drop()
                for number_of_part, part in enumerate(_parts(after)):
                    ahead.read(number_of_part, part, SCHEME, share)
        for share, state, ahead in zip(shares, states, aheads, strict=True):
            with charged.to("shard: file"):
                resolved = _outcome_of(outcome, number, entry_count)
                index_update = index_round(round_, resolved, reads[share], SCHEME, state, LIMITS, share)
                state.file(index_update, offset + 1, 0)
                ahead.changed(index_update.keys)
            stored_entries += len(index_update.pages)
        entry_count = resolved.next_number
    charged.seconds["shard: file"] += charged.threads
    steps = {f"{name.replace(': ', '_')}_us": value / counted * 1e6 for name, value in charged.seconds.items()}
    shard = sum(value for name, value in steps.items() if name.startswith("shard"))
    figures = {
        **steps,
        "shards_us": shard,
        "meetings_bytes": sent[KIND_CANDIDATES] / counted,
        "confirms_bytes": sent[KIND_CONFIRMATIONS] / counted,
        "walks_bytes": sent[KIND_RESOLUTIONS] / counted,
        "outcome_bytes": sent[KIND_OUTCOME] / counted,
        "walks_a_round": resolutions / (len(log) - len(log) // 2),
        "entries_held": stored_entries / entry_count,
    }
    return figures, outcomes


def _measure_rebuild(log: Sequence[bytes], outcomes: Sequence[bytes], share: Share) -> float:
    """CPU seconds of a shard that lost its disk and indexes the second half of the log again."""
    charged = CpuAccount()
    with states_on_disk(1) as (state,):
        for offset, (record, outcome) in enumerate(zip(log, outcomes, strict=True)):
            if offset == len(log) // 2:
                charged = CpuAccount()
            with charged.to("rebuild"):
                first_number = state.entry_count
                round_ = next_round([(offset, decode(record))], 0, Clock(), first_number, 0, 2**30)
                resolved = _outcome_of(outcome, share.shards, first_number)
                state.file(index_round(round_, resolved, None, SCHEME, state, LIMITS, share), offset + 1, 0)
        return charged.seconds["rebuild"] + charged.threads


def _with_confirms(
    met: Sequence[ShardCandidates], confirmed: Sequence[bytes], first_number: int
) -> list[ShardCandidates]:
    return apply_confirmations(met, [read_confirmations(_columns(one, len(met)), first_number) for one in confirmed])


def _parts(signatures: Signatures) -> Iterator[Signatures]:
    """Consecutive pages in portions of a log record."""
    for first in range(0, len(signatures), LOG_PAGES):
        yield signatures.part(first, min(first + LOG_PAGES, len(signatures)))


def _publish(round_: Round, kind: int, share: Share, body: bytes, sent: Counter[int]) -> bytes:
    record = encode_round_record(kind, DIGEST, share, range_of(round_), body)
    sent[kind] += len(record)
    return record


def _outcome_of(record: bytes, shards: int, first_number: int) -> RoundOutcome:
    decoded = decode_round_record(record, DIGEST, shards, "verdicts", 0)
    return decode_body(decoded, KIND_OUTCOME, partial(read_outcome, first_number=first_number), "verdicts", 0)


def _columns(record: bytes, shards: int) -> ColumnReader:
    return ColumnReader(decode_round_record(record, DIGEST, shards, "matches", 0).body)


def measure(pages: int, a_round: int) -> dict[str, Any]:
    """The figures of one process, and those of shards and resolver under "S=1" and so on."""
    *log, coming = made_log(pages + a_round, a_round)
    counted, warm = pages - len(log) // 2 * a_round, log[:2]
    measure_one(warm, a_round)
    measure_shards(warm, coming, a_round, 2)
    figures = {"pages": pages, "round": a_round, "log_bytes": sum(map(len, log)) / pages, **measure_one(log, counted)}
    return {**figures, **{f"S={one}": measure_shards(log, coming, counted, one) for one in NUMBERS}}


def main() -> None:
    """Print the figures as JSON."""
    pages, a_round = [*(int(text) for text in sys.argv[1:]), *(200_000, 4096)[len(sys.argv) - 1 :]]
    print(json.dumps(measure(pages, a_round), indent=1))


if __name__ == "__main__":
    main()
