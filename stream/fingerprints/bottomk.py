"""Bottom-k: the k smallest hashes of a page's features, which similar pages share (Broder 1997; Cohen, Kaplan 2007)."""

import numpy as np

from stream.text.hashing import K0, K4
from stream.text.sources import part
from stream.text.vectors import folded_product


@part
def smallest_hashes(features, count, minima):  # type: ignore[no-untyped-def]
    """features: uint64[>= count]  ->  minima: uint64[k], ascending, all different; how many there are: int64

    A feature's rank is folded(feature ^ K4, K0): its own bits have served as a simhash, so it is mixed once more.
    """
    most = len(minima)
    kept, bound = np.int64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
    for place in range(count):
        rank = folded_product(features[place] ^ K4, K0)
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
