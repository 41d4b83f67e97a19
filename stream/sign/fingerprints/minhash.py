"""Sketches a page: for each of h functions the least value over its shingles (Williams, Giles 2013, sec. 3.2).

h(x) = (A x + B) mod p, where x is the shingle's hash mod p, p = 2^32 - 1, and A and B are random in [1, p]

Keeps the k smallest hashes of a page's phrases, which similar pages share (Broder 1997; Cohen, Kaplan 2007).

A phrase is two shingles of w words that meet in one: 2 w - 1 words. The judge looks pages up under these hashes, and
shingles of three words are too common for that: "one of the" alone would make candidates of a third of all pages. With
more candidates than the judge looks at, a copy is missed (news: 2 of 663; newsgroups: 441 of 5,581 pages met too many,
22 with phrases of five words).

Makes 1-bit minwise sketches (Yuan et al. 2012; Li, Koenig 2010) by fast similarity sketching (Dahlgaard, Knudsen,
Thorup, FOCS 2017, algorithm 1).

A sketch has k bins. In round i every feature is thrown into a bin, a random one in rounds 0..k - 1, bin i - k in rounds
k..2k - 1; in its bin the feature with the least (round, hash) wins. The rounds end when no bin is empty. So a text with
many features takes one round, one with few takes some rounds more, O(n + k log k) hashes in all, and for any size a bin
has the same winner in two texts with probability Jaccard(A, B). Of the winner one bit is kept:

    mixed(x, j)             = folded(x ^ (j + 1) * ROUND, K0)
    hash of x, rounds < k   : in rounds 0 and 1 the high and the low half of x, in rounds 2j and 2j + 1 of mixed(x, j)
    hash of x, rounds >= k  : the high half of mixed(x, round)
    random bin              = (hash * k) >> 32
    bit                     = the lowest bit of the winner's hash
    Jaccard                 ~ 1 - 2 d / k for two sketches that differ in d bits; its sd is sqrt((1 - J^2) / k) at most

Cuts fingerprints of any length into groups of bits, which are keys of an index (Yuan, Long, Zhang, Gui 2012).

Two fingerprints that differ in at most r bits have at least m - r of m groups equal. Of a group longer than 48 bits the
low 48 are the key (the paper's string index for k / m > 64), which costs comparisons and loses nothing.

Counts the features that two pages share, where whole sets are compared, by merging two ascending runs.
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
"""The paper's "large prime" is none (3 * 5 * 17 * 257 * 65537). It is taken as given: the functions then are no
permutations where A shares a factor with p, and values of different shingles meet a little more often."""

_GOLDEN, _WORD = 0x9E3779B97F4A7C15, 2**64 - 1
_P = np.uint64(P)
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class LinearHashes:
    """The functions: A, B: uint64[h], each in 1..p."""

    A: NDArray[np.uint64]
    B: NDArray[np.uint64]


@cache
def linear_hashes(h: int) -> LinearHashes:
    """H functions, always the same: A and B come in turn from splitmix64 (Steele et al. 2014) begun at 0."""
    drawn = np.array([_splitmix64(step) % P + 1 for step in range(1, 2 * h + 1)], np.uint64)
    return LinearHashes(drawn[0::2].copy(), drawn[1::2].copy())


def minimum_hashes(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], functions: LinearHashes
) -> NDArray[np.uint32]:
    """shingles: uint64[m], of page i shingles[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    -> minima: uint32[n, h], 0 in the row of a page without shingles
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
    """The value mod p, 0..p - 1: 2^32 is 1 mod p, so the halves are added, twice."""
    value = (value & _P) + (value >> _HALF)
    value = (value & _P) + (value >> _HALF)
    return np.uint64(0) if value == _P else value


@kernel
def _minima_of_batch(shingles, bounds, A, B, minima):  # noqa: N803
    """Addresses of shingles: uint64[m] and bounds: int64[n + 1]  A, B: uint64[h]  ->  minima: uint32[n, h]"""
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
                    # both below 2^32, and A x + B at most p p
                    least = min(least, np.int64(_folded(A[slot] * np.uint64(reduced[place]) + B[slot])))
                minima[page, slot] = least


_SPARE_BITS = np.uint64(8)


@part
def smallest_hashes(shingles, count, reach, minima):
    """shingles: uint64[>= count], hashes in page order  reach: places from a phrase's first shingle to its second
    ->  minima: uint64[k], ascending, all different, 56 bits each (a key holds no more); how many there are: int64
    """
    most = len(minima)
    kept, bound = np.int64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    reach = min(reach, max(count - 1, 0))
    for place in range(count - reach):
        rank = folded_product(shingles[place] ^ K4, shingles[place + reach] ^ K0) >> _SPARE_BITS
        if rank >= bound:
            continue
        slot = kept
        while slot > 0 and minima[slot - 1] > rank:
            slot -= 1
        if slot > 0 and minima[slot - 1] == rank:
            continue
        kept = kept + 1 if kept < most else kept
        for moved in range(kept - 1, slot, -1):
            minima[moved] = minima[moved - 1]
        minima[slot] = rank
        bound = minima[most - 1] if kept == most else bound
    return kept


ROUND = np.uint64(0xD6E8FEB86659FD93)
MOST_SKETCH_BITS = 2048

_ONE, _TWO, _HALF_WORD, _LOW = np.uint64(1), np.uint64(2), np.uint64(32), np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@part
def sketch_features(features, count, bins, sketch):
    """features: uint64[>= count], random bits  bins: uint64[k], written over
    ->  sketch: uint64[k / 64], bin b is bit b % 64 of word b // 64; 0 for a text without features
    """
    sketch[:] = 0
    if count == 0:
        return
    # a bin holds the round and the hash of its winner, so that the least word is that of the earliest round
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

    Without a branch: who wins cannot be foreseen. Looking first whether a bin is empty takes longer even in late
    rounds, where most throws hit bins that were filled long ago.
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
    """Whether a bin is empty. All are looked at: so the compiler takes eight at once."""
    empty = np.int64(0)
    for chosen in range(len(bins)):
        empty += np.int64(bins[chosen] == _EMPTY)
    return empty > 0


VALUE_BITS = 48


def cut_groups(k: int, m: int) -> NDArray[np.int64]:
    """Cut k bits into m groups whose widths differ by one at most: int64[m + 1], group i has the bits groups[i] to
    groups[i + 1] - 1.
    """
    return np.linspace(0, k, m + 1).astype(np.int64)


def group_values(fingerprints: NDArray[np.uint64], groups: NDArray[np.int64], group: int) -> NDArray[np.uint64]:
    """The low 48 bits of a group of each fingerprint: uint64[n, w] -> uint64[n]."""
    first, last = int(groups[group]), int(groups[group + 1])
    width = min(last - first, VALUE_BITS)
    word, shift = divmod(first, 64)
    values: NDArray[np.uint64] = fingerprints[:, word] >> np.uint64(shift)
    if shift + width > 64:
        values = values | fingerprints[:, word + 1] << np.uint64(64 - shift)
    return values & np.uint64((1 << width) - 1)


def count_shared(pages: CandidateColumns, others: CandidateColumns) -> NDArray[np.int64]:
    """Row by row, features that both have: int64[c]. Features ascend within a row and are all different."""
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
