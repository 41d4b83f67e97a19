"""Has a scheme keep to what the settings say of pages by their addresses: exempt ones, and which pages may meet.

An exempt page is signed as one that is not judged, and the log says so. Keys of pages with a scope are mixed with it,
as those of a host are in the scope `host` (stream/schemes/by_address/scope.py); pages without one have the scheme's own
keys. A pair of two scopes that meets by an accident, or is made to, is refused by the judge
(stream/judge/addresses.py).
"""

from collections.abc import Sequence

from spotsieve.stream.page import FilterReason, Page
from spotsieve.stream.schemes import Probes, Scheme
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.schemes.by_address.scope import mixed_probes
from spotsieve.stream.schemes.by_address.wrapped import WrappedScheme
from spotsieve.stream.signature import Signatures


class AddressedScheme(WrappedScheme):
    """A scheme under rules."""

    def __init__(self, inner: Scheme, rules: PageRules) -> None:
        super().__init__(inner)
        self._rules = rules

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

    def _judged(self, page: Page) -> Page:
        if page.filtered or not self._rules.exempt(page.url):
            return page
        return page._replace(filtered=FilterReason.EXEMPT, judgeable=False)
