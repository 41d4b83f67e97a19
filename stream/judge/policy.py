"""What the settings ask of the judge beside its scheme: which copy is kept, and what a page fetched again is.

Says what pages are worth where one of two copies is kept: by their length, time or rank, and more is better.

Says what the addresses of two pages make of them: one address fetched twice, or pages that may not meet.

An address is the text before its fragment (RFC 3986, sec. 3.5), as the log holds it. A page without one has none in
common with any. A page that is submitted again is itself, and not fetched again.
"""

import enum
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexedEntries, IndexedPages
from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page import PageId, ranks_of
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import FINGERPRINTED, Signatures, page_ids_of
from spotsieve.stream.base.urls import url_without_fragment
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.sign.schemes.url_rules import PageRules, page_rules

LEAST_PREFERENCE = float(np.finfo(np.float64).min)
"""Of a page without a rank: no page is worth less, and none outgrows any by it."""


class Preference(enum.IntEnum):
    """What a page is preference: its features, its time, its rank, or the less the higher its rank is."""

    LENGTH = 0
    TIME = 1
    RANK = 2
    LOW_RANK = 3


def keeps_ranks(by: int) -> bool:
    """Whether entries must hold the ranks of their pages."""
    return by in (Preference.RANK, Preference.LOW_RANK)


class PagePreferences(NamedTuple):
    """What the n pages of a record are worth. own: float64[n], against pages before it  met: float64[n], to later ones

    They differ where nothing but its digest is known of a page: it is the same as its copy, and the first one stays.
    """

    own: NDArray[np.float64]
    met: NDArray[np.float64]


def preferences_of_pages(signatures: Signatures, by: int) -> PagePreferences:
    """What the pages of a record are worth."""
    if by == Preference.LENGTH:
        length = signatures.feature_count.astype(np.float64)
        return PagePreferences(length, length)
    preference = _worth(signatures.event_time_ms if by == Preference.TIME else signatures.rank, by)
    return PagePreferences(np.where(signatures.status == FINGERPRINTED, preference, LEAST_PREFERENCE), preference)


def preferences_of_entries(indexed: IndexedPages, length: NDArray[np.uint32], by: int) -> NDArray[np.float64]:
    """The same of e entries. length: uint32[e], their features  Raises CorruptRecord."""
    if by == Preference.LENGTH:
        return length.astype(np.float64)
    return _worth(indexed.event_times_ms() if by == Preference.TIME else indexed.ranks(), by)


def _worth(column: NDArray[np.int64] | NDArray[np.uint64], by: int) -> NDArray[np.float64]:
    if by == Preference.TIME:
        return column.astype(np.float64)
    ranks = ranks_of(column.astype(np.uint64, copy=False))
    return np.where(np.isnan(ranks), LEAST_PREFERENCE, ranks if by == Preference.RANK else -ranks)


KEEP_FIRST = math.inf
"""The `longer_by` with which no page replaces another: the first is kept."""
ANY_BETTER = 1.0
"""The `longer_by` with which a page replaces any that is worth less."""
ANY_KIND = 255
"""All kinds of keys (KeyKind), and those to come."""
_PREFERENCES = {
    "first": Preference.LENGTH,
    "longest": Preference.LENGTH,
    "newest": Preference.TIME,
    "highest": Preference.RANK,
    "lowest": Preference.LOW_RANK,
}
"""By policy.keep. With "first" no page supersedes another, so the preference decides nothing."""
_SAME_ADDRESS = {"drop": ANY_KIND, "identical": int(KeyKind.BODY | KeyKind.ADDRESS), "pass": 0}


class Policy(NamedTuple):
    """longer_by: a copy that is worth more than so many times what it is a copy of replaces it
    same_url: the kinds of decisive keys (KeyKind) under which a page is a copy of one of its own address; ANY_KIND:
    an address makes no difference
    rules: what the settings say of pages by their addresses; None: nothing
    preference: what pages are worth (Worth): their features, unless the settings keep pages by something else
    """

    longer_by: float = KEEP_FIRST
    same_url: int = ANY_KIND
    rules: PageRules | None = None
    preference: int = int(Preference.LENGTH)


PLAIN = Policy()
"""The first copy is kept, and addresses make no difference."""


def policy_of(settings: Settings) -> Policy:
    """What [policy] and [[rules]] ask of the judge. Raises SettingError for rules that contradict."""
    policy = settings.policy
    preference = _PREFERENCES[policy.keep]
    longer_by = {"first": KEEP_FIRST, "longest": policy.longer_by}.get(policy.keep, ANY_BETTER)
    return Policy(longer_by, _SAME_ADDRESS[policy.recrawl], page_rules(settings), int(preference))


_NONE = -1
PLAIN_PAIR, SAME_ADDRESS, APART = np.uint8(0), np.uint8(1), np.uint8(2)
"""What addresses make of a pair: nothing, one address fetched twice, pages of two scopes."""


class UrlRelations(NamedTuple):
    """What is known by the addresses of n pages of a record and e entries.

    own: int64[n], indexed: int64[e], equal where addresses are; _NONE: none  page: int64[n], indexed_page: int64[e],
    equal
    where page ids are  scope: uint64[n], indexed_scope: uint64[e], equal where pages may meet
    """

    own: NDArray[np.int64]
    page: NDArray[np.int64]
    scope: NDArray[np.uint64]
    indexed: NDArray[np.int64]
    indexed_page: NDArray[np.int64]
    indexed_scope: NDArray[np.uint64]


def no_urls(pages: int, entries: int) -> UrlRelations:
    """Where addresses make no difference."""
    none, filed_none = np.full(pages, _NONE), np.full(entries, _NONE)
    return UrlRelations(none, none, np.zeros(pages, np.uint64), filed_none, filed_none, np.zeros(entries, np.uint64))


def urls_of(
    signatures: Signatures, indexed: IndexedEntries | None, entries: int, scopes: PageRules | None
) -> UrlRelations:
    """The addresses of a record's pages, and of the entries that they are compared with.

    scopes: the rules, where these say which pages may meet
    """
    numbers, pages = dict[str, int](), dict[PageId, int]()
    found = indexed.entries(np.arange(entries)) if indexed is not None else []
    urls, filed_urls = signatures.addresses(), [entry.url for entry in found]
    own = [
        numbers.setdefault(url_without_fragment(url), len(numbers)) if url_without_fragment(url) else _NONE
        for url in urls
    ]
    page = [pages.setdefault(page_id, len(pages)) for page_id in page_ids_of(signatures)]
    return UrlRelations(
        np.array(own, np.int64),
        np.array(page, np.int64),
        scopes.scopes(urls) if scopes else np.zeros(len(urls), np.uint64),
        np.array([numbers.get(url_without_fragment(url), _NONE) for url in filed_urls], np.int64),
        np.array([pages.get((entry.source, entry.partition, entry.offset), _NONE) for entry in found], np.int64),
        scopes.scopes(filed_urls) if scopes else np.zeros(len(found), np.uint64),
    )


@inlined
def relation_to_indexed(addresses, page, entry):  # UrlRelations, int64, int64 -> uint8
    """What addresses make of a page and an entry."""
    return _relation(
        addresses, page, addresses.indexed[entry], addresses.indexed_page[entry], addresses.indexed_scope[entry]
    )


@inlined
def relation_within(addresses, page, other):  # UrlRelations, int64, int64 -> uint8
    """The same of a page and an earlier one of the record."""
    return _relation(addresses, page, addresses.own[other], addresses.page[other], addresses.scope[other])


@inlined
def _relation(addresses, page, address, other_page, scope):  # UrlRelations, int64, int64, int64, uint64 -> uint8
    if addresses.scope[page] != scope:
        return APART
    own = addresses.own[page]
    same = own >= 0 and own == address and addresses.page[page] != other_page
    return SAME_ADDRESS if same else PLAIN_PAIR
