"""Encodes the bodies of records that shards write: candidates, confirmations and resolutions of hosts.

state/FORMATS.md has their grammar. stream/sharding/candidates.py defines the results of candidates, and
DistinctiveText (stream/base/signature.py) the columns of the texts in confirmations.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.meta import MAX_ENTRIES
from spotsieve.state.index import NOBODY, PendingVerdict
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page_text import ENTRY_BLOCKS, ENTRY_SAMPLES, EVERY_HASH
from spotsieve.stream.base.signature import DistinctiveText, Entry
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.judge.by_host.distinctive_text import IS_DISTINCTIVE, IS_TEMPLATE
from spotsieve.stream.judge.rules import OriginalSearch, empty_search
from spotsieve.stream.sharding.candidates import (
    ACCEPTED,
    BucketSizes,
    SentFlags,
    SentTexts,
    ShardCandidates,
    Speculation,
)
from spotsieve.stream.sharding.confirmation import ShardConfirmations
from spotsieve.stream.sharding.hosts import HostResolutions
from spotsieve.stream.sharding.records.frame import ColumnReader, ColumnWriter, ascending
from spotsieve.stream.sharding.responses import Entries
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS

_PARTITION_SHIFT = 2**31


def write_entries(columns: ColumnWriter, entries: Mapping[int, Entry], next_number: int) -> None:
    """Write entries in the order of their numbers. next_number: greater than all of them"""
    numbers = np.array(sorted(entries), np.int64)
    rows = [entries[number] for number in numbers.tolist()]
    sources = {source: row for row, source in enumerate(dict.fromkeys(entry.source for entry in rows))}
    columns.count(len(rows))
    columns.numbers(next_number - numbers)
    columns.count(len(sources))
    columns.texts(list(sources))
    columns.numbers(_column([sources[entry.source] for entry in rows]))
    columns.numbers(_column([entry.partition + _PARTITION_SHIFT for entry in rows]))
    columns.numbers(_column([entry.offset for entry in rows]))
    columns.words(_column([entry.event_time_ms for entry in rows]).view(np.uint64))
    columns.texts([entry.url for entry in rows])
    columns.texts([entry.label for entry in rows])


class PackedEntries(Entries):
    """Entries by number, ascending; each is decoded on access, because a reader needs few of them."""

    def __init__(self, columns: ColumnReader, next_number: int) -> None:
        """Read the columns. Raises ValueError."""
        count = columns.count_of_words()
        self.numbers = ascending(columns.earlier(count, next_number))
        self._sources = columns.texts(columns.count(count))
        if count and not len(self._sources):
            raise ValueError
        self._source = columns.numbers(count, max(len(self._sources) - 1, 0))
        self._partition = columns.numbers(count, 2**32 - 1) - _PARTITION_SHIFT
        self._offset = columns.numbers(count)
        self._time = columns.words(count).view(np.int64)
        self._url, self._label = columns.texts(count), columns.texts(count)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers.tolist())

    def __getitem__(self, number: int) -> Entry:
        row = int(np.searchsorted(self.numbers, number))
        if row == len(self.numbers) or self.numbers[row] != number:
            raise KeyError(number)
        place = self._sources[int(self._source[row])], int(self._partition[row]), int(self._offset[row])
        return Entry(*place, int(self._time[row]), self._url[row], self._label[row])

    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """The entries with these numbers: int64[a]. Raises KeyError if one is missing."""
        rows = np.searchsorted(self.numbers, numbers)
        there = rows < len(self.numbers)
        there[there] = self.numbers[rows[there]] == numbers[there]
        if not there.all():
            raise KeyError(numbers[~there].tolist())
        sources = list(self._sources)
        source = [sources[one] for one in self._source[rows].tolist()]
        columns = (column[rows].tolist() for column in (self._partition, self._offset, self._time))
        return list(map(Entry, source, *columns, self._url.take(rows), self._label.take(rows)))


class NamedEntries(Sequence[Entry | None]):
    """The entry that each page of a round names; decoded on access, because a shard needs few of them."""

    def __init__(self, entries: PackedEntries, number: NDArray[np.int64]) -> None:
        """number: int64[n], the number of an entry, or NOBODY"""
        self._entries, self._number = entries, number

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[Entry | None]:
        named = np.flatnonzero(self._number != NOBODY)
        found = np.full(len(self._number), None, np.object_)
        found[named] = self._entries.entries(self._number[named])
        return iter(found.tolist())

    @overload
    def __getitem__(self, row: int) -> Entry | None: ...
    @overload
    def __getitem__(self, row: slice) -> "NamedEntries": ...
    def __getitem__(self, row: int | slice) -> "Entry | NamedEntries | None":
        if isinstance(row, slice):
            return NamedEntries(self._entries, self._number[row])
        number = int(self._number[row])
        return None if number == NOBODY else self._entries[number]


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


_KIND_BITS = 6
_MOST_KINDS = 2**_KIND_BITS - 1
_MOST_FOUND_BY = sum(KeyKind)
_MOST_POSTINGS = 2**48
"""Greatest number of postings in the buckets of a page, so that the sum over all shards is a number."""
_MOST_FEATURES = 2**32 - 1


def write_candidates(shard_candidates: ShardCandidates, first_number: int) -> bytes:
    """Encode the body of kind 1. first_number: of the round"""
    columns = ColumnWriter()
    decisive = shard_candidates.proof != 0
    columns.count(len(shard_candidates.postings))
    columns.numbers(shard_candidates.postings)
    columns.numbers(sizes_of(shard_candidates.bounds))
    columns.numbers(first_number - shard_candidates.number)
    columns.numbers(shard_candidates.kinds | shard_candidates.result << np.uint8(_KIND_BITS))
    columns.bits(decisive)
    columns.numbers(shard_candidates.proof[decisive])
    columns.numbers(shard_candidates.distance[decisive])
    columns.reals(shard_candidates.score[shard_candidates.result == ACCEPTED])
    columns.numbers(shard_candidates.length)
    columns.count(len(shard_candidates.sizes.keys))
    columns.words(shard_candidates.sizes.keys)
    columns.numbers(shard_candidates.sizes.size)
    write_entries(columns, shard_candidates.entries, first_number)
    pages, pending_verdicts = list(shard_candidates.pending_verdicts), list(shard_candidates.pending_verdicts.values())
    columns.count(len(pages))
    columns.numbers(np.array(pages, np.int64))
    columns.numbers(np.array([pending.original + 1 for pending in pending_verdicts], np.int64))
    columns.reals(np.array([pending.score for pending in pending_verdicts], np.float64))
    columns.numbers(np.array([pending.reason for pending in pending_verdicts], np.int64))
    columns.numbers(np.array([pending.found_by for pending in pending_verdicts], np.int64))
    return columns.body()


def read_candidates(columns: ColumnReader, first_number: int) -> ShardCandidates:
    """Decode the body of kind 1. Raises ValueError."""
    pages = columns.pages()
    postings = columns.numbers(pages, _MOST_POSTINGS)
    sizes = columns.numbers(pages, 8 * columns.left)
    bounds = checked_bounds(sizes, 8 * columns.left)
    pairs = int(bounds[-1])
    number = columns.earlier(pairs, first_number)
    _check_rows(number, bounds, strictly=True)
    word, decisive = columns.numbers(pairs, 255).astype(np.uint8), columns.bits(pairs)
    result = word >> np.uint8(_KIND_BITS)
    proof, distance = np.zeros(pairs, np.uint8), np.full(pairs, 255, np.uint8)
    proof[decisive] = columns.numbers(int(decisive.sum()), _MOST_KINDS)
    distance[decisive] = columns.numbers(int(decisive.sum()), 255)
    score = np.full(pairs, np.nan)
    score[result == ACCEPTED] = columns.reals(int((result == ACCEPTED).sum()))
    length = columns.numbers(pairs, _MOST_FEATURES)
    buckets = columns.count_of_words()
    keys, size = ascending(columns.words(buckets)), columns.numbers(buckets, MAX_ENTRIES)
    entries = PackedEntries(columns, first_number)
    if not np.isin(number[result == ACCEPTED], entries.numbers).all():
        raise ValueError
    some = columns.count(pages)
    rows = ascending(columns.numbers(some, max(pages - 1, 0)))
    original, scores = columns.numbers(some, first_number) - 1, columns.reals(some)
    if not np.isnan(scores[original == NOBODY]).all():
        raise ValueError
    reason, found_by = columns.reasons(some), columns.numbers(some, _MOST_FOUND_BY)
    pending_verdicts = zip(original.tolist(), scores.tolist(), reason.tolist(), found_by.tolist(), strict=True)
    return ShardCandidates(
        postings,
        bounds,
        number,
        proof,
        word & np.uint8(_MOST_KINDS),
        distance,
        result,
        score,
        length,
        BucketSizes(keys, size),
        entries.numbers,
        entries,
        None,
        dict(zip(rows.tolist(), (PendingVerdict(*one) for one in pending_verdicts), strict=True)),
    )


def checked_bounds(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Where rows of these sizes begin and end: int64[n + 1]. Raises ValueError if their sum exceeds `most`."""
    bounds = bounds_of(sizes)
    if bounds[-1] > most:
        raise ValueError
    return bounds


_INDEXED, _NEW, _CUT = 1, 2, 4
_OF_PAIR = ("proof", "distance", "found_by", "reason")


def write_resolutions(resolutions: HostResolutions, speculation: Speculation, first_number: int) -> bytes:
    """Encode the body of kind 2.

    speculation: the speculation that the resolutions used  first_number: of the round
    """
    columns, pages = ColumnWriter(), len(speculation.indexed)
    own = np.zeros(pages, np.bool_)
    own[resolutions.rows] = True
    write_assumed(columns, speculation)
    columns.bits(own)
    columns.numbers(resolutions.is_indexed * _INDEXED | resolutions.is_new * _NEW | resolutions.within.cut * _CUT)
    columns.numbers(resolutions.postings)
    _write_found(columns, resolutions.indexed, first_number)
    _write_found(columns, resolutions.within, pages)
    write_flags(columns, resolutions.flags)
    write_entries(columns, resolutions.entries, first_number)
    return columns.body()


def read_resolutions(columns: ColumnReader, first_number: int) -> tuple[HostResolutions, Speculation]:
    """Decode the body of kind 2: the resolutions, and the speculation that they used. Raises ValueError."""
    speculation = read_assumed(columns)
    pages = len(speculation.indexed)
    rows = np.flatnonzero(columns.bits(pages))
    flags = columns.numbers(len(rows), _INDEXED | _NEW | _CUT)
    postings = columns.numbers(len(rows), _MOST_POSTINGS)
    indexed = _read_found(columns, len(rows), first_number)
    within = _read_found(columns, len(rows), pages)
    if (np.maximum(within.number, within.replaced) >= rows).any():
        raise ValueError
    within.cut[:] = flags & _CUT != 0
    template = read_flags(columns)
    entries = PackedEntries(columns, first_number)
    is_indexed, is_new = flags & _INDEXED != 0, flags & _NEW != 0
    return HostResolutions(rows, indexed, within, is_indexed, is_new, template, postings, entries), speculation


def write_assumed(columns: ColumnWriter, speculation: Speculation) -> None:
    """Write a speculation."""
    columns.count(len(speculation.indexed))
    columns.bits(speculation.indexed)
    _write_sent_flags(columns, speculation.flags, len(speculation.indexed))


def read_assumed(columns: ColumnReader) -> Speculation:
    """Read a speculation. Raises ValueError."""
    indexed = columns.bits(columns.pages())
    return Speculation(indexed, _read_sent_flags(columns, len(indexed)))


def write_flags(columns: ColumnWriter, flags: NDArray[np.uint8]) -> None:
    """Write the template text of pages. flags: uint8[b], as in SentFlags"""
    template = flags & IS_TEMPLATE != 0
    columns.count(len(flags))
    columns.bits(template)
    columns.bits(flags[template] & IS_DISTINCTIVE != 0)


def read_flags(columns: ColumnReader) -> NDArray[np.uint8]:
    """Read the template text of pages: uint8[b]. Raises ValueError."""
    template = columns.bits(columns.count(_OF_BYTES * columns.left))
    flags = np.where(template, IS_TEMPLATE, np.uint8(0))
    flags[template] |= np.where(columns.bits(int(template.sum())), IS_DISTINCTIVE, np.uint8(0))
    return flags


def _write_sent_flags(columns: ColumnWriter, sent: SentFlags, pages: int) -> None:
    which = np.zeros(pages, np.bool_)
    which[sent.rows] = True
    columns.bits(which)
    write_flags(columns, sent.flags)


def _read_sent_flags(columns: ColumnReader, pages: int) -> SentFlags:
    return SentFlags(np.flatnonzero(columns.bits(pages)), read_flags(columns))


def _write_found(columns: ColumnWriter, found: OriginalSearch, end: int) -> None:
    """Write search results. end: greater than every number of an original"""
    for number in (found.number, found.replaced):
        columns.numbers(np.where(number == NOBODY, 0, end - number))
    some = found.number != NOBODY
    for name in _OF_PAIR:
        columns.numbers(getattr(found, name)[some])
    columns.reals(found.score[some & (found.proof == 0)])


def _read_found(columns: ColumnReader, rows: int, end: int) -> OriginalSearch:
    found: OriginalSearch = empty_search(rows)
    for number in (found.number, found.replaced):
        number[:] = columns.optional_earlier(rows, end)
    some = found.number != NOBODY
    count = int(some.sum())
    for name, most in (("proof", _MOST_FOUND_BY), ("distance", 255), ("found_by", _MOST_FOUND_BY)):
        getattr(found, name)[some] = columns.numbers(count, most)
    found.reason[some] = columns.reasons(count)
    scored = some & (found.proof == 0)
    found.score[scored] = columns.reals(int(scored.sum()))
    return found


_OF_BYTES = 8


def write_confirmations(confirmations: ShardConfirmations, of: int, first_number: int) -> bytes:
    """Encode the body of kind 11. of: checksum of the confirmed responses  first_number: of the round"""
    columns = ColumnWriter()
    columns.words(np.array([of], np.uint64))
    columns.count(len(confirmations.copies))
    columns.bits(confirmations.copies)
    _write_sent_flags(columns, confirmations.flags, len(confirmations.copies))
    columns.count(len(confirmations.result))
    columns.bits(confirmations.result & 1 != 0)
    columns.bits(confirmations.result & 2 != 0)
    write_entries(columns, confirmations.entries, first_number)
    _write_texts(columns, confirmations.texts)
    return columns.body()


def read_combined_checksum(body: bytes) -> int:
    """The checksum of the confirmed responses, which was `of` when the body was written."""
    return int.from_bytes(body[:_OF_BYTES], "little")


def read_confirmations(columns: ColumnReader, first_number: int) -> ShardConfirmations:
    """Decode the body of kind 11. Raises ValueError."""
    columns.words(1)
    copies = columns.bits(columns.pages())
    flags = _read_sent_flags(columns, len(copies))
    pairs = columns.count(_OF_BYTES * columns.left)
    result = columns.bits(pairs) + 2 * columns.bits(pairs).astype(np.uint8)
    entries = PackedEntries(columns, first_number)
    texts = _read_texts(columns, len(entries))
    if texts is None and len(entries):
        raise ValueError
    return ShardConfirmations(result, entries.numbers, entries, texts, copies, flags)


def _write_texts(columns: ColumnWriter, texts: SentTexts | None) -> None:
    columns.bits(np.full(8, texts is not None))
    if texts is None:
        return
    own = texts.own
    columns.words(texts.host)
    for numbers in (texts.length, own.site, own.main, own.whole, own.every, own.limit):
        columns.numbers(numbers)
    for bounds in (own.sample_bounds, own.block_bounds, own.title_bounds):
        columns.numbers(sizes_of(bounds))
    columns.numbers(own.sample)
    columns.words(own.blocks)
    columns.numbers(own.titles)


def _read_texts(columns: ColumnReader, entries: int) -> SentTexts | None:
    if not columns.bits(8).all():
        return None
    host, length = columns.words(entries), columns.numbers(entries, 2**32 - 1).astype(np.uint32)
    site = columns.numbers(entries, 2**16 - 1).astype(np.uint16)
    main, whole, every = (columns.numbers(entries, 2**8 - 1).astype(np.uint8) for _ in range(3))
    limit = columns.numbers(entries, EVERY_HASH).astype(np.uint32)
    samples, blocks, words = (
        checked_bounds(columns.numbers(entries, most), most * entries)
        for most in (ENTRY_SAMPLES, ENTRY_BLOCKS, MOST_TITLE_WORDS)
    )
    own = DistinctiveText(
        *(site, main, whole, every, limit),
        *(columns.numbers(int(samples[-1]), 2**16 - 1).astype(np.uint16), samples),
        *(columns.words(int(blocks[-1])), blocks),
        *(columns.numbers(int(words[-1]), 2**16 - 1).astype(np.uint16), words),
    )
    for column, bounds in ((own.sample, samples), (own.blocks, blocks), (own.titles, words)):
        _check_rows(column, bounds)
    return SentTexts(host, length, own)


def _check_rows(column: NDArray[Any], bounds: NDArray[np.int64], strictly: bool = False) -> None:
    """Raise ValueError if the values of a row do not ascend. strictly: equal ones must not follow each other either"""
    falls = column[1:] <= column[:-1] if strictly else column[1:] < column[:-1]
    starts = bounds[(bounds > 0) & (bounds < len(column))]
    falls[starts - 1] = False
    if falls.any():
        raise ValueError
