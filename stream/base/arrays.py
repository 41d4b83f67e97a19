"""The bounds of ragged columns: of row i lie between bounds i and i + 1 the numbers, or the bytes, that it has.

Finds the different values of an array, and where values are among them.

Byte strings of many pages that lie one after the other in one buffer, as the log holds addresses.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import kernel


def sizes_of(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n + 1] -> how many each of n rows has: int64[n]. np.diff takes three times as long for few rows."""
    sizes: NDArray[np.int64] = bounds[1:] - bounds[:-1]
    return sizes


def bounds_of(sizes: NDArray[Any] | Sequence[int]) -> NDArray[np.int64]:
    """How many each of n rows has, whole numbers or truths -> int64[n + 1], which begins with 0."""
    counted = sizes if isinstance(sizes, np.ndarray) else np.array(sizes, np.int64)
    bounds = np.zeros(len(counted) + 1, np.int64)
    np.add.accumulate(counted, out=bounds[1:])
    return bounds


SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits: numbers that follow one another are spread over the table (Knuth, TAOCP 3, 6.4)."""
Value = TypeVar("Value", np.uint64, np.int64)


def distinct(values: NDArray[Value]) -> NDArray[Value]:
    """The different ones of m values, ascending: np.unique, without the table of hashes that takes 15 times as long."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def distinct_places(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The different ones of m values, ascending, and where each value is among them: int64[m].

    np.unique with its inverse takes twice as long, for 1 value and for 11,000.
    """
    different = distinct(values)
    return different, places_in(different, values.view(np.int64))


def places_in(values: NDArray[np.uint64], asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of m values is among v different ones: int64[m]; -1 where it is not. values: uint64[v]

    np.searchsorted takes seven times as long for the pairs of a record.
    """
    places: NDArray[np.int64] = _places_in(values, asked)
    return places


@kernel
def _places_in(values, asked):
    # values: uint64[v]  asked: int64[m]  ->  int64[m]. A table of hashes, at most half full; -1: a free place.
    size = 16
    while size < 2 * len(values):
        size *= 2
    table, places = np.full(size, -1, np.int64), np.empty(len(asked), np.int64)
    mask, shift = np.uint64(size - 1), np.uint64(32)
    for place in range(len(values)):
        at = (values[place] * SPREAD) >> shift & mask
        while table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = place
    for index in range(len(asked)):
        value = np.uint64(asked[index])
        at = (value * SPREAD) >> shift & mask
        while table[at] >= 0 and values[table[at]] != value:
            at = (at + np.uint64(1)) & mask
        places[index] = table[at]
    return places


class ByteTexts(Sequence[bytes]):
    """n byte strings. Each is cut out when somebody asks for it: most readers of a record ask for few or none.

    raw: the buffer  bounds: int64[n + 1], string i lies between bounds i and i + 1
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
                raise ValueError(f"byte texts are cut in steps of 1, got {step}")
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
    """Lay byte strings one after the other, if they do not lie so."""
    if isinstance(texts, ByteTexts):
        return texts
    bounds = bounds_of(text_lengths(texts))
    return ByteTexts(b"".join(texts), bounds)


def text_lengths(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """N byte strings -> how long each is: int64[n], bytes."""
    return (
        sizes_of(texts.bounds) if isinstance(texts, ByteTexts) else np.fromiter(map(len, texts), np.int64, len(texts))
    )


def joined_texts(parts: Sequence[Sequence[bytes]]) -> ByteTexts:
    """The byte strings of all parts, in order."""
    laid, raws, bounds, end = [byte_texts(part) for part in parts], list[bytes](), [np.zeros(1, np.int64)], 0
    for part in laid:
        first, last = int(part.bounds[0]), int(part.bounds[-1])
        raws.append(part.raw[first:last])
        bounds.append(part.bounds[1:] + (end - first))
        end += last - first
    return ByteTexts(b"".join(raws), np.concatenate(bounds))
