"""Owns what schemes share whose keys all decide, and how a digest is a key.

Of a digest's 128 bits 120 decide: 56 in the key, 64 in the posting.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.tables import KEY_BITS
from spotsieve.stream.schemes import CANDIDATE_LIMIT, OTHER_HOST, REFUSED, Confirmed
from spotsieve.stream.signature import Compared

_LOW_BITS = np.uint64(2**KEY_BITS - 1)


class DecisiveSearch:
    """Whatever passes is accepted: there are no candidates, and templates are not looked at."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """Every key decides, so there are no candidates; none would be accepted."""
        count = min(len(pages), len(others))
        return Confirmed(np.full(count, REFUSED, np.int64), np.full(count, OTHER_HOST, np.int64), np.zeros(count))

    def template_limits(self, pages: Compared) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Templates are for candidates."""
        return np.zeros(len(pages), np.int64), np.zeros(len(pages), np.int64)


def digest_keys(tag: int, digests: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """digests: uint64[n, 2] -> keys: uint64[n]; the postings' inline bits are digests[:, 1]."""
    keys: NDArray[np.uint64] = np.uint64(tag << KEY_BITS) | digests[:, 0] & _LOW_BITS
    return keys
