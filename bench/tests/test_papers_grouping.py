"""Alg.G and alg.H of Yuan et al. 2012 find all pairs within r_h and no others: against brute force."""

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.papers.grouping import (
    GroupIndex,
    index_groups,
    pairs_by_group_merging,
    pairs_by_grouping,
    search_by_group_merging,
    search_by_grouping,
)
from spotsieve.stream.sign.schemes.minwise import pack_bits
from tests.reference.grouping import pairs_within, unpack_bits

PAIRS = (pairs_by_grouping, pairs_by_group_merging)
SEARCHES = (search_by_grouping, search_by_group_merging)


def near_and_far(n: int, k: int, r_h: int, groups: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """N fingerprints: a half at random, the others with r_h - 1 .. r_h + 1 bits of one of them changed.

    Of these a half has them in as many different groups as there are, so that no more than c groups are left.
    """
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2, (n, k), np.uint32)
    for row in range(n // 2, n):
        bits[row] = bits[random.integers(0, n // 2)]
        number = min(max(r_h + int(random.integers(-1, 2)), 0), k)
        if row % 2:
            spread = random.permutation(len(groups) - 1)[:number]
            chosen = random.integers(groups[spread], groups[spread + 1])
        else:
            chosen = random.choice(k, number, replace=False)
        bits[row, chosen] ^= np.uint32(1)
    return pack_bits(bits)


@pytest.mark.guarantee(
    "alg.G and alg.H find every fingerprint within r_h, and nothing farther",
    fault="none: brute force over 110,000 fingerprints of 11 lengths and distances",
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("k", "r_h", "c"),
    [
        (64, 3, 3),  # Manku et al. 2007, and the example of sec. 3.1
        (64, 9, 3),  # r = .7 (table 1)
        (64, 0, 3),
        (64, 0, 1),
        (100, 0, 1),  # one group of 100 bits is longer than a key
        (65, 5, 2),
        (100, 15, 3),
        (200, 10, 1),
        (400, 20, 3),
        (400, 60, 3),
        (1000, 50, 2),
    ],
)
def test_both_find_the_pairs_of_brute_force(k: int, r_h: int, c: int) -> None:
    n = 4_000
    groups = np.linspace(0, k, r_h + c + 1).astype(np.int64)
    fingerprints = near_and_far(n, k, r_h, groups, seed=k * r_h + c)
    expected = pairs_within(fingerprints, r_h)
    assert len(expected) > n // 8, "the planted neighbours are there"
    index = index_groups(fingerprints, k, r_h, c)
    for find in PAIRS:
        found = find(index, 0, n)
        np.testing.assert_array_equal(found.pairs, expected, err_msg=find.__name__)
        assert found.compared >= len(expected)


def test_parts_of_all_pairs_are_all_pairs_and_queries_meet_every_row() -> None:
    groups = np.linspace(0, 100, 14).astype(np.int64)
    fingerprints = near_and_far(900, 100, 10, groups, seed=1)
    index = index_groups(fingerprints, 100, 10)
    expected = pairs_within(fingerprints, 10)
    for find, search in zip(PAIRS, SEARCHES, strict=True):
        parts = [find(index, first, min(first + 128, 900)).pairs for first in range(0, 900, 128)]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        both = search(index, fingerprints).pairs
        own = np.repeat(np.arange(900), 2).reshape(900, 2)
        whole = np.concatenate([expected, expected[:, ::-1], own])
        np.testing.assert_array_equal(both, whole[np.lexsort((whole[:, 1], whole[:, 0]))])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_none_one_and_two_equal_fingerprints(n: int) -> None:
    index = index_groups(np.full((n, 2), 7, np.uint64), 128, 4)
    for find, search in zip(PAIRS, SEARCHES, strict=True):
        assert find(index, 0, n).pairs.tolist() == [[0, 1]] * (n == 2)
        assert search(index, np.full((1, 2), 7, np.uint64)).pairs.tolist() == [[0, row] for row in range(n)]
        assert search(index, np.empty((0, 2), np.uint64)).pairs.shape == (0, 2)
        assert search(index, np.full((1, 2), 2**64 - 1, np.uint64)).pairs.shape == (0, 2)


def test_duplicates_are_all_pairs_of_each_other_and_counters_hold_more_than_a_byte() -> None:
    fingerprints = np.repeat(np.random.default_rng(5).integers(0, 2**64, (3, 10), np.uint64), 40, axis=0)
    expected = pairs_within(fingerprints, 0)
    assert len(expected) == 3 * 40 * 39 // 2
    for r_h, c in ((0, 3), (254, 1), (255, 1), (319, 1), (3, 600)):
        index = index_groups(fingerprints, 640, r_h, c)
        np.testing.assert_array_equal(pairs_by_group_merging(index, 0, 120).pairs, pairs_within(fingerprints, r_h))
        if c < 600:
            np.testing.assert_array_equal(pairs_by_grouping(index, 0, 120).pairs, pairs_within(fingerprints, r_h))


def test_groups_cut_the_bits_and_the_index_lists_each_fingerprint_once_a_group() -> None:
    fingerprints = np.random.default_rng(2).integers(0, 2**64, (500, 3), np.uint64)
    index: GroupIndex = index_groups(fingerprints, 190, 11, 2)
    widths = np.diff(index.groups)
    assert (index.groups[0], index.groups[-1], len(widths)) == (0, 190, 13)
    assert set(widths.tolist()) == {14, 15}
    assert len(index) == 500
    bits = unpack_bits(fingerprints)
    for key, first, last in zip(index.keys.tolist(), index.bounds[:-1], index.bounds[1:], strict=True):
        group, value = key >> 48, key & (2**48 - 1)
        own = bits[:, index.groups[group] : index.groups[group + 1]] @ (1 << np.arange(widths[group]))
        assert index.rows[first:last].tolist() == np.flatnonzero(own == value).tolist()
    assert index.bounds[-1] == 13 * 500


@pytest.mark.parametrize(
    ("k", "r_h", "c", "rule"),
    [
        (0, 0, 1, "k must be 1..128"),
        (129, 3, 3, "k must be 1..128"),
        (64, 62, 3, "r_h + c must be 1..64 groups"),
        (64, -1, 3, "r_h + c"),
        (64, 3, 0, "r_h + c"),
    ],
)
def test_impossible_groups_are_refused(k: int, r_h: int, c: int, rule: str) -> None:
    with pytest.raises(ValueError, match=rule.replace("+", r"\+")):
        index_groups(np.zeros((2, 2), np.uint64), k, r_h, c)


def test_fingerprints_and_queries_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="fingerprints must be uint64"):
        index_groups(np.zeros((2, 2), np.int64), 64, 3)
    index = index_groups(np.zeros((2, 2), np.uint64), 128, 3)
    for search in SEARCHES:
        with pytest.raises(TypeError, match=r"queries must be uint64\[q, 2\]"):
            search(index, np.zeros((2, 1), np.uint64))
