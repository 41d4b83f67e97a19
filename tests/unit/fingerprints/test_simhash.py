"""The 64-bit fold, against its reference implementation."""

import numpy as np
import pytest

from spotsieve.stream.sign.fingerprints.simhash import simhash64
from tests.reference.simhash import fingerprint_of


def fold(pages: list[list[int]]) -> tuple[list[int], list[bool]]:
    features = np.array([feature for page in pages for feature in page], dtype=np.uint64)
    bounds = np.concatenate([[0], np.cumsum([len(page) for page in pages])]).astype(np.int64)
    fingerprints, present = simhash64(features, bounds)
    return fingerprints.tolist(), present.tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 64, 254, 255, 256, 257, 509, 510, 511, 1000, 3000])
def test_the_fold_is_the_sign_of_each_bit_s_sum(count: int) -> None:
    features = np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64).tolist()
    assert fold([features]) == ([fingerprint_of(features)], [True])


def test_equal_features_count_as_often_as_they_occur() -> None:
    assert fold([[0b01, 0b01, 0b10]]) == ([0b01], [True])
    assert fold([[2**64 - 1] * 70_000 + [0] * 69_999]) == ([2**64 - 1], [True])


def test_a_zero_sum_gives_bit_0() -> None:
    assert fold([[0b11, 0b10, 0b00, 0b01]]) == ([0], [True])


def test_a_page_without_features_has_no_fingerprint() -> None:
    assert fold([[], [5], []]) == ([0, 5, 0], [False, True, False])
    assert fold([]) == ([], [])
    assert fold([[0]]) == ([0], [True])


def test_pages_of_a_batch_do_not_touch_each_other() -> None:
    random = np.random.default_rng(1)
    pages = [random.integers(0, 2**64, size, dtype=np.uint64).tolist() for size in random.integers(0, 700, 40)]
    assert fold(pages) == ([fingerprint_of(page) for page in pages], [bool(page) for page in pages])


def test_fingerprints_never_change() -> None:
    assert fold([[0x123456789ABCDEF0, 0xFEDCBA9876543210, 0x0F0F0F0F0F0F0F0F]])[0] == [0x1E1C1E181E1C1E10]


@pytest.mark.parametrize(
    ("features", "bounds", "error"),
    [
        (np.zeros(4, dtype=np.int64), np.array([0, 4]), TypeError),
        (np.zeros((2, 2), dtype=np.uint64), np.array([0, 4]), TypeError),
        (np.zeros(4, dtype=np.uint64), np.array([0.0, 4.0]), TypeError),
        (np.zeros(4, dtype=np.uint64), np.zeros(0, dtype=np.int64), TypeError),
        (np.zeros(4, dtype=np.uint64), np.array([0, 5]), ValueError),
        (np.zeros(4, dtype=np.uint64), np.array([0, 3, 1]), ValueError),
    ],
)
def test_arrays_of_another_kind_are_refused(features: object, bounds: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        simhash64(features, bounds)  # type: ignore[arg-type]  # the point of the test
