"""The 1-bit sketch estimates Jaccard without bias, whatever the sizes, with the spread that theory gives."""

import math
from functools import cache

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from spotsieve.stream.sign.features.shingles import make_repeat_buffers, number_repeats
from spotsieve.stream.sign.fingerprints.minhash import sketch_features, smallest_hashes
from tests.reference.sieve import features_of, minima_of, sketch_of

BITS = 512
PAIRS = 200


@cache
def kernels():  # type: ignore[no-untyped-def]
    @njit
    def sketch(features, bins, found):  # type: ignore[no-untyped-def]
        sketch_features(features, len(features), bins, found)

    @njit
    def minima(shingles, reach, found):  # type: ignore[no-untyped-def]
        return smallest_hashes(shingles, len(shingles), reach, found)

    @njit
    def numbered(features):  # type: ignore[no-untyped-def]
        number_repeats(features, len(features), make_repeat_buffers(max(len(features), 16)))

    return sketch, minima, numbered


def sketched(features: NDArray[np.uint64], bits: int = BITS) -> NDArray[np.uint64]:
    found = np.zeros(bits // 64, np.uint64)
    kernels()[0](features, np.empty(bits, np.uint64), found)
    return found


def hashes(generator: np.random.Generator, count: int) -> NDArray[np.uint64]:
    return generator.integers(0, 2**64, count, dtype=np.uint64)


@pytest.mark.parametrize("size", [1, 2, 5, 20, 100, 500, 5000])
@pytest.mark.parametrize("jaccard", [0.0, 0.3, 0.6, 0.9])
def test_estimates_have_no_bias_and_the_spread_of_theory(size: int, jaccard: float) -> None:
    generator = np.random.default_rng(size)
    common = round(2 * size * jaccard / (1 + jaccard))
    true = common / (2 * size - common)
    errors = []
    for _ in range(PAIRS):
        shared = hashes(generator, common)
        first, second = (sketched(np.concatenate([shared, hashes(generator, size - common)])) for _ in range(2))
        distance = int(np.bitwise_count(first ^ second).sum())
        errors.append(1 - 2 * distance / BITS - true)
    spread = math.sqrt((1 - true**2) / BITS)
    assert abs(np.mean(errors)) <= 4 * spread / math.sqrt(PAIRS)
    assert np.std(errors) <= 1.2 * spread


@pytest.mark.parametrize("bits", [64, 192, 512, 1024])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 400, 3000])
def test_sketches_are_the_twin_s(bits: int, size: int) -> None:
    features = hashes(np.random.default_rng(bits + size), size)
    assert sketched(features, bits).tolist() == sketch_of(features.tolist(), bits)


def test_the_order_of_features_never_matters() -> None:
    features = hashes(np.random.default_rng(1), 300)
    assert sketched(features).tolist() == sketched(features[::-1].copy()).tolist()


@pytest.mark.parametrize("reach", [0, 2, 6])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 2000])
def test_the_smallest_hashes_are_the_twin_s(size: int, reach: int) -> None:
    shingles = hashes(np.random.default_rng(size), size)
    shingles = np.concatenate([shingles, shingles])
    found = np.zeros(8, np.uint64)
    count = kernels()[1](shingles, reach, found)
    assert found[:count].tolist() == minima_of(shingles.tolist(), reach, 8)
    assert (found[:count] < 1 << 56).all()


def numbered(shingles: NDArray[np.uint64]) -> list[int]:
    features = shingles.copy()
    kernels()[2](features)
    numbers: list[int] = features.tolist()
    return numbers


def test_repeats_become_features_that_differ_and_meet_their_likes() -> None:
    first, second = (numbered(np.array(shingles, np.uint64)) for shingles in ([5, 7, 5, 5], [7, 5, 9, 5]))
    assert len(set(first)) == 4
    assert len(set(first) & set(second)) == 3


@pytest.mark.parametrize("different", [1, 2, 40, 700, 100_000])
@pytest.mark.parametrize("spare_bits", [0, 20, 48])
def test_repeats_are_numbered_as_the_twin_does(different: int, spare_bits: int) -> None:
    # with spare bits, many that differ share a slot
    generator = np.random.default_rng(different)
    shingles = generator.choice(hashes(generator, different) >> np.uint64(spare_bits), 900)
    assert numbered(shingles) == features_of(shingles.tolist())


def test_shingles_that_want_the_same_slot_take_linear_time() -> None:
    # equal high bits and equal low bits: every one would look at every other without the bound on steps
    assert len(set(numbered(np.arange(1 << 17, dtype=np.uint64) << np.uint64(20)))) == 1 << 17
