"""Moves records of an old log to a new one: judges them with both settings, and compares the verdicts.

Records keep the order of the old log. Each record of the new log has an origin, the record of the old log that it comes
from. So a killed migration continues after its last record, and writes none twice. The new state follows the new log,
like the state of any worker. During the migration a second state follows the old log with the old settings, in a folder
beside the new one.

The caller reads and writes the logs. For each record of the old log it calls begin(), take() with the records that the
new log already has, values() and take() for the missing ones, and note().
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from spotsieve.state.identity import check_last_record
from spotsieve.state.log.bodies import Handover, Origin, is_migrating, migration_writer, origin_of, split_pages
from spotsieve.state.log.record import (
    FRAME_BYTES,
    KIND_FORGET,
    NO_PAGES,
    LogRecord,
    checksum_of,
    decode,
    encode,
    encode_configuration,
    encode_forget,
    encode_handover,
    kind_of,
    split,
)
from spotsieve.state.removal import ForgottenPage
from spotsieve.state.still.finding import PageQuery, file_places, find_entries
from spotsieve.state.still.reading import own_checkpoint
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import Entry, Signatures, page_id_text, page_ids_of
from spotsieve.stream.base.verdict import Kind, Verdicts
from spotsieve.stream.engine import Engine
from spotsieve.stream.files.verdict_lines import verdict_fields
from spotsieve.stream.insight.migrate.archive import ArchivedPages, ArchiveMatches
from spotsieve.stream.insight.migrate.journal import Journal
from spotsieve.stream.insight.replay.order import indexed_pages
from spotsieve.stream.judge import entry_of

PAGES, FORGOTTEN, UNSENT, GONE, UNLIKE, FROM_FILES = "pages", "forgotten", "unsent", "gone", "unlike", "from_files"
OTHER_ORIGINAL = "other_original"
_PAGE_FIELDS = ("id", "url")


class VerdictBatch(NamedTuple):
    """Pages with their verdicts, and the scheme that judged them."""

    signatures: Signatures
    verdicts: Verdicts
    scheme: str


class PagePair(NamedTuple):
    """A page that both sides judged. row: in the old batch  part, new_row: index of the new batch, and row in it"""

    row: int
    part: int
    new_row: int


def page_pairs(old: Signatures, new: Sequence[VerdictBatch]) -> Iterator[PagePair]:
    """The pages that both sides have, in the order of the old side."""
    new_rows = {page: (part, row) for part, judged in enumerate(new) for row, page in _rows(judged.signatures)}
    for row, page in _rows(old):
        if page in new_rows:
            yield PagePair(row, *new_rows[page])


def count_differences(old: VerdictBatch, new: Sequence[VerdictBatch], pairs: Sequence[PagePair]) -> Counter[str]:
    """The number of pages by their old and new verdict, such as "novel/duplicate"; and of those with OTHER_ORIGINAL."""
    counts: Counter[str] = Counter()
    for row, part, new_row in pairs:
        kinds = Kind(old.verdicts.kind[row]), Kind(new[part].verdicts.kind[new_row])
        counts["/".join(kind.label for kind in kinds)] += 1
        counts[OTHER_ORIGINAL] += kinds[0] == kinds[1] and _differ(old.verdicts, row, new[part].verdicts, new_row)
    return +counts


def difference_lines(
    record: int, old: VerdictBatch, new: Sequence[VerdictBatch], pairs: Sequence[PagePair]
) -> Iterator[dict[str, object]]:
    """A line for each page whose verdicts differ in kind, in the original, or in the superseded page."""
    for row, part, new_row in pairs:
        judged = new[part]
        if not _differ(old.verdicts, row, judged.verdicts, new_row):
            continue
        page = entry_of(old.signatures, row)
        before = verdict_fields(page, old.verdicts, row, old.scheme)
        after = verdict_fields(page, judged.verdicts, new_row, judged.scheme)
        yield {
            **{name: before[name] for name in _PAGE_FIELDS},
            "page": page.page_id,
            "record": record,
            "old": {name: value for name, value in before.items() if name not in _PAGE_FIELDS},
            "new": {name: value for name, value in after.items() if name not in _PAGE_FIELDS},
        }


def _rows(signatures: Signatures) -> Iterator[tuple[int, PageId]]:
    return enumerate(page_ids_of(signatures))


def _differ(old: Verdicts, row: int, new: Verdicts, new_row: int) -> bool:
    if old.kind[row] != new.kind[new_row]:
        return True
    same_original = _page_id(old.originals[row]) == _page_id(new.originals[new_row])
    return not same_original or _page_id(old.replaces[row]) != _page_id(new.replaces[new_row])


def _page_id(entry: Entry | None) -> PageId | None:
    return None if entry is None else (entry.source, entry.partition, entry.offset)


class Translator:
    """Encodes records for the new log, each with its origin in the old log."""

    def __init__(self, engine: Engine, writer: bytes, max_bytes: int) -> None:
        """engine: of the new log  writer: id of the migration  max_bytes: of one record"""
        self._engine = engine
        self._writer = writer
        self._max_bytes = max_bytes

    def of_pages(self, offset: int, record: LogRecord, signatures: Signatures, written: int) -> list[bytes]:
        """The new records for an old record with pages. offset: of the old one  written: new ones already in the log"""
        if not len(signatures):
            done = written or not record.committed
            return [] if done else [self._encoded(offset, 0, NO_PAGES, record)]
        parts = enumerate(split(signatures, self._max_bytes, record.committed))
        return [self._encoded(offset, number, part, record) for number, part in parts if number >= written]

    def of_forgotten(self, offset: int, pages: Sequence[ForgottenPage], written: int) -> list[bytes]:
        """The records that forget these pages, which are indexed in the new state."""
        parts = enumerate(split_pages(pages, self._max_bytes - FRAME_BYTES), written)
        return [
            encode_forget(part, self._writer, Origin(offset, number).sequence, self._engine.settings_digest)
            for number, part in parts
        ]

    def _encoded(self, offset: int, number: int, part: Signatures, record: LogRecord) -> bytes:
        marks = () if number else record.committed
        sequence = Origin(offset, number).sequence
        return encode(part, self._writer, sequence, self._engine.settings_digest, marks)


def translate_forgotten(pages: Sequence[ForgottenPage], state: State, folder: Path) -> list[ForgottenPage]:
    """The pages that the old log forgets, with their entry numbers and keys in the new state.

    A scan over the new state finds them, as for `state forget`. Pages that are not indexed there are skipped.
    folder: for the checkpoint. Raises CorruptRecord, StateError.
    """
    with_host = {page.page_id: page.with_host for page in pages}
    names = frozenset(page_id_text(*page_id) for page_id in with_host)
    with own_checkpoint(state, folder) as checkpoint:
        found = find_entries(checkpoint, PageQuery(ids=names))
        # The label of one page may be the id of another one.
        found.pages = {
            number: entry
            for number, entry in found.pages.items()
            if (entry.source, entry.partition, entry.offset) in with_host
        }
        places = file_places(checkpoint, found) if found.pages else []
    return [page._replace(with_host=with_host[page.page_id]) for page in places]


def unsent_pages(signatures: Signatures, rows: Sequence[int], engine: Engine) -> Iterator[ForgottenPage]:
    """The indexed pages among these rows of the last judged pages. Raises CorruptRecord, StateError."""
    if not rows:
        return
    probes, page_ids = engine.scheme.probe(signatures), page_ids_of(signatures)
    for row in rows:
        keys = probes.keys[probes.bounds[row] : probes.bounds[row + 1]]
        yield from indexed_pages(page_ids[row], keys, engine.state)


@dataclass(slots=True)
class RecordMove:
    """The move of one record of the old log.

    old: verdicts with the old settings, if known  new: the new records so far, with their verdicts
    filled: the result of the search in files, if any
    """

    offset: int
    record: LogRecord
    old: VerdictBatch | None = None
    new: list[VerdictBatch] = field(default_factory=list)
    filled: ArchiveMatches | None = None


def check_begun(offset: int, record: LogRecord, new_log: str, old_log: str) -> None:
    """Check that a migration of the old log wrote the first record of the new log. Raises StateError."""
    if record.writer != migration_writer(old_log):
        raise StateError(
            f"log {new_log}[{offset}]",
            f"must be empty, or from an earlier run of the migration of {old_log!r}",
            None,
            "choose another log (topics.log) and another state directory for the new settings",
        )


class EndsInError(Exception):
    """Signals the handover record at the end of the old log. handover: its content"""

    def __init__(self, handover: Handover) -> None:
        super().__init__(handover.log)
        self.handover = handover


class Migration:
    """One migration with both states and the journal. Only one thread at a time may call it.

    open: whether the new log is open, which completes the migration  archived: pages of files, if given
    """

    def __init__(
        self, old_log: str, old: Engine | None, new: Engine, journal: Journal, max_bytes: int, *, drops: bool
    ) -> None:
        """old: engine with the old settings; None if verdicts cannot be compared

        max_bytes: of a record of the new log  drops: whether the old settings dropped duplicates
        """
        self._old_log = old_log
        self._old = old
        self._new = new
        self._drops = drops
        self._writer = migration_writer(old_log)
        self._translator = Translator(new, self._writer, max_bytes)
        self.archived: ArchivedPages | None = None
        self.journal = journal
        self.open = False
        if journal.offset > new.state.position or (old is not None and journal.record > old.state.position):
            journal.reset()
        # Not the position of the new state, which may be ahead if the old state was lost.
        self._taken = journal.offset

    def configuration(self, text: str) -> bytes:
        """The first record of the new log. text: canonical text of the new settings"""
        return encode_configuration(text, self._writer, self._new.state.identity.log_identity)

    def origin(self, offset: int, value: bytes) -> int:
        """The offset of a new record's origin in the old log; -1 without an origin.

        Raises StateError if another process wrote to the new log before it was open.
        """
        record = decode(value, self._new.log_name, offset)
        if record.foreign or record.configuration is not None:
            return -1
        if record.writer == self._writer:
            return origin_of(record.sequence).offset
        if record.handover is not None and not record.handover.closed:
            return record.handover.offset
        writer = "another migration" if is_migrating(record.writer) else "a worker"
        raise StateError(
            f"log {self._new.log_name}[{offset}]",
            f"must be from this migration; {writer} wrote it",
            None,
            "restart with another log (topics.log) and another state directory",
        )

    def opens(self, offset: int, value: bytes) -> bool:
        """Whether a record of the new log opens it."""
        return decode(value, self._new.log_name, offset).handover is not None

    def check_old(self, offset: int, value: bytes) -> None:
        """Check that the last moved record is the one that the old state applied.

        Raises StateError: the old log was recreated.
        """
        old = self._old
        if old is not None and old.state.position == offset + 1:
            check_last_record(self._old_log, offset + 1, old.state.last_record, checksum_of(value))

    def begin(self, offset: int, value: bytes) -> RecordMove | None:
        """Judge a record of the old log with the old settings; None if there is nothing to move.

        Raises EndsInError, DamagedRecord, StateError.
        """
        record = decode(value, self._old_log, offset)
        if record.handover is not None and record.handover.closed:
            raise EndsInError(record.handover)
        if not (len(record.signatures) or record.committed or record.forgotten):
            return None
        moving = RecordMove(offset, record)
        if self._old is not None:
            verdicts = self._old.apply(record, offset).verdicts
            moving.old = VerdictBatch(record.signatures, verdicts, self._old.scheme.name)
        return moving

    def values(self, moving: RecordMove, signatures: Signatures) -> list[bytes]:
        """The missing new records for a record of the old log. signatures: its pages with the new settings

        Pages without a signature are looked up in the files, if given.
        """
        if self.archived is not None:
            moving.filled = self.archived.fill(moving.record.signatures, signatures)
            signatures = moving.filled.signatures
        record, written = moving.record, len(moving.new)
        if record.forgotten:
            pages = translate_forgotten(record.forgotten, self._new.state, self.journal.folder)
            return self._translator.of_forgotten(moving.offset, pages, written)
        return self._translator.of_pages(moving.offset, record, signatures, written)

    def take(self, moving: RecordMove, appended: Iterable[tuple[int, bytes]]) -> None:
        """Apply records of the new log, as (offset, bytes), whose origin is the moving record."""
        for offset, value in appended:
            judged = self._apply(offset, value)
            if kind_of(memoryview(value)) == KIND_FORGET and not moving.record.forgotten:
                # The migration was killed at its end, and the old log has grown since.
                raise StateError(
                    f"log {self._new.log_name}[{offset}]",
                    f"ends the migration of {moving.offset:,} records, and {self._old_log} has more records now",
                    None,
                    "restart with another log (topics.log) and another state directory",
                )
            self._taken = offset + 1
            if len(judged.signatures) or self.origin(offset, value) == moving.offset:
                moving.new.append(judged)

    def note(self, moving: RecordMove) -> None:
        """Write the counts and differences of a moved record to the journal. Raises StateError."""
        record, old, new = moving.record, moving.old, moving.new
        counts: Counter[str] = Counter({PAGES: len(record.signatures), FORGOTTEN: len(record.forgotten)})
        differing, unsent = list[dict[str, object]](), list[ForgottenPage]()
        pairs = list(page_pairs(record.signatures, new))
        counts[GONE] = len(record.signatures) - len(pairs)
        if moving.filled is not None:
            counts[FROM_FILES], counts[UNLIKE] = moving.filled.from_files, moving.filled.unlike
        if old is not None:
            counts += count_differences(old, new, pairs)
            differing = list(difference_lines(moving.offset, old, new, pairs))
            for number, part in enumerate(new if self._drops else ()):
                rows = [
                    new_row
                    for row, index, new_row in pairs
                    if index == number and old.verdicts.is_duplicate(row) and not part.verdicts.is_duplicate(new_row)
                ]
                unsent += unsent_pages(part.signatures, rows, self._new)
        counts[UNSENT] = len(unsent)
        self.journal.note(moving.offset + 1, self._taken, +counts, differing, unsent)

    def pass_on(self, appended: Iterable[tuple[int, bytes]]) -> None:
        """Apply records of the new log without a moving record."""
        for offset, value in appended:
            self._apply(offset, value)

    def ending(self, offset: int) -> list[bytes]:
        """The records that complete the migration at this offset of the old log. Append them and call pass_on().

        They forget the pages that were never emitted, and open the new log.
        """
        forgetting = self._translator.of_forgotten(offset, list(self.journal.unsent()), 0)
        return [*forgetting, encode_handover(Handover(False, self._old_log, offset), self._new.settings_digest)]

    def _apply(self, offset: int, value: bytes) -> VerdictBatch:
        applied = self._new.apply(value, offset)
        self.open |= applied.record.handover is not None
        return VerdictBatch(applied.record.signatures, applied.verdicts, self._new.scheme.name)
