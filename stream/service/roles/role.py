"""The lifecycle of a shard or resolver with one set of Kafka clients: start, work, stop. Any error ends it.

drive() performs the actions of its steps (stream/sharding/steps.py).

compile_rounds() compiles the kernels of rounds: two shards and a resolver judge a few built-in pages.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import numpy as np
from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import page_id_text, page_ids_at
from spotsieve.stream.base.tasks import race
from spotsieve.stream.engine.warmup import EDITED, STORY
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.watch import BrokerWatch, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.sharding.bucket_prefetch import BucketPrefetch
from spotsieve.stream.sharding.candidates import Speculation, no_flags
from spotsieve.stream.sharding.confirmation import apply_confirmations, confirm
from spotsieve.stream.sharding.hosts import merge_resolutions, resolve_hosts
from spotsieve.stream.sharding.indexing import index_round
from spotsieve.stream.sharding.keys import lay_out_keys, read_round
from spotsieve.stream.sharding.records.frame import encode_round_record
from spotsieve.stream.sharding.resolution import resolve
from spotsieve.stream.sharding.responses import find_shard_candidates
from spotsieve.stream.sharding.rounds import Round, next_round
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sharding.speculation import check_speculation
from spotsieve.stream.sharding.steps import Action, Draft, Moment, Note, RoleEnd, Steps, T
from spotsieve.stream.sign.schemes import Scheme


async def drive(steps: Steps[T], perform: Callable[[Action[Any]], Awaitable[Any]]) -> T:
    """Perform the actions of steps one after the other. Returns the result of the steps."""
    result: Any = None
    try:
        while True:
            try:
                action = steps.send(result)
            except StopIteration as end:
                value: T = end.value
                return value
            result = await perform(action)
    finally:
        steps.close()


def encode_draft(draft: Draft, settings_digest: bytes, log: LogIdentity, number: int = 0) -> bytes:
    """Encode a record of a role. log: the log whose pages it is about  number: of the shard, 0 for the resolver"""
    return encode_round_record(draft.kind, settings_digest, Share(number, draft.shards), draft.range, draft.body, log)


def present() -> Moment:
    """The time of this process."""
    return Moment(time.monotonic(), time.time_ns() // 1_000_000)


def log_note(note: Note) -> None:
    """Log a line of the steps."""
    (logger().warning if note.is_warning else logger().info)(note.text, **note.fields)


MOST_NAMED = 10
"""Limit of pages that a log line names. The workers of the pages name and save all of them."""


def log_poison_pages(round_: Round, errors: Mapping[int, Exception]) -> None:
    """Log the poison pages of a round, nearly always one. errors: by row"""
    rows = sorted(errors)
    page_ids = page_ids_at(round_.signatures, np.array(rows[:MOST_NAMED]))
    logger().error(
        "a defect of Spotsieve stopped these pages; their round continues without them; please report the file that "
        "their worker saves",
        pages=[page_id_text(*page_id) for page_id in page_ids],
        number=len(rows),
        exc_info=errors[rows[0]],
    )


class Role:
    """A shard or a resolver. It can stop at any time, because Kafka and the state hold all data of a round."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._waits = Waits(metrics)
        self._stopping = asyncio.Event()
        self._ready = False
        self.step = "starting"

    def problems(self) -> list[str]:
        """One sentence per reason why it does not work now. Any thread may call this."""
        return ([] if self._ready else [self.step]) + self._waits.texts()

    def works(self) -> bool:
        """Whether it has caught up and, as a resolver, is active. Any thread may call this."""
        return self._ready

    def stop(self) -> None:
        """Request a clean stop."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stop(). Raises BrokerTrouble if a new instance can continue, and other SpotsieveErrors if not."""
        try:
            await race(BrokerWatch(self._settings, self._waits).run(), self._live(), self._stopping.wait())
        except RoleEnd as over:
            logger().info(str(over))
        except KafkaError as error:
            raise final_error(error, self._settings, "running") from error
        finally:
            self._ready = False
            await self._close()

    async def _live(self) -> None:
        await self._start()
        self._ready = True
        logger().info("ready")
        await self._work_on()

    async def _start(self) -> None:
        """Connect and catch up."""
        raise NotImplementedError

    async def _work_on(self) -> None:
        """Work. Never returns."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close all connections."""
        raise NotImplementedError


_SHARES = (Share(0, 2), Share(1, 2))
_OTHER = " ".join(reversed(STORY.split()))
"""A text whose buckets the first round does not change."""


def compile_rounds(scheme: Scheme, limits: Limits) -> None:
    """Judge two rounds of pages of several hosts.

    The second round finds indexed pages of the first, and is prefetched.
    """
    states, number = [memory_state() for _ in _SHARES], 0
    aheads = [BucketPrefetch(state) for state in states]
    records = [_record(0, scheme, STORY, EDITED, "<p>no", STORY), _record(1, scheme, EDITED, STORY, _OTHER)]
    for offset, record in enumerate(records):
        round_ = next_round([(offset, record)], 0, states[0].clock, number, 0, len(record.signatures))
        each = [read_round(round_.signatures, scheme, *one) for one in zip(aheads, _SHARES, strict=True)]
        parts = list(zip(each, aheads, _SHARES, strict=True))
        candidates = [
            find_shard_candidates(round_.signatures, reads, scheme, state, limits, share)
            for reads, state, share in parts
        ]
        if scheme.host_thresholds is None:
            laid = lay_out_keys(round_.signatures, scheme)
            resolved = resolve(round_, laid, scheme, limits, candidates)
        else:
            confirmations = [confirm(round_, reads, candidates, scheme, state, share) for reads, state, share in parts]
            candidates = apply_confirmations(candidates, confirmations)
            # This speculation indexes no page, so it is wrong, and the check of wrong speculations runs too.
            speculation = Speculation(np.zeros(len(record.signatures), np.bool_), no_flags())
            while True:
                resolutions = [
                    resolve_hosts(round_, reads, scheme, state, limits, candidates, speculation)
                    for reads, state, _ in parts
                ]
                checked = check_speculation(round_, scheme, limits, candidates, resolutions, speculation)
                if checked.speculation is None:
                    break
                speculation = checked.speculation
            resolved = merge_resolutions(round_, scheme, candidates, resolutions, checked.postings)
        for state, (reads, ahead, share) in zip(states, parts, strict=True):
            for coming in records[offset + 1 :]:
                ahead.read(offset + 1, coming.signatures, scheme, share)
            index_update = index_round(round_, resolved, reads, scheme, ahead, limits, share)
            state.file(index_update, offset + 1, 0)
            ahead.changed(index_update.keys)
        number = resolved.next_number


def _record(offset: int, scheme: Scheme, *bodies: str) -> LogRecord:
    pages = [
        Page("warm", 0, 10 * offset + row, f"https://{row % 3}.example/", body.encode(), True, 0)
        for row, body in enumerate(bodies)
    ]
    return LogRecord(bytes(16), offset, bytes(16), scheme.sign(pages), 0)
