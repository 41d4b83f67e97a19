"""Holds what the schemes share whose keys all decide: they confirm nothing."""

import numpy as np

from spotsieve.stream.schemes import CANDIDATE_LIMIT, Confirmed, Way
from spotsieve.stream.signature import Compared


class DecisiveSearch:
    """Whatever passes is accepted: there are no candidates."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    bars = None

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """Every key decides, so there are no candidates; none would be accepted."""
        count = min(len(pages), len(others))
        return Confirmed(np.zeros(count, np.bool_), np.zeros(count))

    def ways(self, pages: Compared, others: Compared) -> tuple[Way, ...]:
        """None: what a key finds is accepted, and what no key finds is not."""
        del pages, others
        return ()
