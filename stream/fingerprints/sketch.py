"""1-bit minwise sketches (Yuan et al. 2012; Li, Koenig 2010), by fast similarity sketching (Dahlgaard, Knudsen, Thorup,
FOCS 2017, algorithm 1).

A sketch has k bins. In round i every feature is thrown into a bin, a random one in rounds 0..k - 1, bin i - k in rounds
k..2k - 1; in its bin the feature with the least (round, hash) wins. The rounds end when no bin is empty. So a text with
many features takes one round, one with few takes some rounds more, O(n + k log k) hashes in all, and for any size a bin
has the same winner in two texts with probability Jaccard(A, B). Of the winner one bit is kept:

    hash of x in round i = folded(x ^ (i + 1) * ROUND, K0)
    random bin           = (high 32 bits of the hash * k) >> 32
    bit                  = the lowest bit of the winner's hash
    Jaccard              ~ 1 - 2 d / k for two sketches that differ in d bits; its sd is sqrt((1 - J^2) / k) at most
"""

import numpy as np

from stream.text.hashing import K0
from stream.text.sources import part
from stream.text.vectors import folded_product

ROUND = np.uint64(0xD6E8FEB86659FD93)
ROUND_SHIFT = 52
"""A bin holds (round, low 52 bits of the hash)."""
MOST_SKETCH_BITS = 2048

_HASH = np.uint64((1 << ROUND_SHIFT) - 1)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


@part
def sketch_features(features, count, bins, sketch):  # type: ignore[no-untyped-def]
    """features: uint64[>= count]  bins: uint64[k], written over  ->  sketch: uint64[k / 64], bin b is bit b % 64 of
    word b // 64; 0 for a text without features
    """
    sketch[:] = 0
    if count == 0:
        return
    size = np.int64(len(bins))
    bins[:] = _EMPTY
    empty = size
    turn = np.int64(0)
    while empty > 0 and turn < size:
        key, early = np.uint64(turn + 1) * ROUND, np.uint64(turn) << np.uint64(ROUND_SHIFT)
        for place in range(count):
            hashed = folded_product(features[place] ^ key, K0)
            chosen = ((hashed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
            before = bins[chosen]
            # earlier rounds win, since their number is above the hash
            bins[chosen] = min(before, early | (hashed & _HASH))
            empty -= np.int64(before == _EMPTY)
        turn += 1
    for chosen in range(size):
        if bins[chosen] == _EMPTY:
            key = np.uint64(size + chosen + 1) * ROUND
            for place in range(count):
                bins[chosen] = min(bins[chosen], folded_product(features[place] ^ key, K0) & _HASH)
    for chosen in range(size):
        sketch[chosen >> 6] |= (bins[chosen] & np.uint64(1)) << np.uint64(chosen & 63)
