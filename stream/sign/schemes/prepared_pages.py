"""Wrappers around any scheme that prepare pages before they are signed.

ScriptTextScheme reads the text in scripts where a page shows little text (input.script_text). The inner scheme signs
all pages. Only a page whose signature has few words is read again, by stream/sign/text/script_text.py, and signed again
if its scripts hold its text. So other pages cost next to nothing.

CanonicalScheme ranks pages by their URLs for policy.keep = "canonical", which keeps the copy that sites would rather
have linked. A page that declares itself canonical (RFC 6596) ranks first, then https, then a URL without session ids
and tracking tags, then the shorter URL:

    rank = 2^16 * (4 canonical + 2 https + clean) - min(length of the URL, 2^16 - 1)

Ranks are compared between copies only, so a page's own words choose among copies and make no copies. A page declares
itself canonical if the canonical links in its head name one URL, and this is its own. Links to another page or site,
in a circle, and to several pages therefore count for no page. A page without a URL has no rank.
"""

import html
import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit, urlunsplit

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.page_text import words_outside
from spotsieve.stream.base.signature import IN_NEED, Signatures, SignatureStatus, join_signatures
from spotsieve.stream.base.urls import names_visit
from spotsieve.stream.sign.features.shown_text import PARAGRAPH_END, paragraphs_in
from spotsieve.stream.sign.features.sieve import selected_blocks
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.by_url import WrappedScheme
from spotsieve.stream.sign.text.script_text import THIN_WORDS, read_script_text

_TOO_FEW, _JUDGED = int(SignatureStatus.TOO_FEW_FEATURES), (SignatureStatus.FINGERPRINTED, SignatureStatus.PARTIAL)


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
    columns = zip(
        signatures.status.tolist(), signatures.feature_count.tolist(), signatures.language.tolist(), strict=True
    )
    # A main text of weak blocks may be a menu.
    thin = [
        row
        for row, (status, count, language) in enumerate(columns)
        if status == _TOO_FEW or (status in _JUDGED and (count < THIN_WORDS or language & IN_NEED))
    ]
    if not thin:
        return {}
    # About the words of a page outside links; its features for a scheme without blocks.
    bounds = signatures.blocks_bounds
    words = np.where(sizes_of(bounds) > 0, words_outside(signatures.blocks, bounds), signatures.feature_count)
    read = {row: read_script_text(pages[row], words.item(row)) for row in thin}
    return {row: page for row, page in read.items() if page is not pages[row]}


class ExtractedText(NamedTuple):
    """The text of a page. main: its main text  without_template: all its text without template text of its host

    Blank lines separate paragraphs.
    """

    main: str
    without_template: str


def text_of(page: Page, scheme: Scheme, is_template: NDArray[np.bool_]) -> ExtractedText:
    """The text by which a scheme with host memory judges a page, as the page spells it.

    is_template: bool[b], whether each packed block of the page is template text of its host
    """
    (page,) = pages_as_read(scheme, [page])
    selected = selected_blocks(page.body, page.markup)
    marks = [*is_template.tolist(), False]  # The last one is for blocks that are not listed.
    kinds = [(kept, not marks[place]) for kept, place in zip(selected.kept, selected.places, strict=True)]
    shown = paragraphs_in(page.body, page.markup, selected, list(map(any, kinds)))
    paragraphs = list(zip(shown, filter(any, kinds), strict=True))
    return ExtractedText(*(PARAGRAPH_END.join(text for text, kind in paragraphs if kind[part]) for part in (0, 1)))


HEAD_BYTES = 1 << 16
"""The bytes of a page in which canonical links are found."""
LINK_BYTES = 4096
_LONGEST = (1 << 16) - 1
_TAGS = re.compile(
    rb"<!--.*?(?:-->|\Z)"
    rb"|<(script|style|template|noscript|title)\b.*?(?:</\1|\Z)"
    rb"|(?P<end></head|<body)\b"
    rb"|<link\b(?P<link>[^>]{0,%d})" % LINK_BYTES,
    re.IGNORECASE | re.DOTALL,
)
"""Comments, elements without links, the end of the head, and links. Each takes what it scans, so a scan is linear."""
_ATTRIBUTES = re.compile(
    rb"""(?<![^\s"'/])(?P<name>[a-z]+)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'>]+))""",
    re.IGNORECASE,
)


class CanonicalScheme(WrappedScheme):
    """A scheme whose pages are ranked by their URLs."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the inner scheme with the ranks of the pages."""
        return self.inner.sign([page._replace(rank=rank_by_url(page)) for page in pages])


def rank_by_url(page: Page) -> float | None:
    """The rank of a page among its copies; None for a page without a URL."""
    url = page.url.strip()
    if not url:
        return None
    canonical = bool(page.markup) and declares_itself(page.body, url)
    preferred = 4 * canonical + 2 * url.lower().startswith("https:") + (not names_visit(url.encode("utf-8", "replace")))
    return float((preferred << 16) - min(len(url), _LONGEST))


def declares_itself(body: bytes, url: str) -> bool:
    """Whether the canonical links in the head of an HTML page name its own URL, and no other."""
    named = {_comparable(url, link) for link in canonical_links(body)}
    return named == {_comparable(url, url)} and "" not in named


def canonical_links(body: bytes) -> list[str]:
    """The targets of the canonical links in the head of an HTML page, as they are written."""
    found = list[str]()
    for tag in _TAGS.finditer(body[:HEAD_BYTES]):
        if tag["end"]:
            break
        if tag["link"] is None:
            continue
        attributes = dict[str, str]()
        for one in _ATTRIBUTES.finditer(tag["link"]):
            value = one["double"] or one["single"] or one["bare"] or b""
            attributes.setdefault(one["name"].decode().lower(), html.unescape(value.decode("utf-8", "replace")))
        if "canonical" in attributes.get("rel", "").lower().split() and "href" in attributes:
            found.append(attributes["href"])
    return found


def _comparable(base: str, link: str) -> str:
    """An absolute URL without its fragment, with scheme and host in lower case; "" if it cannot be read."""
    try:
        scheme, host, path, query, _ = urlsplit(urljoin(base, link.strip()))
    except ValueError:
        return ""
    return urlunsplit((scheme, host.lower(), path or "/", query, ""))
