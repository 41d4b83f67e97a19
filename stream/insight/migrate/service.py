"""Runs a migration beside a service: follows the old log to its end, fills the new one, and ends the old one on demand.

The old log ends with a record of its own (kind 5). Whatever is before it belongs to the old settings and is moved; what
workers still append behind it is judged by nobody. An old worker that comes to it stops, at every start again. A new
worker joins the group only once the new log is open, which comes after it. So no two workers judge by two logs. What an
old worker has judged and not committed is fenced by the next owner of the partition, as ever: the group is the same,
and with it the transactional ids are.
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
from spotsieve.stream.insight.migrate.checks import OldLog, check_group, check_logs, check_sides
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.migrate.record_move import PAGES, EndsInError, Migration, RecordMove
from spotsieve.stream.insight.migrate.report import FILES_NOT_NEEDED, FORMER, UNCOMPARED, MigrationReport
from spotsieve.stream.insight.migrate.service_log import NewLogRecords, PageSigner
from spotsieve.stream.kafka.clients import log_producer, stop_client
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES, check_topic_names
from spotsieve.stream.service.log.skips import first_record, log_records, log_span, read_skipped_offsets, stopped_error
from spotsieve.stream.service.log.writer import append_records

NEAR_SECONDS = 2.0
"""A round that took no longer has reached the end: what came meanwhile takes no longer either."""
_Done = TypeVar("_Done")


def migrate_service(
    old: Settings, new: Settings, switch: bool, told: OnProgress, files: Sequence[Input] = ()
) -> MigrationReport:
    """Move the log of a service into another one; with `switch`, end the old one and open the new one.

    files: where pages are looked for that must be signed again and that the input topic no longer holds
    Raises InputError, SettingError, StateError, SettingsMismatch, BrokerError, BrokerTrouble; it goes on where it was
    when it is started again.
    """
    check_sides(old, new)
    for side in (old, new):
        check_topic_names(side)
    old_log = asyncio.run(check_logs(old, new))
    with ExitStack() as stack:
        engine = open_engine(new, new.topics.log)
        stack.callback(engine.state.close)
        compile_kernels(engine.scheme)
        journal = stack.enter_context(closing(Journal(new.index.directory)))
        old_engine = None
        if old_log.judged_as_now:
            placed = old.index.model_copy(update={"directory": journal.old_directory})
            old_engine = open_engine(old.model_copy(update={"index": placed}), old.topics.log)
            stack.callback(old_engine.state.close)
        judging = stack.enter_context(ThreadPoolExecutor(1, "judge"))
        migrating = _MigrationRun(old, new, old_log, (old_engine, engine), journal, judging, told)
        if files:
            stack.enter_context(migrating.look_into(files, old_engine))
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
        told: OnProgress,
    ) -> None:
        """engines: of the old and of the new settings"""
        self._old, self._new, self._old_log = old, new, old_log
        self._engine = engines[1]
        self._judging = judging
        self._told = told
        drops = old.service.mode == "filter"
        self._migration = Migration(old.topics.log, *engines, journal, LOG_RECORD_BYTES, drops=drops)
        self._journal = journal
        self._next = max(journal.record, old_log.first)
        text = verdict_settings_text(new)
        signs_again = old_log.text is None or bool(signing_difference(old_log.text, new))
        self.report = MigrationReport(
            old.topics.log,
            new.topics.log,
            FORMER if old_log.text is None else describe_difference(old_log.text, text, "old log"),
            signs_again,
            journal.differences,
            compared=engines[0] is not None,
        )
        self._tell_notices()
        self._again = PageSigner(new, engines[1].scheme, judging) if signs_again else None
        self._ahead = NewLogRecords(new, self._migration)

    def look_into(self, files: Sequence[Input], old: Engine | None) -> ExitStack:
        """Sign the pages of files, if pages are signed again; -> what must be closed. Raises InputError, StateError."""
        stack = ExitStack()
        if self._again is None:
            self.report.notices.append(FILES_NOT_NEEDED)
            return stack
        archived = stack.enter_context(ArchivedPages(self._journal.folder, None if old is None else old.scheme))
        archived.read(files, self._new.input, self._engine.scheme, self._told)
        self._migration.archived = archived
        return stack

    async def run(self, switch: bool) -> None:
        """Move all that the old log holds; with `switch`, end it, move the rest and open the new log."""
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
            f"start workers with the new configuration: the log {self._new.topics.log} is open"
            if self._migration.open
            else "start this command again with --switch, as soon as workers with the new configuration may take over"
        )

    def _tell_notices(self) -> None:
        name, notices = self._old.topics.log, self.report.notices
        if self._old_log.first:
            notices.append(
                f"the log {name} begins at record {self._old_log.first:,}: what it had before is not known to the new "
                "state"
            )
        if not self.report.compared:
            notices.append(UNCOMPARED)

    async def _begin(self) -> None:
        """Begin the new log with its configuration, or check that this migration has begun it."""
        found = await first_record(self._new)
        if found is None:
            await self._append([self._migration.configuration(verdict_settings_text(self._new))])
            found = await first_record(self._new)
        if found is not None:
            self._migration.check_begun(*found)
        await self._ahead.open()

    async def _catch_up(self) -> None:
        """Move records until the end of the old log is at most seconds away. Raises EndsInError where it ends."""
        while True:
            began = time.monotonic()
            await self._round()
            if time.monotonic() - began < NEAR_SECONDS:
                return

    async def _round(self) -> None:
        """Move what the old log holds now."""
        first, (_, end) = self._next, await log_span(self._old)
        async for offset, value in log_records(self._old, max(first - 1, 0), end):
            if offset < first:
                self._migration.check_old(offset, value)
                continue
            moving = await self._begun(offset, value)
            if moving is not None:
                await self._move(moving)
            self._next = offset + 1
            self._told("records moved", self._next, end)

    async def _begun(self, offset: int, value: bytes) -> RecordMove | None:
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
        """The old log has ended: open the new one."""
        if handover.log != self._new.topics.log:
            raise StateError(
                f"log {self._old.topics.log}",
                f"has ended and goes on in the log {handover.log!r}",
                None,
                "move that log, with the configuration of its workers",
            )
        migration = self._migration
        await self._judge(migration.pass_on, await self._ahead.up_to(self._next))
        if not migration.open:
            values = await self._judge(migration.ending, self._next)
            await self._judge(migration.pass_on, await self._append(values))

    async def _append(self, values: list[bytes]) -> list[tuple[int, bytes]]:
        """Append records to the new log, one by one; -> (offset, bytes) of each. Raises StateError, BrokerError."""
        name, appended = self._new.topics.log, list[tuple[int, bytes]]()
        expected = self._engine.state.position
        for value in values:
            try:
                written = await self._producer.send_and_wait(name, value, partition=0)
            except KafkaError as error:
                raise final_error(error, self._new, "writing the new log") from None
            await self._check_alone(expected, written.offset)
            appended.append((written.offset, value))
            expected = written.offset + 1
        return appended

    async def _check_alone(self, expected: int, offset: int) -> None:
        """Check that records before the one that was appended are none of ours: this state would not have them."""
        if offset == expected:
            return
        name = self._new.topics.log
        async for between, value in log_records(self._new, expected, offset):
            if not decode(value, name, between).foreign:
                raise StateError(
                    f"log {name}[{between}]",
                    "must be of this migration, and somebody else wrote it at the same time",
                    None,
                    "let one migration fill the log: begin anew with another log and another state directory",
                )

    async def _judge(self, act: Callable[..., _Done], *given: object) -> _Done:
        return await asyncio.get_running_loop().run_in_executor(self._judging, act, *given)
