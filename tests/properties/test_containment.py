"""Containment and fresh words are estimated from samples: how close they are to a count of all shingles and words."""

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from spotsieve.stream.base import page_text
from tests.fixtures.pages.hosts import Made, Paragraph, different, shingles_of, signatures_of
from tests.reference.containment import ALL_TEXT, MAIN_TEXT, Comparison, PageView, entry_of, look_up, packed_limits
from tests.reference.host_memory import Memory
from tests.reference.packed_text import rounded_size, text_of, words_of_code

PAIRS = 20


class Shape(NamedTuple):
    """Two pages of which the second one is derived from the first one.

    main, other: words of the main text and of other text  block: words of a block, about
    edits: share of words that are changed  fresh: share of blocks that others replace
    """

    main: int
    other: int
    block: int
    edits: float
    fresh: float
    part: int = ALL_TEXT


SHAPES = [
    Shape(60, 0, 20, 0.0, 0.5),
    Shape(150, 0, 50, 0.02, 0.0),
    Shape(150, 100, 30, 0.01, 0.3),
    Shape(1_000, 0, 50, 0.0, 0.4),
    Shape(1_000, 0, 50, 0.02, 0.2),
    Shape(150, 1_500, 30, 0.01, 0.3),
    Shape(800, 800, 47, 0.01, 0.0, MAIN_TEXT),
    Shape(800, 800, 47, 0.01, 0.3, MAIN_TEXT),
    Shape(5_000, 300, 100, 0.01, 0.3),
    Shape(40_000, 0, 300, 0.0, 0.5),
    Shape(100_000, 0, 300, 0.0, 0.5),
]


def blocks_of(dice: random.Random, words: int, size: int, kept: bool) -> list[Paragraph]:
    """Blocks of this many words in all."""
    blocks = list[Paragraph]()
    while words > 0:
        count = max(3, round(size * dice.uniform(0.5, 1.5)))
        blocks.append(Paragraph(tuple(dice.randrange(9_000) for _ in range(count)), kept))
        words -= count
    return blocks


def derived(dice: random.Random, shape: Shape, blocks: Sequence[Paragraph]) -> tuple[list[Paragraph], int]:
    """Blocks of a page derived from these, and its fresh words."""
    found, fresh = list[Paragraph](), 0
    for block in blocks:
        if dice.random() < shape.fresh:
            found.append(Paragraph(tuple(dice.randrange(9_000) for _ in block.words), block.kept))
            fresh += len(block.words) if shape.part == ALL_TEXT or block.kept else 0
        else:
            words = tuple(dice.randrange(9_000) if dice.random() < shape.edits else word for word in block.words)
            found.append(block._replace(words=words))
    return found, fresh


def view_of(blocks: Sequence[Paragraph]) -> PageView:
    """The page of these blocks on a host of which nothing is known."""
    return look_up(text_of(signatures_of([(Made(1, 1, 0, different(blocks)), 3)]), 0), Memory(), 0.08)


def shingles(blocks: Sequence[Paragraph], part: int) -> set[int]:
    """All shingles of a part."""
    chosen = (block for block in blocks if part == ALL_TEXT or block.kept)
    return {shingle for block in chosen for shingle, _ in shingles_of(block.words, block.wide)}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_estimates_are_close_to_exact_counts_and_lean_to_neither_side(shape: Shape) -> None:
    dice, errors, fresh_errors = random.Random(1), list[float](), list[float]()
    pairs = PAIRS if shape.main < 10_000 else 4
    for _ in range(pairs):
        old = blocks_of(dice, shape.main, shape.block, True) + blocks_of(dice, shape.other, shape.block, False)
        new, fresh = derived(dice, shape, old)
        found = Comparison(view_of(new), entry_of(view_of(old))).measure(shape.part)
        own = shingles(new, shape.part)
        exact = len(own & shingles(old, ALL_TEXT)) / len(own)
        errors.append(found.contained - exact)
        fresh_errors.append(found.fresh - fresh)
    size = shape.main + (shape.other if shape.part == ALL_TEXT else 0)
    assert max(map(abs, errors)) <= 0.15
    assert abs(statistics.mean(errors)) <= 0.14 / pairs**0.5
    # A single missing shingle between two shared ones may be an edit, so fresh blocks of long pages are underestimated.
    assert -0.06 * size <= statistics.mean(fresh_errors) + (0.1 * size if shape.main >= 10_000 else 0) <= 0.16 * size
    assert max(fresh_errors) <= 0.1 * size + 10
    assert min(fresh_errors) >= -0.2 * size - 20


@pytest.mark.parametrize("other", [200, 1_500, 60_000])
def test_other_text_is_found_in_a_page_that_has_much_more_of_it(other: int) -> None:
    dice, found = random.Random(2), list[float]()
    for _ in range(PAIRS if other < 10_000 else 4):
        old = blocks_of(dice, 100, 30, True) + blocks_of(dice, other, 30, False)
        entry = entry_of(view_of(old))
        for new in (old[:8], [*old[:4], *old[-8:]]):
            compared = Comparison(view_of(new), entry)
            found.append(compared.measure(ALL_TEXT).contained)
            assert compared.measure(ALL_TEXT).fresh == 0
    assert min(found) >= 0.97


@njit
def _unpacked(main, rest):  # type: ignore[no-untyped-def]
    # main, rest: int64[k]  ->  int64[k, 3]: the packed limits, and both of them unpacked
    limits = np.empty((len(main), 3), np.int64)
    for place in range(len(main)):
        packed = page_text.pack_limits(main[place], rest[place])
        limits[place] = packed, page_text.main_limit(packed), page_text.rest_limit(packed)
    return limits


def test_packed_limits_are_rounded_down_and_close() -> None:
    random = np.random.default_rng(1)
    main, rest = ((2 ** random.uniform(8, 32, 20_000)).astype(np.int64) - 1 for _ in range(2))
    main[:5_000], rest[2_500:7_500] = page_text.EVERY_HASH, page_text.EVERY_HASH
    packed, main_limit, rest_limit = _unpacked(main, rest).T
    assert packed.min() >= 0
    assert packed.max() == page_text.EVERY_HASH
    assert packed.tolist() == [packed_limits(*pair) for pair in zip(main.tolist(), rest.tolist(), strict=True)]
    assert (main_limit <= main).all()
    assert (rest_limit <= np.minimum(main_limit, rest)).all()
    usual = rest >= main / 8
    assert (main_limit[usual] >= main[usual] - 256).all()
    assert (rest_limit[usual] >= np.minimum(main, rest)[usual] * 31 / 32 - 256).all()
    assert (_unpacked(np.zeros(3, np.int64), np.array([0, 255, page_text.EVERY_HASH]))[:, 1] == 255).all()


@njit
def _coded(sizes):  # type: ignore[no-untyped-def]
    # sizes: int64[k]  ->  codes, and the sizes that they stand for: int64[k] each
    codes, rounded = np.empty_like(sizes), np.empty_like(sizes)
    for place in range(len(sizes)):
        codes[place] = page_text.size_code(sizes[place])
        rounded[place] = page_text.words_of_code(codes[place])
    return codes, rounded


def test_sizes_are_exact_below_32_and_rounded_down_by_less_than_a_16th() -> None:
    sizes = np.concatenate([np.arange(5_000), np.arange(5_000, 2 * page_text.MOST_SIZE, 911)])
    codes, rounded = _coded(sizes)
    assert codes.max() == 255
    assert (np.diff(codes) >= 0).all()
    assert rounded.tolist() == [words_of_code(code) for code in codes.tolist()]
    assert rounded.tolist() == [rounded_size(size) for size in sizes.tolist()]
    capped = np.minimum(sizes, page_text.MOST_SIZE)
    assert (rounded[:32] == sizes[:32]).all()
    assert (rounded <= capped).all()
    assert (rounded[1:] > capped[1:] * 15 / 16).all()


@njit
def _scaled(values: NDArray[np.int64], limits: NDArray[np.int64]) -> NDArray[np.int64]:
    scaled = np.empty(len(values), np.int64)
    for place in range(len(values)):
        scaled[place] = page_text.scaled_hash(values[place], limits[place])
    return scaled


def test_hashes_are_scaled_as_by_a_division_also_beside_every_step() -> None:
    random = np.random.default_rng(1)
    limits = np.concatenate([2 ** np.arange(33) - 1, random.integers(0, 2**32, 2_000), 2**32 - 1 - np.arange(200)])
    steps = np.concatenate([[0, 1, 2, 2**15, 2**16 - 2, 2**16 - 1], random.integers(0, 2**16, 200)])
    # The first hash of each step, and the last one of the step before.
    first = -(-steps[None, :] * (limits[:, None] + 1) // 2**16)
    values = np.clip(np.stack([first - 1, first, first + 1]), 0, limits[:, None])
    limits = np.broadcast_to(limits[:, None], values.shape).reshape(-1)
    np.testing.assert_array_equal(_scaled(values.reshape(-1), limits), (values.reshape(-1) << 16) // (limits + 1))
