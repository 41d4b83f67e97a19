"""Rotated fingerprints: neighbours in 64 sorted lists, and the keys of an index (Roul et al., fig. 1, step 5).

The batch form rotates all fingerprints by one bit, sorts them and compares neighbours, 64 times. Two fingerprints are
neighbours where they agree on a long run of bits, read around the circle of 64, that no other one shares.

The index form files a fingerprint under the b leading bits of each of its 64 rotations: two fingerprints meet if they
agree on a run of b bits somewhere around the circle. How the two relate, for the same fingerprints:

- with leading_bits = b and a window as long as the list, the batch form gives exactly the pairs that meet in the index;
- the paper's form (window 1, leading_bits 0) gives, of these, in each rotation only the pairs with no other fingerprint
  between them: of a group of g fingerprints with equal leading bits g - 1 pairs and not g (g - 1) / 2; and beside them
  pairs that stand side by side with a shorter run in common, strangers mostly, since every fingerprint has a neighbour.

So each finds pairs that the other does not. Both compare what they find in the same way.
"""

import numpy as np
from numpy.typing import NDArray

BITS = 64
_ALL = np.arange(BITS, dtype=np.uint64)


def rotations(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: column r is the fingerprint turned left by r bits."""
    one = fingerprints[:, None]
    return one << _ALL | one >> (np.uint64(BITS) - _ALL) % np.uint64(BITS)


def rotation_keys(fingerprints: NDArray[np.uint64], leading_bits: int) -> NDArray[np.uint64]:
    """uint64[n] -> uint64[n, 64]: the leading bits, 1 to 64, of each rotation."""
    return rotations(fingerprints) >> np.uint64(BITS - leading_bits)


def neighbour_pairs(fingerprints: NDArray[np.uint64], window: int = 1, leading_bits: int = 0) -> NDArray[np.int64]:
    """Pairs that stand at most `window` places apart in one of 64 sorted lists and agree on its leading bits.

    fingerprints: uint64[n]  ->  int64[p, 2], the earlier page first, ascending, each pair once
    window: 1 in the paper  leading_bits: 0..64; 0 in the paper. Equal fingerprints stand in page order.
    """
    count = len(fingerprints)
    found = np.empty(0, np.int64)
    for turned in rotations(fingerprints).T:
        order = np.argsort(turned, kind="stable")
        leading = turned[order] >> np.uint64(BITS - leading_bits) if leading_bits else np.zeros(count, np.uint64)
        some = [found]
        for apart in range(1, min(window, count - 1) + 1):
            place = np.flatnonzero(leading[apart:] == leading[:-apart])
            if not len(place):
                break
            one, other = order[place], order[place + apart]
            some.append(np.minimum(one, other) * count + np.maximum(one, other))
        found = np.unique(np.concatenate(some))
    return np.stack([found // max(count, 1), found % max(count, 1)], axis=1)
