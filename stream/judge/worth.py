"""Says what pages are worth where one of two copies is kept: by their length, time or rank, and more is better."""

import enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexedPages
from spotsieve.stream.ranks import ranks_of
from spotsieve.stream.signature import FINGERPRINTED, Signatures

LEAST_PREFERENCE = float(np.finfo(np.float64).min)
"""Of a page without a rank: no page is worth less, and none outgrows any by it."""


class Preference(enum.IntEnum):
    """What a page is preference: its features, its time, its rank, or the less the higher its rank is."""

    LENGTH = 0
    TIME = 1
    RANK = 2
    LOW_RANK = 3


def keeps_ranks(by: int) -> bool:
    """Whether entries must hold the ranks of their pages."""
    return by in (Preference.RANK, Preference.LOW_RANK)


class PagePreferences(NamedTuple):
    """What the n pages of a record are worth. own: float64[n], against pages before it  met: float64[n], to later ones

    They differ where nothing but its digest is known of a page: it is the same as its copy, and the first one stays.
    """

    own: NDArray[np.float64]
    met: NDArray[np.float64]


def preferences_of_pages(signatures: Signatures, by: int) -> PagePreferences:
    """What the pages of a record are worth."""
    if by == Preference.LENGTH:
        length = signatures.feature_count.astype(np.float64)
        return PagePreferences(length, length)
    preference = _worth(signatures.event_time_ms if by == Preference.TIME else signatures.rank, by)
    return PagePreferences(np.where(signatures.status == FINGERPRINTED, preference, LEAST_PREFERENCE), preference)


def preferences_of_entries(indexed: IndexedPages, length: NDArray[np.uint32], by: int) -> NDArray[np.float64]:
    """The same of e entries. length: uint32[e], their features  Raises CorruptRecord."""
    if by == Preference.LENGTH:
        return length.astype(np.float64)
    return _worth(indexed.event_times_ms() if by == Preference.TIME else indexed.ranks(), by)


def _worth(column: NDArray[np.int64] | NDArray[np.uint64], by: int) -> NDArray[np.float64]:
    if by == Preference.TIME:
        return column.astype(np.float64)
    ranks = ranks_of(column.astype(np.uint64, copy=False))
    return np.where(np.isnan(ranks), LEAST_PREFERENCE, ranks if by == Preference.RANK else -ranks)
