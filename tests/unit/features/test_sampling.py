"""Sampled shingles equal those of the plain-Python reference, and trials of sampling are the paper's, pair by pair."""

from itertools import combinations, pairwise
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.research.models.sampling import SizeClass, Trials, choose_ratios, sampling_trials, share_processed
from spotsieve.stream.sign.features.shingles import RatioTable, head_sizes, reversed_bits, sample_shingles
from tests.reference.sampling import ratio_of, resemblance, reverse, sampled

WORD = 2**64 - 1
# Of few high bits, so that hashes repeat, and with few or many low zeros
hashes = st.builds(lambda high, low: (high << 60 | low) & WORD, st.integers(0, 15), st.integers(0, 70))
pages = st.lists(st.lists(st.one_of(hashes, st.integers(0, WORD)), max_size=40), max_size=5)
ratios = st.sampled_from([1, 2, 4, 8, 16, 1024])


def columns(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([one for row in rows for one in row], np.uint64), np.cumsum([0, *map(len, rows)])


@settings(deadline=None)
@given(st.lists(st.integers(0, WORD), max_size=20))
def test_bits_are_reversed_as_those_of_the_reference(words: list[int]) -> None:
    assert reversed_bits(np.array(words, np.uint64)).tolist() == [reverse(word) for word in words]


@settings(max_examples=150, deadline=None)
@given(pages, st.data(), st.integers(2, 20))
def test_a_sample_is_that_of_the_reference_distinct_ascending_and_never_too_large(
    rows: list[list[int]], data: st.DataObject, most: int
) -> None:
    n = [data.draw(ratios) for _ in rows]
    found = sample_shingles(*columns(rows), np.array(n, np.uint64), most)
    expected = [sampled(row, one, most) for row, one in zip(rows, n, strict=True)]
    for (first, last), (shingles, ratio), kept_ratio in zip(
        pairwise(found.bounds), expected, found.ratios, strict=True
    ):
        assert found.shingles[first:last].tolist() == sorted(map(reverse, shingles))
        assert (kept_ratio, last - first <= most) == (ratio, True)
    assert found.shingles.dtype == found.ratios.dtype == np.uint64


@settings(max_examples=150, deadline=None)
@given(st.lists(hashes, max_size=40), ratios, ratios)
def test_the_sample_at_a_coarser_ratio_is_the_head_of_the_finer_one(shingles: list[int], n: int, coarser: int) -> None:
    n, coarser = sorted((n, coarser))
    fine = sample_shingles(*columns([shingles]), np.array([n], np.uint64), 100)
    coarse = sample_shingles(*columns([shingles]), np.array([coarser], np.uint64), 100)
    size = head_sizes(fine.shingles, np.array([[0, len(fine.shingles)]]), np.array([coarser], np.uint64))
    assert fine.shingles[: size[0]].tolist() == coarse.shingles.tolist()


def test_the_caller_s_ratios_stay_as_they_are() -> None:
    given_ratios = np.array([1], np.uint64)
    assert sample_shingles(*columns([list(range(100))]), given_ratios, 16).ratios.tolist() == [8]
    assert given_ratios.tolist() == [1]


@pytest.mark.parametrize("words", [0, 1, 499, 500, 501, 2999, 3000, 10**9])
@pytest.mark.parametrize(("sizes", "n"), [((), (4,)), ((500,), (8, 16)), ((500, 3000), (1, 1024, 2))])
def test_a_page_s_size_sets_its_ratio(words: int, sizes: tuple[int, ...], n: tuple[int, ...]) -> None:
    assert RatioTable(sizes, n).of(np.array([words])).tolist() == [ratio_of(words, sizes, n)]


@pytest.mark.parametrize(
    ("sizes", "n", "message"),
    [
        ((500, 500), (8, 16, 16), "scheme.sizes must ascend within 1..1000000000, got [500, 500]; such as 500, 3000"),
        ((0,), (8, 16), "scheme.sizes must ascend"),
        ((10**9 + 1,), (8, 16), "scheme.sizes must ascend"),
        ((500,), (8, 12), "scheme.ratios must be powers of two in 1..1024, so that"),
        ((500,), (0, 16), "scheme.ratios must be powers of two"),
        ((500,), (8, 2048), "got [8, 2048]; write 8 for one shingle in 8, such as [8, 16]"),
        ((500,), (8,), "scheme.ratios must be one for each class of pages, 2 for sizes = [500], got [8]; the first is"),
        ((), (), "scheme.ratios must be one for each class of pages, 1 for sizes = [], got []"),
    ],
)
def test_an_impossible_table_is_refused_with_the_rule_and_a_valid_value(
    sizes: tuple[int, ...], n: tuple[int, ...], message: str
) -> None:
    with pytest.raises(SettingError) as error:
        RatioTable(sizes, n)
    assert message in str(error.value)


small = st.lists(st.sets(st.integers(0, 11), max_size=8), max_size=7)


@settings(max_examples=100, deadline=None)
@given(small, st.sampled_from([0.3, 0.5, 0.6, 0.9, 1.0]), st.integers(1, 3), st.integers(1, 4))
def test_trials_are_the_pairs_of_every_remainder_counted_one_by_one(
    sets: list[set[int]], threshold: float, fewest: int, levels: int
) -> None:
    found = sampling_trials(*columns([sorted(one) for one in sets]), threshold, fewest, levels)
    similar = {pair for pair in combinations(range(len(sets)), 2) if alike(sets[pair[0]], sets[pair[1]], threshold)}
    assert found.similar == len(similar)
    for level in range(levels):
        n, precisions, recalls = 1 << level, [], []
        for remainder in range(n):
            trial = [{shingle for shingle in one if shingle % n == remainder} for one in sets]
            pairs = {
                (one, other)
                for one, other in combinations(range(len(sets)), 2)
                if min(len(trial[one]), len(trial[other])) >= fewest and alike(trial[one], trial[other], threshold)
            }
            assert (found.found[level, remainder], found.both[level, remainder]) == (len(pairs), len(pairs & similar))
            precisions += [len(pairs & similar) / len(pairs)] if pairs else []
            recalls += [len(pairs & similar) / len(similar)] if similar else []
        assert found.precision(level) == (pytest.approx(mean(precisions)) if precisions else None)
        assert found.recall(level) == (pytest.approx(mean(recalls)) if recalls else None)
        assert found.sampled[level] == sum(map(len, sets)) / n


def alike(one: set[int], other: set[int], threshold: float) -> bool:
    return resemblance(one, 1, other, 1) >= threshold


def trials(similar: int, *precisions: float | None) -> Trials:
    """Of 1/1, 1/2, ...: ten pairs found in each trial, or none."""
    found, both = np.zeros((2, len(precisions), 1 << (len(precisions) - 1)), np.int64)
    for level, precision in enumerate(precisions):
        found[level, : 1 << level] = 0 if precision is None else 10
        both[level, : 1 << level] = round(10 * (precision or 0))
    return Trials(similar, found, both, 1000 / 2.0 ** np.arange(len(precisions)))


def test_the_smallest_ratio_that_reaches_the_precision_is_chosen() -> None:
    classes = [
        SizeClass(0, 50, trials(10, 1, 0.9, 0.8, 0.7)),
        SizeClass(500, 50, trials(10, 1, 0.7, 0.7, 0.7)),
        SizeClass(1000, 50, trials(10, 1, 0.7, 0.9, None)),
        SizeClass(2000, 50, trials(0, None, None, None, None)),
        SizeClass(3000, 50, trials(0, None, 0, 0, 0)),
        SizeClass(5000, 50, trials(10, 1, 1, 1, 1)),
    ]
    assert choose_ratios(classes, 0.8) == [4, 1, 4, 4, 1, 8]
    assert choose_ratios(classes[3:], 0.8) == [1, 1, 8]
    assert share_processed(classes, [4, 1, 4, 4, 1, 8]) == pytest.approx((0.25 + 1 + 0.25 + 0.25 + 1 + 0.125) / 6)
