"""Samples a page's shingles by the remainder of their hashes, at a ratio by its size (Ye, Wen, Ma, secs. 4.4 and 6).

size in words -> class -> n, a power of two -> the different shingles whose hash is 0 mod n

A sampled shingle is kept with its bits in reverse. 0 mod n means low bits that are 0, and in reverse a value below
2^64 / n. So the sample for 2 n is the head of the ascending sample for n, and the heads of samples at different ratios
can be compared.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.errors import SettingError
from spotsieve.stream.jit import kernel

MOST_WORDS = 10**9
LARGEST_RATIO = 1024
"""The largest n of a ratio 1/n: a page of ten thousand words then keeps ten shingles."""
_GREATEST = np.uint64(2**64 - 1)
_SWAPS = ((4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333), (1, 0x5555555555555555))


class ShingleSample(NamedTuple):
    """The sampled shingles of n pages.

    shingles: uint64[m], bits in reverse, of page i shingles[bounds[i]:bounds[i + 1]], different and ascending
    bounds: int64[n + 1]  ratios: uint64[n], n of the ratio 1/n, a power of two
    """

    shingles: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    ratios: NDArray[np.uint64]


class RatioTable:
    """The ratio for each size of a page."""

    def __init__(self, sizes: Sequence[int], ratios: Sequence[int]) -> None:
        """sizes: words at which the next class begins  ratios: of each class, one more than sizes; n of 1/n.

        Raises SettingError for a table that is none.
        """
        check_sizes("scheme.sizes", sizes)
        if any(ratio < 1 or ratio > LARGEST_RATIO or ratio & (ratio - 1) for ratio in ratios):
            rule = f"must be powers of two in 1..{LARGEST_RATIO}, so that a sample is part of every larger one"
            raise SettingError("scheme.ratios", rule, list(ratios), "write 8 for one shingle in 8, such as [8, 16]")
        if len(ratios) != len(sizes) + 1:
            rule = f"must be one for each class of pages, {len(sizes) + 1} for sizes = {list(sizes)}"
            raise SettingError("scheme.ratios", rule, list(ratios), "the first is of pages below the first size")
        self._sizes = np.array(sizes, np.int64)
        self._ratios = np.array(ratios, np.uint64)

    def of(self, words: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Words of n pages: int64[n] -> n of each ratio 1/n: uint64[n]."""
        return self._ratios[np.searchsorted(self._sizes, words, side="right")]


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Raises SettingError if the words at which classes begin do not ascend. name: of the setting or flag"""
    if any(later <= earlier for earlier, later in pairwise((0, *sizes))) or max(sizes, default=0) > MOST_WORDS:
        raise SettingError(name, f"must ascend within 1..{MOST_WORDS}", list(sizes), "such as 500, 3000")


def sample_shingles(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], ratios: NDArray[np.uint64], most: int
) -> ShingleSample:
    """The different shingles of n pages that are 0 mod n, at most `most` of a page: n is doubled until this holds.

    shingles: uint64[m], of page i shingles[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]  ratios: uint64[n], n of 1/n,
    powers of two
    """
    sampled = shingles & (np.repeat(ratios, sizes_of(bounds)) - np.uint64(1)) == 0
    before = bounds_of(sampled)[bounds].tolist()
    kept = reversed_bits(shingles[sampled])
    # This is numpy's sort because it stays below n log n, whatever order a page gives its shingles.
    rows = [np.unique(kept[first:last]) for first, last in pairwise(before)]
    ratios = ratios.copy()
    for page, row in enumerate(rows):
        while len(rows[page]) > most:
            ratios[page] *= np.uint64(2)
            rows[page] = row[: np.searchsorted(row, _GREATEST // ratios[page], side="right")]
    sizes = np.array([0, *map(len, rows)], np.int64)
    return ShingleSample(np.concatenate([np.empty(0, np.uint64), *rows]), np.cumsum(sizes), ratios)


def head_sizes(shingles: NDArray[np.uint64], spans: NDArray[np.int64], ratios: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many shingles of each sample are in the one at another ratio, the same or coarser: int64[c].

    shingles: uint64[m], of row i shingles[spans[i, 0]:spans[i, 1]], ascending  spans: int64[c, 2]  ratios: uint64[c]
    """
    return np.asarray(_head_sizes(shingles, spans, _GREATEST // ratios))


@kernel
def _head_sizes(shingles, spans, last):
    # shingles: uint64[m]  spans: int64[c, 2]  last: uint64[c]  ->  int64[c], how many of each row are at most its last
    sizes = np.empty(len(spans), np.int64)
    for row in range(len(spans)):
        sizes[row] = np.searchsorted(shingles[spans[row, 0] : spans[row, 1]], last[row], side="right")
    return sizes


def reversed_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64[m] -> uint64[m], bit b where bit 63 - b was."""
    words = words.byteswap()
    for shift, mask in _SWAPS:
        words = words >> np.uint64(shift) & np.uint64(mask) | (words & np.uint64(mask)) << np.uint64(shift)
    return words
