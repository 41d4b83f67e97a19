"""Appends micro-batches to the log, applies the log to the state, and returns the verdicts of the micro-batches.

RecentPartitions finds the partitions of the latest entries.

Records of this worker are cached until they are read back, so that they are not decoded again.
"""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import NO_LOG, LogIdentity
from spotsieve.state.identity import check_log_range
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import LogRecord, checksum_of, encode_and_keep, encode_void, split
from spotsieve.state.snapshot.checkpoints import Requests
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import BrokerTrouble, DamagedRecord, SettingsMismatch
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures, page_id_text
from spotsieve.stream.base.verdict import Verdicts, concatenate
from spotsieve.stream.engine import ApplyResult, Engine
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import CatchUp, LogFollower
from spotsieve.stream.service.log.skips import read_skipped_offsets, stopped_error
from spotsieve.stream.service.log.writer import RecordWriter
from spotsieve.stream.service.serial_executor import SerialExecutor

MOST_IDS_LOGGED = 100
SHORT_RECORD_BYTES = 128 * 1024
"""Up to this size a record has about a hundred pages, and they are judged in ten milliseconds."""
SKIP_WARNINGS = {
    "foreign": "skipped a log record that another program wrote; find out which program writes to the log topic; "
    "further records are only counted (spotsieve_log_skipped_records_total)",
    "configuration": "skipped the configuration of a worker with other settings, which lost the race for this log",
    "skipped": "skipped a log record that cannot be applied, because the log says so (spotsieve topics skip-record)",
}
"""The log line for the first skipped record of each kind."""
FILLING = "waiting until the log is open: spotsieve migrate still fills it from another log (--switch opens it)"


class RecordCache:
    """Decoded records that were written and not yet read back, by their bytes."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[bytes, LogRecord]] = {}

    def keep(self, value: bytes, record: LogRecord) -> None:
        """Cache the record that these bytes encode."""
        self._records[checksum_of(value)] = value, record

    def take(self, value: bytes) -> LogRecord | bytes:
        """Remove and return the cached record of exactly these bytes, or return the bytes without such a record."""
        cached, record = self._records.pop(checksum_of(value), (b"", None))
        return value if record is None or cached != value else record


class SignatureLog:
    """The log topic as one worker sees it.

    Verdicts come from records that are read back, never from appended records: only the log decides the order among
    the records of all workers.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        writer: bytes,
        metrics: Metrics,
        waits: Waits,
        heartbeats: Heartbeats,
    ) -> None:
        self._settings = settings
        self._waits = waits
        self._engine = engine
        self._requests = Requests(settings.index.directory, engine.state)
        self._recent = RecentPartitions(engine.state)
        self._writer = writer
        self._metrics = metrics
        self._partition = TopicPartition(settings.topics.log, 0)
        self._sequence = 0
        self._skipped, self._warned = set[int](), set[str]()
        self._filling = False
        self._log_was_new = False
        self._waiting: dict[int, asyncio.Future[ApplyResult]] = {}
        self._written = RecordCache()
        self._judging = SerialExecutor("judge", heartbeats)
        self._is_live = False
        self._reading = LogFollower(settings, metrics, waits, lambda: engine.state.position)
        self._writing = RecordWriter(settings, waits, lambda: engine.state.position)

    async def start(self, progress: Callable[[str], None]) -> None:
        """Connect, and apply the log until its end is at most seconds away.

        A log that a migration fills is followed until it is open: a worker that joined its group earlier would judge
        without a part of the old log. Calls progress(text) after each fetch.

        Raises StateError if the log no longer holds the records that the state needs, or if the state is ahead of it.
        """
        try:
            begin = await self._reading.start()
            await self._writing.start()
        except KafkaError as error:
            raise final_error(error, self._settings, "opening the log") from None
        end = await self._reading.end()
        state = self._engine.state
        if begin == end:  # An empty log gets its first record only if the state is new.
            check_log_range(self._partition.topic, state.position, begin, end, state.pages_applied)
        head = await self._reading.check_settings(begin, end, self._writing.write, self._writer)
        self._filling, self._log_was_new = head.filling, head.new
        self._engine.adopt(head.log)
        end = await self._reading.end()
        check_log_range(self._partition.topic, state.position, begin, end, state.pages_applied)
        await self._reading.go_on(state.position, state.pages_applied, state.last_record, begin)
        catching_up = CatchUp(self._engine.state.position, end)
        while self._filling or await self._reached() < end:
            records, pages = await self._follow_once()
            catching_up.applied(self._engine.state.position, records, pages)
            # The log grows while it is read, which may take hours. A worker that joined the group too early would delay
            # its pages.
            if await self._reached() >= end and (
                catching_up.goes_on(now := await self._reading.end()) or self._filling
            ):
                end = now
            self._metrics.log_gap.set(catching_up.seconds_left() or 0.0)
            progress(FILLING if self._filling and await self._reached() >= end else catching_up.text())
        self._metrics.log_gap.set(0)
        catching_up.done()
        self._is_live = True

    @property
    def identity(self) -> LogIdentity:
        """The identity of the log, once it has started."""
        return self._engine.state.identity.log_identity or NO_LOG

    async def _reached(self) -> int:
        """The next offset to read. Unlike the position of the state, it moves past transaction markers."""
        return max(self._engine.state.position, await self._reading.position())

    async def append(
        self, signatures: Signatures, committed: Sequence[CommitMark] = ()
    ) -> list[asyncio.Future[ApplyResult]]:
        """Append a micro-batch, as one record unless it exceeds the record limit of the broker.

        committed: offsets that are committed by now; the first record carries them
        Returns one future per record, which completes when the record was read back and judged. An append with an
        unknown outcome is repeated: a page that is in the log twice gets its first verdict again.
        """
        futures = list[asyncio.Future[ApplyResult]]()
        for part in split(signatures, LOG_RECORD_BYTES, committed):
            marks = () if futures else committed
            value, record = encode_and_keep(part, self._writer, self._sequence, self._engine.settings_digest, marks)
            self._written.keep(value, record)
            future: asyncio.Future[ApplyResult] = asyncio.get_running_loop().create_future()
            self._waiting[self._sequence] = future
            self._sequence += 1
            futures.append(future)
            await self._writing.write(value)
        return futures

    async def follow(self) -> None:
        """Apply the records of the log as they arrive. Never returns."""
        while True:
            await self._follow_once()

    async def knows(self, partition: TopicPartition) -> bool:
        """Whether the state has pages of this input partition."""
        return await self._judging.do(self._recent.has, *partition)

    async def void(self, partition: TopicPartition) -> None:
        """Remove the pending verdicts of an input partition, unless this worker found an empty log."""
        if self._log_was_new:
            return
        value = encode_void(
            partition.topic, partition.partition, self._writer, self._sequence, self._engine.settings_digest
        )
        self._sequence += 1
        await self._writing.write(value)

    async def close(self) -> None:
        """Stop reading and writing, after the current record is applied."""
        for future in self._waiting.values():
            future.cancel()
        await self._reading.close()
        await self._writing.close()
        await self._judging.close()

    async def _follow_once(self) -> tuple[int, int]:
        """Apply the records of one fetch. Returns the numbers of records and pages."""
        if self._requests.waiting():
            name = await self._judging.do(self._requests.answer)
            if name is not None:
                logger().info("made a checkpoint for a snapshot", position=self._engine.state.position)
        records, pages = 0, 0
        for record in await self._reading.fetch():
            with self._metrics.timed("judge"):
                # A record without a value is foreign. Its 0 bytes are skipped like every foreign record.
                applied = await self._apply(record.value or b"", record.offset)
            records, pages = records + 1, pages + len(applied.record.signatures)
            self._metrics.observe_judged(applied.verdicts, applied.bucket_sizes, applied.capped, applied.filled_buckets)
            if applied.record.handover is not None and self._filling:
                self._filling = False
                logger().info(
                    "the log is open: it holds the pages of the migrated log", log=applied.record.handover.log
                )
            if applied.record.forgotten:
                self._metrics.forgotten.inc(len(applied.forgotten))
                _log_forgotten(applied, record.offset)
            self._metrics.log_position.set(self._engine.state.position)
            if applied.record.writer == self._writer:
                # A repeated append is read back twice. The first reading completes the future.
                waiting = self._waiting.pop(applied.record.sequence, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(applied)
        self._reading.note_end()
        return records, pages

    async def _apply(self, value: bytes, offset: int) -> ApplyResult:
        """Apply one record, or skip it if the log says so.

        Raises StateError with the next step for a record at which every worker stops, and BrokerTrouble after a skip
        if futures are open.
        """
        # The backlog at the start arrives without a pause, and would block the event loop.
        do = self._judging.do_short if self._is_live and len(value) <= SHORT_RECORD_BYTES else self._judging.do
        try:
            applied = await do(self._engine.apply, self._written.take(value), offset)
        except (DamagedRecord, SettingsMismatch) as error:
            if offset not in self._skipped:
                self._skipped |= await read_skipped_offsets(self._settings, offset + 1)
            if offset not in self._skipped:
                raise stopped_error(error, offset) from None
            applied = await self._judging.do(self._engine.skip, value, offset)
            self._count_skipped("skipped", value, offset)
            if self._waiting:
                # The record may be one of this worker, whose pages would wait for their verdicts for ever.
                raise BrokerTrouble(
                    f"log {self._partition.topic}[{offset}]", "was skipped while this worker waits for verdicts"
                ) from None
            return applied
        if applied.record.foreign:
            self._count_skipped("foreign", value, offset)
        elif applied.record.settings_digest != self._engine.settings_digest:
            self._count_skipped("configuration", value, offset)
        return applied

    def _count_skipped(self, why: str, value: bytes, offset: int) -> None:
        """Count a skipped record, and warn about the first of its kind."""
        self._metrics.log_skipped.labels(why).inc()
        if why not in self._warned:
            self._warned.add(why)
            logger().warning(
                SKIP_WARNINGS[why], log=self._partition.topic, offset=offset, bytes=len(value), begins=value[:16].hex()
            )


def _log_forgotten(applied: ApplyResult, offset: int) -> None:
    """Log for an audit which pages this record removed from the state. URLs are not logged."""
    ids = [page_id_text(*page_id) for page_id in applied.forgotten]
    logger().info(
        "forgot pages",
        record=offset,
        pages=len(ids),
        forgotten_before=len(applied.record.forgotten) - len(ids),
        ids=ids[:MOST_IDS_LOGGED],
    )


async def verdicts_of(futures: list[asyncio.Future[ApplyResult]]) -> Verdicts:
    """Wait until all records of a micro-batch are judged. Returns its verdicts."""
    return concatenate([(await future).verdicts for future in futures])


MOST_ENTRIES = 2**18
"""Number of latest entries that are read, in about a second: a partition in use has some among them."""
_AT_ONCE = 4096


class RecentPartitions:
    """The partitions of a state's latest entries.

    Each entry is read once, for any number of partitions. Otherwise 1,000 new partitions would take a second each.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = 0
        self._known: set[tuple[str, int]] = set()

    def has(self, source: str, partition: int) -> bool:
        """Whether a page of this partition is among the latest entries. Raises CorruptRecord, StateError."""
        state, end = self._state, self._state.entry_count
        first = max(self._seen, state.clock.floor, end - MOST_ENTRIES, 0)
        while first < end:
            last = min(first + _AT_ONCE, end)
            for page_id in state.page_ids(np.arange(first, last, dtype=np.uint64)):
                if page_id is not None:
                    self._known.add((page_id[0], page_id[1]))
            first = self._seen = last
        return (source, partition) in self._known
