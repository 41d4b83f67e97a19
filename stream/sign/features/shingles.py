"""Shingles: hashes of runs of w tokens, of the main text, of blocks and of whole pages, and samples.

    shingle hash = chain hash of its tokens in order, as of a spot (stream/sign/text/hashing.py)

A shingle of one token is the token, hashed once more because two bits of a token hash are always 0.

Samples (Ye, Wen, Ma, secs. 4.4 and 6) keep shingles by the remainder of their hashes, at a ratio by page size:

    size in words -> class -> n, a power of two -> the different shingles whose hash is 0 mod n

A sampled shingle is stored with its bits reversed. 0 mod n means that the low bits are 0, so the reversed value is
below 2^64 / n. The sample for 2 n is therefore the head of the ascending sample for n, and heads of samples at
different ratios can be compared.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text.hashing import SEED, chain_hash, finish_hash
from spotsieve.stream.sign.text.machine import load_int, load_word
from spotsieve.stream.sign.text.tokens import PageTokens

# Shingles


@part
def shingle_hashes(tokens, count, width, features):
    """Write the hashes of all shingles of `width` tokens and return their number.

    tokens: address of uint64[count]  ->  features: uint64[>= count], in text order; the number: int64
    A text with fewer than `width` tokens is one shingle; a text without tokens has none.
    """
    width = min(width, count)
    if width == 0:
        return np.int64(0)
    shingles = count - width + 1
    if width == 3:
        # The default width without an inner loop takes half the time.
        for first in range(shingles):
            place = tokens + (first << 3)
            state = chain_hash(chain_hash(SEED, load_word(place)), load_word(place + 8))
            features[first] = finish_hash(chain_hash(state, load_word(place + 16)))
        return shingles
    for first in range(shingles):
        state = SEED
        for place in range(first, first + width):
            state = chain_hash(state, load_word(tokens + (place << 3)))
        features[first] = finish_hash(state)
    return shingles


def shingle_pages(tokens: PageTokens, shortest: int, longest: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of all shingles of `shortest` to `longest` tokens of n pages, with repeats, the shortest first.

    -> hashes: uint64[m], page i has hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    A page with fewer tokens than a length has no shingle of that length. Raises ValueError unless
    1 <= shortest <= longest.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"shingles must have 1 <= shortest <= longest tokens, got {shortest} and {longest}")
    counts = tokens.counts
    sizes = sum((np.maximum(counts - width + 1, 0) for width in range(shortest, longest + 1)), np.zeros_like(counts))
    bounds = bounds_of(sizes)
    hashes = np.empty(bounds[-1], np.uint64)
    token_hashes, token_bounds = np.ascontiguousarray(tokens.hashes), np.ascontiguousarray(tokens.bounds)
    _shingle_batch(token_hashes.ctypes.data, token_bounds.ctypes.data, len(tokens), shortest, longest, hashes)
    return hashes, bounds


@kernel
def _shingle_batch(tokens, bounds, pages, shortest, longest, hashes):
    # tokens: address of uint64[t]  bounds: address of int64[n + 1]  pages: n  ->  hashes: uint64[m]
    written = np.int64(0)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        for width in range(shortest, longest + 1):
            if end - first >= width:
                written += shingle_hashes(tokens + (first << 3), end - first, width, hashes[written:])


# Samples

MOST_WORDS = 10**9
LARGEST_RATIO = 1024
"""The largest n of a ratio 1/n. A page of ten thousand words then keeps ten shingles."""
_GREATEST = np.uint64(2**64 - 1)
_SWAPS = ((4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333), (1, 0x5555555555555555))


class ShingleSample(NamedTuple):
    """The sampled shingles of n pages.

    shingles: uint64[m], bits reversed, page i has shingles[bounds[i]:bounds[i + 1]], all different, ascending
    bounds: int64[n + 1]  ratios: uint64[n], n of the ratio 1/n, a power of two
    """

    shingles: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    ratios: NDArray[np.uint64]


class RatioTable:
    """Sampling ratio by page size (Ye, Wen, Ma, sec. 4.4)."""

    def __init__(self, sizes: Sequence[int], ratios: Sequence[int]) -> None:
        """sizes: words at which the next class begins  ratios: n of 1/n for each class, one more than sizes

        Raises SettingError if the sizes do not ascend, a ratio is no power of two, or their numbers do not match.
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
        """The n of the ratio 1/n for pages with these numbers of words: int64[p] -> uint64[p]."""
        return self._ratios[np.searchsorted(self._sizes, words, side="right")]


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Raise SettingError if the words at which classes begin do not ascend. name: the setting or flag, for the error"""
    if any(later <= earlier for earlier, later in pairwise((0, *sizes))) or max(sizes, default=0) > MOST_WORDS:
        raise SettingError(name, f"must ascend within 1..{MOST_WORDS}", list(sizes), "such as 500, 3000")


def sample_shingles(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], ratios: NDArray[np.uint64], most: int
) -> ShingleSample:
    """The distinct shingles of each page that are 0 mod n, at most `most` per page: n is doubled until they fit.

    shingles: uint64[m], page i has shingles[bounds[i]:bounds[i + 1]]  bounds: int64[p + 1]
    ratios: uint64[p], n of 1/n for each page, powers of two
    """
    sampled = shingles & (np.repeat(ratios, sizes_of(bounds)) - np.uint64(1)) == 0
    before = bounds_of(sampled)[bounds].tolist()
    reverse = reversed_bits(shingles[sampled])
    # NumPy's sort takes n log n for any order, so a page cannot make it slow.
    rows = [np.unique(reverse[first:last]) for first, last in pairwise(before)]
    ratios = ratios.copy()
    for page, row in enumerate(rows):
        while len(rows[page]) > most:
            ratios[page] *= np.uint64(2)
            rows[page] = row[: np.searchsorted(row, _GREATEST // ratios[page], side="right")]
    sizes = np.array([0, *map(len, rows)], np.int64)
    return ShingleSample(np.concatenate([np.empty(0, np.uint64), *rows]), np.cumsum(sizes), ratios)


def head_sizes(shingles: NDArray[np.uint64], spans: NDArray[np.int64], ratios: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Sizes of c samples at other ratios, the same or coarser: int64[c].

    shingles: uint64[m], row i has shingles[spans[i, 0]:spans[i, 1]], ascending  spans: int64[c, 2]  ratios: uint64[c]
    """
    return np.asarray(_head_sizes(shingles, spans, _GREATEST // ratios))


@kernel
def _head_sizes(shingles, spans, last):
    # shingles: uint64[m]  spans: int64[c, 2]  last: uint64[c]  ->  int64[c], values per row up to its last
    sizes = np.empty(len(spans), np.int64)
    for row in range(len(spans)):
        sizes[row] = np.searchsorted(shingles[spans[row, 0] : spans[row, 1]], last[row], side="right")
    return sizes


def reversed_bits(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The words with their bits in reverse order: uint64[m] -> uint64[m]."""
    words = words.byteswap()
    for shift, mask in _SWAPS:
        words = words >> np.uint64(shift) & np.uint64(mask) | (words & np.uint64(mask)) << np.uint64(shift)
    return words
