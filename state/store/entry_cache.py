"""Caches the entries that were read last: record after record has the same few pages as candidates."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import SPREAD, ByteTexts, byte_texts
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text.machine import copy_bytes

MOST_BYTES = 8 * 2**20
"""Size of the cache. An entry has 120 to 300 bytes, and some kilobytes if the scheme compares features."""
MOST_ENTRIES = 2**16
"""Places in the two hash tables. Three in four may be taken."""
_MISSING = -1


class _Half(NamedTuple):
    """Entries by number, in a hash table of t places, with their bytes concatenated.

    number: uint64[t]  start: int64[t], begin of the bytes, -1: a free place  size: int64[t]  raw: uint8[r]
    taken: int64[3], used bytes, used places, and 1 after an entry found no room
    """

    number: NDArray[np.uint64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    raw: NDArray[np.uint8]
    taken: NDArray[np.int64]


class EntryCache:
    """The bytes of entries by number. An entry changes only when it is forgotten: call clear() then.

    The cache has two halves. When the new half is full, it becomes the old half, and the former old half is dropped. An
    entry that is read is copied to the new half. So the latest entries stay, without a list in the order of use.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        """most_entries: a power of two, at least 4"""
        self._new, self._old = (_empty_half(most_bytes // 2, most_entries // 2) for _ in range(2))

    def read(self, numbers: NDArray[np.uint64], read: Callable[[NDArray[np.uint64]], Sequence[bytes]]) -> ByteTexts:
        """Return the bytes of each entry. numbers: uint64[e], all different

        read: function that reads missing entries by their numbers: uint64[m]
        """
        found, bounds = np.empty(len(numbers), np.int64), np.zeros(len(numbers) + 1, np.int64)
        halves = (*self._new,), (*self._old,)
        missing, laid = _read(*halves, numbers, found, bounds)
        if missing:
            others = byte_texts(read(numbers[found == _MISSING]))
            laid = _lay(*halves, numbers, found, np.frombuffer(others.raw, np.uint8), others.bounds, bounds)
        if self._new.taken[2]:
            self._new, self._old = self._old, self._new
            _clear(self._new)
            _keep_others(self._new, self._old, numbers, laid, bounds)
        return ByteTexts(laid.tobytes(), bounds)

    def clear(self) -> None:
        """Drop all entries."""
        _clear(self._new)
        _clear(self._old)


def _empty_half(most_bytes: int, places: int) -> _Half:
    columns = np.empty(places, np.uint64), np.empty(places, np.int64), np.empty(places, np.int64)
    half = _Half(*columns, np.empty(most_bytes, np.uint8), np.empty(3, np.int64))
    _clear(half)
    return half


def _clear(half: _Half) -> None:
    half.start.fill(_MISSING)
    half.taken.fill(0)


@part
def _place_of(half, number):  # _Half, uint64 -> int64
    """Return the place of an entry, or the free place for it."""
    mask = np.uint64(len(half.number) - 1)
    at = ((number * SPREAD) >> np.uint64(32)) & mask
    while half.start[at] != _MISSING and half.number[at] != number:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@part
def _keep(half, number, raw, start, end):  # _Half, uint64, uint8[...], int64, int64
    """Store an entry, if there is room."""
    at, size, used = _place_of(half, number), end - start, half.taken[0]
    if half.start[at] != _MISSING:
        return
    if used + size > len(half.raw) or 4 * (half.taken[1] + 1) > 3 * len(half.number):
        half.taken[2] = 1
        return
    copy_bytes(half.raw.ctypes.data + used, raw.ctypes.data + start, size)
    half.number[at], half.start[at], half.size[at] = number, used, size
    half.taken[0] = used + size
    half.taken[1] += 1


@kernel
def _read(new, old, numbers, found, bounds):
    # new, old: the fields of _Half  numbers: uint64[e]  ->  found: int64[e], by _find; returns the number of missing
    # entries, and the result of _lay if there are none
    missing, others = _find(_Half(*new), _Half(*old), numbers, found), np.empty(0, np.uint8)
    return missing, others if missing else _lay(new, old, numbers, found, others, np.zeros(1, np.int64), bounds)


@part
def _find(new, old, numbers, found):
    # new, old: _Half  numbers: uint64[e]  ->  found: int64[e], the place in the new half, or the size of the new half
    # + the place in the old half, or _MISSING; returns the number of missing entries
    missing, places = 0, len(new.number)
    for entry in range(len(numbers)):
        at = _place_of(new, numbers[entry])
        if new.start[at] == _MISSING:
            before = _place_of(old, numbers[entry])
            at = places + before if old.start[before] != _MISSING else _MISSING
            missing += at == _MISSING
        found[entry] = at
    return missing


@kernel
def _lay(new, old, numbers, found, others, other_bounds, bounds):
    # new, old: the fields of _Half  numbers: uint64[e]  found: int64[e], from _find
    # others: uint8[...], the missing entries
    # other_bounds: int64[m + 1]  ->  new: gets all entries, as far as there is room  bounds: int64[e + 1]
    # returns the concatenated bytes of all entries
    new, old = _Half(*new), _Half(*old)
    places, other = len(new.number), 0
    for entry in range(len(numbers)):
        at = found[entry]
        if at == _MISSING:
            size = other_bounds[other + 1] - other_bounds[other]
            other += 1
        else:
            size = new.size[at] if at < places else old.size[at - places]
        bounds[entry + 1] = bounds[entry] + size
    laid, other = np.empty(bounds[-1], np.uint8), 0
    to, from_new, from_old, from_others = laid.ctypes.data, new.raw.ctypes.data, old.raw.ctypes.data, others.ctypes.data
    for entry in range(len(numbers)):
        at, start, end = found[entry], bounds[entry], bounds[entry + 1]
        if at == _MISSING:
            copy_bytes(to + start, from_others + other_bounds[other], end - start)
            other += 1
        elif at < places:
            copy_bytes(to + start, from_new + new.start[at], end - start)
        else:
            copy_bytes(to + start, from_old + old.start[at - places], end - start)
        if at == _MISSING or at >= places:
            _keep(new, numbers[entry], laid, start, end)
    return laid


@kernel
def _keep_others(new, old, numbers, raw, bounds):
    # new, old: _Half  numbers: uint64[e]  raw: uint8[...], the entries  bounds: int64[e + 1]
    # ->  new: gets the entries that the old half lacks, as far as there is room
    for entry in range(len(numbers)):
        if old.start[_place_of(old, numbers[entry])] == _MISSING:
            _keep(new, numbers[entry], raw, bounds[entry], bounds[entry + 1])
