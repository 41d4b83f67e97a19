"""The ranks of generated pages."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import rank_words


def made_ranks(ids: Sequence[int]) -> NDArray[np.uint64]:
    """The ranks of pages by their ids: some are equal, some below 0, and every fifth page has none."""
    return rank_words([None if i % 5 == 2 else i * 37 % 13 - 6.5 for i in ids])
