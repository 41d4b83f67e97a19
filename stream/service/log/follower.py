"""Reads the log topic: its span, its settings and its records.

CatchUp reports how far a state has caught up with its log, in log lines and on /readyz: records, pages, rate, time
left.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.format.meta import LogIdentity, draw_log_identity
from spotsieve.state.identity import check_first_record, check_last_record, check_salt
from spotsieve.state.log.bodies import is_migrating
from spotsieve.state.log.record import checksum_of, decode, encode_configuration, first_of_ours, tells_open
from spotsieve.state.still.reading import salt_from
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import log_consumer, stop_client
from spotsieve.stream.kafka.driver.clients import check_alive
from spotsieve.stream.kafka.errors import Decision, decision, final_error
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics

FETCH_TIMEOUT_MS = 500
HEAD_RECORDS = 100
TAIL_RECORDS = 16
"""Number of records read at once from the end of a log. A record has up to 900 KB."""
RESTART = (
    "restore a snapshot whose position the log still holds (spotsieve state restore), or restart with a new log "
    "(topics.log) and an empty state directory"
)

PROGRESS_SECONDS = 5.0
NEAR_SECONDS = 2.0
"""The worker joins its group when the rest of the log takes at most this long: it is read while the group
rebalances."""


class LogStart(NamedTuple):
    """The start of a log.

    log: its identity; None if it has lost its first record  filling: whether a migration still fills it
    new: whether it had nothing but its configuration when it was opened, and no migration fills it
    """

    log: LogIdentity | None
    filling: bool
    new: bool


class LogFollower:
    """The log consumer of one reader. It has no group: the state of the reader keeps the position."""

    def __init__(self, settings: Settings, metrics: Metrics, waits: Waits, applied: Callable[[], int]) -> None:
        """applied(): the offset up to which the reader has applied the log"""
        self._settings = settings
        self._metrics = metrics
        self._waits = waits
        self._applied = applied
        self._following = Backoff()
        self._partition = TopicPartition(settings.topics.log, 0)
        self._consumer: AIOKafkaConsumer = log_consumer(settings)

    async def start(self) -> int:
        """Connect. Returns the first offset of the log. Raises KafkaError."""
        await self._consumer.start()
        self._consumer.assign([self._partition])
        return await self.begin()

    async def begin(self) -> int:
        """Query the first offset of the log. Raises KafkaError."""
        begin: int = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        return begin

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._consumer)

    def seek(self, offset: int) -> None:
        """Continue with the record at this offset."""
        self._consumer.seek(self._partition, offset)

    async def go_on(self, position: int, pages_applied: int, last_record: int, begin: int) -> None:
        """Seek to a position, and check that the log still holds the record that was applied last.

        This detects a log that was recreated, or that lost its end, and was then filled again beyond the position.
        pages_applied: number of applied pages of the record at the position
        last_record: checksum of the record that was applied last
        begin: first offset of the log
        Raises StateError if the log holds another record there.
        """
        last, records = position - (not pages_applied), list[ConsumerRecord]()
        if last >= begin:
            self.seek(last)
            while not records and await self.position() <= last:
                records += await self.fetch(1)
        if records and records[0].offset == last:
            checksum = checksum_of(records[0].value or b"")
            check_last_record(self._partition.topic, last + 1, last_record, checksum)
        self.seek(position)

    async def position(self) -> int:
        """The next offset to read. It moves past transaction markers."""
        next_offset: int = await self._consumer.position(self._partition)
        return next_offset

    def note_end(self) -> None:
        """Set the gauge of the log's end to the end that the last fetch reported."""
        end = self._consumer.highwater(self._partition)
        if end is not None:
            self._metrics.log_end.set(end)

    async def end(self) -> int:
        """Query the end offset of the log."""
        try:
            end: int = (await self._consumer.end_offsets([self._partition]))[self._partition]
        except KafkaError as error:
            raise final_error(error, self._settings, "querying the end of the log") from None
        self._metrics.log_end.set(end)
        return end

    async def check_settings(
        self, begin: int, end: int, write: Callable[[bytes], Awaitable[object]], writer: bytes
    ) -> LogStart:
        """Check that the first Spotsieve record in the log has these settings. Write a configuration to an empty log.

        begin, end: span of the log
        write: appends a record
        writer: 16 bytes, id of the writer
        Raises SettingsMismatch, and SettingError if the log has another salt than the state of index.salt_from.

        Workers that start on an empty log together each write their configuration. The first one in the log wins, and
        workers of other settings stop here, before they write anything else.
        """
        text, written, salt = verdict_settings_text(self._settings), False, salt_from(self._settings.index)
        self._consumer.seek(self._partition, begin)
        while True:
            if not written and await self._consumer.position(self._partition) >= end:
                await write(encode_configuration(text, writer, draw_log_identity(salt)))
                written = True
            records = ((record.offset, record.value or b"") for record in await self.fetch(HEAD_RECORDS))
            first = first_of_ours(records, self._partition.topic)
            if first is not None:
                offset, record = first
                log_name = self._partition.topic
                check_first_record(record.settings_digest, record.configuration, text, log_name, offset)
                check_salt(salt, record.log, f"the log {log_name}")
                is_filling = is_migrating(record.writer) and not await self._is_open(offset)
                if is_filling:
                    logger().info("spotsieve migrate still fills the log; waiting until the log is open")
                return LogStart(record.log, is_filling, new=end <= 1 and not is_filling)

    async def _is_open(self, first: int) -> bool:
        """Whether the log that a migration began at offset `first` is open. The last record that says so decides."""
        begin = await self.end()
        while begin > first:
            until, begin = begin, max(first, begin - TAIL_RECORDS)
            self._consumer.seek(self._partition, begin)
            is_open = None
            while await self._consumer.position(self._partition) < until:
                for record in await self.fetch(TAIL_RECORDS):
                    found = self._tells_open(record) if record.offset < until else None
                    is_open = is_open if found is None else found
            if is_open is not None:
                return is_open
        return False

    def _tells_open(self, record: ConsumerRecord) -> bool | None:
        try:
            return tells_open(decode(record.value or b"", self._partition.topic, record.offset))
        except DamagedRecord:
            return None

    async def fetch(self, most: int | None = None) -> Sequence[ConsumerRecord]:
        """The next records of the log, at most `most`; none after a wait of FETCH_TIMEOUT_MS."""
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
                self._applied(),
                RESTART,
            )
        return final_error(error, self._settings, "reading the log")


class CatchUp:
    """Progress of reading the log from the position of the state to the end of the log, which grows meanwhile."""

    def __init__(self, position: int, end: int, clock: Callable[[], float] = time.monotonic) -> None:
        """position: offset of the state. end: end offset of the log."""
        self._first, self._position, self._end = position, position, end
        self._clock = clock
        self._began = self._logged = clock()
        self._records = self._pages = 0
        if end > position:
            event = "catching up with the log" if position else "rebuilding the state from the log"
            logger().info(event, position=position, end=end)

    def applied(self, position: int, records: int, pages: int) -> None:
        """Count the records and pages that were applied since the last call, and log the progress every few seconds."""
        self._position = position
        self._records += records
        self._pages += pages
        if self._clock() - self._logged >= PROGRESS_SECONDS:
            self._logged = self._clock()
            self._log("catching up with the log", seconds_left=self.seconds_left())

    def goes_on(self, end: int) -> bool:
        """Set the present end of the log. Returns whether the rest takes too long to join the group now."""
        self._end = end
        return (self.seconds_left() or 0.0) > NEAR_SECONDS

    def done(self) -> None:
        """Log the time of the catch-up, if any record was read."""
        if self._records:
            self._log("caught up with the log", seconds=round(self._clock() - self._began, 1))

    def seconds_left(self) -> float | None:
        """Estimated time left, at the rate so far; None before the first record."""
        read = self._position - self._first
        if read <= 0:
            return None
        return round((self._clock() - self._began) * max(self._end - self._position, 0) / read, 1)

    def text(self) -> str:
        """The progress as one line for /readyz."""
        total = self._end - self._first
        left = self.seconds_left()
        share = (self._position - self._first) / total if total > 0 else 1.0
        until = "" if left is None else f", about {left:.0f} s left"
        return f"catching up with the log: record {self._position} of {self._end}, {share:.0%}{until}"

    def _log(self, event: str, **more: float | None) -> None:
        seconds = max(self._clock() - self._began, 1e-9)
        logger().info(
            event,
            position=self._position,
            end=self._end,
            records=self._records,
            pages=self._pages,
            records_per_second=round(self._records / seconds, 1),
            pages_per_second=round(self._pages / seconds, 1),
            **more,
        )
