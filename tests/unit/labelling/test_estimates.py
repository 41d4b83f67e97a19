"""Estimates from stratified labels: they are exact if everything is judged, and intervals cover the truth."""

import numpy as np
import pytest

from spotsieve.stream.research.scoring.estimates import StratifiedSample, estimate_share, wilson

SIZES = np.array([4000, 600, 120, 40, 6], np.int64)
SHARES = np.array([0.995, 0.9, 0.6, 0.3, 0.5])


def test_where_every_unit_is_judged_the_share_is_certain() -> None:
    sample = StratifiedSample(np.array([0, 0, 1, 1, 1]), np.array([2, 3]))
    part, whole = np.array([1, 0, 1, 1, 0], bool), np.array([1, 1, 1, 1, 0], bool)
    found = estimate_share(part, whole, sample)
    assert found is not None
    assert found == pytest.approx((0.75, 0.75, 0.75))


def test_a_unit_stands_for_as_many_as_its_stratum_has_for_each_judged_one() -> None:
    sample = StratifiedSample(np.array([0, 0, 1]), np.array([200, 50]))
    found = estimate_share(np.array([1, 0, 1], bool), np.ones(3, bool), sample)
    assert found is not None
    assert found.value == pytest.approx((100 + 50) / 250)
    assert found.low < found.value < found.high


def test_an_interval_of_labels_that_all_agree_is_no_point() -> None:
    sample = StratifiedSample(np.repeat([0, 1], 10), np.array([1000, 1000]))
    found = estimate_share(np.ones(20, bool), np.ones(20, bool), sample)
    assert found is not None
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(1 - 0.161, abs=0.001)  # Wilson's interval of 20 of 20
    assert estimate_share(np.ones(20, bool), np.zeros(20, bool), sample) is None


def test_wilson_s_interval_is_the_published_one() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263, and 15 of 148
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15 / 148, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)


@pytest.mark.parametrize("drawn", [(30, 25, 20, 15, 6), (80, 40, 20, 8, 2)])
def test_nineteen_of_twenty_intervals_hold_the_truth(drawn: tuple[int, ...]) -> None:
    random = np.random.default_rng(7)
    stratum = np.repeat(np.arange(len(SIZES)), SIZES)
    copy = random.random(len(stratum)) < SHARES[stratum]
    dropped = random.random(len(stratum)) < np.array([1, 0.9, 0.5, 0.2, 0])[stratum]
    truths = (copy & dropped).sum() / dropped.sum(), (copy & dropped).sum() / copy.sum()
    coverage = np.zeros(2)
    for _ in range(400):
        chosen = np.concatenate(
            [random.choice(np.flatnonzero(stratum == h), n, replace=False) for h, n in enumerate(drawn)]
        )
        sample = StratifiedSample(stratum[chosen], SIZES)
        y, d = copy[chosen], dropped[chosen]
        found = estimate_share(y, d, sample), estimate_share(d, y, sample)
        coverage += [one is not None and one.low <= truth <= one.high for one, truth in zip(found, truths, strict=True)]
    assert (coverage / 400 >= 0.92).all(), coverage / 400
