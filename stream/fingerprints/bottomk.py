"""Keeps the k smallest hashes of a page's phrases, which similar pages share (Broder 1997; Cohen, Kaplan 2007).

A phrase is two shingles of w words that meet in one: 2 w - 1 words. The judge looks pages up under these hashes, and
shingles of three words are too common for that: "one of the" alone would make candidates of a third of all pages. With
more candidates than the judge looks at, a copy is missed (news: 2 of 663; newsgroups: 441 of 5,581 pages met too many,
22 with phrases of five words).
"""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import K0, K4
from spotsieve.stream.text.machine.vectors import folded_product

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
