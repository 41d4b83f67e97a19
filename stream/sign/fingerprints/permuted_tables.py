"""Permuted tables: which bits of a fingerprint each table matches, and the bucket keys that follow.

Manku, Jain, Das Sarma, WWW 2007, section 3: cut the 64 bits into b blocks. Two fingerprints that differ in at most k
bits agree on at least b - k whole blocks, so one table for each choice of b - k blocks finds every neighbour. In two
levels (sec. 3.1.3) the bits that a table leaves open are cut again by the same argument, which buys more matched bits
for the same number of tables. Here a table is a mask, because the paper's permutation only moves the matched bits to
the front.

    key = table tag (8 bits) | matched bits, low 56 of them
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel

FINGERPRINT_BITS = 64
KEY_BITS = 56
KEY_MASK = np.uint64(2**KEY_BITS - 1)
_KEY_BITS = np.uint64(KEY_BITS)

# Tags. A tag is stored in every key, so its meaning never changes.
DIGEST_TAG = 255
"""The low 56 bits of a body's digest; the inline bits are its high word."""
TEXT_TAG = 254
"""The low 56 bits of the main text's digest; the inline bits are its high word."""
MINIMA_TAG = 253
"""The low 56 bits of one of a page's MinHash values; no inline bits."""
BLOCK_TAG = 251
"""One of a page's block fingerprints, mixed with its host; no inline bits."""
TITLE_TAG = 250
"""A page's title words, mixed with its host; no inline bits."""
URL_TAG = 249
"""The digest of a page's text and URL; the inline bits are its high word."""
BARE_TAGS = (MINIMA_TAG, BLOCK_TAG, TITLE_TAG)
"""Tags of keys whose postings store no inline bits."""
MAX_TABLES = 249
"""Tables have the tags 0..248."""
RETIRED_TAG = 252
"""The first page of a host in states of format 2. It is never used again."""
MAX_DISTANCE_BITS = 7
MAX_SUB_HASH_DISTANCE_BITS = 10


@dataclass(frozen=True, slots=True)
class TableDesign:
    """Masks of T tables, also as pieces (runs of set bits) for the kernel.

    A key holds the matched bits of a fingerprint, moved together, the lowest first. Beyond 56 bits the highest are
    dropped: the bucket is then coarser than the table, which adds candidates and never loses a neighbour.

    piece_bounds: int64[T + 1]  piece_shift, piece_place: uint64[m]  piece_mask: uint64[m]
    """

    max_distance_bits: int
    masks: tuple[int, ...]
    piece_bounds: NDArray[np.int64]
    piece_shift: NDArray[np.uint64]
    piece_mask: NDArray[np.uint64]
    piece_place: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.masks)

    def keys(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Bucket keys of n fingerprints: uint64[n] -> uint64[n, T]; column t has tag t. Raises TypeError."""
        if fingerprints.dtype != np.uint64 or fingerprints.ndim != 1:
            raise TypeError(f"fingerprints must be uint64[n], got {fingerprints.dtype}[{fingerprints.ndim} dimensions]")
        keys = np.empty((len(fingerprints), len(self.masks)), np.uint64)
        _fill_keys(fingerprints, self.piece_bounds, self.piece_shift, self.piece_mask, self.piece_place, keys)
        return keys


@kernel
def tagged(tag: int, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of one tag that hold the low 56 bits of each word: uint64[...] -> uint64[...]; in a kernel also scalars."""
    return np.uint64(tag) << _KEY_BITS | words & KEY_MASK


@cache
def design_tables(max_distance_bits: int, tables: int, name: str = "scheme.max_distance_bits") -> TableDesign:
    """The design with this number of tables that finds every neighbour within max_distance_bits and matches most bits.

    name: the setting that holds max_distance_bits, for errors
    Raises SettingError if no choice of blocks gives this number of tables; the error lists the possible numbers.
    """
    if not 0 <= max_distance_bits <= MAX_DISTANCE_BITS:
        raise SettingError(name, f"must be 0..{MAX_DISTANCE_BITS}", max_distance_bits, "lower it")
    possible = possible_tables(max_distance_bits)
    if tables not in possible:
        counts = ", ".join(_ranges(sorted(possible)))
        raise SettingError(
            "scheme.tables",
            f"must be one of {counts} for {name.removeprefix('scheme.')} = {max_distance_bits}",
            tables,
            "choose the nearest: more tables cost memory, fewer tables cost candidates",
        )
    return _design_of(max_distance_bits, possible[tables])


@cache
def sub_hash_tables(k: int) -> TableDesign:
    """The k + 1 tables of Williams, Giles 2013, sec. 3.1: k changed bits leave one of k + 1 blocks unchanged.

    Raises SettingError for a k outside 0..10 (their range, sec. 4.1): blocks of fewer than 5 bits match everything.
    """
    if not 0 <= k <= MAX_SUB_HASH_DISTANCE_BITS:
        raise SettingError("scheme.k", f"must be 0..{MAX_SUB_HASH_DISTANCE_BITS}", k, "the paper found 3 to be best")
    blocks = _blocks(range(FINGERPRINT_BITS), k + 1)
    return _design_of(k, tuple(sum(1 << bit for bit in block) for block in blocks))


def _design_of(max_distance_bits: int, masks: tuple[int, ...]) -> TableDesign:
    bounds, shifts, piece_masks, places = [0], [], [], []
    for mask in masks:
        place = 0
        for start, width in _runs(mask):
            taken = min(width, KEY_BITS - place)
            if taken <= 0:
                break
            shifts.append(start)
            piece_masks.append((1 << taken) - 1)
            places.append(place)
            place += taken
        bounds.append(len(shifts))
    return TableDesign(
        max_distance_bits,
        masks,
        np.array(bounds, np.int64),
        np.array(shifts, np.uint64),
        np.array(piece_masks, np.uint64),
        np.array(places, np.uint64),
    )


@cache
def possible_tables(max_distance_bits: int) -> dict[int, tuple[int, ...]]:
    """The best design for each possible number of tables, as masks.

    The best design matches most bits in its weakest table; of equal designs the one with one level wins.
    """
    k = max_distance_bits
    designs: dict[int, tuple[int, ...]] = {}
    whole = tuple(range(FINGERPRINT_BITS))
    for first in range(max(k + 1, 1), FINGERPRINT_BITS + 1):
        outer = math.comb(first, k)
        if outer > MAX_TABLES or (k == 0 and first > 1):
            break
        for second in (0, *range(k + 1, FINGERPRINT_BITS // first * max(k, 1) + 1)):
            total = outer * (math.comb(second, k) if second else 1)
            if total > MAX_TABLES or (k == 0 and second):
                break
            masks = _masks(whole, k, [first, second] if second else [first])
            if total not in designs or _weakest(masks) > _weakest(designs[total]):
                designs[total] = masks
    return designs


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Ascending numbers as text, runs of three or more as first..last: 2, 4, 5, 6 -> 2, 4..6."""
    parts: list[str] = []
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            run = numbers[start:end]
            parts += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else map(str, run)
            start = end
    return parts


def _weakest(masks: tuple[int, ...]) -> int:
    return min(mask.bit_count() for mask in masks)


def _masks(open_bits: Sequence[int], k: int, levels: list[int]) -> tuple[int, ...]:
    """Masks of all choices of b - k of the b blocks of open_bits.

    Each further level cuts the bits that a choice leaves open.
    """
    blocks = _blocks(open_bits, levels[0])
    masks: list[int] = []
    for left_open in combinations(range(levels[0]), k):
        matched = sum(1 << bit for block in set(range(levels[0])) - set(left_open) for bit in blocks[block])
        rest = [bit for block in left_open for bit in blocks[block]]
        inner = _masks(rest, k, levels[1:]) if len(levels) > 1 else (0,)
        masks.extend(matched | mask for mask in inner)
    return tuple(masks)


def _blocks(bits: Sequence[int], count: int) -> list[Sequence[int]]:
    """Cut bits into `count` runs whose lengths differ by at most one, the longer runs first."""
    width, longer = divmod(len(bits), count)
    blocks, start = [], 0
    for index in range(count):
        end = start + width + (index < longer)
        blocks.append(bits[start:end])
        start = end
    return blocks


def _runs(mask: int) -> list[tuple[int, int]]:
    """(first bit, width) of each run of set bits, lowest first."""
    runs, bit = [], 0
    while mask >> bit:
        if mask >> bit & 1:
            width = 1
            while mask >> (bit + width) & 1:
                width += 1
            runs.append((bit, width))
            bit += width
        else:
            bit += 1
    return runs


@kernel
def _fill_keys(fingerprints, piece_bounds, piece_shift, piece_mask, piece_place, keys):
    # fingerprints: uint64[n]  piece_bounds: int64[T + 1]  pieces: uint64[m]  ->  keys: uint64[n, T]
    for table in range(len(piece_bounds) - 1):
        tag = np.uint64(table) << np.uint64(KEY_BITS)
        for index in range(len(fingerprints)):
            fingerprint = fingerprints[index]
            key = tag
            for piece in range(piece_bounds[table], piece_bounds[table + 1]):
                key |= ((fingerprint >> piece_shift[piece]) & piece_mask[piece]) << piece_place[piece]
            keys[index, table] = key
