"""Moves a log into another one, record by record: judges it by the old and by the new settings, and compares.

The order is that of the old log. A record of the new log says which record of the old log it comes from, so a migration
that was killed goes on behind the last one that it wrote, and writes none twice. The new state follows the new log, as
every worker's does. That of the old settings follows the old log, in a folder beside it, while the migration lasts.

Reading and writing logs is the caller's. Of each record of the old log: begin(), take() what the new log has of it
already, values() and take() for what it lacks, note().

Makes the records of the new log from one record of the old log.

Compares the old and the new verdicts on the pages of one record.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spotsieve.state.identity import check_last_record
from spotsieve.state.log.bodies import Handover, Origin, is_migrating, migration_writer, origin_of, split_pages
from spotsieve.state.log.former import decode_moved
from spotsieve.state.log.record import (
    FRAME_BYTES,
    NO_PAGES,
    LogRecord,
    checksum_of,
    decode,
    encode,
    encode_configuration,
    encode_forget,
    encode_handover,
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
from spotsieve.stream.judge import entry_of

_OF_PAGE = ("id", "url")
OTHER_ORIGINAL = "other_original"


class VerdictBatch(NamedTuple):
    """Pages with their verdicts, and the scheme that gave them."""

    signatures: Signatures
    verdicts: Verdicts
    scheme: str


class PagePair(NamedTuple):
    """A page that both sides have judged. row, new_row: in the old and the new part  part: the number of the new one"""

    row: int
    part: int
    new_row: int


def page_pairs(old: Signatures, new: Sequence[VerdictBatch]) -> Iterator[PagePair]:
    """The pages of the old side that the new one has too, in their order."""
    found = {page: (part, row) for part, judged in enumerate(new) for row, page in _rows(judged.signatures)}
    for row, page in _rows(old):
        if page in found:
            yield PagePair(row, *found[page])


def count_differences(old: VerdictBatch, new: Sequence[VerdictBatch], met: Sequence[PagePair]) -> Counter[str]:
    """How many pages have which two verdicts, such as "novel/duplicate"."""
    counts: Counter[str] = Counter()
    for row, part, new_row in met:
        kinds = Kind(old.verdicts.kind[row]), Kind(new[part].verdicts.kind[new_row])
        counts["/".join(kind.name.lower() for kind in kinds)] += 1
        counts[OTHER_ORIGINAL] += kinds[0] == kinds[1] and _differ(old.verdicts, row, new[part].verdicts, new_row)
    return +counts


def difference_lines(
    record: int, old: VerdictBatch, new: Sequence[VerdictBatch], met: Sequence[PagePair]
) -> Iterator[dict[str, object]]:
    """A line for each page whose verdicts differ: in kind, in the original, or in the page that it replaces."""
    for row, part, new_row in met:
        judged = new[part]
        if not _differ(old.verdicts, row, judged.verdicts, new_row):
            continue
        page = entry_of(old.signatures, row)
        was = verdict_fields(page, old.verdicts, row, old.scheme)
        becomes = verdict_fields(page, judged.verdicts, new_row, judged.scheme)
        yield {
            **{name: was[name] for name in _OF_PAGE},
            "page": page.page_id,
            "record": record,
            "old": {name: value for name, value in was.items() if name not in _OF_PAGE},
            "new": {name: value for name, value in becomes.items() if name not in _OF_PAGE},
        }


def _rows(signatures: Signatures) -> Iterator[tuple[int, PageId]]:
    return enumerate(page_ids_of(signatures))


def _differ(old: Verdicts, row: int, new: Verdicts, new_row: int) -> bool:
    if old.kind[row] != new.kind[new_row]:
        return True
    return _page(old.originals[row]) != _page(new.originals[new_row]) or _page(old.replaces[row]) != _page(
        new.replaces[new_row]
    )


def _page(entry: Entry | None) -> PageId | None:
    return None if entry is None else (entry.source, entry.partition, entry.offset)


class Translator:
    """Writes records for the new log, by one writer, each with its origin in the old one."""

    def __init__(self, engine: Engine, writer: bytes, most_bytes: int) -> None:
        """engine: of the new log  most_bytes: of one record"""
        self._engine = engine
        self._writer = writer
        self._most_bytes = most_bytes

    def of_pages(self, offset: int, record: LogRecord, signatures: Signatures, written: int) -> list[bytes]:
        """The records for one of pages. offset: of the old record  written: how many of them the new log has already"""
        if not len(signatures):
            again = written or not record.committed
            return [] if again else [self._encoded(offset, 0, NO_PAGES, record)]
        parts = enumerate(split(signatures, self._most_bytes, record.committed))
        return [self._encoded(offset, number, part, record) for number, part in parts if number >= written]

    def of_forgotten(self, offset: int, pages: Sequence[ForgottenPage], written: int) -> list[bytes]:
        """The records that forget these pages, which are filed in the new state."""
        parts = enumerate(split_pages(pages, self._most_bytes - FRAME_BYTES), written)
        return [
            encode_forget(part, self._writer, Origin(offset, number).sequence, self._engine.settings_digest)
            for number, part in parts
        ]

    def _encoded(self, offset: int, number: int, part: Signatures, record: LogRecord) -> bytes:
        marks = () if number else record.committed
        sequence = Origin(offset, number).sequence
        return encode(part, self._writer, sequence, self._engine.settings_digest, marks)


def translate_forgotten(pages: Sequence[ForgottenPage], state: State, folder: Path) -> list[ForgottenPage]:
    """The pages that the old log forgets, as the new state has filed them: by other numbers, under other keys.

    A walk over the new state finds them, as `state forget` does. One that it has not filed is passed over. Raises
    CorruptRecord, StateError.  folder: for the checkpoint
    """
    with_host = {page.page_id: page.with_host for page in pages}
    names = frozenset(page_id_text(*page_id) for page_id in with_host)
    with own_checkpoint(state, folder) as still:
        found = find_entries(still, PageQuery(ids=names))
        # A page's own name may be another one's id.
        found.pages = {
            number: entry
            for number, entry in found.pages.items()
            if (entry.source, entry.partition, entry.offset) in with_host
        }
        places = file_places(still, found) if found.pages else []
    return [page._replace(with_host=with_host[page.page_id]) for page in places]


def unsent_pages(signatures: Signatures, rows: Sequence[int], engine: Engine) -> Iterator[ForgottenPage]:
    """Of these rows of pages that were just judged, those that are filed. Raises CorruptRecord, StateError."""
    if not rows:
        return
    probes = engine.scheme.probe(signatures)
    for row in rows:
        keys = np.unique(probes.keys[probes.bounds[row] : probes.bounds[row + 1]])
        page = (
            signatures.sources[signatures.source[row]],
            int(signatures.partition[row]),
            int(signatures.offset[row]),
        )
        numbers = np.unique(engine.state.buckets(keys).numbers)
        for number, page_id in zip(numbers.tolist(), engine.state.page_ids(numbers), strict=True):
            if page_id == page:
                yield ForgottenPage(number, *page, tuple(keys.tolist()))


PAGES, FORGOTTEN, UNSENT, GONE, UNLIKE, FROM_FILES = "pages", "forgotten", "unsent", "gone", "unlike", "from_files"


@dataclass(slots=True)
class RecordMove:
    """A record of the old log on its way.

    old: what the old settings say of it, if that is known  new: what has become of it so far  filled: where its pages
    were looked for in files, what was found
    """

    offset: int
    record: LogRecord
    old: VerdictBatch | None = None
    new: list[VerdictBatch] = field(default_factory=list)
    filled: ArchiveMatches | None = None


class EndsInError(Exception):
    """The old log ends at the record that was begun. handover: what it says"""

    def __init__(self, handover: Handover) -> None:
        super().__init__(handover.log)
        self.handover = handover


class Migration:
    """One migration: both states, and the journal between them. Call it from one thread at a time.

    open: whether the new log is open, so that nothing is left to do  archived: pages of files, if any are given
    """

    def __init__(
        self, old_log: str, old: Engine | None, new: Engine, journal: Journal, most_bytes: int, *, drops: bool
    ) -> None:
        """old: the engine of the old settings, None where verdicts cannot be compared

        most_bytes: of a record of the new log  drops: whether the old settings left duplicates out
        """
        self._old_log = old_log
        self._old = old
        self._new = new
        self._drops = drops
        self._writer = migration_writer(old_log)
        self._translator = Translator(new, self._writer, most_bytes)
        self.archived: ArchivedPages | None = None
        self.journal = journal
        self.open = False
        if journal.offset > new.state.position or (old is not None and journal.record > old.state.position):
            journal.reset()
        # Not the position of the new state: after a loss of the other one that may lie ahead.
        self._taken = journal.offset

    def configuration(self, text: str) -> bytes:
        """The record that the new log begins with. text: the canonical text of the new settings"""
        return encode_configuration(text, self._writer)

    def check_begun(self, offset: int, record: LogRecord) -> None:
        """Check that the first record of the new log is of this migration. Raises StateError."""
        if record.writer != self._writer:
            raise StateError(
                f"log {self._new.log_name}[{offset}]",
                f"must be empty, or begun by a migration of {self._old_log!r}",
                None,
                "name another log (topics.log) and another state directory for the new settings",
            )

    def origin(self, offset: int, value: bytes) -> int:
        """The old record that a record of the new log comes from; -1 for one that comes from none.

        Raises StateError where others have written to the new log before it was open.
        """
        record = decode(value, self._new.log_name, offset)
        if record.foreign or record.configuration is not None:
            return -1
        if record.writer == self._writer:
            return origin_of(record.sequence).offset
        if record.handover is not None and not record.handover.closed:
            return record.handover.offset
        what = "another migration" if is_migrating(record.writer) else "a worker"
        raise StateError(
            f"log {self._new.log_name}[{offset}]",
            f"must be of this migration, and {what} wrote it",
            None,
            "begin anew: another log (topics.log) and another state directory",
        )

    def opens(self, offset: int, value: bytes) -> bool:
        """Whether a record of the new log opens it."""
        return decode(value, self._new.log_name, offset).handover is not None

    def check_old(self, offset: int, value: bytes) -> None:
        """Check that the record before the journal's is the one that the old settings were applied to.

        Raises StateError: the old log was made anew.
        """
        old = self._old
        if old is not None and old.state.position == offset + 1:
            check_last_record(self._old_log, offset + 1, old.state.last_record, checksum_of(value))

    def begin(self, offset: int, value: bytes) -> RecordMove | None:
        """Judge a record of the old log by the old settings; None for one that holds nothing.

        Raises EndsInError, DamagedRecord, StateError.
        """
        record = decode_moved(value, self._old_log, offset)
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
        """The records that the new log lacks of one of the old log, whose pages have these signatures now.

        Pages that have none are looked for in the files, if there are any.
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
        """Judge records of the new log, (offset, bytes) each, which come from the one that is moving."""
        for offset, value in appended:
            judged = self._apply(offset, value)
            self._taken = offset + 1
            if len(judged.signatures) or self.origin(offset, value) == moving.offset:
                moving.new.append(judged)

    def note(self, moving: RecordMove) -> None:
        """Write down what the record came to. Raises StateError."""
        record, old, new = moving.record, moving.old, moving.new
        counts: Counter[str] = Counter({PAGES: len(record.signatures), FORGOTTEN: len(record.forgotten)})
        differing, unsent = list[dict[str, object]](), list[ForgottenPage]()
        met = list(page_pairs(record.signatures, new))
        counts[GONE] = len(record.signatures) - len(met)
        if moving.filled is not None:
            counts[FROM_FILES], counts[UNLIKE] = moving.filled.from_files, moving.filled.unlike
        if old is not None:
            counts += count_differences(old, new, met)
            differing = list(difference_lines(moving.offset, old, new, met))
            for number, part in enumerate(new if self._drops else ()):
                rows = [
                    new_row
                    for row, of, new_row in met
                    if of == number and old.verdicts.is_duplicate(row) and not part.verdicts.is_duplicate(new_row)
                ]
                unsent += unsent_pages(part.signatures, rows, self._new)
        counts[UNSENT] = len(unsent)
        self.journal.note(moving.offset + 1, self._taken, +counts, differing, unsent)

    def pass_on(self, appended: Iterable[tuple[int, bytes]]) -> None:
        """Apply records of the new log that come from no record that is moving."""
        for offset, value in appended:
            self._apply(offset, value)

    def ending(self, offset: int) -> list[bytes]:
        """The records that end the migration before this offset of the old log: they forget the pages that nobody was
        sent, and open the new log. To be passed on once they are appended.
        """
        forgetting = self._translator.of_forgotten(offset, list(self.journal.unsent()), 0)
        return [*forgetting, encode_handover(Handover(False, self._old_log, offset), self._new.settings_digest)]

    def _apply(self, offset: int, value: bytes) -> VerdictBatch:
        applied = self._new.apply(value, offset)
        self.open |= applied.record.handover is not None
        return VerdictBatch(applied.record.signatures, applied.verdicts, self._new.scheme.name)
