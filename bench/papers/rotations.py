"""Finds pairs of fingerprints as Roul et al. do in a batch: neighbours in 64 sorted lists (fig. 1, step 5).

The batch form rotates all fingerprints by one bit, sorts them and compares neighbours, 64 times. Two fingerprints are
neighbours if they agree on a long run of bits, read around the circle of 64, that no other one shares. The stream
indexes a fingerprint under the leading bits of each rotation instead (stream/sign/fingerprints/simhash.py). For the
same fingerprints the two are related as follows:

- With leading_bits = b and a window as long as the list, the batch form gives exactly the candidates of the index.
- The paper's form (window 1, leading_bits 0) gives, in each rotation, only those pairs without another fingerprint
  between them: for a group of g fingerprints with equal leading bits g - 1 pairs instead of g (g - 1) / 2.
- In addition it gives neighbours with a shorter common run. Most are strangers, since every fingerprint has a
  neighbour.

So each finds pairs that the other does not. Both compare candidates in the same way.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.settings.schemes import ConceptSettings
from spotsieve.stream.sign.fingerprints.simhash import BITS, rotations
from spotsieve.stream.sign.schemes.concept import Likeness, compare, similarities


def neighbour_pairs(fingerprints: NDArray[np.uint64], window: int = 1, leading_bits: int = 0) -> NDArray[np.int64]:
    """Pairs at most `window` places apart in one of 64 sorted lists that agree on its leading bits.

    fingerprints: uint64[n]  ->  int64[p, 2], the earlier page first, ascending, each pair once
    window: 1 in the paper  leading_bits: 0..64; 0 in the paper. Equal fingerprints are in page order.
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


def batch_pairs(
    sketches: NDArray[np.uint64], settings: ConceptSettings, window: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The paper's batch form: neighbours in 64 rotations, sorted, that are duplicates.

    sketches: uint64[n, w], of pages that have enough shingles  window: places apart, 1 in the paper
    -> pairs: int64[p, 2], the earlier page first, ascending; Likeness: uint8[p], none of them NONE
    """
    pairs = neighbour_pairs(sketches[:, 0], window)
    textual = BITS - np.bitwise_count(sketches[pairs[:, 0], 0] ^ sketches[pairs[:, 1], 0]).astype(np.int64)
    near = np.flatnonzero(textual > settings.th1)
    pairs = pairs[near]
    likeness = compare(*similarities(sketches[pairs[:, 0]], sketches[pairs[:, 1]]), settings)
    found = likeness > Likeness.NONE
    return pairs[found], likeness[found]
