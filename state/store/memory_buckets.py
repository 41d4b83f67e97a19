"""Stores buckets in memory: a hash table from each key to its postings, which lie in one growing array.

The table uses open addressing with linear probing, and is at most three fifths full. A bucket has room for its postings
rounded up to a power of two. Free rooms are reused, the latest one of a size first.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.index import Buckets
from spotsieve.state.store.backend import Batch
from spotsieve.stream.base.jit import kernel

_KEY, _FIRST, _SIZE = range(3)
_EMPTY = np.uint64(0)
"""Place of the postings in a slot without a key: no postings begin at 0. An emptied bucket keeps its slot."""
_KEYS, _SLOTS_USED, _POSTINGS_END = range(3)
_LEAST_SLOTS = 1024
_FULL = 0.6
_FIRST_MIX, _SECOND_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class MemoryBuckets:
    """Buckets by key. Reads return copies."""

    def __init__(self) -> None:
        # Columns of a slot: key, place of the first posting or _EMPTY, number of postings.
        self._slots = np.zeros((_LEAST_SLOTS, 3), np.uint64)
        self._postings = np.empty((_LEAST_SLOTS, 2), np.uint64)
        self._counts = np.array([0, 0, 1])
        # First free room by the logarithm of its size. Each free room names the next, the last one names 0.
        self._free = np.zeros(64, np.int64)

    def __len__(self) -> int:
        """Number of buckets with postings."""
        return int(self._counts[_KEYS])

    def read(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u]."""
        return Buckets(*_read(self._slots, self._postings, np.ascontiguousarray(keys)))

    def load(self, keys: NDArray[np.uint64]) -> bool:  # noqa: ARG002 - of the interface
        """Do nothing: all buckets are in memory."""
        return False

    def put(self, batch: Batch, keys: NDArray[np.uint64], buckets: Buckets) -> None:  # noqa: ARG002 - of the interface
        """Store the whole contents of buckets, one for each key: uint64[c], all different. An empty one is deleted.

        The batch is not used: a write to memory cannot fail.
        """
        self._make_room(len(keys), len(buckets.numbers))
        _put(
            self._slots,
            self._postings,
            self._counts,
            self._free,
            keys,
            buckets.bounds,
            buckets.numbers,
            buckets.inlines,
        )

    def keys(self) -> NDArray[np.uint64]:
        """Return the keys of all buckets with postings: uint64[b], unordered."""
        slots = self._slots
        keys: NDArray[np.uint64] = slots[slots[:, _SIZE] > 0, _KEY]
        return keys

    def next_buckets(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        """Return up to `most` buckets from a key on: keys uint64[b], ascending, and their postings."""
        keys = self.keys()
        keys = keys[keys >= np.uint64(first_key)]
        keys = np.sort(keys if len(keys) <= most else np.partition(keys, most - 1)[:most])
        return keys, self.read(keys)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value as stored on disk, in the order of the keys."""
        keys = np.sort(self.keys())
        return zip(encode_keys(keys), encode_buckets(keys, self.read(keys)), strict=True)

    def estimated_keys(self) -> int:
        """Return the number of buckets with postings."""
        return len(self)

    def _make_room(self, keys: int, postings: int) -> None:
        """Make room for the worst case: all these keys are new, and all these postings move."""
        if self._counts[_SLOTS_USED] + keys > _FULL * len(self._slots):
            slots = len(self._slots)
            while len(self) + keys > _FULL / 2 * slots:
                slots *= 2
            moved = np.zeros((slots, 3), np.uint64)
            self._counts[_SLOTS_USED] = _move(self._slots, moved)
            self._slots = moved
        end = int(self._counts[_POSTINGS_END])
        if end + 2 * postings > len(self._postings):
            room = np.empty((2 * (end + 2 * postings), 2), np.uint64)
            room[:end] = self._postings[:end]
            self._postings = room


@kernel
def _find(slots, key):
    # slots: uint64[s, 3], s a power of two  key: uint64  ->  int64, the slot of the key, or the empty slot for it
    mixed = key
    # The finalizer of splitmix64 (Steele et al. 2014).
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST_MIX
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND_MIX
    last = len(slots) - 1
    slot = np.int64((mixed ^ (mixed >> np.uint64(31))) & np.uint64(last))
    while slots[slot, _FIRST] != _EMPTY and slots[slot, _KEY] != key:
        slot = (slot + 1) & last
    return slot


@kernel
def _move(slots, moved):
    # slots: uint64[s, 3]  ->  moved: uint64[t, 3], the buckets with postings; returns their number
    used = 0
    for slot in range(len(slots)):
        if slots[slot, _SIZE] > 0:
            moved[_find(moved, slots[slot, _KEY])] = slots[slot]
            used += 1
    return used


@kernel
def _read(slots, postings, keys):
    # slots: uint64[s, 3]  postings: uint64[r, 2]  keys: uint64[u]  ->  the columns of Buckets
    bounds, first = np.zeros(len(keys) + 1, np.int64), np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        slot = _find(slots, keys[row])
        first[row] = np.int64(slots[slot, _FIRST])
        bounds[row + 1] = bounds[row] + np.int64(slots[slot, _SIZE])
    numbers, inlines = np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64)
    for row in range(len(keys)):
        place = first[row]
        for at in range(bounds[row], bounds[row + 1]):
            numbers[at], inlines[at] = postings[place, 0], postings[place, 1]
            place += 1
    return bounds, numbers, inlines


@kernel
def _room_bits(size):
    # size: int64, 1 or more  ->  int64, the logarithm of the least power of two that is not below size
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


@kernel
def _put(slots, postings, counts, free, keys, bounds, numbers, inlines):
    # slots: uint64[s, 3]  postings: uint64[r, 2]  counts: int64[3]  free: int64[64]  keys: uint64[c]
    # bounds, numbers, inlines: the columns of Buckets  ->  slots, postings, counts, free
    for row in range(len(keys)):
        size = bounds[row + 1] - bounds[row]
        slot = _find(slots, keys[row])
        before = np.int64(slots[slot, _SIZE])
        if not before and not size:
            continue
        if slots[slot, _FIRST] == _EMPTY:
            slots[slot, _KEY] = keys[row]
            counts[_SLOTS_USED] += 1
        counts[_KEYS] += np.int64(size > 0) - np.int64(before > 0)
        had, needs = _room_bits(before) if before else -1, _room_bits(size) if size else -1
        if had != needs:
            if had >= 0:
                given_back = np.int64(slots[slot, _FIRST])
                postings[given_back, 0] = np.uint64(free[had])
                free[had] = given_back
            if needs >= 0 and free[needs]:
                first = free[needs]
                free[needs] = np.int64(postings[first, 0])
                slots[slot, _FIRST] = np.uint64(first)
            elif needs >= 0:
                slots[slot, _FIRST] = np.uint64(counts[_POSTINGS_END])
                counts[_POSTINGS_END] += 1 << needs
        slots[slot, _SIZE] = np.uint64(size)
        place = np.int64(slots[slot, _FIRST])
        for at in range(bounds[row], bounds[row + 1]):
            postings[place, 0], postings[place, 1] = numbers[at], inlines[at]
            place += 1
