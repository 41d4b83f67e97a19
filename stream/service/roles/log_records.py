"""Keeps decoded log records from an offset on, for a role that works in rounds."""

import asyncio
import time
from bisect import bisect_left
from collections import deque
from contextlib import suppress

from spotsieve.state.format.meta import LogIdentity, rules_of_settings
from spotsieve.state.identity import check_log_identity, check_log_range, check_settings_digest, closed_log_error
from spotsieve.state.log.record import NO_PAGES, LogRecord, check_sketches, checksum_of, decode
from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import LogFollower
from spotsieve.stream.service.log.skips import read_skipped_offsets, stopped_error
from spotsieve.stream.sharding.messages import RECREATE_TOPICS

LOST_SECONDS = 10.0
"""After this wait for records of a round, the end of the log is queried, to detect that the log lost them."""


class LogRecords:
    """The log records from an offset on, as far as they were read. Records without pages are included.

    Either the caller of until() reads, or follow() reads as a task and all callers wait for it.
    """

    def __init__(self, settings: Settings, metrics: Metrics, waits: Waits) -> None:
        self._settings = settings
        text = verdict_settings_text(settings)
        self._digest, self._sketch_words = settings_digest(text), rules_of_settings(text).sketch_words
        self._metrics = metrics
        self._next = 0
        self._follower = LogFollower(settings, metrics, waits, lambda: self._next)
        self._skipped = set[int]()
        self._is_followed, self._wanted, self._moved = False, 0, asyncio.Event()
        self.records: deque[tuple[int, LogRecord]] = deque()
        """(offset, record), ascending"""

    async def start(
        self,
        position: int,
        pages_applied: int = 0,
        last_record: int | None = None,
        known: LogIdentity | None = None,
    ) -> LogIdentity | None:
        """Connect, check that the log has these settings and continues this position, and begin at the position.

        pages_applied: number of applied pages of the record at the position
        last_record: checksum of the record that was applied last, or None
        known: identity of the log that a state was built from, or None
        Returns the identity of the log; None if the log is empty or has lost its first record.
        Raises KafkaError, StateError, SettingsMismatch.
        """
        begin = await self._follower.start()
        end = await self._follower.end()
        found = await self._check_settings(begin, end)
        if found is not None:
            check_log_identity(self._settings.index.directory, known, found, self._settings.topics.log)
        self._check_reaches(position + (pages_applied > 0), end)
        check_log_range(self._settings.topics.log, position, begin, end, pages_applied)
        self._next = position
        if last_record is None:
            self._follower.seek(position)
        else:
            try:
                await self._follower.go_on(position, pages_applied, last_record, begin)
            except StateError as error:
                # The state of one process is rebuilt from its log alone; the states of shards need the rounds, too.
                raise StateError(error.name, error.rule, None, f"restore that log; or {RECREATE_TOPICS}") from None
        return found

    async def check_settings(self) -> LogIdentity | None:
        """Connect, and check that the log has these settings. Returns the identity of the log, like start().

        Raises KafkaError, StateError, SettingsMismatch.
        """
        begin = await self._follower.start()
        return await self._check_settings(begin, await self._follower.end())

    async def _check_settings(self, begin: int, end: int) -> LogIdentity | None:
        if end == begin:
            return None
        head = await self._follower.check_settings(begin, end, _never, b"")
        if head.filling:
            raise StateError(
                f"log {self._settings.topics.log}",
                "is not complete, because spotsieve migrate still fills it",
                None,
                "start the roles after the migration has ended",
            )
        return head.log

    async def close(self) -> None:
        """Close the connections."""
        await self._follower.close()

    async def end(self) -> int:
        """Query the end offset of the log."""
        return await self._follower.end()

    async def begin(self) -> int:
        """Query the first offset of the log."""
        return await self._follower.begin()

    def weight(self) -> int:
        """Number of pages in memory, to judge or to forget. A record without pages counts as one."""
        return sum(max(1, len(record.signatures) + len(record.forgotten)) for _, record in self.records)

    def drop_before(self, offset: int) -> None:
        """Drop the records before this offset."""
        while self.records and self.records[0][0] < offset:
            self.records.popleft()
        self._tell()

    async def until(self, end: int) -> None:
        """Wait until all records before this offset are in memory. A round was made of them.

        Raises StateError if the log has lost them.
        """
        self._wanted = max(self._wanted, end)
        self._tell()
        start = time.monotonic()
        while self._next < end:
            if self._is_followed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOST_SECONDS):
                        await self._moved.wait()
            else:
                await self._read()
            if time.monotonic() - start > LOST_SECONDS:
                self._check_reaches(end, await self.end())
                start = time.monotonic()

    def _check_reaches(self, wanted: int, end: int) -> None:
        """Raise StateError if the log ends before `wanted`.

        Otherwise a reader would wait until other pages refill the log.
        """
        if end < wanted:
            raise StateError(
                f"log {self._settings.topics.log}",
                f"lost its end: rounds were made of its records up to {wanted}, but it ends at {end}",
                None,
                f"restore that log; or {RECREATE_TOPICS}",
            )

    async def first_from(self, offset: int) -> tuple[int, LogRecord]:
        """Wait for the first record at or after this offset, and return it with its offset."""
        while True:
            at = bisect_left(self.records, offset, key=lambda one: one[0])
            if at < len(self.records):
                return self.records[at]
            await self._moved.wait()

    async def follow(self, pages: int) -> None:
        """Keep at least `pages` pages in memory, and all records that until() requests. Never returns."""
        self._is_followed = True
        while True:
            while self.weight() >= pages and self._next >= self._wanted:
                await self._moved.wait()
            await self._read()
            self._tell()

    def _tell(self) -> None:
        """Wake all waiting callers."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def _read(self) -> None:
        """Fetch once. Raises StateError for a record at which every reader stops."""
        for record in await self._follower.fetch():
            value = record.value or b""
            self.records.append((record.offset, await self._decoded(value, record.offset)))
            self._next = record.offset + 1
        # The position moves past transaction markers, too.
        self._next = max(self._next, await self._follower.position())
        self._follower.note_end()

    async def _decoded(self, value: bytes, offset: int) -> LogRecord:
        log_name = self._settings.topics.log
        try:
            record = await asyncio.to_thread(decode, value, log_name, offset)
            if not record.foreign and record.configuration is None:
                check_settings_digest(record.settings_digest, self._digest, log_name, offset)
                check_sketches(record, self._sketch_words, log_name, offset)
        except (DamagedRecord, SettingsMismatch) as error:
            if offset not in self._skipped:
                self._skipped |= await read_skipped_offsets(self._settings, offset + 1)
            if offset not in self._skipped:
                raise stopped_error(error, offset) from None
            self._metrics.log_skipped.labels("skipped").inc()
            return LogRecord(b"", 0, b"", NO_PAGES, checksum_of(value), foreign=True)
        if record.foreign:
            self._metrics.log_skipped.labels("foreign").inc()
        if record.handover is not None and record.handover.closed:
            raise closed_log_error(log_name, offset, record.handover.log)
        return record


async def _never(_: bytes) -> None:
    """Refuse to write: only workers write the first record of a log. Raises StateError."""
    raise StateError("topics.log", "has no configuration record, which a worker writes", None, "start a worker first")
