"""Hashes the shingles of the kept text, and numbers repeats so that they are a set (Broder 1997's occurrences).

shingle hash = the hash of its tokens in order, as a spot's (stream/sign/text/hashing.py)
feature      = folded((shingle hash + occurrence * GOLDEN) ^ K1, K2), occurrence 0 for the first of equal ones

Hashes the shingles of whole pages: every run of w tokens in a row, with repeats (Broder et al. 1997).

A shingle of one token is the token, mixed once more because two bits of a token hash are always 0.

Samples a page's shingles by the remainder of their hashes, at a ratio by its size (Ye, Wen, Ma, secs. 4.4 and 6).

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

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text.hashing import SEED, chain_hash, finish_hash
from spotsieve.stream.sign.text.machine import load_int, load_word
from spotsieve.stream.sign.text.tokens import PageTokens

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MOST_STEPS = 512
"""At most so many slots are tried for a shingle. Honest ones need fewer than 40. One that finds none counts as a first
one, so a page made of colliding hashes takes linear time too."""


class RepeatBuffers(NamedTuple):
    """Room for numbering the repeats on pages of up to m shingles. All columns are written over.

    firsts: int32[8m], 1 + the place of the first shingle of each slot, 0 for none  others: int32[m], places of those
    that are not the first of their slot, and before: int32[m], how many equal ones stand before each
    keys: uint64[4m], counts: int32[4m], a table of the others
    """

    firsts: NDArray[np.int32]
    others: NDArray[np.int32]
    before: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.int32]


@part
def shingle_hashes(tokens, count, width, features):
    """tokens: address of uint64[count]  ->  features: uint64[>= count], one a place; how many: int64

    A text with fewer tokens than `width` is one shingle by itself; one without tokens has none.
    """
    width = min(width, count)
    if width == 0:
        return np.int64(0)
    shingles = count - width + 1
    if width == 3:
        # the usual width, without the loop over a shingle's words: half the time
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


@part
def make_repeat_buffers(most):  # int64 -> RepeatBuffers
    """Arrays for pages of up to `most` >= 16 shingles."""
    return RepeatBuffers(
        np.empty(8 * most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(4 * most, dtype=np.uint64),
        np.empty(4 * most, dtype=np.int32),
    )


@part
def number_repeats(features, count, room):
    """Replace shingle hashes by features, all different: (shingle, how many equal ones stand before it).

    features: uint64[>= count]  room: Repeats for at least `count`

    Nearly all shingles are the first ones of their slot. The rest is put aside without a branch, and counted later.
    """
    firsts, others, before, _, _ = room
    bits = slot_bits(4 * count)
    shift = np.uint64(64 - bits)
    firsts[: np.int64(1) << bits] = 0
    later = np.int64(0)
    for place in range(count):
        slot = features[place] >> shift
        first = firsts[slot]
        firsts[slot] = first if first != 0 else place + 1
        others[later] = place
        later += np.int64(first != 0)
    count_others(features, later, shift, room)
    for other in range(later):
        features[others[other]] += np.uint64(before[other]) * GOLDEN
    for place in range(count):
        features[place] = finish_hash(features[place])


@part
def count_others(features, later, shift, room):
    """Fill room.before: how many equal shingles stand before each of the first `later` of room.others."""
    firsts, others, before, keys, counts = room
    bits = slot_bits(2 * later)
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    counts[: np.int64(1) << bits] = 0
    for other in range(later):
        shingle = features[others[other]]
        first = firsts[shingle >> shift] - 1
        # the first one of the slot is none of the others
        equal = np.int64(features[first] == shingle)
        slot = shingle & last
        for _ in range(MOST_STEPS):
            found = counts[slot]
            if found == 0 or keys[slot] == shingle:
                keys[slot] = shingle
                counts[slot] = found + 1
                equal += np.int64(found)
                break
            slot = (slot + np.uint64(1)) & last
        before[other] = equal


@part
def slot_bits(least):  # int64 -> int64
    """The bits of the number of a slot among `least` or a few more, at least 4."""
    bits = np.int64(4)
    while (np.int64(1) << bits) < least:
        bits += 1
    return bits


def shingle_pages(tokens: PageTokens, shortest: int, longest: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All shingles of `shortest` to `longest` tokens of n pages, those of one length after the other.

    -> hashes: uint64[m], of page i hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    A page with fewer tokens than a length has no shingle of it. Raises ValueError for lengths that are none.
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
    """Addresses of tokens: uint64[t] and bounds: int64[n + 1]; pages: n  ->  hashes: uint64[m]"""
    written = np.int64(0)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        for width in range(shortest, longest + 1):
            if end - first >= width:
                written += shingle_hashes(tokens + (first << 3), end - first, width, hashes[written:])


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
