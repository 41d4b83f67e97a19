"""The log of a worker without a state: appends signatures to the log, and reads their verdicts from `verdicts`."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import NO_LOG
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import NO_PAGES, LogRecord, checksum_of, decode, encode, encode_void, split
from spotsieve.stream.base.errors import BrokerTrouble, DamagedRecord
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Verdicts, concatenate, no_verdicts
from spotsieve.stream.engine import ApplyResult
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES, TopicFacts
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import LogFollower
from spotsieve.stream.service.log.skips import log_records, log_span
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.roles.round_messages import RoundReader
from spotsieve.stream.service.run import WRITER_BYTES, ProcessState
from spotsieve.stream.service.worker import Worker
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME
from spotsieve.stream.sharding.steps import RecordVerdicts, VerdictPart
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

RECENT_RECORDS = 1_000
"""Number of latest log records that are searched for pages of a partition without a committed offset."""


class RemotePageError(Exception):
    """The error of a poison page in a shard or the resolver. Its text names the role."""


@dataclass(slots=True)
class _Waiting:
    """A record of this worker that waits for verdicts. left: number of pages without one. parts: verdicts so far"""

    record: LogRecord
    left: int
    future: asyncio.Future[ApplyResult]
    parts: list[Verdicts] = field(default_factory=list)
    poison: dict[int, Exception] = field(default_factory=dict)

    def take(self, part: VerdictPart) -> None:
        """Add the verdicts of the next pages, and complete the future after the last page."""
        before = sum(map(len, self.parts))
        self.poison |= {before + row: RemotePageError(text) for row, text in part.errors.items()}
        self.parts.append(part.verdicts)
        self.left -= len(part.verdicts)
        if self.left <= 0 and not self.future.done():
            found = concatenate(self.parts) if self.parts else no_verdicts()
            none = np.zeros(0, np.int64)
            self.future.set_result(ApplyResult(self.record, found, 0, 0, none, 0, False, poison=self.poison))


class WorkerLog:
    """Implements VerdictLog of stream/service/worker.py for a worker whose pages shards judge."""

    def __init__(self, settings: Settings, writer: bytes, metrics: Metrics, waits: Waits) -> None:
        """writer: 16 bytes, id of this worker"""
        self._settings = settings
        self._text = verdict_settings_text(settings)
        self._digest = settings_digest(self._text)
        self._writer = writer
        self._metrics = metrics
        self._waits = waits
        self._writing = RecordWriter(settings, waits, lambda: 0)
        self._rounds = RoundReader(settings, waits)
        self._sequence = 0
        self._waiting: dict[int, _Waiting] = {}
        self._records = RecordVerdicts(settings.topics.log, settings.topics.verdicts)
        self._recent: set[tuple[str, int]] | None = None
        self._log_was_new = False
        self.identity = NO_LOG

    async def start(self, progress: Callable[[str], None]) -> None:
        """Connect, and check that the log has these settings. Earlier verdicts are not read."""
        progress("checking the log")
        follower = LogFollower(self._settings, self._metrics, self._waits, lambda: 0)
        try:
            await self._writing.start()
            begin = await follower.start()
            log_end = await follower.end()
            head = await follower.check_settings(begin, log_end, self._writing.write, self._writer)
            self._rounds.log, self._log_was_new = head.log, head.new
            await self._rounds.start()
            await self._rounds.check_last()
            self.identity = await self._rounds.identify()
            _, end = await self._rounds.verdicts_span()
        except KafkaError as error:
            raise final_error(error, self._settings, "opening the log") from None
        finally:
            await follower.close()
        if head.filling:
            raise BrokerTrouble("log", "is still filled by spotsieve migrate; the worker waits until the log is open")
        self._rounds.seek_verdicts(end)
        # This worker does not wait for verdicts of earlier records.
        self._metrics.log_position.set(log_end)

    async def append(
        self, signatures: Signatures, committed: Sequence[CommitMark] = ()
    ) -> list[asyncio.Future[ApplyResult]]:
        """Append a micro-batch, as one record unless it exceeds the record limit. Returns a future per record.

        Make one call at a time.
        """
        futures = list[asyncio.Future[ApplyResult]]()
        for part in split(signatures, LOG_RECORD_BYTES, committed):
            marks = () if futures else committed
            value = encode(part, self._writer, self._sequence, self._digest, marks)
            record = LogRecord(self._writer, self._sequence, self._digest, NO_PAGES, checksum_of(value))
            self._sequence += 1
            offset: int | None = None
            self._records.begin_sending(record.checksum)
            try:
                offset = await self._writing.write(value)
            finally:
                unclaimed = self._records.end_sending(offset)
            waiting = _Waiting(record, len(part), asyncio.get_running_loop().create_future())
            self._waiting[offset] = waiting
            for given in unclaimed:
                self._give(offset, waiting, given)
            futures.append(waiting.future)
        return futures

    async def follow(self) -> None:
        """Complete the futures as verdicts arrive. Never returns."""
        while True:
            for message in await self._rounds.fetch():
                self._take(message)

    def _take(self, message: RoundMessage) -> None:
        for offset, part in self._records.take(message):
            self._give(offset, self._waiting[offset], part)
        if message.record.kind == KIND_OUTCOME:
            self._metrics.log_position.set(message.record.range.end.record)

    def _give(self, offset: int, waiting: _Waiting, part: VerdictPart) -> None:
        waiting.take(part)
        if waiting.left <= 0:
            self._waiting.pop(offset, None)
            self._records.forget(offset)

    async def knows(self, partition: TopicPartition) -> bool:
        """Whether the latest log records have pages of this input partition."""
        if self._recent is None:
            _, end = await log_span(self._settings)
            recent = set[tuple[str, int]]()
            async for offset, value in log_records(self._settings, max(0, end - RECENT_RECORDS), end):
                try:
                    found = decode(value, self._settings.topics.log, offset).signatures
                except DamagedRecord:
                    continue
                pairs = zip(found.source.tolist(), found.partition.tolist(), strict=True)
                recent |= {(found.sources[source], number) for source, number in pairs}
            self._recent = recent
        return tuple(partition) in self._recent

    async def void(self, partition: TopicPartition) -> None:
        """Remove the pending verdicts of an input partition, unless this worker found an empty log."""
        if self._log_was_new:
            return
        topic, number = partition.topic, partition.partition
        value = encode_void(topic, number, self._writer, self._sequence, self._digest)
        self._sequence += 1
        await self._writing.write(value)

    async def close(self) -> None:
        """Stop reading and writing."""
        for waiting in self._waiting.values():
            waiting.future.cancel()
        await self._rounds.close()
        await self._writing.close()


def open_signing_worker(settings: Settings) -> ProcessState:
    """Open a worker that signs and commits pages, which shards judge. It holds no state."""
    scheme = scheme_in_scope(settings)

    def begin(facts: Mapping[str, TopicFacts], metrics: Metrics, heartbeats: Heartbeats) -> Worker:
        def log_of(waits: Waits) -> WorkerLog:
            return WorkerLog(settings, os.urandom(WRITER_BYTES), metrics, waits)

        worker = Worker(settings, scheme, log_of, facts, metrics, heartbeats)
        metrics.role.labels("worker", "").set_function(lambda: float(worker.ready))
        return worker

    return ProcessState(None, begin)
