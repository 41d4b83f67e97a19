"""Runs the engine in this process: over a directory with a log file and a state on disk, or in memory.

Over a directory each micro-batch is signed, logged and judged, and the state follows the log as in the service. In
memory there is no log and no directory, and closing the engine leaves nothing behind.
"""

import logging
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.directory import INDEX_FOLDER, LOG_FILE, check_no_snapshot, has_index
from spotsieve.state.format.meta import LogIdentity, draw_log_identity
from spotsieve.state.identity import (
    check_first_record,
    check_identity,
    check_last_record,
    check_log_identity,
    check_log_range,
    check_salt,
    unopened_log_error,
)
from spotsieve.state.log.bodies import is_migrating
from spotsieve.state.log.local import RECORD_BYTES, LocalLog, TornTail
from spotsieve.state.log.record import (
    LogRecord,
    checksum_of,
    decode,
    encode_and_keep,
    encode_configuration,
    first_of_ours,
    split,
    tells_open,
)
from spotsieve.state.snapshot.checkpoints import Requests
from spotsieve.state.still.reading import salt_from
from spotsieve.state.store.memory import memory_state
from spotsieve.state.store.opening import checkpoint_backend, disk_state, read_meta, state_warnings
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import ENVIRONMENT_ERRORS, CorruptRecord, StateError, isolate
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.digest import digest_of_settings, settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.base.verdict import Kind, Verdicts, concatenate, no_verdicts
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge import mark_poison, policy_of
from spotsieve.stream.local.against import OtherStates, StateVerdicts, log_poison_pages
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.prepared_pages import ExtractedText, text_of

LOGGER = logging.getLogger("spotsieve")

OnCatchUp = Callable[[int, int, int], None]
"""on_catch_up(records, total, pages) is called after each record that the state did not have yet.

records, pages: applied so far; total: records to apply
"""
MakeEngine = Callable[[State, LocalLog], Engine]
"""make_engine(state, log) returns the engine that applies the records of the log to the state."""
MEMORY_LOG_NAME = "memory"
"""The name of the log in messages of the engine in memory."""
_MEMORY_WRITER = bytes(16)
_LOOK_SECONDS = 0.02
"""The least time between two looks for a request of a checkpoint: a requester asks again after longer."""


class PreparedPages(NamedTuple):
    """A signed micro-batch.

    found: its verdicts by other states, None if there are none
    unsigned: the errors of poison pages of signing, by row
    """

    signatures: Signatures
    found: Future[StateVerdicts] | None
    unsigned: Mapping[int, Exception] = {}

    @property
    def in_other_states(self) -> int:
        """The number of pages that another state contains."""
        return 0 if self.found is None else self.found.result().dropped

    def verdicts(self, judge: Callable[[Signatures], Verdicts]) -> Iterator[Verdicts]:
        """The verdicts of the pages, in parts that fit into a log record. judge: judges a part by the run's own state

        With other states it is one part, and `judge` gets only the pages that no other state contains.
        """
        return mark_unsigned(self._parts(judge), self.signatures, self.unsigned)

    def _parts(self, judge: Callable[[Signatures], Verdicts]) -> Iterator[Verdicts]:
        if self.found is None:
            yield from map(judge, split(self.signatures, RECORD_BYTES))
            return
        found = self.found.result()
        log_poison_pages(self.signatures, found.poison, of_query=True)
        rest = found.rest_of(self.signatures)
        own = [judge(part) for part in split(rest, RECORD_BYTES)] if len(rest) else [no_verdicts()]
        yield found.with_own(concatenate(own))


def prepare_pages(
    signatures: Signatures, others: OtherStates | None, unsigned: Mapping[int, Exception] | None = None
) -> PreparedPages:
    """Begin to compare signed pages with other states, in another thread. others: None if there are none"""
    return PreparedPages(signatures, None if others is None else others.begin(signatures), unsigned or {})


def sign_every_page(scheme: Scheme, pages: Sequence[Page]) -> tuple[Signatures, Mapping[int, Exception]]:
    """The signatures of all pages, one row each, and the errors of poison pages by row; nearly always none.

    A poison page is signed without its body, so it matches nothing and is not indexed. Its verdict needs mark_unsigned.
    """

    def sign(rows: Collection[int]) -> Signatures:
        return scheme.sign(
            [page._replace(body=b"", encoded=None) if row in rows else page for row, page in enumerate(pages)]
            if rows
            else pages
        )

    return isolate(sign, len(pages))


def page_text(page: Page, scheme: Scheme, is_template: NDArray[np.bool_] | None) -> ExtractedText | None:
    """The text of a novel page; None after an internal error, which is logged.

    is_template: the mark of each packed block; None if marking them failed, which was logged too
    Raises ENVIRONMENT_ERRORS, because they are not the fault of a page.
    """
    try:
        return None if is_template is None else text_of(page, scheme, is_template)
    except ENVIRONMENT_ERRORS:
        raise
    except Exception:
        # It loads the readers of files, and explain does without them.
        from spotsieve.stream.files.verdict_lines import line_id

        text = "extracting the text failed with an internal error for %s: it is left out; please report the error"
        LOGGER.exception(text, escape_control_characters(line_id(page)))
        return None


def mark_unsigned(
    parts: Iterable[Verdicts], signatures: Signatures, unsigned: Mapping[int, Exception]
) -> Iterator[Verdicts]:
    """The verdicts of a batch, in parts, with the reason of poison pages of signing. These pages are logged.

    unsigned: their errors by row
    """
    log_poison_pages(signatures, unsigned, of_query=False)
    start = 0
    for verdicts in parts:
        yield with_unsigned(verdicts, unsigned, start)
        start += len(verdicts)


def with_unsigned(verdicts: Verdicts, unsigned: Iterable[int], start: int = 0) -> Verdicts:
    """Verdicts with the reason of poison pages of signing. A page that an earlier run has judged keeps its verdict.

    unsigned: the rows of these pages in the batch  start: the row of the first verdict in the batch
    """
    rows = [row - start for row in unsigned if start <= row < start + len(verdicts)]
    rows = [row for row in rows if verdicts.kind[row] == Kind.UNCHECKED]
    if not rows:
        return verdicts
    marked = replace(verdicts, reason=verdicts.reason.copy())
    mark_poison(marked, rows)
    return marked


class LocalEngine:
    """The engine over a directory. Use it as a context.

    notices: notices about the log and the directory, for people
    others: states whose pages are dropped before this state judges
    """

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        scheme: Scheme,
        on_catch_up: OnCatchUp = lambda *_: None,
        make_engine: MakeEngine | None = None,
        others: OtherStates | None = None,
        with_marks: bool = False,
    ) -> None:
        """Open log and state, and apply the records that the state does not have yet.

        make_engine: makes the engine; None makes the usual one, which judges in this process
        others: states whose pages are dropped before this state judges; they have its salt (check_states)
        with_marks: whether verdicts mark the template text of all novel pages
        Raises StateError, StateLockedError, SettingsMismatch, CorruptRecord.
        """
        text = verdict_settings_text(settings)
        self._digest = settings_digest(text)
        self._writer = uuid.uuid4().bytes
        self._sequence, self._next_look = 0, 0.0
        self.others, self._with_marks = others, with_marks
        salt = salt_from(settings.index)
        self._log, self.notices = open_log(directory)
        try:
            self._state = disk_state(directory, text, LocalLog.name, settings.index)
        except BaseException:
            self._log.close()
            raise
        try:
            first = first_of_ours(self._log.read_from(0), LocalLog.name)
            if first is not None and first[1].log is not None:
                self._state.adopt(first[1].log)
            check_log(self._log, self._state.position, self._state.last_record, self._state.pages_applied)
            check_salt(salt, self._state.identity.log_identity, f"the state {directory}")
            if first is None and self._state.identity.log_identity is None:
                self._state.adopt(draw_log_identity(salt))
            self.engine = (
                Engine(scheme, self._state, settings.index, self._digest, LocalLog.name, policy_of(settings))
                if make_engine is None
                else make_engine(self._state, self._log)
            )
            self._requests = Requests(directory, self._state)
            self.notices.extend(state_warnings(directory))
            self._begin_log(text, first, on_catch_up)
        except BaseException:
            self.close()
            raise

    def _begin_log(self, text: str, first: tuple[int, LogRecord] | None, on_catch_up: OnCatchUp) -> None:
        """Check that the log has these settings, and apply its new records. A new log gets its configuration record.

        first: the first record of the log, None for a new log
        """
        if first is not None:
            offset, record = first
            check_first_record(record.settings_digest, record.configuration, text, LocalLog.name, offset)
            if is_migrating(record.writer) and not is_open(self._log):
                raise unopened_log_error(str(self._log.path))
        self._catch_up(on_catch_up)
        if first is None:
            configuration = encode_configuration(text, self._writer, self._state.identity.log_identity)
            self.engine.apply(configuration, self._log.append(configuration))

    def _catch_up(self, on_catch_up: OnCatchUp) -> None:
        """Apply the records that the state lacks: the last ones of a killed run, or all if the index was lost."""
        first, pages = self._state.position, 0
        total = self._log.end - first
        for offset, record in self._log.read_from(first):
            pages += len(self.engine.apply(record, offset).record.signatures)
            on_catch_up(offset + 1 - first, total, pages)
        if total:
            event = "was behind its log" if first else "was rebuilt from its log"
            self.notices.append(f"the state {event}: {total:,} records with {pages:,} pages were read again")

    @property
    def entry_count(self) -> int:
        """The number of pages in the state."""
        return self._state.entry_count - self._state.clock.floor

    def knows_source(self, source: str) -> bool:
        """Whether the state has a page of this path."""
        return self._state.knows_source(source)

    def prepare(self, pages: Sequence[Page]) -> PreparedPages:
        """Sign a micro-batch, and begin to compare it with the other states. It may run in another thread."""
        signatures, unsigned = sign_every_page(self.engine.scheme, pages)
        return prepare_pages(signatures, self.others, unsigned)

    def judge(self, pages: Sequence[Page]) -> Iterator[tuple[Sequence[Page], Verdicts]]:
        """Sign, log and judge a micro-batch. The verdicts come in several parts if one log record cannot hold it."""
        start = 0
        for verdicts in self.judge_prepared(self.prepare(pages)):
            yield pages[start : start + len(verdicts)], verdicts
            start += len(verdicts)

    def judge_signed(
        self, signatures: Signatures, unsigned: Mapping[int, Exception] | None = None
    ) -> Iterator[Verdicts]:
        """Log and judge a micro-batch that sign_every_page has signed. The verdicts come in one or more parts."""
        return self.judge_prepared(prepare_pages(signatures, self.others, unsigned))

    def judge_prepared(self, prepared: PreparedPages) -> Iterator[Verdicts]:
        """Log and judge a micro-batch. The verdicts come in one or more parts."""
        now = time.monotonic()
        if now >= self._next_look:  # Pages that are added one by one share a look.
            self._next_look = now + _LOOK_SECONDS
            self.answer_requests()
        return prepared.verdicts(self._apply)

    def _apply(self, signatures: Signatures) -> Verdicts:
        # Nothing is marked as committed, so that a file can be filtered again at any time with the same verdicts. A
        # page that is not indexed then costs the state some 30 bytes; the log has its signature anyway.
        record, decoded = encode_and_keep(signatures, self._writer, self._sequence, self._digest)
        self._sequence += 1
        return self._judge(decoded, record)

    def judge_record(self, record: bytes) -> Verdicts:
        """Log and judge a record of pages that were signed and encoded under these settings."""
        self.answer_requests()
        return self._judge(record, record)

    def _judge(self, decoded: bytes | LogRecord, record: bytes) -> Verdicts:
        """Log and judge a record. decoded: the record, decoded if that is at hand"""
        applied = self.engine.apply(decoded, self._log.append(record))
        log_poison_pages(applied.record.signatures, applied.poison, of_query=False)
        if not self._with_marks:
            return applied.verdicts
        return self.engine.with_marks(applied.verdicts, applied.record.signatures)

    def answer_requests(self) -> None:
        """Make a checkpoint if another process requests one. Judging also does this before batches."""
        if self._requests.waiting():
            self._requests.answer()

    def close(self) -> None:
        """Write all buffers. The log is written first, so that it never ends before the position of the state."""
        try:
            self._log.sync()
        finally:
            try:
                self._state.close()
            finally:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryEngine:
    """The engine over a state in memory. Its log records are not stored."""

    def __init__(
        self, settings: Settings, scheme: Scheme, others: OtherStates | None = None, with_marks: bool = False
    ) -> None:
        """others: states whose pages are dropped before this engine judges; they have its salt (check_states)

        with_marks: whether verdicts mark the template text of all novel pages
        """
        self.others, self._with_marks = others, with_marks
        self._digest = digest_of_settings(settings)
        self._state = memory_state(draw_log_identity(salt_from(settings.index)))
        self._offset = 0
        self.engine = Engine(scheme, self._state, settings.index, self._digest, MEMORY_LOG_NAME, policy_of(settings))

    @property
    def entry_count(self) -> int:
        """The number of pages in the state."""
        return self._state.entry_count - self._state.clock.floor

    def judge_signed(
        self, signatures: Signatures, unsigned: Mapping[int, Exception] | None = None
    ) -> Iterator[Verdicts]:
        """Judge a micro-batch that sign_every_page has signed. The verdicts come in one or more parts."""
        return prepare_pages(signatures, self.others, unsigned).verdicts(self._apply)

    def _apply(self, signatures: Signatures) -> Verdicts:
        # Offsets distinguish the records of this engine, so they serve as checksums, too.
        record = LogRecord(_MEMORY_WRITER, self._offset, self._digest, signatures, checksum=self._offset)
        applied = self.engine.apply(record, self._offset)
        self._offset += 1
        log_poison_pages(signatures, applied.poison, of_query=False)
        return self.engine.with_marks(applied.verdicts, signatures) if self._with_marks else applied.verdicts

    def close(self) -> None:
        """Free the state."""
        self._state.close()


def is_open(log: LocalLog) -> bool:
    """Whether a log that a migration has begun is complete, by its last record. Raises CorruptRecord."""
    for offset in range(log.end - 1, -1, -1):
        _, value = next(log.read_from(offset))
        opened = tells_open(decode(value, LocalLog.name, offset))
        if opened is not None:
            return opened
    return False


def open_log(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log; return it with notices for people, such as that a torn tail was cut off.

    Raises StateError if the directory is a snapshot or another process uses the log.
    """
    check_no_snapshot("--state", directory)
    _check_index_without_log(directory)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TornTail)
        log = LocalLog(directory)
    return log, [str(warning.message) for warning in caught]


def _check_index_without_log(directory: Path) -> None:
    """Refuse an index that an empty log cannot continue. An empty log would be left there, as damage of the state.

    Such an index is of a service or a shard, or was imported without its log. Raises StateError.
    """
    index = directory / INDEX_FOLDER
    if (directory / LOG_FILE).exists() or not has_index(index):
        return
    with checkpoint_backend(directory, index) as backend:
        try:
            meta = read_meta(backend)
        except CorruptRecord:
            raise
        except StateError:
            return  # Its first start did not finish.
    stored, progress = meta.identity, meta.progress
    check_identity(str(directory), stored, stored.settings, LocalLog.name)
    check_log_range(LocalLog.name, progress.position, 0, 0, progress.pages_applied)


def check_identity_of_log(
    records: Iterable[tuple[int, bytes]], directory: Path, stored: LogIdentity | None
) -> LogIdentity | None:
    """Check that a local log is the one that a state was built from. Returns its identity; None for an empty log.

    records: (offset, record), from the beginning of the log  stored: the identity in the state  Raises StateError.
    """
    first = first_of_ours(records, LocalLog.name)
    found = None if first is None else first[1].log
    if found is not None:
        check_log_identity(directory, stored, found, LocalLog.name)
    return found


def check_log(log: LocalLog, position: int, last_record: int, pages_applied: int) -> None:
    """Check that the log continues a state at this position. Raises StateError.

    The directory may contain the log of another state that is just as long: the last record tells them apart. The
    engine checks a record that is applied in part when it applies the rest.
    """
    check_log_range(LocalLog.name, position, 0, log.end, pages_applied)
    if pages_applied:
        return
    for _, record in log.read_from(max(position - 1, 0)):
        check_last_record(LocalLog.name, position, last_record, checksum_of(record))
        break
