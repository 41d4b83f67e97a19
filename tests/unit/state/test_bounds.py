"""Bounds of ragged columns: from sizes and back, without overflow, and of truths."""

from typing import Any

import numpy as np
import pytest

from spotsieve.stream.base.arrays import bounds_of, sizes_of


@pytest.mark.parametrize(
    ("sizes", "bounds"),
    [
        ([], [0]),
        ([3, 0, 2], [0, 3, 3, 5]),
        (np.array([65_535, 65_535], np.uint16), [0, 65_535, 131_070]),
        (np.array([True, False, True]), [0, 1, 1, 2]),
        (np.empty(0, np.bool_), [0]),
    ],
)
def test_bounds_count_what_comes_before(sizes: Any, bounds: list[int]) -> None:
    found = bounds_of(sizes)
    assert found.dtype == np.int64
    assert found.tolist() == bounds
    assert sizes_of(found).tolist() == [int(size) for size in sizes]
