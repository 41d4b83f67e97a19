"""Holds what the schemes share whose keys all decide: they confirm nothing and look at no template."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.schemes import CANDIDATE_LIMIT, OTHER_HOST, REFUSED, Confirmed
from spotsieve.stream.signature import Compared


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
