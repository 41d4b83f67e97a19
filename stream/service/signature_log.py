"""Appends micro-batches to the log, follows the log, and hands their verdicts back."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.identity import check_first_record, check_last_record, check_log_range
from spotsieve.state.index import Committed
from spotsieve.state.log.handover import is_migrating
from spotsieve.state.log.record import (
    checksum_of,
    decode,
    encode,
    encode_configuration,
    first_of_ours,
    split,
    tells_open,
)
from spotsieve.state.recent import RecentPartitions
from spotsieve.state.snapshot.requests import Requests
from spotsieve.stream.engine import Applied, Engine
from spotsieve.stream.errors import BrokerTrouble, DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.kafka.backoff import Backoff
from spotsieve.stream.kafka.clients import log_consumer, log_producer, stop_client
from spotsieve.stream.kafka.consumers import check_alive
from spotsieve.stream.kafka.errors import Decision, decision, ended, stops
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.kafka.waits import Waits
from spotsieve.stream.observe.heartbeats import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.catchup import CatchUp
from spotsieve.stream.service.skipping import skipped_offsets, stopped_at
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import verdict_settings_text
from spotsieve.stream.signature import Signatures, page_id_text
from spotsieve.stream.verdict import Verdicts, concatenate

FETCH_TIMEOUT_MS = 500
HEAD_RECORDS = 100
TAIL_RECORDS = 16
"""How many records are looked at from a log's end, in one go: one of them has up to 900 KB."""
MOST_IDS_LOGGED = 100
PASSED_OVER = {
    "foreign": "passed over a record of the log that is none of ours; all that follow are counted "
    "(spotsieve_log_passed_records_total): find out who writes to the log",
    "configuration": "passed over the configuration of a worker with other settings that came later to this log",
    "skipped": "passed over a record that cannot be applied, as the log says (spotsieve topics skip-record)",
}
"""What is logged of the first record of each kind that moves nothing but the position."""
FILLING = "waiting until the log is open: spotsieve migrate fills it from another log (--switch opens it)"
BEGIN_ANEW = (
    "restore a snapshot whose position the log still holds (spotsieve state restore), or begin anew with another log "
    "(topics.log) and another state directory"
)


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
        self._heartbeats = heartbeats
        self._waits = waits
        self._following = Backoff()
        self._engine = engine
        self._requests = Requests(settings.index.directory, engine.state)
        self._recent = RecentPartitions(engine.state)
        self._writer = writer
        self._metrics = metrics
        self._partition = TopicPartition(settings.topics.log, 0)
        self._sequence = 0
        self._skipped, self._told = set[int](), set[str]()
        self._filling = False
        self._waiting: dict[int, asyncio.Future[Applied]] = {}
        self._judging = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._consumer: AIOKafkaConsumer = log_consumer(settings)
        self._producer: AIOKafkaProducer = log_producer(settings)

    async def start(self, progress: Callable[[str], None]) -> None:
        """Connect, and apply the records that the state has not seen, until the log's end is at most seconds away.

        A log that a migration fills is followed until it is open: a worker that joined its group before would judge by
        less than the old log knows. Calls progress(text) after each fetch.

        Raises StateError where the log no longer holds what the state needs, or the state is ahead of the log.
        """
        try:
            await self._consumer.start()
            await self._producer.start()
            self._consumer.assign([self._partition])
            begin = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        except KafkaError as error:
            raise ended(error, self._settings, "opening the log") from None
        end = await self._end()
        state = self._engine.state
        check_log_range(self._partition.topic, state.position, begin, end, state.pages_applied)
        await self._check_settings(begin, end)
        end = await self._end()
        await self._begin(begin)
        catching_up = CatchUp(self._engine.state.position, end)
        while self._filling or await self._reached() < end:
            records, pages = await self._follow_once()
            catching_up.applied(self._engine.state.position, records, pages)
            # Reading may take hours, and the log grows meanwhile. A worker that joined then would hold up its pages.
            if await self._reached() >= end and (catching_up.goes_on(now := await self._end()) or self._filling):
                end = now
            self._metrics.log_gap.set(catching_up.seconds_left() or 0.0)
            progress(FILLING if self._filling and await self._reached() >= end else catching_up.text())
        self._metrics.log_gap.set(0)
        catching_up.done()

    async def _end(self) -> int:
        """Ask where the log ends now."""
        try:
            end: int = (await self._consumer.end_offsets([self._partition]))[self._partition]
        except KafkaError as error:
            raise ended(error, self._settings, "asking for the log's end") from None
        self._metrics.log_end.set(end)
        return end

    async def _reached(self) -> int:
        """The next offset to read. It passes the markers of strangers' transactions, which the state's does not."""
        next_offset: int = await self._consumer.position(self._partition)
        return max(self._engine.state.position, next_offset)

    async def _check_settings(self, begin: int, end: int) -> None:
        """Check that the first record of ours in the log is of these settings; write it where there is none yet.

        Of workers that begin an empty log together, each writes its configuration. The first one in the log holds, and
        a worker of another one stops here, before it writes anything else. Raises SettingsMismatch.
        """
        text, written = verdict_settings_text(self._settings), False
        self._consumer.seek(self._partition, begin)
        while True:
            if not written and await self._consumer.position(self._partition) >= end:
                await self._write(encode_configuration(text, self._writer))
                written = True
            records = ((record.offset, record.value or b"") for record in await self._fetch(HEAD_RECORDS))
            first = first_of_ours(records, self._partition.topic)
            if first is not None:
                offset, record = first
                log_name = self._partition.topic
                check_first_record(record.settings_digest, record.configuration, text, log_name, offset)
                self._filling = is_migrating(record.writer) and not await self._is_open(offset)
                if self._filling:
                    logger().info("the log is being filled by spotsieve migrate; waiting until it is open")
                return

    async def _is_open(self, first: int) -> bool:
        """Whether a log that a migration has begun at this offset is open: its last record tells."""
        begin = await self._end()
        while begin > first:
            until, begin = begin, max(first, begin - TAIL_RECORDS)
            self._consumer.seek(self._partition, begin)
            told = None
            while await self._consumer.position(self._partition) < until:
                for record in await self._fetch(TAIL_RECORDS):
                    said = self._tells_open(record) if record.offset < until else None
                    told = told if said is None else said
            if told is not None:
                return told
        return False

    def _tells_open(self, record: ConsumerRecord) -> bool | None:
        try:
            return tells_open(decode(record.value or b"", self._partition.topic, record.offset))
        except DamagedRecord:
            return None

    async def _begin(self, first: int) -> None:
        """Seek to the state's position, and check on the way that the record before it is the one that was applied.

        This finds a log that was made anew, or lost its end, and was then filled again beyond the position. The engine
        checks a record that is applied in part when it goes on with it.
        """
        state = self._engine.state
        known = 0 < state.position > first and not state.pages_applied
        self._consumer.seek(self._partition, state.position - known)
        while known:
            for record in await self._fetch(1):
                check_last_record(
                    self._partition.topic, state.position, state.last_record, checksum_of(record.value or b"")
                )
                known = False

    async def append(
        self, signatures: Signatures, committed: Sequence[Committed] = ()
    ) -> list[asyncio.Future[Applied]]:
        """Append a micro-batch, as one record unless it is larger than the broker takes.

        committed: what is known to be committed by now; the first record says it
        Returns one future for each record. It is done when the record was read back and judged. An append with an
        unknown outcome is repeated: a page that is in the log twice gets its first verdict again.
        """
        futures = list[asyncio.Future[Applied]]()
        for part in split(signatures, LOG_RECORD_BYTES, committed):
            marks = () if futures else committed
            value = encode(part, self._writer, self._sequence, self._engine.settings_digest, marks)
            future: asyncio.Future[Applied] = asyncio.get_running_loop().create_future()
            self._waiting[self._sequence] = future
            self._sequence += 1
            futures.append(future)
            await self._write(value)
        return futures

    async def _write(self, value: bytes) -> None:
        """Write one record; try again with a new producer while the error may pass.

        The producer must be a new one: a batch that aiokafka gave up leaves a gap in the producer's sequence numbers,
        and the broker then refuses everything after it (OutOfOrderSequenceNumber).
        """
        backoff = Backoff()
        while True:
            try:
                await self._send(value)
                self._waits.over("append")
                return
            except KafkaError as error:
                if stops(error):
                    raise ended(error, self._settings, "writing the log") from None
                self._waits.failed("append", error)
                logger().warning(
                    "the log cannot be written yet; trying again",
                    topic=self._partition.topic,
                    error=type(error).__name__,
                    detail=str(error),
                )
            await backoff.wait()
            await self._renew_producer()

    async def _send(self, value: bytes) -> None:
        """Send a record once.

        Raises KafkaTimeoutError where the broker neither takes nor refuses it in time: aiokafka would try for ever.
        """
        state_position = self._engine.state.position
        try:
            async with asyncio.timeout(self._settings.kafka.request_timeout_ms / 1000):
                written = await self._producer.send_and_wait(self._partition.topic, value, partition=0)
        except TimeoutError:
            raise KafkaTimeoutError(f"no answer within {self._settings.kafka.request_timeout_ms} ms") from None
        if 0 <= written.offset < state_position:
            raise StateError(
                f"topics.log {self._partition.topic!r}",
                "was made anew while the service ran: a record got "
                f"the offset {written.offset}, although the state had applied the log up to {state_position}",
                None,
                BEGIN_ANEW,
            )

    async def _renew_producer(self) -> None:
        renewed = log_producer(self._settings)
        try:
            await renewed.start()
        except KafkaError as error:
            await stop_client(renewed)
            if stops(error):
                raise ended(error, self._settings, "writing the log") from None
            return
        except BaseException:
            await stop_client(renewed)
            raise
        former, self._producer = self._producer, renewed
        await stop_client(former)

    async def follow(self) -> None:
        """Apply the records of the log as they come, for ever."""
        while True:
            await self._follow_once()

    async def knows(self, partition: TopicPartition) -> bool:
        """Whether the state knows pages of a partition of an input topic."""
        loop, (source, number) = asyncio.get_running_loop(), partition
        return await loop.run_in_executor(self._judging, self._recent.has, source, number)

    async def close(self) -> None:
        """Stop reading and writing, after the record that is being applied."""
        for future in self._waiting.values():
            future.cancel()
        await stop_client(self._consumer)
        await stop_client(self._producer)
        await asyncio.to_thread(self._judging.shutdown)

    async def _follow_once(self) -> tuple[int, int]:
        """Apply the records of one fetch; -> (records, pages)."""
        if self._requests.waiting():
            name = await asyncio.get_running_loop().run_in_executor(self._judging, self._requests.answer)
            if name is not None:
                logger().info("made a checkpoint for a snapshot", position=self._engine.state.position)
        records, pages = 0, 0
        for record in await self._fetch():
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
        end = self._consumer.highwater(self._partition)
        if end is not None:
            self._metrics.log_end.set(end)
        return records, pages

    async def _apply(self, value: bytes, offset: int) -> Applied:
        """Apply one record, or pass over it where it is not of this log.

        Raises StateError with the way out where every worker stops.
        """
        loop = asyncio.get_running_loop()
        try:
            applied = await loop.run_in_executor(
                self._judging, self._heartbeats.watched, "judge", self._engine.apply, value, offset
            )
        except (DamagedRecord, SettingsMismatch) as error:
            if offset not in self._skipped:
                self._skipped |= await skipped_offsets(self._settings, offset + 1)
            if offset not in self._skipped:
                raise stopped_at(error, offset) from None
            applied = await loop.run_in_executor(self._judging, self._engine.skip, value, offset)
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
        self._metrics.log_passed.labels(why).inc()
        if why not in self._told:
            self._told.add(why)
            logger().warning(
                PASSED_OVER[why], log=self._partition.topic, offset=offset, bytes=len(value), begins=value[:16].hex()
            )

    async def _fetch(self, most: int | None = None) -> Sequence[ConsumerRecord]:
        """The next records of the log, at most so many; none after a wait of FETCH_TIMEOUT_MS."""
        try:
            fetched = await self._consumer.getmany(self._partition, timeout_ms=FETCH_TIMEOUT_MS, max_records=most)
        except KafkaError as error:
            if decision(error) is not Decision.RETRY:
                raise self._lost(error) from None
            self._waits.failed("follow", error)
            await self._following.wait()
            return ()
        self._waits.over("follow")
        self._following.reset()
        records: Sequence[ConsumerRecord] = fetched.get(self._partition, ())
        if not records:
            check_alive(self._consumer)
        return records

    def _lost(self, error: KafkaError) -> Exception:
        if isinstance(error, OffsetOutOfRangeError):
            return StateError(
                f"topics.log {self._partition.topic!r}",
                "no longer holds the records that the state needs",
                self._engine.state.position,
                BEGIN_ANEW,
            )
        return ended(error, self._settings, "reading the log")


def _log_forgotten(applied: Applied, offset: int) -> None:
    """Log for an audit which pages are forgotten from this record on, without their addresses."""
    ids = [page_id_text(*page_id) for page_id in applied.forgotten]
    logger().info(
        "forgot pages",
        record=offset,
        pages=len(ids),
        forgotten_before=len(applied.record.forgotten) - len(ids),
        ids=ids[:MOST_IDS_LOGGED],
    )


async def verdicts_of(futures: list[asyncio.Future[Applied]]) -> Verdicts:
    """Wait until all records of a micro-batch are judged; -> its verdicts."""
    parts = [(await future).verdicts for future in futures]
    return parts[0] if len(parts) == 1 else concatenate(parts)
