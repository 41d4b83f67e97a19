"""Reads the log topic: where it begins and ends, of which settings it is, and the records that come.

Reports how far a state has caught up with its log, in log lines and on /readyz: records, pages, rate, time left.
"""

import time
from collections.abc import Awaitable, Callable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.identity import check_first_record, check_last_record
from spotsieve.state.log.bodies import is_migrating
from spotsieve.state.log.record import checksum_of, decode, encode_configuration, first_of_ours, tells_open
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.base.settings.digest import verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import log_consumer, stop_client
from spotsieve.stream.kafka.driver.consumers import check_alive
from spotsieve.stream.kafka.errors import Decision, decision, final_error
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics

FETCH_TIMEOUT_MS = 500
HEAD_RECORDS = 100
TAIL_RECORDS = 16
"""How many records are looked at from a log's end, in one go: one of them has up to 900 KB."""
RESTART = (
    "restore a snapshot whose position the log still holds (spotsieve state restore), or begin anew with another log "
    "(topics.log) and another state directory"
)


class LogFollower:
    """The consumer of one reader of the log. It has no group: the reader's state says where it goes on."""

    def __init__(self, settings: Settings, metrics: Metrics, waits: Waits, applied: Callable[[], int]) -> None:
        """applied(): up to where the reader has applied the log"""
        self._settings = settings
        self._metrics = metrics
        self._waits = waits
        self._applied = applied
        self._following = Backoff()
        self._partition = TopicPartition(settings.topics.log, 0)
        self._consumer: AIOKafkaConsumer = log_consumer(settings)

    async def start(self) -> int:
        """Connect; -> where the log begins. Raises KafkaError."""
        await self._consumer.start()
        self._consumer.assign([self._partition])
        begin: int = (await self._consumer.beginning_offsets([self._partition]))[self._partition]
        return begin

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._consumer)

    def seek(self, offset: int) -> None:
        """Go on with the record at this offset."""
        self._consumer.seek(self._partition, offset)

    async def go_on(self, position: int, pages_applied: int, last_record: int, begin: int) -> None:
        """Seek to a position, and check on the way that the log has the record there that was applied last.

        This finds a log that was made anew, or lost its end, and was then filled again beyond the position.
        last_record: its checksum  pages_applied: of the record at the position  begin: of the log
        Raises StateError for another record.
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
        """The next offset to read. It passes the markers of strangers' transactions."""
        next_offset: int = await self._consumer.position(self._partition)
        return next_offset

    def note_end(self) -> None:
        """Give the end that the last fetch has told to the gauge."""
        end = self._consumer.highwater(self._partition)
        if end is not None:
            self._metrics.log_end.set(end)

    async def end(self) -> int:
        """Ask where the log ends now."""
        try:
            end: int = (await self._consumer.end_offsets([self._partition]))[self._partition]
        except KafkaError as error:
            raise final_error(error, self._settings, "asking for the log's end") from None
        self._metrics.log_end.set(end)
        return end

    async def check_settings(
        self, begin: int, end: int, write: Callable[[bytes], Awaitable[object]], writer: bytes
    ) -> bool:
        """Check that the first record of ours in the log is of these settings; have it written where there is none yet.

        write: appends a record  writer: 16 bytes. Returns whether a migration is still filling the log.

        Of workers that begin an empty log together, each writes its configuration. The first one in the log holds, and
        a worker of another one stops here, before it writes anything else. Raises SettingsMismatch.
        """
        text, written = verdict_settings_text(self._settings), False
        self._consumer.seek(self._partition, begin)
        while True:
            if not written and await self._consumer.position(self._partition) >= end:
                await write(encode_configuration(text, writer))
                written = True
            records = ((record.offset, record.value or b"") for record in await self.fetch(HEAD_RECORDS))
            first = first_of_ours(records, self._partition.topic)
            if first is not None:
                offset, record = first
                log_name = self._partition.topic
                check_first_record(record.settings_digest, record.configuration, text, log_name, offset)
                filling = is_migrating(record.writer) and not await self._is_open(offset)
                if filling:
                    logger().info("the log is being filled by spotsieve migrate; waiting until it is open")
                return filling

    async def _is_open(self, first: int) -> bool:
        """Whether a log that a migration has begun at this offset is open: its last record tells."""
        begin = await self.end()
        while begin > first:
            until, begin = begin, max(first, begin - TAIL_RECORDS)
            self._consumer.seek(self._partition, begin)
            told = None
            while await self._consumer.position(self._partition) < until:
                for record in await self.fetch(TAIL_RECORDS):
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

    async def fetch(self, most: int | None = None) -> Sequence[ConsumerRecord]:
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
                self._applied(),
                RESTART,
            )
        return final_error(error, self._settings, "reading the log")


PROGRESS_SECONDS = 5.0
NEAR_SECONDS = 2.0
"""What is left of the log may take so long when the worker joins its group: it is read while the group answers."""


class CatchUp:
    """The reading of the log from the state's position to its end, which moves on meanwhile."""

    def __init__(self, position: int, end: int, clock: Callable[[], float] = time.monotonic) -> None:
        """position: of the state  end: of the log; both are log offsets."""
        self._first, self._position, self._end = position, position, end
        self._clock = clock
        self._began = self._said = clock()
        self._records = self._pages = 0
        if end > position:
            what = "catching up with the log" if position else "rebuilding the state from the log"
            logger().info(what, position=position, end=end)

    def applied(self, position: int, records: int, pages: int) -> None:
        """Count the records and pages that were applied since the last call, and log the progress every few seconds."""
        self._position = position
        self._records += records
        self._pages += pages
        if self._clock() - self._said >= PROGRESS_SECONDS:
            self._said = self._clock()
            self._say("catching up with the log", seconds_left=self.seconds_left())

    def goes_on(self, end: int) -> bool:
        """The log now ends here: whether too much has come meanwhile for the worker to be of use to its group."""
        self._end = end
        return (self.seconds_left() or 0.0) > NEAR_SECONDS

    def done(self) -> None:
        """Log the time it took, if there was anything to read."""
        if self._records:
            self._say("caught up with the log", seconds=round(self._clock() - self._began, 1))

    def seconds_left(self) -> float | None:
        """The time left at the rate so far; None while there is no rate."""
        read = self._position - self._first
        if read <= 0:
            return None
        return round((self._clock() - self._began) * max(self._end - self._position, 0) / read, 1)

    def text(self) -> str:
        """A line for a person who asks whether the worker is ready."""
        wanted = self._end - self._first
        left = self.seconds_left()
        share = (self._position - self._first) / wanted if wanted > 0 else 1.0
        until = "" if left is None else f", about {left:.0f} s left"
        return f"catching up with the log: record {self._position} of {self._end}, {share:.0%}{until}"

    def _say(self, event: str, **more: float | None) -> None:
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
