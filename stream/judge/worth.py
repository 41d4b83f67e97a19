"""Says what pages are worth where one of two copies is kept: by their length, time or rank, and more is better."""

import enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import FiledPages
from spotsieve.stream.ranks import ranks_of
from spotsieve.stream.signature import FINGERPRINTED, Signatures

LEAST_WORTH = float(np.finfo(np.float64).min)
"""Of a page without a rank: no page is worth less, and none outgrows any by it."""


class Worth(enum.IntEnum):
    """What a page is worth: its features, its time, its rank, or the less the higher its rank is."""

    LENGTH = 0
    TIME = 1
    RANK = 2
    LOW_RANK = 3


def keeps_ranks(by: int) -> bool:
    """Whether entries must hold the ranks of their pages."""
    return by in (Worth.RANK, Worth.LOW_RANK)


class Worths(NamedTuple):
    """What the n pages of a record are worth. own: float64[n], against pages before it  met: float64[n], to later ones

    They differ where nothing but its digest is known of a page: it is the same as its copy, and the first one stays.
    """

    own: NDArray[np.float64]
    met: NDArray[np.float64]


def worth_of_pages(signatures: Signatures, by: int) -> Worths:
    """What the pages of a record are worth."""
    if by == Worth.LENGTH:
        length = signatures.feature_count.astype(np.float64)
        return Worths(length, length)
    worth = _worth(signatures.event_time_ms if by == Worth.TIME else signatures.rank, by)
    return Worths(np.where(signatures.status == FINGERPRINTED, worth, LEAST_WORTH), worth)


def worth_of_filed(filed: FiledPages, length: NDArray[np.uint32], by: int) -> NDArray[np.float64]:
    """The same of e entries. length: uint32[e], their features  Raises CorruptRecord."""
    if by == Worth.LENGTH:
        return length.astype(np.float64)
    return _worth(filed.event_times_ms() if by == Worth.TIME else filed.ranks(), by)


def _worth(column: NDArray[np.int64] | NDArray[np.uint64], by: int) -> NDArray[np.float64]:
    if by == Worth.TIME:
        return column.astype(np.float64)
    ranks = ranks_of(column.astype(np.uint64, copy=False))
    return np.where(np.isnan(ranks), LEAST_WORTH, ranks if by == Worth.RANK else -ranks)
