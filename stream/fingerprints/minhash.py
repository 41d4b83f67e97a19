"""Sketches a page: for each of h functions the least value over its shingles (Williams, Giles 2013, sec. 3.2).

h(x) = (A x + B) mod p, where x is the shingle's hash mod p, p = 2^32 - 1, and A and B are random in [1, p]
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.jit import kernel, part
from spotsieve.stream.text.machine.memory import load_int

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
