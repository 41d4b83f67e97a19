"""Permuted tables find every neighbour within k and nothing farther: against brute force, and by their blocks."""

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from spotsieve.stream.sign.fingerprints.permuted_tables import TableDesign, design_tables, possible_tables
from tests.fixtures.long_cases import mostly_long
from tests.reference.tables import flip_bits, nearest_counts

MILLION = 1_000_000
FARTHER = 2


@numba.njit(nogil=True, cache=True)
def _found_counts(queries, query_keys, sorted_keys, sorted_rows, fingerprints, k):  # type: ignore[no-untyped-def]
    # The fingerprints that share a bucket with a query and are within k, each counted once, by distance
    # ->  int64[q, k + 1]
    counts = np.zeros((len(queries), k + 1), np.int64)
    for query in range(len(queries)):
        seen = set([np.int64(-1)])  # noqa: C405 - numba infers the element type from the list
        for table in range(query_keys.shape[1]):
            at = np.searchsorted(sorted_keys[table], query_keys[query, table])
            while at < len(fingerprints) and sorted_keys[table, at] == query_keys[query, table]:
                row = sorted_rows[table, at]
                at += 1
                if row in seen:
                    continue
                seen.add(row)
                word, distance = queries[query] ^ fingerprints[row], 0
                while word:
                    word &= word - np.uint64(1)
                    distance += 1
                if distance <= k:
                    counts[query, distance] += 1
    return counts


def _compare(design: TableDesign, count: int, queries_per_distance: int, at_k: int, seed: int) -> None:
    k, random = design.max_distance_bits, np.random.default_rng(seed)
    fingerprints = random.integers(0, 2**64, count, np.uint64)
    # most at distance k: only patterns that change a bit in k different blocks depend on one table alone
    distances = np.append(np.repeat(np.arange(k + FARTHER), queries_per_distance), np.full(at_k, k))
    chosen = random.integers(0, count, len(distances))
    queries = flip_bits(fingerprints[chosen], distances, seed)
    expected: NDArray[np.int64] = nearest_counts(queries, fingerprints, k + 1)
    planted = expected[np.arange(len(queries)), distances]
    assert (planted >= 1).all(), "the planted neighbours are where brute force looks"
    keys = design.keys(fingerprints).T
    order = np.argsort(keys, axis=1, kind="stable")
    found = _found_counts(queries, design.keys(queries), np.take_along_axis(keys, order, 1), order, fingerprints, k)
    np.testing.assert_array_equal(found, expected[:, : k + 1])


@pytest.mark.guarantee(
    "every fingerprint within k bits is found, and nothing farther",
    fault="none: brute force over 1,000,000 fingerprints",
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("tables", mostly_long([16, 4, 10, 20], 1))
def test_among_a_million_fingerprints_exactly_the_neighbours_within_3_bits_are_found(tables: int) -> None:
    _compare(design_tables(3, tables), MILLION, 40, 700, seed=tables)


@pytest.mark.parametrize(
    ("k", "tables"),
    [(0, 1), (1, 2), (1, 4), (1, 64), (2, 3), (2, 6), (2, 9), (4, 5), (4, 25), (5, 21), (6, 28), (7, 36)],
)
def test_every_neighbour_within_other_distances_is_found_too(k: int, tables: int) -> None:
    _compare(design_tables(k, tables), 20_000, 50, 5000, seed=100 * k + tables)


@pytest.mark.parametrize("k", range(8))
def test_every_pattern_of_k_changed_bits_leaves_a_table_untouched(k: int) -> None:
    random = np.random.default_rng(k)
    zeros = np.zeros(3000, np.uint64)
    patterns = flip_bits(zeros, np.full(3000, k), seed=k) if k else zeros
    patterns[: len(patterns) // 3] = _huddled(k, len(patterns) // 3, random)
    for tables, masks in possible_tables(k).items():
        untouched = np.zeros(len(patterns), bool)
        for mask in masks:
            untouched |= patterns & np.uint64(mask) == 0
        assert untouched.all(), f"k={k}, {tables} tables"
        assert len(masks) == tables


def _huddled(k: int, count: int, random: np.random.Generator) -> NDArray[np.uint64]:
    """Patterns whose changed bits lie within 16 neighbouring places: most of them within one block."""
    places = np.argsort(random.random((count, 16)), axis=1)[:, :k] + random.integers(0, 49, (count, 1))
    patterns: NDArray[np.uint64] = (np.uint64(1) << places.astype(np.uint64)).sum(axis=1, dtype=np.uint64)
    return patterns
