"""64-bit simhash of a page's features, plain and weighted, and the rotations under which fingerprints are indexed.

The plain fold (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007, sec. 2) counts every feature once per occurrence.
The weighted fold (Charikar; Roul et al., sec. 3.8 and fig. 1, step 3) adds the weight of each hash to the sums of its
set bits and subtracts it from the sums of the others.

Rotations (Roul et al., fig. 1, step 5): the paper rotates all fingerprints of a batch by one bit, sorts them and
compares neighbours, 64 times. Here a fingerprint is indexed under the b leading bits of each of its 64 rotations: two
fingerprints are candidates if they agree on a run of b bits somewhere around the circle. Each form finds pairs that the
other misses; bench/papers/rotations.py implements the paper's form and compares the two.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.fingerprints.lsi import Directory, place_of
from spotsieve.stream.sign.text.machine import add_bit_counts, load_int

BITS = 64
_MOST_AT_ONCE = 255
"""Features that eight-bit counters can count before they are added to the wide counters."""


def simhash64(features: NDArray[np.uint64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Simhash of each page: the signs of 64 sums over its feature hashes (Manku et al. 2007, sec. 2).

    features: uint64[m]  bounds: int64[n + 1], page i has features[bounds[i]:bounds[i + 1]]
    -> fingerprints: uint64[n], present: bool[n]

    The weight of a feature is the number of its occurrences. A zero sum gives bit 0; the paper leaves ties open. A page
    without features has no fingerprint: present is False and the value is 0. Raises TypeError for wrong dtypes and
    ValueError for bounds that do not ascend within the features.
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
    # features: address of uint64[m]  bounds: address of int64[n + 1]  pages: n  ->  uint64[n]
    # It takes addresses, because numba would compile a second version for read-only arrays.
    fingerprints = np.zeros(pages, dtype=np.uint64)
    ones = np.zeros(BITS, dtype=np.uint32)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        fingerprints[page] = fold_features(features + (first << 3), end - first, ones)
    return fingerprints


@part
def fold_features(features, count, ones):
    """Simhash of one page. features: address of uint64[count]  ones: uint32[64], scratch  ->  uint64, or 0"""
    ones[:] = 0
    totals = np.int64(ones.ctypes.data)
    for start in range(0, count, _MOST_AT_ONCE):
        add_bit_counts(features + (start << 3), min(count - start, _MOST_AT_ONCE), totals)
    fingerprint = np.uint64(0)
    for bit in range(BITS):
        # The weighted sum of +1 and -1 is ones - zeros, which is positive if 2 * ones > count.
        fingerprint |= np.uint64(2 * np.int64(ones[bit]) > count) << np.uint64(bit)
    return fingerprint


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight per occurrence of each known hash. weight: uint16[t], in the directory's order  unseen: of other hashes"""

    directory: Directory
    weight: NDArray[np.uint16]
    unseen: int


def weighted_simhash64(
    hashes: NDArray[np.uint64], bounds: NDArray[np.int64], weights: Weights
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Weighted simhash of each page: the signs of 64 weighted sums (Roul et al., sec. 3.8 and fig. 1, step 3).

    hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    -> fingerprints: uint64[n], counts: int64[n], the number of a page's hashes with a weight above 0
    The sums are integers, so neither the order nor the machine changes a bit. A zero sum gives bit 0, as in the
    paper's fig. 1.
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
        total, weighted = np.int64(0), np.int64(0)
        for place in range(bounds[page], bounds[page + 1]):
            hashed = hashes[place]
            entry = place_of(hashed, known, first, shift)
            weighs = np.int64(weight[entry]) if entry >= 0 else np.int64(unseen)
            for bit in range(64):
                ones[bit] += weighs * np.int64((hashed >> np.uint64(bit)) & np.uint64(1))
            total += weighs
            weighted += np.int64(weighs > 0)
        fingerprint = np.uint64(0)
        for bit in range(64):
            fingerprint |= np.uint64(2 * ones[bit] > total) << np.uint64(bit)
        fingerprints[page] = fingerprint
        counts[page] = weighted


_TURNS = np.arange(BITS, dtype=np.uint64)


def rotations(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """All rotations of each fingerprint: uint64[n] -> uint64[n, 64]; column r is rotated left by r bits."""
    column = fingerprints[:, None]
    return column << _TURNS | column >> (np.uint64(BITS) - _TURNS) % np.uint64(BITS)


def rotation_keys(fingerprints: NDArray[np.uint64], leading_bits: int) -> NDArray[np.uint64]:
    """The leading bits (1 to 64) of each rotation: uint64[n] -> uint64[n, 64]."""
    return rotations(fingerprints) >> np.uint64(BITS - leading_bits)


@kernel
def count_bits(word):
    """Number of set bits. LLVM compiles it to one popcnt."""
    # word: uint64  ->  uint64
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
