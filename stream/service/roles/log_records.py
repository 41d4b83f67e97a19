"""Keeps the records of the log from a place on, each decoded once, for a role that judges in rounds."""

import asyncio
import time
from bisect import bisect_left
from collections import deque
from contextlib import suppress

from spotsieve.state.identity import check_log_range, check_settings_digest, closed_log_error
from spotsieve.state.log.record import NO_PAGES, LogRecord, checksum_of, decode
from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.follower import LogFollower
from spotsieve.stream.service.log.skips import read_skipped_offsets, stopped_error
from spotsieve.stream.service.roles.round_messages import MAKE_ANEW

LOST_SECONDS = 10.0
"""After so long a wait for records that rounds were made of, the log is asked whether it holds them."""


class LogRecords:
    """The log from a record on, as far as it was read. What has no pages for a round stands in its place, too.

    Either somebody who needs a record reads, by until(), or follow() reads as a task and all others wait for it.
    """

    def __init__(self, settings: Settings, metrics: Metrics, waits: Waits) -> None:
        self._settings = settings
        self._digest = settings_digest(verdict_settings_text(settings))
        self._metrics = metrics
        self._next = 0
        self._follower = LogFollower(settings, metrics, waits, lambda: self._next)
        self._skipped = set[int]()
        self._is_followed, self._wanted, self._moved = False, 0, asyncio.Event()
        self.held: deque[tuple[int, LogRecord]] = deque()
        """(offset, record), ascending"""

    async def start(self, position: int, pages_applied: int = 0, last_record: int | None = None) -> None:
        """Connect, check that the log is of these settings and goes on here, and begin at this offset.

        pages_applied: of the record at the position  last_record: checksum of the record applied last, if known
        Raises KafkaError, StateError, SettingsMismatch.
        """
        begin = await self._follower.start()
        end = await self._follower.end()
        self._check_reaches(position + (pages_applied > 0), end)
        check_log_range(self._settings.topics.log, position, begin, end, pages_applied)
        await self._check_settings(begin, end)
        self._next = position
        if last_record is None:
            self._follower.seek(position)
        else:
            try:
                await self._follower.go_on(position, pages_applied, last_record, begin)
            except StateError as error:
                # A state of one process is built anew from its log alone; those of shards need the rounds, too.
                raise StateError(error.name, error.rule, None, f"bring that log back; or {MAKE_ANEW}") from None

    async def check_settings(self) -> None:
        """Connect, and check that the log is of these settings. Raises as start()."""
        begin = await self._follower.start()
        await self._check_settings(begin, await self._follower.end())

    async def _check_settings(self, begin: int, end: int) -> None:
        if end > begin and await self._follower.check_settings(begin, end, _never, b""):
            raise StateError(
                f"log {self._settings.topics.log}",
                "must be whole, and spotsieve migrate is filling it",
                None,
                "start the roles once the migration has ended",
            )

    async def close(self) -> None:
        """End the connections."""
        await self._follower.close()

    async def end(self) -> int:
        """Ask where the log ends now."""
        return await self._follower.end()

    def weight(self) -> int:
        """How many pages are held, to judge or to forget. A record without any counts for one."""
        return sum(max(1, len(record.signatures) + len(record.forgotten)) for _, record in self.held)

    def drop_before(self, offset: int) -> None:
        """Let go of the records before this offset."""
        while self.held and self.held[0][0] < offset:
            self.held.popleft()
        self._tell()

    async def until(self, end: int) -> None:
        """Return when all records before this offset are held. A round was made of them.

        Raises StateError where the log has lost them.
        """
        self._wanted = max(self._wanted, end)
        self._tell()
        asked = time.monotonic()
        while self._next < end:
            if self._is_followed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOST_SECONDS):
                        await self._moved.wait()
            else:
                await self._read()
            if time.monotonic() - asked > LOST_SECONDS:
                self._check_reaches(end, await self.end())
                asked = time.monotonic()

    def _check_reaches(self, wanted: int, end: int) -> None:
        """Without this, a log that lost its end would be waited for until strangers' pages have filled it again."""
        if end < wanted:
            raise StateError(
                f"log {self._settings.topics.log}",
                f"must hold the records that rounds were made of, up to {wanted}, but ends at {end}: it lost its end",
                None,
                f"bring that log back; or {MAKE_ANEW}",
            )

    async def first_from(self, offset: int) -> tuple[int, LogRecord]:
        """Return the first held record at or behind this offset, as soon as there is one."""
        while True:
            at = bisect_left(self.held, offset, key=lambda one: one[0])
            if at < len(self.held):
                return self.held[at]
            await self._moved.wait()

    async def follow(self, pages: int) -> None:
        """Keep so many pages at hand, to judge or to forget, and what until() asks for."""
        self._is_followed = True
        while True:
            while self.weight() >= pages and self._next >= self._wanted:
                await self._moved.wait()
            await self._read()
            self._tell()

    def _tell(self) -> None:
        """Wake all who wait."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def _read(self) -> None:
        """Read what comes next; nothing after a wait. Raises StateError where every reader stops."""
        for record in await self._follower.fetch():
            value = record.value or b""
            self.held.append((record.offset, await self._decoded(value, record.offset)))
            self._next = record.offset + 1
        # The position passes the markers of strangers' transactions, too.
        self._next = max(self._next, await self._follower.position())
        self._follower.note_end()

    async def _decoded(self, value: bytes, offset: int) -> LogRecord:
        log_name = self._settings.topics.log
        try:
            record = await asyncio.to_thread(decode, value, log_name, offset)
            if not record.foreign and record.configuration is None:
                check_settings_digest(record.settings_digest, self._digest, log_name, offset)
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


def has_pages(record: LogRecord) -> bool:
    """Whether a record belongs to a round: it holds pages, or marks of what is committed."""
    told = record.configuration, record.skips, record.handover
    return not record.foreign and not record.forgotten and all(one is None for one in told)


async def _never(_: bytes) -> None:
    """Only workers begin a log; where there is a record of ours, nothing is to be written."""
    raise StateError("topics.log", "must be begun by a worker", None, "start a worker first")
