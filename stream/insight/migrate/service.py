"""Migrates a running service: follows the old log, fills the new one, and switches over on request.

A handover record (kind 5) ends the old log. All records before it are moved. Records that workers append after it are
never judged. An old worker that reads it stops, and stops again at every restart. A new worker joins the group only
when the new log is open, and that comes later. So no two workers judge from two logs. The next owner of a partition
fences the uncommitted verdicts of an old worker as usual: the group is the same, and so are the transactional ids.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, closing
from typing import TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from spotsieve.state.log.bodies import Handover
from spotsieve.state.log.record import decode, encode_handover
from spotsieve.stream.base.errors import DamagedRecord, SettingsMismatch, StateError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.digest import describe_difference, signing_difference, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import Engine, open_engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.insight.migrate.archive import ArchivedPages
from spotsieve.stream.insight.migrate.checks import OldLog, check_group, check_logs, check_sides, new_log_identity
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.migrate.record_move import PAGES, EndsInError, Migration, RecordMove, check_begun
from spotsieve.stream.insight.migrate.report import FILES_NOT_NEEDED, UNCOMPARED, MigrationReport
from spotsieve.stream.insight.migrate.service_log import NewLogRecords, PageSigner
from spotsieve.stream.kafka.clients import log_producer, stop_client
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES, check_topic_names
from spotsieve.stream.service.log.skips import first_record, log_records, log_span, read_skipped_offsets, stopped_error
from spotsieve.stream.service.log.writer import append_records

NEAR_SECONDS = 2.0
"""A pass that takes at most this long has caught up: the records that arrived meanwhile take no longer."""
_Result = TypeVar("_Result")


def migrate_service(
    old: Settings, new: Settings, switch: bool, on_progress: OnProgress, files: Sequence[Input] = ()
) -> MigrationReport:
    """Move the log of a service into a new one; with `switch`, end the old log and open the new one.

    files: files with pages that must be signed again and that the input topic no longer has
    Raises InputError, SettingError, StateError, SettingsMismatch, BrokerError, BrokerTrouble. A second call continues
    an interrupted migration.
    """
    check_sides(old, new)
    for side in (old, new):
        check_topic_names(side)
    old_log = asyncio.run(check_logs(old, new))
    begun = asyncio.run(first_record(new))
    with ExitStack() as stack:
        engine = open_engine(new, new.topics.log)
        stack.callback(engine.state.close)
        found = engine.state.identity.log_identity if begun is None else begun[1].log
        engine.adopt(new_log_identity(old_log.log, found, new, bool(signing_difference(old_log.text, new))))
        compile_kernels(engine.scheme)
        journal = stack.enter_context(closing(Journal(new.index.directory)))
        # Files may be added in a later call: they are read for pages that the input topic has lost.
        journal.begin(old_log.checksum, new.input if signing_difference(old_log.text, new) else None)
        old_engine = None
        if old_log.judged_as_now:
            placed = old.index.model_copy(update={"directory": journal.old_directory})
            old_engine = open_engine(old.model_copy(update={"index": placed}), old.topics.log)
            stack.callback(old_engine.state.close)
            old_engine.adopt(old_log.log)
        judging = stack.enter_context(ThreadPoolExecutor(1, "judge"))
        migrating = _MigrationRun(old, new, old_log, (old_engine, engine), journal, judging, on_progress)
        if files:
            stack.enter_context(migrating.read_files(files, old_engine))
        asyncio.run(migrating.run(switch))
    if migrating.report.open:
        journal.end()
    return migrating.report


class _MigrationRun:
    """One run of a migration between two topics."""

    def __init__(
        self,
        old: Settings,
        new: Settings,
        old_log: OldLog,
        engines: tuple[Engine | None, Engine],
        journal: Journal,
        judging: ThreadPoolExecutor,
        on_progress: OnProgress,
    ) -> None:
        """engines: for the old and the new settings"""
        self._old, self._new, self._old_log = old, new, old_log
        self._engine = engines[1]
        self._judging = judging
        self._on_progress = on_progress
        drops = old.service.mode == "filter"
        self._migration = Migration(old.topics.log, *engines, journal, LOG_RECORD_BYTES, drops=drops)
        self._journal = journal
        self._next = max(journal.record, old_log.first)
        text = verdict_settings_text(new)
        signs_again = bool(signing_difference(old_log.text, new))
        self.report = MigrationReport(
            old.topics.log,
            new.topics.log,
            describe_difference(old_log.text, text, "old log"),
            signs_again,
            journal.differences,
            compared=engines[0] is not None,
        )
        self._add_notices()
        self._again = PageSigner(old.input, new, engines[1].scheme, judging) if signs_again else None
        self._ahead = NewLogRecords(new, self._migration)

    def read_files(self, files: Sequence[Input], old: Engine | None) -> ExitStack:
        """Sign the pages of files, if the new settings sign pages differently; -> a context to close.

        Raises InputError, StateError.
        """
        stack = ExitStack()
        if self._again is None:
            self.report.notices.append(FILES_NOT_NEEDED)
            return stack
        archived = stack.enter_context(ArchivedPages(self._journal.folder, None if old is None else old.scheme))
        archived.read(files, self._new.input, self._engine.scheme, self._on_progress)
        self._migration.archived = archived
        return stack

    async def run(self, switch: bool) -> None:
        """Move the old log; with `switch`, end it, move the rest and open the new log."""
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            self._producer: AIOKafkaProducer = log_producer(self._new)
            stack.push_async_callback(stop_client, self._producer)
            try:
                await self._producer.start()
            except KafkaError as error:
                raise final_error(error, self._new, "connecting") from None
            if self._again is not None:
                await stack.enter_async_context(self._again)
            await self._begin()
            try:
                await self._catch_up()
                if switch:
                    if self._journal.counts[PAGES]:
                        await check_group(self._new)
                    closing_record = encode_handover(Handover(True, self._new.topics.log), self._old_log.digest)
                    await append_records(self._old, [closing_record], lambda _: None)
                    await self._catch_up()
            except EndsInError as end:
                await self._finish(end.handover)
        self.report.seconds = time.monotonic() - began
        self.report.counts, self.report.record = self._journal.counts, self._next
        self.report.open = self._migration.open
        self.report.next_step = (
            f"start workers with the new configuration; the log {self._new.topics.log} is open"
            if self._migration.open
            else "run this command again with --switch when workers with the new configuration may take over"
        )

    def _add_notices(self) -> None:
        name, notices = self._old.topics.log, self.report.notices
        if self._old_log.first:
            notices.append(
                f"the log {name} begins at record {self._old_log.first:,}: the new state does not have the pages of "
                "earlier records"
            )
        if not self.report.compared:
            notices.append(UNCOMPARED)

    async def _begin(self) -> None:
        """Write the configuration to the new log, or check that this migration wrote it."""
        found = await first_record(self._new)
        if found is None:
            await self._append([self._migration.configuration(verdict_settings_text(self._new))])
            found = await first_record(self._new)
        if found is not None:
            check_begun(*found, self._new.topics.log, self._old.topics.log)
            self._engine.adopt(found[1].log)
        await self._ahead.open()

    async def _catch_up(self) -> None:
        """Move records until the end is at most NEAR_SECONDS away. Raises EndsInError at the handover record."""
        while True:
            began = time.monotonic()
            await self._move_available()
            if time.monotonic() - began < NEAR_SECONDS:
                return

    async def _move_available(self) -> None:
        """Move the records that the old log has now."""
        first, (_, end) = self._next, await log_span(self._old)
        async for offset, value in log_records(self._old, max(first - 1, 0), end):
            if offset < first:
                self._migration.check_old(offset, value)
                continue
            moving = await self._begin_move(offset, value)
            if moving is not None:
                await self._move(moving)
            self._next = offset + 1
            self._on_progress("records moved", self._next, end)

    async def _begin_move(self, offset: int, value: bytes) -> RecordMove | None:
        try:
            return await self._judge(self._migration.begin, offset, value)
        except (DamagedRecord, SettingsMismatch) as error:
            if offset in await read_skipped_offsets(self._old, offset + 1):
                return None
            raise stopped_error(error, offset) from None

    async def _move(self, moving: RecordMove) -> None:
        migration = self._migration
        await self._judge(migration.take, moving, await self._ahead.up_to(moving.offset))
        if self._ahead.ended:
            signatures = moving.record.signatures
            if self._again is not None and len(signatures):
                signatures = await self._again.sign(signatures)
            values = await self._judge(migration.values, moving, signatures)
            await self._judge(migration.take, moving, await self._append(values))
        await self._judge(migration.note, moving)

    async def _finish(self, handover: Handover) -> None:
        """Open the new log after the end of the old one."""
        if handover.log != self._new.topics.log:
            raise StateError(
                f"log {self._old.topics.log}",
                f"has ended and continues in the log {handover.log!r}",
                None,
                "migrate that log instead, with the configuration of its workers",
            )
        migration = self._migration
        await self._judge(migration.pass_on, await self._ahead.up_to(self._next))
        if not migration.open:
            values = await self._judge(migration.ending, self._next)
            await self._judge(migration.pass_on, await self._append(values))

    async def _append(self, values: list[bytes]) -> list[tuple[int, bytes]]:
        """Append records to the new log; -> (offset, bytes) of each. Raises StateError, BrokerError."""
        name, appended = self._new.topics.log, list[tuple[int, bytes]]()
        expected = self._engine.state.position
        for value in values:
            try:
                written = await self._producer.send_and_wait(name, value, partition=0)
            except KafkaError as error:
                raise final_error(error, self._new, "writing the new log") from None
            await self._check_sole_writer(expected, written.offset)
            appended.append((written.offset, value))
            expected = written.offset + 1
        return appended

    async def _check_sole_writer(self, expected: int, offset: int) -> None:
        """Check that no other process of ours wrote records before the appended one: this state does not have them."""
        if offset == expected:
            return
        name = self._new.topics.log
        async for between, value in log_records(self._new, expected, offset):
            if not decode(value, name, between).foreign:
                raise StateError(
                    f"log {name}[{between}]",
                    "was written by another process at the same time",
                    None,
                    "let only one migration fill the log: restart with another log and another state directory",
                )

    async def _judge(self, act: Callable[..., _Result], *arguments: object) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._judging, act, *arguments)
