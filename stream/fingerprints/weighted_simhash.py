"""Folds weighted hashes into a 64-bit simhash (Charikar, STOC 2002; Roul et al., sec. 3.8 and fig. 1, step 3)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.directory import Directory, place_of
from spotsieve.stream.jit import kernel


@dataclass(frozen=True, slots=True)
class Weights:
    """What each occurrence of a hash weighs: weight: uint16[t], in the directory's order; others weigh `unseen`."""

    directory: Directory
    weight: NDArray[np.uint16]
    unseen: int


def weighted_simhash64(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], weights: Weights
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Add each hash's weight to the sums of its set bits, take it off the others'; the signs are the fingerprint.

    hashes: uint64[m], of page i hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    -> fingerprints: uint64[n], counts: int64[n], the hashes of a page that weigh anything
    Sums are of whole numbers: no order and no machine changes a bit. A zero sum gives bit 0, as in the paper's fig. 1.
    """
    pages = len(bounds) - 1
    fingerprints, counts = np.zeros(pages, np.uint64), np.zeros(pages, np.int64)
    directory = weights.directory
    _fold(
        hashes,
        bounds,
        directory.hashes,
        directory.first,
        directory.shift,
        weights.weight,
        weights.unseen,
        fingerprints,
        counts,
    )
    return fingerprints, counts


@kernel
def _fold(hashes, bounds, known, first, shift, weight, unseen, fingerprints, counts):
    # hashes: uint64[m]  bounds: int64[n + 1]  known, first, shift: Directory  weight: uint16[t]  unseen: int64
    # ->  fingerprints: uint64[n]  counts: int64[n]
    ones = np.empty(64, dtype=np.int64)
    for page in range(len(bounds) - 1):
        ones[:] = 0
        total, counted = np.int64(0), np.int64(0)
        for place in range(bounds[page], bounds[page + 1]):
            one = hashes[place]
            found = place_of(one, known, first, shift)
            weighs = np.int64(weight[found]) if found >= 0 else np.int64(unseen)
            for bit in range(64):
                ones[bit] += weighs * np.int64((one >> np.uint64(bit)) & np.uint64(1))
            total += weighs
            counted += np.int64(weighs > 0)
        fingerprint = np.uint64(0)
        for bit in range(64):
            fingerprint |= np.uint64(2 * ones[bit] > total) << np.uint64(bit)
        fingerprints[page] = fingerprint
        counts[page] = counted
