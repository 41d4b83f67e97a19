"""The bounds of ragged columns: of row i lie between bounds i and i + 1 the numbers, or the bytes, that it has."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sizes_of(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n + 1] -> how many each of n rows has: int64[n]. np.diff takes three times as long for few rows."""
    sizes: NDArray[np.int64] = bounds[1:] - bounds[:-1]
    return sizes


def bounds_of(sizes: NDArray[Any] | Sequence[int]) -> NDArray[np.int64]:
    """How many each of n rows has, whole numbers or truths -> int64[n + 1], which begins with 0."""
    counted = sizes if isinstance(sizes, np.ndarray) else np.array(sizes, np.int64)
    bounds = np.zeros(len(counted) + 1, np.int64)
    np.add.accumulate(counted, out=bounds[1:])
    return bounds
