"""Encodes the bodies of records that the resolver writes, and those of resizes and poison pages.

Workers commit by the outcome of a round (kind 3), and shards index by it. The announcement of the next round (kind 4)
tells a worker its own pages, and a process that starts in the middle of a round where the responses to it begin in
`matches`. stream/sharding/shares.py explains resizes (kinds 7 to 9).

A shard writes poison pages (kind 10) to `matches` for pages that it cannot process. The resolver writes them to
`verdicts` with the pages that the open round excludes from then on. Only the first MOST_TEXTS different errors have a
text.
"""

import traceback
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from spotsieve.state.horizon import NO_TIME, STEPS, Clock, StepMark
from spotsieve.state.index import NOBODY
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.verdict import KeyKind, Kind, Verdicts
from spotsieve.stream.sharding.candidates import Speculation
from spotsieve.stream.sharding.records.frame import ColumnReader, ColumnWriter, RoundRange, ascending
from spotsieve.stream.sharding.records.shard import (
    NamedEntries,
    PackedEntries,
    read_assumed,
    read_flags,
    write_assumed,
    write_entries,
    write_flags,
)
from spotsieve.stream.sharding.resolution import RoundOutcome
from spotsieve.stream.sharding.shares import MOST_SHARDS, FillProgress, Resize, ResizeEvent

_INDEXED_BIT, _CUT_BIT, _NEW_BIT = 2, 3, 4
_MOST_FLAGS = 2**5 - 1
_MOST_ROWS = 2**32 - 1
"""Greatest number of pages of a log record, which stores it in 4 bytes."""


def write_outcome(resolved: RoundOutcome) -> bytes:
    """Encode the body of kind 3."""
    columns, verdicts = ColumnWriter(), resolved.verdicts
    copies, pages = verdicts.kind == Kind.DUPLICATE, len(verdicts)
    new = np.zeros(pages, np.bool_) if resolved.is_new is None else resolved.is_new
    columns.bits(np.full(8, resolved.flags is not None))
    columns.count(pages)
    columns.numbers(
        verdicts.kind | (resolved.entry != NOBODY) << _INDEXED_BIT | verdicts.cut << _CUT_BIT | new << _NEW_BIT
    )
    columns.numbers(verdicts.reason)
    columns.numbers(verdicts.candidates)
    columns.numbers(verdicts.found_by[copies])
    columns.reals(verdicts.score[copies])
    entries = dict[int, Entry]()
    for numbers, announcement in ((resolved.original, verdicts.originals), (resolved.replaced, verdicts.replaces)):
        columns.numbers(np.where(numbers == NOBODY, 0, resolved.next_number - numbers))
        pairs = zip(numbers.tolist(), announcement, strict=True)
        entries.update((number, entry) for number, entry in pairs if entry is not None)
    write_flags(columns, np.empty(0, np.uint8) if resolved.flags is None else resolved.flags)
    write_entries(columns, entries, resolved.next_number)
    return columns.body()


def read_outcome(columns: ColumnReader, first_number: int) -> RoundOutcome:
    """Decode the body of kind 3. first_number: of the round. Raises ValueError."""
    by_host, pages = bool(columns.bits(8).all()), columns.pages()
    flags = columns.numbers(pages, _MOST_FLAGS)
    kind = (flags & 3).astype(np.uint8)
    new = flags >> _NEW_BIT & 1 != 0
    if (kind > max(Kind)).any():
        raise ValueError
    indexed, copies = flags >> _INDEXED_BIT & 1 != 0, kind == Kind.DUPLICATE
    reason, postings = columns.reasons(pages), columns.numbers(pages)
    found_by, score = np.zeros(pages, np.uint8), np.full(pages, np.nan)
    found_by[copies] = columns.numbers(int(copies.sum()), sum(KeyKind))
    score[copies] = columns.reals(int(copies.sum()))
    next_number = first_number + int(indexed.sum())
    original, replaced = (columns.optional_earlier(pages, next_number) for _ in range(2))
    template = read_flags(columns)
    if not by_host and len(template):
        raise ValueError
    entries = PackedEntries(columns, next_number)
    announcement = np.concatenate([original[copies], replaced[replaced != NOBODY]])
    if (original[copies] == NOBODY).any() or not np.isin(announcement, entries.numbers).all():
        raise ValueError
    verdicts = Verdicts(
        kind,
        reason,
        score,
        NamedEntries(entries, np.where(copies, original, NOBODY)),
        postings,
        found_by,
        flags >> _CUT_BIT & 1 != 0,
        NamedEntries(entries, replaced),
    )
    entry = np.where(indexed, first_number + np.cumsum(indexed) - 1, NOBODY)
    if not by_host:
        return RoundOutcome(verdicts, entry, next_number, original, replaced)
    return RoundOutcome(verdicts, entry, next_number, original, replaced, template, new)


class AnnouncedRecord(NamedTuple):
    """A log record of a round. offset: in the log  pages: number of its pages in the round  checksum: of the record"""

    offset: int
    pages: int
    checksum: int


class RoundAnnouncement(NamedTuple):
    """The announcement of the next round.

    last_record: checksum of the last log record that has pages in the round
    marks: of the deduplication window's clock
    response_starts: by shard, the offset in `matches` at which its responses to the round begin
    records: the log records of the round
    """

    last_record: int
    marks: tuple[StepMark, ...]
    response_starts: tuple[int, ...]
    records: tuple[AnnouncedRecord, ...]

    @property
    def pages(self) -> int:
        """Number of pages of the round."""
        return sum(one.pages for one in self.records)


def write_announcement(announcement: RoundAnnouncement) -> bytes:
    """Encode the body of kind 4."""
    columns = ColumnWriter()
    columns.words(np.array([announcement.last_record], np.uint64))
    columns.count(len(announcement.marks))
    columns.words(np.array([mark.step for mark in announcement.marks], np.int64).view(np.uint64))
    columns.numbers(np.array([mark.number for mark in announcement.marks], np.int64))
    columns.count(len(announcement.response_starts))
    columns.numbers(np.array(announcement.response_starts, np.int64))
    columns.count(len(announcement.records))
    first = announcement.records[0].offset if announcement.records else 0
    columns.numbers(np.array([one.offset - first for one in announcement.records], np.int64))
    columns.numbers(np.array([one.pages for one in announcement.records], np.int64))
    columns.words(np.array([one.checksum for one in announcement.records], np.uint64))
    return columns.body()


def read_announcement(columns: ColumnReader, range_: RoundRange) -> RoundAnnouncement:
    """Decode the body of kind 4. range_: of the round. Raises ValueError."""
    last_record = int(columns.words(1)[0])
    marks = columns.count(STEPS + 1)
    steps, numbers = columns.words(marks).view(np.int64), columns.numbers(marks, range_.first_number)
    clock = Clock(range_.watermark_ms, tuple(map(StepMark, ascending(steps).tolist(), ascending(numbers).tolist())))
    if bool(marks) != (range_.watermark_ms != NO_TIME) or clock.floor != range_.floor:
        raise ValueError
    if marks and clock.marks[-1].step - clock.marks[0].step > STEPS:
        raise ValueError
    response_starts = columns.numbers(columns.count(MOST_SHARDS))
    records = columns.pages()
    first, end = range_.start.record, range_.end.record_end
    offsets, pages = first + columns.numbers(records, max(end - first - 1, 0)), columns.numbers(records, _MOST_ROWS)
    checksums = columns.words(records)
    if records and (ascending(offsets)[0] != first or not first < end):
        raise ValueError
    return RoundAnnouncement(
        last_record,
        clock.marks,
        tuple(response_starts.tolist()),
        tuple(map(AnnouncedRecord, offsets.tolist(), pages.tolist(), checksums.tolist())),
    )


def write_speculation(speculation: Speculation) -> bytes:
    """Encode the body of kind 5."""
    columns = ColumnWriter()
    write_assumed(columns, speculation)
    return columns.body()


def read_speculation(columns: ColumnReader) -> Speculation:
    """Decode the body of kind 5. Raises ValueError."""
    return read_assumed(columns)


def write_resize(resize: Resize) -> bytes:
    """Encode the body of kind 7."""
    columns = ColumnWriter()
    columns.count(resize.change)
    columns.count(resize.shards)
    columns.words(np.array([resize.processed], np.uint64))
    return columns.body()


def read_resize(columns: ColumnReader) -> Resize:
    """Decode the body of kind 7. Raises ValueError."""
    change, shards = ResizeEvent(columns.count(max(ResizeEvent))), columns.count(MOST_SHARDS)
    return Resize(change, shards, int(columns.words(1)[0]))


def write_request(shards: int) -> bytes:
    """Encode the body of kind 8."""
    columns = ColumnWriter()
    columns.count(shards)
    return columns.body()


def read_request(columns: ColumnReader) -> int:
    """Decode the body of kind 8. Raises ValueError."""
    return columns.count(MOST_SHARDS)


def write_fill_progress(progress: FillProgress) -> bytes:
    """Encode the body of kind 9."""
    columns = ColumnWriter()
    columns.count(progress.ready)
    columns.words(np.array([progress.next_offset], np.uint64))
    return columns.body()


def read_fill_progress(columns: ColumnReader) -> FillProgress:
    """Decode the body of kind 9. Raises ValueError."""
    return FillProgress(bool(columns.count(1)), int(columns.words(1)[0]))


MOST_TEXTS, MOST_CHARACTERS = 16, 4_000


class PoisonRows(NamedTuple):
    """Poison pages of a round.

    pages: number of pages of the round  errors: text of the error of each poison page, by row; "" if it is unknown
    """

    pages: int
    errors: Mapping[int, str]


def error_texts(errors: Mapping[int, Exception]) -> dict[int, str]:
    """Tracebacks of errors, by row; each is cut to its last MOST_CHARACTERS characters."""
    return {row: "".join(traceback.format_exception(error))[-MOST_CHARACTERS:] for row, error in errors.items()}


def write_poison_rows(poison: PoisonRows) -> bytes:
    """Encode the body of kind 10."""
    columns, is_broken = ColumnWriter(), np.zeros(poison.pages, np.bool_)
    rows = sorted(poison.errors)
    is_broken[rows] = True
    texts = list(dict.fromkeys(text for row in rows if (text := poison.errors[row])))[:MOST_TEXTS]
    number = {text: place for place, text in enumerate(texts)}
    columns.count(poison.pages)
    columns.bits(is_broken)
    columns.count(len(texts))
    columns.texts(texts)
    columns.numbers(np.array([number.get(poison.errors[row], len(texts)) for row in rows], np.int64))
    return columns.body()


def read_poison_rows(columns: ColumnReader) -> PoisonRows:
    """Decode the body of kind 10. Raises ValueError."""
    pages = columns.pages()
    rows = np.flatnonzero(columns.bits(pages)).tolist()
    texts = [*columns.texts(columns.count(MOST_TEXTS)), ""]
    which = columns.numbers(len(rows), len(texts) - 1).tolist()
    return PoisonRows(pages, {row: texts[place] for row, place in zip(rows, which, strict=True)})
