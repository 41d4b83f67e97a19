"""Makes 1-bit minwise sketches (Yuan et al. 2012; Li, Koenig 2010) by fast similarity sketching (Dahlgaard, Knudsen,
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
"""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import K0
from spotsieve.stream.text.machine.memory import load_word, put_word
from spotsieve.stream.text.machine.vectors import folded_product

ROUND = np.uint64(0xD6E8FEB86659FD93)
MOST_SKETCH_BITS = 2048

_ONE, _TWO, _HALF, _LOW = np.uint64(1), np.uint64(2), np.uint64(32), np.uint64(0xFFFFFFFF)
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
                bins[chosen] = min(bins[chosen], folded_product(features[place] ^ key, K0) >> _HALF)
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
    first, second = (pair * _TWO) << _HALF, (pair * _TWO + _ONE) << _HALF
    key = (pair + _ONE) * ROUND
    for index in range(count):
        mixed = features[index] if pair == np.uint64(0) else folded_product(features[index] ^ key, K0)
        for turn, hashed in ((first, mixed >> _HALF), (second, mixed & _LOW)):
            place = places + (np.int64((hashed * size) >> _HALF) << 3)
            put_word(place, min(load_word(place), turn | hashed))


@part
def any_empty(bins):  # uint64[k] -> bool
    """Whether a bin is empty. All are looked at: so the compiler takes eight at once."""
    empty = np.int64(0)
    for chosen in range(len(bins)):
        empty += np.int64(bins[chosen] == _EMPTY)
    return empty > 0
