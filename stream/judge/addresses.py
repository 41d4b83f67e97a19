"""Says what the addresses of two pages make of them: one address fetched twice, or pages that may not meet.

An address is the text before its fragment (RFC 3986, sec. 3.5), as the log holds it. A page without one has none in
common with any. A page that is submitted again is itself, and not fetched again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import FiledEntries
from spotsieve.stream.hosts import address_of
from spotsieve.stream.jit import inlined
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import Signatures, page_ids_of

_NONE = -1
PLAIN_PAIR, SAME_ADDRESS, APART = np.uint8(0), np.uint8(1), np.uint8(2)
"""What addresses make of a pair: nothing, one address fetched twice, pages of two scopes."""


class Addresses(NamedTuple):
    """What is known by the addresses of n pages of a record and e entries.

    own: int64[n], filed: int64[e], equal where addresses are; _NONE: none  page: int64[n], filed_page: int64[e], equal
    where page ids are  scope: uint64[n], filed_scope: uint64[e], equal where pages may meet
    """

    own: NDArray[np.int64]
    page: NDArray[np.int64]
    scope: NDArray[np.uint64]
    filed: NDArray[np.int64]
    filed_page: NDArray[np.int64]
    filed_scope: NDArray[np.uint64]


def no_addresses(pages: int, entries: int) -> Addresses:
    """Where addresses make no difference."""
    none, filed_none = np.full(pages, _NONE), np.full(entries, _NONE)
    return Addresses(none, none, np.zeros(pages, np.uint64), filed_none, filed_none, np.zeros(entries, np.uint64))


def addresses_of(
    signatures: Signatures, filed: FiledEntries | None, entries: int, scopes: PageRules | None
) -> Addresses:
    """The addresses of a record's pages, and of the entries that they are compared with.

    scopes: the rules, where these say which pages may meet
    """
    numbers, pages = dict[str, int](), dict[PageId, int]()
    found = filed.entries(np.arange(entries)) if filed is not None else []
    urls, filed_urls = signatures.addresses(), [entry.url for entry in found]
    own = [numbers.setdefault(address_of(url), len(numbers)) if address_of(url) else _NONE for url in urls]
    page = [pages.setdefault(page_id, len(pages)) for page_id in page_ids_of(signatures)]
    return Addresses(
        np.array(own, np.int64),
        np.array(page, np.int64),
        scopes.scopes(urls) if scopes else np.zeros(len(urls), np.uint64),
        np.array([numbers.get(address_of(url), _NONE) for url in filed_urls], np.int64),
        np.array([pages.get((entry.source, entry.partition, entry.offset), _NONE) for entry in found], np.int64),
        scopes.scopes(filed_urls) if scopes else np.zeros(len(found), np.uint64),
    )


@inlined
def relation_to_filed(addresses, page, entry):  # Addresses, int64, int64 -> uint8
    """What addresses make of a page and an entry."""
    return _relation(addresses, page, addresses.filed[entry], addresses.filed_page[entry], addresses.filed_scope[entry])


@inlined
def relation_within(addresses, page, other):  # Addresses, int64, int64 -> uint8
    """The same of a page and an earlier one of the record."""
    return _relation(addresses, page, addresses.own[other], addresses.page[other], addresses.scope[other])


@inlined
def _relation(addresses, page, address, other_page, scope):  # Addresses, int64, int64, int64, uint64 -> uint8
    if addresses.scope[page] != scope:
        return APART
    own = addresses.own[page]
    same = own >= 0 and own == address and addresses.page[page] != other_page
    return SAME_ADDRESS if same else PLAIN_PAIR
