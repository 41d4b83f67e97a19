"""Arrays: bounds of ragged columns, distinct values, byte strings in one buffer, and scratch that is kept.

A ragged column has bounds int64[n + 1]: the values of row i are column[bounds[i] : bounds[i + 1]]. The log stores URLs
and labels in this way.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from spotsieve.stream.base.jit import kernel


def sizes_of(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes of n rows, int64[n], from their bounds, int64[n + 1]. np.diff takes three times as long for few rows."""
    sizes: NDArray[np.int64] = bounds[1:] - bounds[:-1]
    return sizes


def bounds_of(sizes: NDArray[Any] | Sequence[int]) -> NDArray[np.int64]:
    """Bounds of n rows, int64[n + 1] beginning with 0, from their sizes: whole numbers or booleans."""
    if not isinstance(sizes, np.ndarray):
        if len(sizes) == 1:
            return np.array((0, sizes[0]), np.int64)
        return np.fromiter(accumulate(sizes, initial=0), np.int64, len(sizes) + 1)
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.add.accumulate(sizes, out=bounds[1:])
    return bounds


def filled(shape: int | tuple[int, ...], value: Any, dtype: DTypeLike) -> NDArray[Any]:
    """An array of one value, as np.full makes it in three times the time."""
    array = np.empty(shape, dtype)
    array.fill(value)
    return array


SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits, which spreads consecutive numbers over the table (Knuth, TAOCP 3, 6.4)."""
Value = TypeVar("Value", np.uint64, np.int64)


def distinct(values: NDArray[Value]) -> NDArray[Value]:
    """The distinct values, ascending. np.unique builds a hash table and takes 15 times as long."""
    if len(values) < 2:
        return values.copy()
    ordered = ascending(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def distinct_places(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The distinct ones of m values, ascending, and the place of each value among them: int64[m].

    np.unique with its inverse takes twice as long, for 1 value and for 11,000.
    """
    if len(values) == 1:
        return values.copy(), np.zeros(1, np.int64)
    unique, places = places_of_distinct(ascending(values), values)
    return unique, places


def ascending(values: NDArray[Value]) -> NDArray[Value]:
    """The values in ascending order, as np.sort makes them with 2 us more."""
    ordered = values.copy()
    ordered.sort()
    return ordered


def places_in(values: NDArray[np.uint64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each wanted value in values, int64[m]; -1 for a value that is not there.

    values: uint64[v], distinct  wanted: int64[m]. np.searchsorted takes seven times as long for the pairs of a record.
    """
    if not len(wanted):
        return np.empty(0, np.int64)
    places: NDArray[np.int64] = _places_in(values, wanted)
    return places


@kernel
def places_of_distinct(ordered, values):
    """The distinct values, uint64[v], and the place of each value among them, int64[m]."""
    # ordered: uint64[m], ascending  values: uint64[m]
    unique, count = np.empty(len(ordered), np.uint64), 0
    for place in range(len(ordered)):
        if place == 0 or ordered[place] != ordered[place - 1]:
            unique[count] = ordered[place]
            count += 1
    unique = unique[:count].copy()
    return unique, _places_in(unique, values.view(np.int64))


@kernel
def _places_in(values, wanted):
    # values: uint64[v]  wanted: int64[m]  ->  int64[m]. A hash table, at most half full; -1: a free slot.
    size = 16
    while size < 2 * len(values):
        size *= 2
    table, places = np.full(size, -1, np.int64), np.empty(len(wanted), np.int64)
    mask, shift = np.uint64(size - 1), np.uint64(32)
    for place in range(len(values)):
        at = (values[place] * SPREAD) >> shift & mask
        while table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = place
    for index in range(len(wanted)):
        value = np.uint64(wanted[index])
        at = (value * SPREAD) >> shift & mask
        while table[at] >= 0 and values[table[at]] != value:
            at = (at + np.uint64(1)) & mask
        places[index] = table[at]
    return places


class ByteTexts(Sequence[bytes]):
    """n byte strings in one buffer. Each is sliced on access, because most readers of a record need few of them.

    raw: the buffer  bounds: int64[n + 1], string i is raw[bounds[i] : bounds[i + 1]]
    """

    __slots__ = ("bounds", "raw")

    def __init__(self, raw: bytes, bounds: NDArray[np.int64]) -> None:
        self.raw, self.bounds = raw, bounds

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> "ByteTexts": ...
    def __getitem__(self, row: int | slice) -> "bytes | ByteTexts":
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            if step != 1:
                raise ValueError(f"the step of a slice must be 1, got {step}")
            return ByteTexts(self.raw, self.bounds[start : max(start, stop) + 1])
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        row %= len(self)
        return self.raw[self.bounds[row] : self.bounds[row + 1]]

    def __iter__(self) -> Iterator[bytes]:
        raw = self.raw
        return (raw[start:end] for start, end in pairwise(self.bounds.tolist()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(bytes.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]


def byte_texts(texts: Sequence[bytes]) -> ByteTexts:
    """Byte strings in one buffer; a ByteTexts is returned as it is."""
    if type(texts) is ByteTexts:  # isinstance() asks the abstract class of sequences, which takes 1 us.
        return texts
    return ByteTexts(b"".join(texts), bounds_of(list(map(len, texts))))


def text_lengths(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """The lengths of n byte strings: int64[n], bytes."""
    return sizes_of(texts.bounds) if type(texts) is ByteTexts else np.fromiter(map(len, texts), np.int64, len(texts))


def joined_texts(parts: Sequence[Sequence[bytes]]) -> ByteTexts:
    """The byte strings of all parts, in order."""
    raws, bounds, end = list[bytes](), [np.zeros(1, np.int64)], 0
    for part in map(byte_texts, parts):
        first, last = int(part.bounds[0]), int(part.bounds[-1])
        raws.append(part.raw[first:last])
        bounds.append(part.bounds[1:] + (end - first))
        end += last - first
    return ByteTexts(b"".join(raws), np.concatenate(bounds))


def ascending_in_rows(values: NDArray[np.uint64], bounds: NDArray[np.int64]) -> bool:
    """Whether the values of each row ascend strictly. values: uint64[v]  bounds: int64[n + 1], of the rows"""
    falls = values[1:] <= values[:-1]
    starts = bounds[(bounds > 0) & (bounds < len(values))]
    falls[starts - 1] = False
    return not falls.any()


Scratch = TypeVar("Scratch")


class Spares(Generic[Scratch]):
    """Scratch arrays of one kind that are kept for later calls, because making them takes as long as a small page.

    A call takes one out and gives it back at its end, so calls in several threads never share one.
    """

    def __init__(self, make: Callable[[], Scratch]) -> None:
        """make: makes the arrays if no spare ones are left"""
        self._make = make
        self._kept: list[Scratch] = []

    def take(self) -> Scratch:
        """Spare arrays, with the contents that their last call left, or new ones."""
        try:
            return self._kept.pop()
        except IndexError:
            return self._make()

    def give_back(self, scratch: Scratch) -> None:
        """Keep arrays for a later call."""
        self._kept.append(scratch)
