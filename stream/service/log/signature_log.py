"""Appends micro-batches to the log, follows the log, and hands their verdicts back.

Keeps the records that this worker wrote until they come back, so that it need not decode them.
"""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from spotsieve.state.identity import check_log_range
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import LogRecord, checksum_of, encode_and_keep, split
from spotsieve.state.recent import RecentPartitions
from spotsieve.state.snapshot.checkpoints import Requests
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


class RecordCache:
    """Records on their way through the log, by their bytes."""

    def __init__(self) -> None:
        self._records: dict[int, tuple[bytes, LogRecord]] = {}

    def keep(self, value: bytes, record: LogRecord) -> None:
        """Keep what stands in the bytes of a record until these come back."""
        self._records[checksum_of(value)] = value, record

    def take(self, value: bytes) -> LogRecord | bytes:
        """What stands in these bytes where they are, one for one, of a record that is kept; else the bytes."""
        kept, record = self._records.pop(checksum_of(value), (b"", None))
        return value if record is None or kept != value else record


MOST_IDS_LOGGED = 100
SHORT_RECORD_BYTES = 32 * 1024
"""A record of some hundred pages at most: they are judged in a few milliseconds."""
PASSED_OVER = {
    "foreign": "passed over a record of the log that is none of ours; all that follow are counted "
    "(spotsieve_log_skipped_records_total): find out who writes to the log",
    "configuration": "passed over the configuration of a worker with other settings that came later to this log",
    "skipped": "passed over a record that cannot be applied, as the log says (spotsieve topics skip-record)",
}
"""What is logged of the first record of each kind that moves nothing but the position."""
FILLING = "waiting until the log is open: spotsieve migrate fills it from another log (--switch opens it)"


class SignatureLog:
    """The log topic as one worker sees it.

    A verdict comes from reading the log back, never from what was appended: only then is the record's place among the
    records of other workers known.
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
        self._skipped, self._told = set[int](), set[str]()
        self._filling = False
        self._waiting: dict[int, asyncio.Future[ApplyResult]] = {}
        self._written = RecordCache()
        self._judging = SerialExecutor("judge", heartbeats)
        self._lives = False
        self._reading = LogFollower(settings, metrics, waits, lambda: engine.state.position)
        self._writing = RecordWriter(settings, waits, lambda: engine.state.position)

    async def start(self, progress: Callable[[str], None]) -> None:
        """Connect, and apply the records that the state has not seen, until the log's end is at most seconds away.

        A log that a migration fills is followed until it is open: a worker that joined its group before would judge by
        less than the old log knows. Calls progress(text) after each fetch.

        Raises StateError where the log no longer holds what the state needs, or the state is ahead of the log.
        """
        try:
            begin = await self._reading.start()
            await self._writing.start()
        except KafkaError as error:
            raise final_error(error, self._settings, "opening the log") from None
        end = await self._reading.end()
        state = self._engine.state
        check_log_range(self._partition.topic, state.position, begin, end, state.pages_applied)
        self._filling = await self._reading.check_settings(begin, end, self._writing.write, self._writer)
        end = await self._reading.end()
        await self._reading.go_on(state.position, state.pages_applied, state.last_record, begin)
        catching_up = CatchUp(self._engine.state.position, end)
        while self._filling or await self._reached() < end:
            records, pages = await self._follow_once()
            catching_up.applied(self._engine.state.position, records, pages)
            # Reading may take hours, and the log grows meanwhile. A worker that joined then would hold up its pages.
            if await self._reached() >= end and (
                catching_up.goes_on(now := await self._reading.end()) or self._filling
            ):
                end = now
            self._metrics.log_gap.set(catching_up.seconds_left() or 0.0)
            progress(FILLING if self._filling and await self._reached() >= end else catching_up.text())
        self._metrics.log_gap.set(0)
        catching_up.done()
        self._lives = True

    async def _reached(self) -> int:
        """The next offset to read. It passes the markers of strangers' transactions, which the state's does not."""
        return max(self._engine.state.position, await self._reading.position())

    async def append(
        self, signatures: Signatures, committed: Sequence[CommitMark] = ()
    ) -> list[asyncio.Future[ApplyResult]]:
        """Append a micro-batch, as one record unless it is larger than the broker takes.

        committed: what is known to be committed by now; the first record says it
        Returns one future for each record. It is done when the record was read back and judged. An append with an
        unknown outcome is repeated: a page that is in the log twice gets its first verdict again.
        """
        futures = list[asyncio.Future[ApplyResult]]()
        for part in split(signatures, LOG_RECORD_BYTES, committed):
            marks = () if futures else committed
            value, kept = encode_and_keep(part, self._writer, self._sequence, self._engine.settings_digest, marks)
            self._written.keep(value, kept)
            future: asyncio.Future[ApplyResult] = asyncio.get_running_loop().create_future()
            self._waiting[self._sequence] = future
            self._sequence += 1
            futures.append(future)
            await self._writing.write(value)
        return futures

    async def follow(self) -> None:
        """Apply the records of the log as they come, for ever."""
        while True:
            await self._follow_once()

    async def knows(self, partition: TopicPartition) -> bool:
        """Whether the state knows pages of a partition of an input topic."""
        return await self._judging.do(self._recent.has, *partition)

    async def close(self) -> None:
        """Stop reading and writing, after the record that is being applied."""
        for future in self._waiting.values():
            future.cancel()
        await self._reading.close()
        await self._writing.close()
        await self._judging.close()

    async def _follow_once(self) -> tuple[int, int]:
        """Apply the records of one fetch; -> (records, pages)."""
        if self._requests.waiting():
            name = await self._judging.do(self._requests.answer)
            if name is not None:
                logger().info("made a checkpoint for a snapshot", position=self._engine.state.position)
        records, pages = 0, 0
        for record in await self._reading.fetch():
            with self._metrics.timed("judge"):
                # A record without value is not ours: its 0 bytes are passed over like every foreign record.
                applied = await self._apply(record.value or b"", record.offset)
            records, pages = records + 1, pages + len(applied.record.signatures)
            self._metrics.observe_judged(applied.verdicts, applied.bucket_sizes, applied.capped, applied.filled_buckets)
            if applied.record.handover is not None and self._filling:
                self._filling = False
                logger().info("the log is open: it has what another log had", log=applied.record.handover.log)
            if applied.record.forgotten:
                self._metrics.forgotten.inc(len(applied.forgotten))
                _log_forgotten(applied, record.offset)
            self._metrics.log_position.set(self._engine.state.position)
            if applied.record.writer == self._writer:
                # A repeated append comes back twice, and the first reading answers.
                waiting = self._waiting.pop(applied.record.sequence, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(applied)
        self._reading.note_end()
        return records, pages

    async def _apply(self, value: bytes, offset: int) -> ApplyResult:
        """Apply one record, or pass over it where it is not of this log.

        Raises StateError with the way out where every worker stops.
        """
        # What lies in the log at the start comes without a pause, and would leave the event loop no time.
        do = self._judging.do_short if self._lives and len(value) <= SHORT_RECORD_BYTES else self._judging.do
        try:
            applied = await do(self._engine.apply, self._written.take(value), offset)
        except (DamagedRecord, SettingsMismatch) as error:
            if offset not in self._skipped:
                self._skipped |= await read_skipped_offsets(self._settings, offset + 1)
            if offset not in self._skipped:
                raise stopped_error(error, offset) from None
            applied = await self._judging.do(self._engine.skip, value, offset)
            self._tell_passed("skipped", value, offset)
            if self._waiting:
                # It may be one of this worker's own, whose pages would wait for their verdicts for ever.
                raise BrokerTrouble(
                    f"log {self._partition.topic}[{offset}]", "was passed over, and this worker waits for its records"
                ) from None
            return applied
        if applied.record.foreign:
            self._tell_passed("foreign", value, offset)
        elif applied.record.settings_digest != self._engine.settings_digest:
            self._tell_passed("configuration", value, offset)
        return applied

    def _tell_passed(self, why: str, value: bytes, offset: int) -> None:
        """Count a record that was passed over, and log the first of its kind."""
        self._metrics.log_skipped.labels(why).inc()
        if why not in self._told:
            self._told.add(why)
            logger().warning(
                PASSED_OVER[why], log=self._partition.topic, offset=offset, bytes=len(value), begins=value[:16].hex()
            )


def _log_forgotten(applied: ApplyResult, offset: int) -> None:
    """Log for an audit which pages are forgotten from this record on, without their addresses."""
    ids = [page_id_text(*page_id) for page_id in applied.forgotten]
    logger().info(
        "forgot pages",
        record=offset,
        pages=len(ids),
        forgotten_before=len(applied.record.forgotten) - len(ids),
        ids=ids[:MOST_IDS_LOGGED],
    )


async def verdicts_of(futures: list[asyncio.Future[ApplyResult]]) -> Verdicts:
    """Wait until all records of a micro-batch are judged; -> its verdicts."""
    parts = [(await future).verdicts for future in futures]
    return parts[0] if len(parts) == 1 else concatenate(parts)
