"""A wrapper around any scheme that reads the text in scripts where a page shows little text (input.script_text).

The inner scheme signs all pages. Only a page whose signature has few words is read again, by
stream/sign/text/script_text.py, and signed again if its scripts hold its text. So other pages cost next to nothing.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.page_text import sum_outside_links
from spotsieve.stream.base.signature import IN_NEED, Signatures, SignatureStatus, is_judged, join_signatures
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import WrappedScheme
from spotsieve.stream.sign.text.script_text import THIN_WORDS, read_script_text

_TOO_FEW = np.uint8(SignatureStatus.TOO_FEW_FEATURES)


class ScriptTextScheme(WrappedScheme):
    """A scheme that signs a page with little visible text by the text in its scripts."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the inner scheme, of the pages as `read` returns them."""
        signatures = self.inner.sign(pages)
        read = _read(pages, signatures)
        if not read:
            return signatures
        parts = list[Signatures]()
        for again, group in groupby(range(len(pages)), read.__contains__):
            rows = [*group]
            part = signatures.part(rows[0], rows[-1] + 1)
            parts.append(self.inner.sign([read[row] for row in rows]) if again else part)
        return join_signatures(parts)

    def read(self, pages: Sequence[Page]) -> list[Page]:
        """The pages with the text of their scripts, or exempt from judging if they are only scripts."""
        read = _read(pages, self.inner.sign(pages))
        return [read.get(row, page) for row, page in enumerate(pages)]


def pages_as_read(scheme: Scheme, pages: Sequence[Page]) -> list[Page]:
    """The pages as the scheme reads them: with the text of their scripts where input.script_text applies."""
    while isinstance(scheme, WrappedScheme):
        if isinstance(scheme, ScriptTextScheme):
            return scheme.read(pages)
        scheme = scheme.inner
    return [*pages]


def _read(pages: Sequence[Page], signatures: Signatures) -> dict[int, Page]:
    """The pages that script text changes, by row."""
    status, count = signatures.status, signatures.feature_count
    # A main text of weak blocks may be a menu.
    few = (count < THIN_WORDS) | (signatures.language & np.uint8(IN_NEED) != 0)
    thin = (status == _TOO_FEW) | (is_judged(status) & few)
    read, bounds = dict[int, Page](), signatures.blocks_bounds.tolist()
    for row in np.flatnonzero(thin).tolist():
        start, end = bounds[row : row + 2]
        # About the words of the page outside links; its features for a scheme without blocks.
        words = int(sum_outside_links(signatures.blocks[start:end]) if end > start else count[row])
        page = read_script_text(pages[row], words) if words < THIN_WORDS else pages[row]
        if page is not pages[row]:
            read[row] = page
    return read
