"""Folds a page's features into a 64-bit simhash (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007, sec. 2).

Folds weighted hashes into a 64-bit simhash (Charikar, STOC 2002; Roul et al., sec. 3.8 and fig. 1, step 3).

Makes the keys of rotated fingerprints (Roul et al., fig. 1, step 5).

The paper rotates all fingerprints of a batch by one bit, sorts them and compares neighbours, 64 times. Here a
fingerprint is filed under the b leading bits of each of its 64 rotations: two fingerprints meet if they agree on a run
of b bits somewhere around the circle. Each form finds pairs that the other does not; bench/papers/rotations.py
has the paper's form and says how the two relate.

Counts the bits in which fingerprints differ, inside kernels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.fingerprints.lsi import Directory, place_of
from spotsieve.stream.sign.text.machine import add_bit_counts, load_int

HASH_BITS = 64
_MOST_AT_ONCE = 255
"""Features that eight-bit counters can take before they are added to the wide ones."""


def simhash64(features: NDArray[np.uint64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Fold each page's feature hashes into the signs of 64 sums (Manku et al. 2007, sec. 2).

    features: uint64[m]  bounds: int64[n + 1], page i has features[bounds[i]:bounds[i + 1]]
    -> fingerprints: uint64[n], present: bool[n]

    A feature's weight is how often it occurs. A zero sum gives bit 0; the paper leaves ties open. A page without
    features has no fingerprint: present is False and the value, 0, means nothing. Raises TypeError and ValueError.
    """
    if features.dtype != np.uint64 or features.ndim != 1:
        raise TypeError(f"features must be uint64[m], got {features.dtype}[{features.ndim} dimensions]")
    if bounds.dtype != np.int64 or bounds.ndim != 1 or len(bounds) == 0:
        raise TypeError(f"bounds must be int64[n + 1], got {bounds.dtype}[{bounds.shape}]")
    if bounds[0] < 0 or bounds[-1] > len(features) or (sizes_of(bounds) < 0).any():
        raise ValueError(f"bounds must ascend within 0..{len(features)}, got {bounds[0]}..{bounds[-1]}")
    features, bounds = np.ascontiguousarray(features), np.ascontiguousarray(bounds)
    fingerprints: NDArray[np.uint64] = _fold(features.ctypes.data, bounds.ctypes.data, len(bounds) - 1)
    return fingerprints, sizes_of(bounds) > 0


@kernel
def _fold(features, bounds, pages):
    """Addresses of features: uint64[m] and bounds: int64[n + 1]; pages: n -> uint64[n]

    Addresses, since numba compiles once more for an array that is read-only.
    """
    fingerprints = np.zeros(pages, dtype=np.uint64)
    ones = np.zeros(HASH_BITS, dtype=np.uint32)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        fingerprints[page] = fold_features(features + (first << 3), end - first, ones)
    return fingerprints


@part
def fold_features(features, count, ones):
    """features: address of uint64[count]  ones: uint32[64], written over  ->  uint64, 0 where count is 0"""
    ones[:] = 0
    totals = np.int64(ones.ctypes.data)
    for start in range(0, count, _MOST_AT_ONCE):
        add_bit_counts(features + (start << 3), min(count - start, _MOST_AT_ONCE), totals)
    fingerprint = np.uint64(0)
    for bit in range(HASH_BITS):
        # ones > zeros; the weighted sum of +1 and -1 is ones - zeros
        fingerprint |= np.uint64(2 * np.int64(ones[bit]) > count) << np.uint64(bit)
    return fingerprint


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
    _fold_weighted(
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
def _fold_weighted(hashes, bounds, known, first, shift, weight, unseen, fingerprints, counts):
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


BITS = 64
_ALL = np.arange(BITS, dtype=np.uint64)


def rotations(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: column r is the fingerprint turned left by r bits."""
    one = fingerprints[:, None]
    return one << _ALL | one >> (np.uint64(BITS) - _ALL) % np.uint64(BITS)


def rotation_keys(fingerprints: NDArray[np.uint64], leading_bits: int) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: the leading bits, 1 to 64, of each rotation."""
    return rotations(fingerprints) >> np.uint64(BITS - leading_bits)


@kernel
def count_bits(word):
    """Set bits of a uint64; LLVM turns this into one popcnt."""
    # word: uint64  ->  uint64
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
