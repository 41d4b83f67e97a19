"""Writes ranks as 64-bit words and reads them: what policy.keep = highest or lowest goes by.

    word = 0, no rank
         | the bits of a float64 whose sign is positive, with the highest bit set
         | the complement of the bits of a negative one

Words are in the order of their ranks, and a page without a rank comes before all others.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NO_RANK = 0
"""The word of a page without a rank: no finite number has it."""
_SIGN = np.uint64(1 << 63)


def rank_words(ranks: Sequence[float | None]) -> NDArray[np.uint64]:
    """Ranks, all finite -> uint64[n]; None stands for no rank, and -0.0 is 0.0."""
    if all(rank is None for rank in ranks):
        return np.zeros(len(ranks), np.uint64)
    bits = (np.array([0.0 if rank is None else rank for rank in ranks]) + 0.0).view(np.uint64)
    words = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    words[[rank is None for rank in ranks]] = NO_RANK
    return words


def ranks_of(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """uint64[n] -> float64[n]; nan where there is no rank."""
    bits = np.where(words & _SIGN != 0, words ^ _SIGN, ~words)
    return np.where(words == NO_RANK, np.nan, bits.view(np.float64))
