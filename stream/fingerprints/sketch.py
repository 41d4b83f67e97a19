"""1-bit minwise sketches (Yuan et al. 2012; Li, Koenig 2010), by fast similarity sketching (Dahlgaard, Knudsen, Thorup,
FOCS 2017, algorithm 1).

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

from stream.text.hashing import K0
from stream.text.sources import part
from stream.text.vectors import folded_product, load_word, put_word

ROUND = np.uint64(0xD6E8FEB86659FD93)
MOST_SKETCH_BITS = 2048

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@part
def sketch_features(features, count, bins, sketch):  # type: ignore[no-untyped-def]
    """features: uint64[>= count], random bits  bins: uint64[k], written over
    ->  sketch: uint64[k / 64], bin b is bit b % 64 of word b // 64; 0 for a text without features
    """
    sketch[:] = 0
    if count == 0:
        return
    # a bin holds the round and the hash of its winner, so that the least word is that of the earliest round
    bins[:] = _EMPTY
    size, places = np.uint64(len(bins)), np.int64(bins.ctypes.data)
    second = np.uint64(1) << _HALF
    for place in range(count):
        # no branches: in the first rounds who wins cannot be foreseen
        hashed = features[place] >> _HALF
        chosen = (hashed * size) >> _HALF
        bins[chosen] = min(bins[chosen], hashed)
        hashed = features[place] & _LOW
        chosen = (hashed * size) >> _HALF
        bins[chosen] = min(bins[chosen], second | hashed)
    empty = np.int64(0)
    for chosen in range(len(bins)):
        empty += np.int64(bins[chosen] == _EMPTY)
    pair = np.int64(1)
    while empty > 0 and pair < len(bins) >> 1:
        key, early = np.uint64(pair + 1) * ROUND, np.uint64(2 * pair)
        for place in range(count):
            mixed = folded_product(features[place] ^ key, K0)
            empty -= throw(mixed >> _HALF, early, size, places)
            empty -= throw(mixed & _LOW, early + np.uint64(1), size, places)
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
def throw(hashed, turn, size, bins):  # type: ignore[no-untyped-def]  # uint64 below 2^32, uint64, uint64, int64 -> int64
    """Throw a feature into one of the `size` bins at address `bins`, in a later round; whether it was empty."""
    place = bins + (np.int64((hashed * size) >> _HALF) << 3)
    candidate = turn << _HALF | hashed
    before = load_word(place)
    if candidate < before:
        put_word(place, candidate)
        return np.int64(before == _EMPTY)
    return np.int64(0)
