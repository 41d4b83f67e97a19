"""The obvious permuted tables and neighbours, bit by bit. Twin of
spotsieve.stream.sign.fingerprints.permuted_tables.
"""

import numba
import numpy as np
from numpy.typing import NDArray


def obvious_key(fingerprint: int, table: int, mask: int) -> int:
    """Table tag, then the bits that the mask keeps, moved together; the lowest 56 of them."""
    kept = [fingerprint >> bit & 1 for bit in range(64) if mask >> bit & 1]
    return table << 56 | sum(bit << place for place, bit in enumerate(kept[:56]))


@numba.njit(nogil=True, cache=True)
def nearest_counts(queries, fingerprints, farthest):  # type: ignore[no-untyped-def]
    """Brute force: how many fingerprints lie at each distance 0..farthest of each query.

    queries: uint64[q]  fingerprints: uint64[n]  ->  int64[q, farthest + 1]
    """
    counts = np.zeros((len(queries), farthest + 1), np.int64)
    for query in range(len(queries)):
        for other in range(len(fingerprints)):
            word = queries[query] ^ fingerprints[other]
            distance = 0
            while word and distance <= farthest:
                word &= word - np.uint64(1)
                distance += 1
            if word == 0 and distance <= farthest:
                counts[query, distance] += 1
    return counts


def flip_bits(fingerprints: NDArray[np.uint64], distances: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Fingerprints with exactly distances[i] different bits changed."""
    random = np.random.default_rng(seed)
    order = np.argsort(random.random((len(fingerprints), 64)), axis=1).astype(np.uint64)
    masks = np.zeros(len(fingerprints), np.uint64)
    for place in range(int(distances.max(initial=0))):
        masks |= np.where(distances > place, np.uint64(1) << order[:, place], np.uint64(0))
    changed: NDArray[np.uint64] = fingerprints ^ masks
    return changed
