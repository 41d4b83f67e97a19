"""A scheme around another one, which does everything that it does not say itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Confirmations, Criterion, HostThresholds, Probes, Scheme
from spotsieve.stream.signature import CandidateColumns, Signatures


class WrappedScheme:
    """A scheme that leaves all to the inner one; derived classes say what they do otherwise."""

    def __init__(self, inner: Scheme) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The inner scheme's."""
        return self.inner.name

    @property
    def compares_features(self) -> bool:
        """The inner scheme's."""
        return self.inner.compares_features

    @property
    def candidate_limit(self) -> int:
        """The inner scheme's."""
        return self.inner.candidate_limit

    @property
    def bars(self) -> HostThresholds | None:
        """The inner scheme's."""
        return self.inner.bars

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """The inner scheme's signatures."""
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """The inner scheme's probes."""
        return self.inner.probe(signatures)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The inner scheme's answer."""
        return self.inner.confirm(pages, others)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """The inner scheme's ways."""
        return self.inner.ways(pages, others)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The inner scheme's score."""
        return self.inner.score(distance)
