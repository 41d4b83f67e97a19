"""Lays out the input of the kernels: the keys of pages as slots, and the postings in the buckets of these keys."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import ascending, bounds_of, places_of_distinct
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    BLOCK_TAG,
    DIGEST_TAG,
    KEY_BITS,
    MINIMA_TAG,
    TEXT_TAG,
    TITLE_TAG,
    URL_TAG,
)
from spotsieve.stream.sign.schemes import NOT_INDEXED, Probes

_PARTIAL, _BODY = np.uint8(SignatureStatus.PARTIAL), np.uint8(KeyKind.BODY)


class Slots(NamedTuple):
    """The keys of n pages: a slot is one key of one page.

    bounds: int64[n + 1], the slots of page i are bounds[i]..bounds[i + 1] - 1
    bucket: int64[m], the place of the slot's key among the distinct keys
    inline: uint64[m], the inline bits of the page under this key
    limit: uint8[m], maximum number of inline bits in which a posting that passes differs
    decisive: bool[m]
    cap: int64[m], maximum number of postings in the bucket, by the scheme
    kind: uint8[m] (KeyKind)
    least_shared: minimum number of keys that a candidate shares with the page, unless one of them is decisive
    """

    bounds: NDArray[np.int64]
    bucket: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]
    kind: NDArray[np.uint8]
    least_shared: int


class Postings(NamedTuple):
    """The postings of u buckets, each in indexing order.

    first, end: int64[u], bucket b has the postings first[b]..end[b] - 1
    number: uint64[p], the indexed page: an entry number, or the index of a page of the record
    inline: uint64[p]
    """

    first: NDArray[np.int64]
    end: NDArray[np.int64]
    number: NDArray[np.uint64]
    inline: NDArray[np.uint64]


def slots_of(probes: Probes, status: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], Slots]:
    """The distinct keys (uint64[u], ascending), and the slots that refer to them.

    status: uint8[n] (SignatureStatus). A PARTIAL page is indexed under its digest only, whatever the scheme
    """
    keys, bucket, kind, cap = _slots_kernel(
        ascending(probes.keys), probes.keys, probes.bounds, probes.cap, status, _KIND_OF_TAG
    )
    slots = (probes.bounds, bucket, probes.inline, probes.limit, probes.decisive, cap, kind, probes.least_shared)
    return keys, Slots(*slots)


@kernel
def _slots_kernel(ordered, keys, bounds, cap, status, kind_of_tag):
    # ordered, keys: uint64[m], ascending and as probed  bounds: int64[n + 1]  cap: int64[m]  status: uint8[n],
    # kind_of_tag: uint8[256]  ->  the distinct keys, uint64[u], and bucket, kind and cap of Slots
    distinct, bucket = places_of_distinct(ordered, keys)
    kinds, caps = np.empty(len(keys), np.uint8), cap.copy()
    for page in range(len(status)):
        for slot in range(bounds[page], bounds[page + 1]):
            kinds[slot] = kind_of_tag[keys[slot] >> np.uint64(KEY_BITS)]
            if status[page] == _PARTIAL and kinds[slot] != _BODY:
                caps[slot] = NOT_INDEXED
    return distinct, bucket, kinds, caps


def kinds_of(keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The kind of each key. keys: uint64[m] -> uint8[m] (KeyKind)"""
    return _KIND_OF_TAG[(keys >> np.uint64(KEY_BITS)).astype(np.uint8)]


def no_postings(bucket: NDArray[np.int64], buckets: int) -> Postings:
    """Empty buckets, each with room for all pages of the record that have its key. bucket: of Slots"""
    # Mostly each key of a page is a key of no other page in the record.
    first = (
        np.arange(buckets) if len(bucket) == buckets else bounds_of(np.bincount(bucket, minlength=buckets))[:buckets]
    )
    return Postings(first, first.copy(), np.empty(len(bucket), np.uint64), np.empty(len(bucket), np.uint64))


def _kinds_of_tags() -> NDArray[np.uint8]:
    kinds = np.full(256, KeyKind.TABLES, np.uint8)
    kinds[[DIGEST_TAG, TEXT_TAG, URL_TAG]] = KeyKind.BODY, KeyKind.TEXT, KeyKind.URL
    kinds[[MINIMA_TAG, BLOCK_TAG, TITLE_TAG]] = KeyKind.MINIMA, KeyKind.BLOCKS, KeyKind.TITLE
    return kinds


_KIND_OF_TAG = _kinds_of_tags()
