"""Remembers which pages were met: 8 bytes for each, and twice that for a moment."""

import numpy as np
from numpy.typing import NDArray


class NumberSet:
    """Numbers that were met, as sorted runs: a run is merged with the one before it as soon as it is as long."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Take in numbers: uint64[n] -> bool[n], whether each is met here for the first time."""
        kept, first = np.unique(numbers, return_index=True)
        new = np.ones(len(kept), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, kept)
            at[at == len(run)] = 0
            new &= run[at] != kept
        fresh = np.zeros(len(numbers), np.bool_)
        fresh[first[new]] = True
        if new.any():
            self._runs.append(kept[new])
        while len(self._runs) > 1 and len(self._runs[-2]) <= len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return fresh
