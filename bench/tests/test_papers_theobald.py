"""Algorithm 1 of Theobald et al. 2008 with its switches against brute force; what called pairs are worth."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.theobald import LEAST_SPOTS, equal_sets, figures_of, searches
from bench.papers.theobald_matching import Collection, Matches, brute_force, collect
from spotsieve.stream.research.scoring.truth import Truth, TruthPair

PAGES = st.lists(st.lists(st.integers(0, 9), max_size=25), min_size=2, max_size=25)


def collected(pages: list[list[int]], least: float = 0, most: float = 1) -> Collection:
    bounds = np.cumsum([0, *map(len, pages)])
    return collect(np.array([term for one in pages for term in one], np.uint64), bounds, least, most)


@settings(max_examples=150, deadline=None)
@given(PAGES, st.sampled_from([0.1, 0.3, 0.44, 0.6, 0.7, 0.8, 0.9, 1.0]))
def test_all_searches_find_the_pairs_within_tau_and_each_bound_saves_comparisons(
    pages: list[list[int]], tau: float
) -> None:
    counted = [Counter(one) for one in pages]
    expected = {
        (one, other)
        for other in range(len(pages))
        for one in range(other)
        if pages[one]
        and pages[other]
        and (counted[one] & counted[other]).total() / (counted[one] | counted[other]).total() >= tau
    }
    runs = searches(collected(pages), tau)
    for run in runs:
        assert {tuple(pair) for pair in run.pairs.tolist()} == expected
        assert len(run.pairs) == len(expected) <= run.comparisons
        assert (run.jaccard >= tau).all()
    compared = [run.comparisons for run in runs]
    assert compared == sorted(compared)


def test_a_page_that_lies_whole_in_a_longer_one_is_found_exactly_at_tau() -> None:
    # From the longer page on, delta_1 + delta_2 = 2 > (1 - .9) * 10 after its rarest spot
    pages = [[0, *range(1, 10)], [*range(1, 10)], [20], [30]]
    assert [run.pairs.tolist() for run in searches(collected(pages), 0.9)] == [[[0, 1]]] * 4


def test_terms_out_of_the_range_of_idf_are_left_out_and_the_rarest_come_first() -> None:
    pages = [[1, 1, 2, 3], [1, 2], [1, 4], [1]]
    assert collected(pages).distinct == 4
    inside = collected(pages, 0.4, 0.9)
    assert (inside.distinct, np.diff(inside.bounds).tolist()) == (1, [1, 1, 0, 0])
    ranks = [int(feature) >> 16 for feature in collected(pages).features[:4]]
    assert ranks == sorted(ranks)
    assert ranks[-2:] == [3, 3], "the term of all pages, twice"
    assert np.diff(collected(pages).thinned(3).bounds).tolist() == [4, 0, 0, 0]
    assert LEAST_SPOTS == 5


def test_equal_sets_are_pages_whose_different_terms_are_the_same() -> None:
    found = equal_sets(collected([[1, 1, 2], [2, 1], [1, 2, 3], []]), 1.0)
    assert found.pairs.tolist() == [[0, 1]]


def test_called_pairs_are_right_wrong_or_count_for_nothing() -> None:
    pairs = (TruthPair(0, 1, 0.9, "cut"), TruthPair(0, 2, 0.4, "cut"), TruthPair(1, 2, 1.0, "copy"))
    truth = Truth(tuple("abcd"), ("page",) * 4, pairs)
    matched = Matches(np.array([[0, 1], [0, 2], [2, 3]]), np.array([0.9, 0.8, 0.5]), 6, 0.0)
    assert figures_of(matched, truth) == (0.5, 0.5, 0.5)
    assert figures_of(matched, truth, 0.8)[:2] == (1.0, 0.5)
    assert figures_of(matched, truth, 0.8).f1 == pytest.approx(2 / 3)
    assert figures_of(matched, truth, 0.95) == (None, 0.0, 0.0)


def test_brute_force_compares_all_pages_that_have_features() -> None:
    assert brute_force(collected([[1], [], [1], [2]]), 0.5).comparisons == 3
