"""Ranks pages by their URLs for policy.keep = "canonical", which keeps the copy that sites would rather have linked.

A page that declares itself canonical (RFC 6596) ranks first, then https, then a URL without tracking parameters, then
the shorter URL:

    rank = 2^16 * (4 canonical + 2 https + clean) - min(length of the URL, 2^16 - 1)

Ranks are compared between copies only, so a page's own words choose among copies and make no copies. A page declares
itself canonical if the canonical links in its head name one URL, and this is its own. Links to another page or site,
in a circle, and to several pages therefore count for no page. A page without a URL has no rank.
"""

import html
import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit, urlunsplit

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.sign.schemes.by_url import WrappedScheme

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
_TRACKING_PREFIX = "utm_"
_TRACKING = frozenset(
    "_ga _gl _hsenc _hsmi dclid fbclid gbraid gclid gclsrc igshid mc_cid mc_eid mkt_tok msclkid srsltid ttclid twclid "
    "wbraid wickedid yclid".split()
)
"""Names of query parameters that advertising and mail programs add to links."""


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
    preferred = 4 * canonical + 2 * url.lower().startswith("https:") + (not has_tracking(url))
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


def has_tracking(url: str) -> bool:
    """Whether the query of a URL has a tracking parameter."""
    query = url.partition("#")[0].partition("?")[2]
    names = (part.partition("=")[0].lower() for part in re.split("[&;]", query))
    return any(name in _TRACKING or name.startswith(_TRACKING_PREFIX) for name in names)


def _comparable(base: str, link: str) -> str:
    """An absolute URL without its fragment, with scheme and host in lower case; "" if it cannot be read."""
    try:
        scheme, host, path, query, _ = urlsplit(urljoin(base, link.strip()))
    except ValueError:
        return ""
    return urlunsplit((scheme, host.lower(), path or "/", query, ""))
