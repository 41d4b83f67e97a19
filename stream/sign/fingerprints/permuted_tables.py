"""Designs the permuted tables: which bits of a fingerprint each table matches, and the bucket keys that follow.

Manku, Jain, Das Sarma, WWW 2007, section 3: cut the 64 bits into b blocks; two fingerprints that differ in at most k
bits agree on at least b - k whole blocks, so one table for each choice of b - k blocks finds every neighbour. In two
levels (sec. 3.1.3) the bits that a table leaves open are cut again by the same argument, which buys more matched bits
for the same number of tables. Here a table is a mask: the permutation only serves to make the matched bits lead.

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
DIGEST_TAG = 255
"""The tag of keys that hold the low 56 bits of a body's digest; the inline bits are its high word."""
TEXT_TAG = 254
"""The tag of keys that hold the low 56 bits of the kept text's digest; the inline bits are its high word."""
MINIMA_TAG = 253
"""The tag of keys that hold the low 56 bits of one of a page's minima; their postings have no inline bits."""
PRINT_TAG = 251
"""The tag of keys of one of a page's prints, mixed with its host; their postings have no inline bits."""
TITLE_TAG = 250
"""The tag of keys of a page's title words, mixed with its host; their postings have no inline bits."""
ADDRESS_TAG = 249
"""The tag of keys of a page's text and address together; the inline bits are the high word of their digest."""
BARE_TAGS = (MINIMA_TAG, PRINT_TAG, TITLE_TAG)
"""The tags of keys whose postings have no inline bits."""
MAX_TABLES = 249
"""Tables have the tags 0..248. A tag is stored in every key: its meaning never changes."""
RETIRED_TAG = 252
"""Of the first page of a host, in states of format 2. It stays free."""
MAX_DISTANCE_BITS = 7
MAX_SUB_HASH_DISTANCE_BITS = 10


@dataclass(frozen=True, slots=True)
class TableDesign:
    """Masks of the tables, and the same as pieces (runs of set bits) for the kernel.

    A fingerprint's matched bits are its pieces, moved together, lowest first; beyond 56 of them the highest are
    dropped: the bucket is then coarser than the table, which costs candidates and never a neighbour.

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

    @property
    def matched_bits(self) -> int:
        """The fewest bits that any table matches."""
        return min(mask.bit_count() for mask in self.masks)

    def keys(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """fingerprints: uint64[n] -> keys: uint64[n, T]; column t carries tag t."""
        if fingerprints.dtype != np.uint64 or fingerprints.ndim != 1:
            raise TypeError(f"fingerprints must be uint64[n], got {fingerprints.dtype}[{fingerprints.ndim} dimensions]")
        keys = np.empty((len(fingerprints), len(self.masks)), np.uint64)
        _fill_keys(fingerprints, self.piece_bounds, self.piece_shift, self.piece_mask, self.piece_place, keys)
        return keys


@kernel
def tagged(tag: int, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """words: uint64[...], or one in a kernel -> keys of this tag that hold their low 56 bits, alike."""
    return np.uint64(tag) << _KEY_BITS | words & KEY_MASK


@cache
def design_tables(max_distance_bits: int, tables: int, name: str = "scheme.max_distance_bits") -> TableDesign:
    """The design with this many tables that finds every neighbour within max_distance_bits and matches most bits.

    name: what the settings call max_distance_bits

    Raises SettingError where no choice of blocks gives this many tables; it names those that exist.
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
    """The k + 1 tables of Williams, Giles 2013, sec. 3.1: of k + 1 blocks, k changed bits leave one untouched.

    Raises SettingError for a k that is not 0..10 (theirs, sec. 4.1): blocks of fewer than 5 bits tell nothing apart.
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
            kept = min(width, KEY_BITS - place)
            if kept <= 0:
                break
            shifts.append(start)
            piece_masks.append((1 << kept) - 1)
            places.append(place)
            place += kept
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
    """Number of tables -> masks of the best design (most matched bits in its weakest table; one level before two)."""
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
    """Ascending numbers, three and more in a row as first..last: 2, 4, 5, 6 -> 2, 4..6."""
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
    """Choose b - k of the b blocks of open_bits in every way; then the same with what each choice left open."""
    blocks = _blocks(open_bits, levels[0])
    masks: list[int] = []
    for left_open in combinations(range(levels[0]), k):
        matched = sum(1 << bit for block in set(range(levels[0])) - set(left_open) for bit in blocks[block])
        rest = [bit for block in left_open for bit in blocks[block]]
        inner = _masks(rest, k, levels[1:]) if len(levels) > 1 else (0,)
        masks.extend(matched | mask for mask in inner)
    return tuple(masks)


def _blocks(bits: Sequence[int], count: int) -> list[Sequence[int]]:
    """Cut bits into count runs whose lengths differ by one at most; the longer ones first."""
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
