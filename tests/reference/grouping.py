"""Reference implementation of search by groups: every pair is compared."""

import numpy as np
from numpy.typing import NDArray


def pairs_within(fingerprints: NDArray[np.uint64], r_h: int) -> NDArray[np.int64]:
    """fingerprints: uint64[n, w] -> (earlier, later) of all that differ in at most r_h bits: int64[p, 2], ascending."""
    found = [np.empty((0, 2), np.int64)]
    for row, fingerprint in enumerate(fingerprints):
        distance = np.bitwise_count(fingerprints[row + 1 :] ^ fingerprint).sum(axis=1, dtype=np.int64)
        later = np.flatnonzero(distance <= r_h) + row + 1
        found.append(np.column_stack([np.full(len(later), row), later]))
    return np.concatenate(found)


def unpack_bits(sketch: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """uint64[n, w] -> uint8[n, 64 * w], 0 or 1."""
    words = np.ascontiguousarray(sketch).astype("<u8").view(np.uint8)
    return np.unpackbits(words, axis=1, bitorder="little")
