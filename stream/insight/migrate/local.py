"""Migrates a state with a local log: judges its log again with other settings, into another directory."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import RECORD_BYTES, LocalLog
from spotsieve.state.log.record import NO_PAGES, LogRecord, decode, first_of_ours, is_handover
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.digest import (
    VERDICTS_REVISION,
    describe_difference,
    signing_difference,
    verdict_settings_text,
)
from spotsieve.stream.base.settings.load import settings_of_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.engine import Engine, open_engine
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.insight.migrate.archive import ArchivedPages
from spotsieve.stream.insight.migrate.checks import new_log_identity
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.migrate.record_move import Migration, check_begun
from spotsieve.stream.insight.migrate.report import FILES_NOT_NEEDED, ONLY_NOVEL, UNCOMPARED, MigrationReport
from spotsieve.stream.local.engines import is_open, open_log
from spotsieve.stream.local.input_ledger import carry_inputs


def migrate_state(
    old: Path, new: Path, settings: Settings, on_progress: OnProgress, files: Sequence[Input] = ()
) -> MigrationReport:
    """Judge the local log of one directory again, into another directory. The old directory does not change.

    settings: the new settings  files: files of the pages, needed if the new settings sign pages differently
    A second call continues an interrupted migration. Raises SettingError if files are needed but missing, InputError,
    StateError, CorruptRecord.
    """
    with ExitStack() as stack:
        old_log, notices = open_old_log(old)
        stack.enter_context(old_log)
        text, (stored, first) = verdict_settings_text(settings), _first_record(old_log, old)
        signing = signing_difference(stored, settings)
        if signing and not files:
            raise SettingError(
                "settings",
                f"sign pages differently from those of {old}, whose log has signatures but no pages: {signing}",
                None,
                "add the files of the pages: --from-pages FILE...",
            )
        new_log, new_notices = open_log(new)
        stack.enter_context(new_log)
        begun = first_of_ours(new_log.read_from(0), LocalLog.name)
        if begun is not None:
            check_begun(*begun, LocalLog.name, str(old))
        journal, pages = stack.enter_context(closing(Journal(new))), settings.input if signing else None
        if begun is not None:
            journal.begin(first.checksum, pages, files)
        compared = json.loads(stored)["revision"] == VERDICTS_REVISION
        differ = describe_difference(stored, text, "old log")
        report = MigrationReport(str(old), str(new), differ, bool(signing), journal.differences, compared=compared)
        report.notices = [*notices, *new_notices]
        report.next_step = f"run spotsieve filter with --state {new} and these settings from now on"
        if begun is not None and is_open(new_log):
            _check_ended(new_log, journal.offset, old_log.end)
            report.notices.append("the migration was already complete")
            report.counts, report.record, report.open = journal.counts, old_log.end, True
            journal.end()
            return report
        carry_inputs(old, new, pages)
        engine = _engine(settings, new, stack)
        found = engine.state.identity.log_identity if begun is None else begun[1].log
        engine.adopt(new_log_identity(first.log, found, settings, bool(signing)))
        old_engine = _old_engine(stored, settings, journal.old_directory, stack)
        report.compared = old_engine is not None
        if old_engine is not None:
            old_engine.adopt(first.log)
        migration = Migration(str(old), old_engine, engine, journal, RECORD_BYTES, drops=True)
        if begun is None:
            new_log.append(migration.configuration(text))
            journal.begin(first.checksum, pages, files)
        if files and not signing:
            report.notices.append(FILES_NOT_NEEDED)
        elif files:
            archived = ArchivedPages(journal.folder, None if old_engine is None else old_engine.scheme)
            stack.enter_context(archived).read(files, settings.input, engine.scheme, on_progress)
            migration.archived = archived
        if old_engine is None:
            report.notices.append(f"{UNCOMPARED}; {ONLY_NOVEL}")
        began = time.monotonic()
        _move(migration, old_log, new_log, on_progress)
        report.seconds = time.monotonic() - began
        report.counts, report.record, report.open = journal.counts, old_log.end, migration.open
        new_log.sync()
    journal.end()
    return report


def open_old_log(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log of a state that is not in use; -> the log, and notices. Raises StateError, StateLockedError."""
    if not (directory / LOG_FILE).is_file():
        raise StateError(
            "--from-state",
            f"must be a directory of `spotsieve filter --state`; it has no file {LOG_FILE!r}",
            str(directory),
            "for a service, give its configuration: -c OLD --to NEW",
        )
    return open_log(directory)


def _first_record(log: LocalLog, directory: Path) -> tuple[str, LogRecord]:
    """The canonical text of the settings of a local log, and the record that holds it.

    Raises StateError if the log is empty.
    """
    first = first_of_ours(log.read_from(0), LocalLog.name)
    if first is None or first[1].configuration is None:
        raise StateError(
            "--from-state", "has an empty log", str(directory), "there is nothing to migrate: run spotsieve filter"
        )
    return first[1].configuration, first[1]


def _engine(settings: Settings, directory: Path, stack: ExitStack) -> Engine:
    placed = settings.index.model_copy(update={"directory": directory})
    engine = open_engine(settings.model_copy(update={"index": placed}), LocalLog.name)
    stack.callback(engine.state.close)
    return engine


def _old_engine(stored: str, settings: Settings, directory: Path, stack: ExitStack) -> Engine | None:
    """The engine with the old settings; None if this release does not support them, or their model is missing."""
    if json.loads(stored)["revision"] != VERDICTS_REVISION:
        return None
    try:
        # The text has only the digest of a model. The only candidate is the model of the new settings.
        old_settings = settings_of_text(stored, getattr(settings.scheme, "idf_model", ""))
        return _engine(old_settings, directory, stack)
    except SettingError:
        return None


def _check_ended(log: LocalLog, first: int, end: int) -> None:
    """Check that a complete migration moved all records of the old log.

    first: offset in the new log before the record that opens it  end: of the old log
    Raises StateError if the old log has grown since.
    """
    opening = (decode(value, LocalLog.name, at).handover for at, value in log.read_from(first) if is_handover(value))
    moved = next((one.offset for one in opening if one is not None and not one.closed), end)
    if moved != end:
        raise StateError(
            "--state",
            f"has a completed migration of {moved:,} records, and the old log has {end:,} records now",
            str(log.path.parent),
            "use it as it is; to migrate later pages, choose another directory",
        )


def _move(migration: Migration, old_log: LocalLog, new_log: LocalLog, on_progress: OnProgress) -> None:
    ahead = _MigratedRecords(migration, new_log)
    first = migration.journal.record
    for offset, value in old_log.read_from(max(first - 1, 0)):
        if offset < first:
            migration.check_old(offset, value)
            continue
        moving = migration.begin(offset, value)
        if moving is None:
            continue
        migration.take(moving, ahead.up_to(offset))
        if ahead.ended:
            signed = NO_PAGES if migration.archived is not None else moving.record.signatures
            values = migration.values(moving, signed)
            migration.take(moving, [(new_log.append(value), value) for value in values])
        migration.note(moving)
        on_progress("records moved", offset + 1, old_log.end)
    migration.pass_on(ahead.up_to(old_log.end))
    if not migration.open:
        migration.pass_on([(new_log.append(value), value) for value in migration.ending(old_log.end)])


class _MigratedRecords:
    """The records that an interrupted migration already wrote to the new log."""

    def __init__(self, migration: Migration, log: LocalLog) -> None:
        self._migration = migration
        self._records = log.read_from(migration.journal.offset)
        self._next = next(self._records, None)

    @property
    def ended(self) -> bool:
        """Whether all of them were returned."""
        return self._next is None

    def up_to(self, origin: int) -> Iterator[tuple[int, bytes]]:
        """The next records whose origin is this old record, an earlier one, or none."""
        while self._next is not None and self._migration.origin(*self._next) <= origin:
            yield self._next
            self._next = next(self._records, None)
