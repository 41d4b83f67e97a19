"""Says which pairs are one address fetched twice, where policy.recrawl makes that a difference.

An address is the text before its fragment (RFC 3986, sec. 3.5), as the log holds it. A page without one has none in
common with any. A page that is submitted again is itself, and not fetched again.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import FiledPages
from spotsieve.stream.hosts import address_of
from spotsieve.stream.judge.slots import inlined
from spotsieve.stream.page import PageId
from spotsieve.stream.signature import Signatures

_NONE = -1


class Addresses(NamedTuple):
    """Numbers that are equal where addresses are, of n pages of a record and e entries; _NONE where there is none.

    own: int64[n]  page: int64[n], equal where page ids are  filed: int64[e]  filed_page: int64[e]
    """

    own: NDArray[np.int64]
    page: NDArray[np.int64]
    filed: NDArray[np.int64]
    filed_page: NDArray[np.int64]


def no_addresses(pages: int, entries: int) -> Addresses:
    """Where addresses make no difference."""
    return Addresses(np.full(pages, _NONE), np.full(pages, _NONE), np.full(entries, _NONE), np.full(entries, _NONE))


def addresses_of(
    signatures: Signatures, page_ids: Sequence[PageId], filed: FiledPages | None, entries: int
) -> Addresses:
    """The addresses of a record's pages, and of the entries that they are compared with."""
    numbers, pages = dict[str, int](), dict[PageId, int]()
    addresses = [address_of(url.decode("utf-8", "replace")) for url in signatures.urls]
    own = [numbers.setdefault(address, len(numbers)) if address else _NONE for address in addresses]
    page = [pages.setdefault(page_id, len(pages)) for page_id in page_ids]
    found = filed.entries(np.arange(entries)) if filed is not None else []
    return Addresses(
        np.array(own, np.int64),
        np.array(page, np.int64),
        np.array([numbers.get(address_of(entry.url), _NONE) for entry in found], np.int64),
        np.array([pages.get((entry.source, entry.partition, entry.offset), _NONE) for entry in found], np.int64),
    )


@inlined
def fetched_again(addresses, page, address, other_page):  # type: ignore[no-untyped-def]
    # Addresses, int64; address, other_page: int64, of the earlier page -> bool
    """Whether a page has the address of an earlier one, and is another page."""
    own = addresses.own[page]
    return own >= 0 and own == address and addresses.page[page] != other_page
