"""Packs what verdicts tell of entries.

entries = count u32 (e), age[e] (numbers: `next` less the entry's number), sources u32, source texts,
          source[e], partition + 2^31 [e], offset[e] (numbers), event_time_ms + 2^63 (words), urls, labels (texts)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.sharding.entries import Entries
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.signature import Entry

_PARTITION_SHIFT = 2**31


def write_entries(columns: ColumnWriter, entries: Mapping[int, Entry], next_number: int) -> None:
    """Write entries by number, all below the next number, in the order of their numbers."""
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
    """Entries by number, ascending; each is decoded when it is asked for, since a reader shows few of them."""

    def __init__(self, columns: ColumnReader, next_number: int) -> None:
        """Raises ValueError."""
        count = columns.count_of_words()
        self.numbers = ascending(next_number - columns.numbers(count, next_number))
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
        """What verdicts tell of these: int64[a]. Raises KeyError where one is not there."""
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
    """What the pages of a round name, by entry number; each is decoded when it is asked for, since a shard asks few."""

    def __init__(self, entries: PackedEntries, number: NDArray[np.int64]) -> None:
        """number: int64[n], each in entries, or NOBODY"""
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


def ascending(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, where each is greater than the one before. Raises ValueError."""
    if (numbers[1:] <= numbers[:-1]).any():
        raise ValueError
    return numbers


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)
