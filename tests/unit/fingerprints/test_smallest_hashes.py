"""The kernel and the reference implementation give the same MinHash values."""

import numpy as np
import pytest
from numba import njit

from spotsieve.stream.sign.fingerprints.minhash import smallest_hashes
from tests.reference.sieve import minima_of


@njit
def _smallest(shingles, reach, found):  # type: ignore[no-untyped-def]
    return smallest_hashes(shingles, len(shingles), reach, found)


@pytest.mark.parametrize("reach", [0, 2, 6])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 2000])
def test_the_smallest_hashes_are_those_of_the_reference(size: int, reach: int) -> None:
    shingles = np.random.default_rng(size).integers(0, 2**64, size, dtype=np.uint64)
    shingles = np.concatenate([shingles, shingles])
    found = np.zeros(8, np.uint64)
    count = _smallest(shingles, reach, found)
    assert found[:count].tolist() == minima_of(shingles.tolist(), reach, 8)
    assert (found[:count] < 1 << 56).all()
