"""Holds what the schemes share whose keys all decide: they confirm nothing."""

import numpy as np

from spotsieve.stream.schemes import CANDIDATE_LIMIT, Confirmations, Criterion
from spotsieve.stream.signature import CandidateColumns


class DecisiveSearch:
    """Whatever passes is accepted: there are no candidates."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    bars = None

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Every key decides, so there are no candidates; none would be accepted."""
        count = min(len(pages), len(others))
        return Confirmations(np.zeros(count, np.bool_), np.zeros(count))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """None: what a key finds is accepted, and what no key finds is not."""
        del pages, others
        return ()
