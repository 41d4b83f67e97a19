"""Migrates a state with a local log: its log is judged again by other settings, into another directory."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.former import is_former
from spotsieve.state.log.local import RECORD_BYTES, LocalLog
from spotsieve.state.log.record import NO_PAGES, LogRecord, first_of_ours
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
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.migrate.record_move import Migration
from spotsieve.stream.insight.migrate.report import FILES_NOT_NEEDED, FORMER, ONLY_NOVEL, UNCOMPARED, MigrationReport
from spotsieve.stream.local.engines import is_open, open_log


def migrate_state(
    old: Path, new: Path, settings: Settings, told: OnProgress, files: Sequence[Input] = ()
) -> MigrationReport:
    """Judge the local log of one directory again, into another one.

    settings: the new ones  files: the pages, needed where the new settings sign them otherwise
    A migration that was interrupted goes on where it was. Nothing in the old directory changes.
    Raises SettingError where signing differs and there are no files, InputError, StateError, CorruptRecord.
    """
    with ExitStack() as stack:
        old_log, notices = open_old_log(old)
        stack.enter_context(old_log)
        text, stored = verdict_settings_text(settings), _configuration(old_log, old)
        signing = FORMER if stored is None else signing_difference(stored, settings)
        if signing and not files:
            raise SettingError(
                "settings",
                f"must sign pages as those of {old} do, since a local log has signatures and no pages: {signing}",
                None,
                "name the files of the pages: --from-pages FILE...",
            )
        new_log, more = open_log(new)
        stack.enter_context(new_log)
        begun = first_of_ours(new_log.read_from(0), LocalLog.name)
        engine = _engine(settings, new, stack)
        journal = stack.enter_context(closing(Journal(new)))
        differ = FORMER if stored is None else describe_difference(stored, text, "old log")
        old_engine = _old_engine(stored, settings, journal.old_directory, stack)
        report = MigrationReport(
            str(old), str(new), differ, bool(signing), journal.differences, compared=old_engine is not None
        )
        report.notices = [*notices, *more]
        migration = Migration(str(old), old_engine, engine, journal, RECORD_BYTES, drops=True)
        if files and not signing:
            report.notices.append(FILES_NOT_NEEDED)
        elif files:
            archived = ArchivedPages(journal.folder, None if old_engine is None else old_engine.scheme)
            stack.enter_context(archived).read(files, settings.input, engine.scheme, told)
            migration.archived = archived
        if old_engine is None:
            report.notices.append(f"{UNCOMPARED}; {ONLY_NOVEL}")
        _begin(migration, new_log, begun, text)
        began = time.monotonic()
        _move(migration, old_log, new_log, told)
        report.seconds = time.monotonic() - began
        report.counts, report.record, report.open = journal.counts, old_log.end, migration.open
        new_log.sync()
    journal.end()
    report.next_step = f"filter with --state {new} and these settings from now on"
    return report


def open_old_log(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log of a state at rest, with its notices. Raises StateError where there is none, StateLockedError."""
    if not (directory / LOG_FILE).is_file():
        raise StateError(
            "--from-state",
            f"must be the directory of `spotsieve filter --state`, and holds no file {LOG_FILE!r}",
            str(directory),
            "for a service, name its configuration: -c OLD --to NEW",
        )
    return open_log(directory)


def _configuration(log: LocalLog, directory: Path) -> str | None:
    """The canonical text of the settings of a local log; None for one of the former record version.

    Raises StateError where it is empty.
    """
    if any(is_former(value) for _, value in islice(log.read_from(0), 1)):
        return None
    first = first_of_ours(log.read_from(0), LocalLog.name)
    if first is None or first[1].configuration is None:
        raise StateError(
            "--from-state", "must hold a log that says its settings", str(directory), "it is empty: begin anew"
        )
    return first[1].configuration


def _engine(settings: Settings, directory: Path, stack: ExitStack) -> Engine:
    placed = settings.index.model_copy(update={"directory": directory})
    engine = open_engine(settings.model_copy(update={"index": placed}), LocalLog.name)
    stack.callback(engine.state.close)
    return engine


def _old_engine(stored: str | None, settings: Settings, directory: Path, stack: ExitStack) -> Engine | None:
    """The engine of the old settings; None where this release cannot judge by them, or their model is not at hand."""
    if stored is None or json.loads(stored)["revision"] != VERDICTS_REVISION:
        return None
    try:
        # The text names a model by its digest: it can only be the one that the new settings name.
        old_settings = settings_of_text(stored, getattr(settings.scheme, "idf_model", ""))
        return _engine(old_settings, directory, stack)
    except SettingError:
        return None


def _begin(migration: Migration, log: LocalLog, begun: tuple[int, LogRecord] | None, text: str) -> None:
    if begun is None:
        log.append(migration.configuration(text))
        return
    migration.check_begun(*begun)
    if is_open(log):
        raise StateError(
            "--state",
            "must not hold a migration that has ended",
            str(log.path.parent),
            "use it as it is; to move what was filtered since, name another directory",
        )


def _move(migration: Migration, old_log: LocalLog, new_log: LocalLog, told: OnProgress) -> None:
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
            migration.take(moving, [(new_log.append(made), made) for made in values])
        migration.note(moving)
        told("records moved", offset + 1, old_log.end)
    migration.pass_on(ahead.up_to(old_log.end))
    if not migration.open:
        migration.pass_on([(new_log.append(made), made) for made in migration.ending(old_log.end)])


class _MigratedRecords:
    """What the new log has already, as a migration left it that was interrupted."""

    def __init__(self, migration: Migration, log: LocalLog) -> None:
        self._migration = migration
        self._records = log.read_from(migration.journal.offset)
        self._next = next(self._records, None)

    @property
    def ended(self) -> bool:
        """Whether all of it was given."""
        return self._next is None

    def up_to(self, origin: int) -> Iterator[tuple[int, bytes]]:
        """The next records, as long as they come from this old record or from none or earlier ones."""
        while self._next is not None and self._migration.origin(*self._next) <= origin:
            yield self._next
            self._next = next(self._records, None)
