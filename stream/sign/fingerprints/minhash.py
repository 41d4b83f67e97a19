"""Minwise hashing: MinHash values, bottom-k values, and what they share with those of another page.

Minimum over h functions (Williams, Giles 2013, sec. 3.2; `LinearHashes`, `minimum_hashes`): for each function the least
value over the page's shingles. h(x) = (A x + B) mod p, where x is the shingle's hash mod p, p = 2^32 - 1, and A and B
are random in [1, p].

Bottom-k (Broder 1997; Cohen, Kaplan 2007; `smallest_hashes`): the k smallest hashes of a page's phrases, which similar
pages share. A phrase is two overlapping shingles of w words: 2 w - 1 words. The judge looks pages up under these
hashes, and shingles of three words are too common for that: "one of the" alone would make a third of all pages
candidates. A page with more candidates than the judge compares misses copies (news: 2 of 663; newsgroups: 441 of 5,581
pages had too many, 22 with phrases of five words).

Groups of bits (Yuan, Long, Zhang, Gui 2012; `cut_groups`, `group_values`): index keys from fingerprints of any length.
Two fingerprints that differ in at most r bits agree on at least m - r of m groups. The key of a group longer than 48
bits is its low 48 bits (the paper's string index for k / m > 64), which costs comparisons and loses no neighbour.

Schemes that compare whole feature sets count shared features by merging two ascending runs (`count_shared`).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.base.signature import CandidateColumns
from spotsieve.stream.sign.text.hashing import K0, K4
from spotsieve.stream.sign.text.machine import folded_product, load_int

P = 2**32 - 1
"""The paper's "large prime", which is composite: 3 * 5 * 17 * 257 * 65537. We keep it. Where A shares a factor with p,
h is not a permutation, and values of different shingles collide slightly more often."""

_GOLDEN, _WORD = 0x9E3779B97F4A7C15, 2**64 - 1
_P = np.uint64(P)
_HALF = np.uint64(32)

# MinHash under h functions (Williams, Giles 2013)


@dataclass(frozen=True, slots=True)
class LinearHashes:
    """Coefficients of h functions. A, B: uint64[h], each in 1..p"""

    A: NDArray[np.uint64]
    B: NDArray[np.uint64]


@cache
def linear_hashes(h: int) -> LinearHashes:
    """The first h functions of one fixed sequence: splitmix64 (Steele et al. 2014) from 0 gives A and B in turn."""
    drawn = np.array([_splitmix64(step) % P + 1 for step in range(1, 2 * h + 1)], np.uint64)
    return LinearHashes(drawn[0::2].copy(), drawn[1::2].copy())


def minimum_hashes(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], functions: LinearHashes
) -> NDArray[np.uint32]:
    """MinHash values of n pages: the least value of each function over a page's shingles.

    shingles: uint64[m], page i has shingles[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    -> uint32[n, h], 0 in the row of a page without shingles
    """
    minima = np.zeros((len(bounds) - 1, len(functions.A)), np.uint32)
    shingles, bounds = np.ascontiguousarray(shingles), np.ascontiguousarray(bounds)
    _minima_of_batch(shingles.ctypes.data, bounds.ctypes.data, functions.A, functions.B, minima)
    return minima


def _splitmix64(step: int) -> int:
    state = step * _GOLDEN & _WORD
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _WORD
    return state ^ state >> 31


@part
def _folded(value):  # uint64 -> uint64
    """The value mod p, in 0..p - 1. 2^32 is 1 mod p, so adding the halves twice suffices."""
    value = (value & _P) + (value >> _HALF)
    value = (value & _P) + (value >> _HALF)
    return np.uint64(0) if value == _P else value


@kernel
def _minima_of_batch(shingles, bounds, A, B, minima):  # noqa: N803
    # shingles: address of uint64[m]  bounds: address of int64[n + 1]  A, B: uint64[h]  ->  minima: uint32[n, h]
    reduced = np.empty(1024, dtype=np.uint32)
    for page in range(len(minima)):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        if end > first:
            if end - first > len(reduced):
                reduced = np.empty(2 * (end - first), dtype=np.uint32)
            for place in range(end - first):
                reduced[place] = _folded(np.uint64(load_int(shingles + ((first + place) << 3))))
            for slot in range(len(A)):
                least = np.int64(P)
                for place in range(end - first):
                    # Both factors are below 2^32, so A x + B fits into 64 bits.
                    least = min(least, np.int64(_folded(A[slot] * np.uint64(reduced[place]) + B[slot])))
                minima[page, slot] = least


# Bottom-k MinHash values (Broder 1997)

_SPARE_BITS = np.uint64(8)
"""A key has room for 56 bits."""


@part
def smallest_hashes(shingles, count, reach, minima):
    """Write the k smallest phrase hashes of a page to `minima` and return how many there are.

    shingles: uint64[>= count], hashes in page order  reach: distance from a phrase's first shingle to its second
    ->  minima: uint64[k], ascending, all different, 56 bits each; the number of values: int64
    """
    most = len(minima)
    filled, bound = np.int64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    reach = min(reach, max(count - 1, 0))
    for place in range(count - reach):
        rank = folded_product(shingles[place] ^ K4, shingles[place + reach] ^ K0) >> _SPARE_BITS
        if rank >= bound:
            continue
        slot = filled
        while slot > 0 and minima[slot - 1] > rank:
            slot -= 1
        if slot > 0 and minima[slot - 1] == rank:
            continue
        filled = filled + 1 if filled < most else filled
        for moved in range(filled - 1, slot, -1):
            minima[moved] = minima[moved - 1]
        minima[slot] = rank
        bound = minima[most - 1] if filled == most else bound
    return filled


# Groups of bits (Yuan, Long, Zhang, Gui 2012)

VALUE_BITS = 48
"""Bits of a group that its key holds."""


def cut_groups(k: int, m: int) -> NDArray[np.int64]:
    """Bounds of m groups of k bits whose widths differ by at most one: int64[m + 1].

    Group i has the bits groups[i] to groups[i + 1] - 1.
    """
    return np.linspace(0, k, m + 1).astype(np.int64)


def group_values(fingerprints: NDArray[np.uint64], groups: NDArray[np.int64], group: int) -> NDArray[np.uint64]:
    """The low VALUE_BITS bits of one group of each fingerprint: uint64[n, w] -> uint64[n]."""
    first, last = int(groups[group]), int(groups[group + 1])
    width = min(last - first, VALUE_BITS)
    word, shift = divmod(first, 64)
    values: NDArray[np.uint64] = fingerprints[:, word] >> np.uint64(shift)
    if shift + width > 64:
        values = values | fingerprints[:, word + 1] << np.uint64(64 - shift)
    return values & np.uint64((1 << width) - 1)


# Shared features of whole sets


def count_shared(pages: CandidateColumns, others: CandidateColumns) -> NDArray[np.int64]:
    """Number of features that each of c pairs shares: int64[c]. Features ascend within a row and are all different."""
    return np.asarray(_count_shared(pages.features, pages.spans, others.features, others.spans))


@kernel
def _count_shared(features, spans, other_features, other_spans):
    # features, other_features: uint64[...]  spans, other_spans: int64[c, 2]  ->  int64[c]
    shared = np.empty(len(spans), np.int64)
    for row in range(len(spans)):
        at, end = spans[row]
        other, other_end = other_spans[row]
        both = 0
        while at < end and other < other_end:
            one, two = features[at], other_features[other]
            both += one == two
            at += one <= two
            other += two <= one
        shared[row] = both
    return shared
