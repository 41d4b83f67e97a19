"""Says what the addresses of two pages make of them: one address fetched twice, or pages that may not meet.

An address is the text before its fragment (RFC 3986, sec. 3.5), as the log holds it. A page without one has none in
common with any. A page that is submitted again is itself, and not fetched again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import IndexedEntries
from spotsieve.stream.hosts import url_without_fragment
from spotsieve.stream.jit import inlined
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import Signatures, page_ids_of

_NONE = -1
PLAIN_PAIR, SAME_ADDRESS, APART = np.uint8(0), np.uint8(1), np.uint8(2)
"""What addresses make of a pair: nothing, one address fetched twice, pages of two scopes."""


class UrlRelations(NamedTuple):
    """What is known by the addresses of n pages of a record and e entries.

    own: int64[n], indexed: int64[e], equal where addresses are; _NONE: none  page: int64[n], indexed_page: int64[e], equal
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
