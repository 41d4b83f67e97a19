"""Has a scheme keep to what the settings say of pages by their addresses: exempt ones, and which pages may meet.

An exempt page is signed as one that is not judged, and the log says so. Keys of pages with a scope are mixed with it,
as those of a host are in the scope `host` (stream/schemes/scope.py); pages without one have the scheme's own keys. A
pair of two scopes that meets by an accident, or is made to, is refused by the judge (stream/judge/addresses.py).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.page import Filtered, Page
from spotsieve.stream.schemes import Bars, Confirmed, Probes, Scheme, Way
from spotsieve.stream.schemes.rules import PageRules
from spotsieve.stream.schemes.scope import mixed_probes
from spotsieve.stream.signature import Compared, Signatures


class AddressedScheme:
    """A scheme under rules."""

    def __init__(self, scheme: Scheme, rules: PageRules) -> None:
        self.inner, self._rules = scheme, rules

    @property
    def name(self) -> str:
        """The scheme's own."""
        return self.inner.name

    @property
    def compares_features(self) -> bool:
        """The scheme's own."""
        return self.inner.compares_features

    @property
    def candidate_limit(self) -> int:
        """The scheme's own."""
        return self.inner.candidate_limit

    @property
    def bars(self) -> Bars | None:
        """The scheme's own."""
        return self.inner.bars

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """The scheme's signatures, of pages of which some are exempt."""
        if self._rules.exempting:
            pages = [self._judged(page) for page in pages]
        return self.inner.sign(pages)

    def probe(self, signatures: Signatures) -> Probes:
        """The scheme's probes, mixed with the scope of each page that has one."""
        probes = self.inner.probe(signatures)
        if not self._rules.scoping:
            return probes
        return mixed_probes(probes, self._rules.scopes(signatures.addresses()))

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """The scheme's own."""
        return self.inner.confirm(pages, others)

    def ways(self, pages: Compared, others: Compared) -> tuple[Way, ...]:
        """The scheme's own."""
        return self.inner.ways(pages, others)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The scheme's own."""
        return self.inner.score(distance)

    def _judged(self, page: Page) -> Page:
        if page.filtered or not self._rules.exempt(page.url):
            return page
        return dataclasses.replace(page, filtered=Filtered.EXEMPT, judgeable=False)


def whole_scheme(scheme: Scheme) -> Scheme:
    """The scheme without the rules of addresses, but within its scope."""
    return scheme.inner if isinstance(scheme, AddressedScheme) else scheme
