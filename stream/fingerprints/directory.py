"""Finds a hash among millions of ascending ones with two reads: a directory says where its leading bits begin.

Binary search takes 20 reads all over memory. Hashes are spread evenly, so only one or two share the leading log2(t)
bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of
from spotsieve.stream.jit import part


@dataclass(frozen=True, slots=True)
class Directory:
    """hashes: uint64[t], ascending, all different  first: int64[2^b + 1], those with leading bits p are first[p] on
    shift: uint64, 64 - b
    """

    hashes: NDArray[np.uint64]
    first: NDArray[np.int64]
    shift: np.uint64


def directory_of(hashes: NDArray[np.uint64]) -> Directory:
    """hashes: uint64[t], ascending, all different."""
    bits = max(1, len(hashes).bit_length())
    shift = np.uint64(64 - bits)
    sizes = np.bincount((hashes >> shift).astype(np.int64), minlength=2**bits)
    return Directory(hashes, bounds_of(sizes), shift)


@part
def place_of(wanted, hashes, first, shift):
    """A hash, and the fields of a Directory -> its place: int64, -1 where it is none of them."""
    leading = wanted >> shift
    for place in range(first[leading], first[leading + np.uint64(1)]):
        if hashes[place] == wanted:
            return np.int64(place)
    return np.int64(-1)
