"""Minwise hashing: MinHash values, bottom-k values, 1-bit sketches, and what they share with those of another page.

Minimum over h functions (Williams, Giles 2013, sec. 3.2; `LinearHashes`, `minimum_hashes`): for each function the least
value over the page's shingles. h(x) = (A x + B) mod p, where x is the shingle's hash mod p, p = 2^32 - 1, and A and B
are random in [1, p].

Bottom-k (Broder 1997; Cohen, Kaplan 2007; `smallest_hashes`): the k smallest hashes of a page's phrases, which similar
pages share. A phrase is two overlapping shingles of w words: 2 w - 1 words. The judge looks pages up under these
hashes, and shingles of three words are too common for that: "one of the" alone would make a third of all pages
candidates. A page with more candidates than the judge compares misses copies (news: 2 of 663; newsgroups: 441 of 5,581
pages had too many, 22 with phrases of five words).

1-bit minwise sketches (Yuan et al. 2012; Li, Koenig 2010; `sketch_features`), by fast similarity sketching (Dahlgaard,
Knudsen, Thorup, FOCS 2017, algorithm 1). A sketch has k bins. In round i every feature is thrown into one bin: a random
bin in rounds 0..k - 1, bin i - k in rounds k..2k - 1. In each bin the feature with the least (round, hash) wins. The
rounds end when no bin is empty. A text with many features takes one round, a text with few features takes more, O(n + k
log k) hashes in all. For any size, a bin has the same winner in two texts with probability Jaccard(A, B). One bit of
the winner is kept:

    mixed(x, j)             = folded(x ^ (j + 1) * ROUND, K0)
    hash of x, rounds < k   : in rounds 0 and 1 the high and the low half of x, in rounds 2j and 2j + 1 of mixed(x, j)
    hash of x, rounds >= k  : the high half of mixed(x, round)
    random bin              = (hash * k) >> 32
    bit                     = the lowest bit of the winner's hash
    Jaccard                 ~ 1 - 2 d / k for two sketches that differ in d bits; its sd is at most sqrt((1 - J^2) / k)

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
from spotsieve.stream.sign.text.machine import folded_product, load_int, load_word, put_word

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


# 1-bit sketches by fast similarity sketching (Dahlgaard, Knudsen, Thorup 2017)

ROUND = np.uint64(0xD6E8FEB86659FD93)
MOST_SKETCH_BITS = 2048

_ONE, _TWO, _HALF_WORD, _LOW = np.uint64(1), np.uint64(2), np.uint64(32), np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@part
def sketch_features(features, count, bins, sketch):
    """Write the 1-bit sketch of a feature set.

    features: uint64[>= count], uniformly random words  bins: uint64[k], scratch
    ->  sketch: uint64[k / 64], bin b is bit b % 64 of word b // 64; 0 for a text without features
    """
    sketch[:] = 0
    if count == 0:
        return
    # A bin holds the round and the hash of its winner, so the least word belongs to the earliest round.
    bins[:] = _EMPTY
    size, pair = np.uint64(len(bins)), np.int64(0)
    while pair < len(bins) >> 1 and (pair == 0 or any_empty(bins)):
        throw_features(features, count, np.uint64(pair), bins)
        pair += 1
    for chosen in range(len(bins)):
        if bins[chosen] == _EMPTY:
            key = (size + np.uint64(chosen + 1)) * ROUND
            for place in range(count):
                bins[chosen] = min(bins[chosen], folded_product(features[place] ^ key, K0) >> _HALF_WORD)
    for word in range(len(sketch)):
        bits = np.uint64(0)
        for bit in range(64):
            bits |= (bins[64 * word + bit] & np.uint64(1)) << np.uint64(bit)
        sketch[word] = bits


@part
def throw_features(features, count, pair, bins):  # uint64[], int64, uint64, uint64[k]
    """Throw all features in rounds 2 * pair and 2 * pair + 1.

    The loop has no branch, because the CPU cannot predict which feature wins a bin. Testing first whether a bin is
    empty is slower even in late rounds, where most throws hit full bins.
    """
    size, places = np.uint64(len(bins)), np.int64(bins.ctypes.data)
    first, second = (pair * _TWO) << _HALF_WORD, (pair * _TWO + _ONE) << _HALF_WORD
    key = (pair + _ONE) * ROUND
    for index in range(count):
        mixed = features[index] if pair == np.uint64(0) else folded_product(features[index] ^ key, K0)
        for turn, hashed in ((first, mixed >> _HALF_WORD), (second, mixed & _LOW)):
            place = places + (np.int64((hashed * size) >> _HALF_WORD) << 3)
            put_word(place, min(load_word(place), turn | hashed))


@part
def any_empty(bins):  # uint64[k] -> bool
    """Whether any bin is empty. The loop reads all bins, so that the compiler vectorises it."""
    empty = np.int64(0)
    for chosen in range(len(bins)):
        empty += np.int64(bins[chosen] == _EMPTY)
    return empty > 0


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
