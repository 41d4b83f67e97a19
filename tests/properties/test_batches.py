"""Batches hold every item once and in order, keep their bounds, and are given as soon as they are full."""

from collections.abc import Iterator
from itertools import chain, islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotsieve.stream.base.batches import batches

SIZES = st.lists(st.integers(0, 40), max_size=40)
MOST_ITEMS, MOST_BYTES = st.integers(1, 9), st.integers(1, 100)


def size_of(item: tuple[int, int]) -> int:
    return item[1]


@given(SIZES, MOST_ITEMS, MOST_BYTES)
def test_batches_hold_all_items_in_order_and_keep_their_bounds(
    sizes: list[int], most_items: int, most_bytes: int
) -> None:
    items = list(enumerate(sizes))
    found = list(batches(iter(items), most_items, most_bytes, size_of))
    assert list(chain.from_iterable(found)) == items
    for batch in found:
        assert 1 <= len(batch) <= most_items
        assert len(batch) == 1 or sum(map(size_of, batch)) <= most_bytes


@given(SIZES, MOST_ITEMS, MOST_BYTES)
def test_no_batch_ends_before_the_next_item_would_break_a_bound(
    sizes: list[int], most_items: int, most_bytes: int
) -> None:
    found = list(batches(enumerate(sizes), most_items, most_bytes, size_of))
    for batch, behind in pairwise(found):
        size = sum(map(size_of, batch))
        assert len(batch) == most_items or size >= most_bytes or size + size_of(behind[0]) > most_bytes


@given(SIZES, MOST_ITEMS, MOST_BYTES)
def test_at_most_one_item_is_taken_beside_the_batch(sizes: list[int], most_items: int, most_bytes: int) -> None:
    taken, given_out = 0, 0

    def items() -> Iterator[tuple[int, int]]:
        nonlocal taken
        for item in enumerate(sizes):
            taken += 1
            yield item

    for batch in batches(items(), most_items, most_bytes, size_of):
        given_out += len(batch)
        assert taken - given_out <= 1


def test_a_full_batch_is_given_before_the_next_item_is_taken() -> None:
    def items() -> Iterator[tuple[int, int]]:
        yield 0, 5
        yield 1, 5
        raise AssertionError("taken too early")

    assert list(islice(batches(items(), 2, 100, size_of), 1)) == [[(0, 5), (1, 5)]]
    assert list(islice(batches(items(), 9, 10, size_of), 1)) == [[(0, 5), (1, 5)]]


def test_items_before_an_error_are_given_first() -> None:
    def items() -> Iterator[tuple[int, int]]:
        yield from ((0, 1), (1, 1), (2, 1))
        raise OSError("damaged")

    found = batches(items(), 2, 100, size_of)
    assert [next(found), next(found)] == [[(0, 1), (1, 1)], [(2, 1)]]
    with pytest.raises(OSError, match="damaged"):
        next(found)
