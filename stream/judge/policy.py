"""The settings that the judge takes beside its scheme: preferences between copies, and the relations of two URLs.

Preference: of two copies, the one with the higher preference is kept. It is the length, the time or the rank of a page.

URL relation: two pages may have the same URL (the page was fetched again), or lie in two scopes and never match.
The URL is compared without its fragment (RFC 3986, sec. 3.5), in the form that the log stores. A page without a URL
shares it with no page. A page that is submitted again (same page id) is the page itself, not a second fetch.
"""

import enum
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexedEntries, IndexedPages
from spotsieve.stream.base.arrays import filled
from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page import PageId, ranks_of
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, page_ids_of
from spotsieve.stream.base.urls import url_without_fragment
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.sign.schemes.url_rules import PageRules, page_rules

LEAST_PREFERENCE = float(np.finfo(np.float64).min)
"""The preference of a page without a rank: no page has a lower one, and this page supersedes none."""


class Preference(enum.IntEnum):
    """The value that decides which copy is kept: the number of features, the time, or the rank (high or low first)."""

    LENGTH = 0
    TIME = 1
    RANK = 2
    LOW_RANK = 3


def keeps_ranks(by: int) -> bool:
    """Whether entries must store the ranks of their pages."""
    return by in (Preference.RANK, Preference.LOW_RANK)


class PagePreferences(NamedTuple):
    """The preferences of the n pages of a record, which differ by the side of the comparison.

    own: float64[n], when the page is compared with earlier pages
    as_candidate: float64[n], when a later page is compared with it
    They differ for a page of which only the body digest is known: it is identical to its copy, and the first one is
    kept.
    """

    own: NDArray[np.float64]
    as_candidate: NDArray[np.float64]


def preferences_of_pages(signatures: Signatures, by: int) -> PagePreferences:
    """The preferences of the pages of a record. by: Preference"""
    if by == Preference.LENGTH:
        length = signatures.feature_count.astype(np.float64)
        return PagePreferences(length, length)
    preference = _ranking(signatures.event_time_ms if by == Preference.TIME else signatures.rank, by)
    return PagePreferences(np.where(signatures.status == FINGERPRINTED, preference, LEAST_PREFERENCE), preference)


def preferences_of_entries(indexed: IndexedPages, length: NDArray[np.uint32], by: int) -> NDArray[np.float64]:
    """The preferences of e entries. length: uint32[e], numbers of features. Raises CorruptRecord."""
    if by == Preference.LENGTH:
        return length.astype(np.float64)
    return _ranking(indexed.event_times_ms() if by == Preference.TIME else indexed.ranks(), by)


def _ranking(column: NDArray[np.int64] | NDArray[np.uint64], by: int) -> NDArray[np.float64]:
    if by == Preference.TIME:
        return column.astype(np.float64)
    ranks = ranks_of(column.astype(np.uint64, copy=False))
    return np.where(np.isnan(ranks), LEAST_PREFERENCE, ranks if by == Preference.RANK else -ranks)


KEEP_FIRST = math.inf
"""The `longer_by` with which no page supersedes another: the first copy is kept."""
ANY_BETTER = 1.0
"""The `longer_by` with which a page supersedes every page of lower preference."""
ANY_KIND = 255
"""All kinds of keys (KeyKind), future kinds included."""
_PREFERENCES = {
    "first": Preference.LENGTH,
    "longest": Preference.LENGTH,
    "newest": Preference.TIME,
    "highest": Preference.RANK,
    "lowest": Preference.LOW_RANK,
    "canonical": Preference.RANK,
}
"""The preference by the value of policy.keep. With "first" no page supersedes another, so the preference has no
effect."""
_SAME_URL = {"drop": ANY_KIND, "identical": int(KeyKind.BODY | KeyKind.URL), "pass": 0}


class Policy(NamedTuple):
    """The policy settings as the judge takes them.

    longer_by: a copy supersedes its original if its preference is more than this multiple of the original's
    same_url: kinds of decisive keys (KeyKind) under which a page is a copy of a page with the same URL; ANY_KIND: URLs
    do not affect the verdict
    rules: the settings for pages by URL, or None
    preference: the value that decides which copy is kept (Preference); by default the number of features
    """

    longer_by: float = KEEP_FIRST
    same_url: int = ANY_KIND
    rules: PageRules | None = None
    preference: int = int(Preference.LENGTH)


PLAIN = Policy()
"""The first copy is kept, and URLs do not affect the verdict."""


def policy_of(settings: Settings) -> Policy:
    """The policy of the judge from [policy] and [[rules]]. Raises SettingError for contradictory rules."""
    policy = settings.policy
    preference = _PREFERENCES[policy.keep]
    longer_by = {"first": KEEP_FIRST, "longest": policy.longer_by}.get(policy.keep, ANY_BETTER)
    return Policy(longer_by, _SAME_URL[policy.recrawl], page_rules(settings), int(preference))


_NONE = -1
PLAIN_PAIR, SAME_URL, APART = np.uint8(0), np.uint8(1), np.uint8(2)
"""Relations of two pages by their URLs: unrelated, one URL fetched twice, two scopes that never match."""


class UrlRelations(NamedTuple):
    """The URLs of n pages of a record and e entries, as numbers that the kernels compare.

    own: int64[n], indexed: int64[e], equal for equal URLs; _NONE for pages without a URL and for entries whose URL is
    not in the record
    page: int64[n], indexed_page: int64[e], equal for equal page ids
    scope: uint64[n], indexed_scope: uint64[e], equal for pages that may match
    """

    own: NDArray[np.int64]
    page: NDArray[np.int64]
    scope: NDArray[np.uint64]
    indexed: NDArray[np.int64]
    indexed_page: NDArray[np.int64]
    indexed_scope: NDArray[np.uint64]


def no_urls(pages: int, entries: int) -> UrlRelations:
    """The relations of pages and entries where URLs do not affect the verdict."""
    own, indexed = filled(pages, _NONE, np.int64), filled(entries, _NONE, np.int64)
    return UrlRelations(own, own, np.zeros(pages, np.uint64), indexed, indexed, np.zeros(entries, np.uint64))


def urls_of(
    signatures: Signatures, indexed: IndexedEntries | None, entries: int, scopes: PageRules | None
) -> UrlRelations:
    """The URL relations of a record's pages and the entries that they are compared with.

    scopes: the rules that define which pages may match, or None
    """
    numbers, pages = dict[str, int](), dict[PageId, int]()
    found = indexed.entries(np.arange(entries)) if indexed is not None else []
    urls, indexed_urls = signatures.url_texts(), [entry.url for entry in found]
    own = [
        numbers.setdefault(url_without_fragment(url), len(numbers)) if url_without_fragment(url) else _NONE
        for url in urls
    ]
    page = [pages.setdefault(page_id, len(pages)) for page_id in page_ids_of(signatures)]
    return UrlRelations(
        np.array(own, np.int64),
        np.array(page, np.int64),
        scopes.scopes(urls) if scopes else np.zeros(len(urls), np.uint64),
        np.array([numbers.get(url_without_fragment(url), _NONE) for url in indexed_urls], np.int64),
        np.array([pages.get((entry.source, entry.partition, entry.offset), _NONE) for entry in found], np.int64),
        scopes.scopes(indexed_urls) if scopes else np.zeros(len(found), np.uint64),
    )


@inlined
def relation_to_indexed(urls, page, entry):  # UrlRelations, int64, int64 -> uint8
    """The relation of a page and an entry by their URLs."""
    return _relation(urls, page, urls.indexed[entry], urls.indexed_page[entry], urls.indexed_scope[entry])


@inlined
def relation_within(urls, page, other):  # UrlRelations, int64, int64 -> uint8
    """The relation of a page and an earlier page of the record by their URLs."""
    return _relation(urls, page, urls.own[other], urls.page[other], urls.scope[other])


@inlined
def _relation(urls, page, url, other_page, scope):  # UrlRelations, int64, int64, int64, uint64 -> uint8
    if urls.scope[page] != scope:
        return APART
    own = urls.own[page]
    same = own >= 0 and own == url and urls.page[page] != other_page
    return SAME_URL if same else PLAIN_PAIR
