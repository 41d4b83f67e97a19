"""Says which shard a key belongs to, and lays out the part of a round's keys that is a shard's own.

A key belongs to the shard that its mixed bits name. A key that a scheme with a memory of hosts mixed with the host of
its page belongs to the shard of that host, so that the shard that remembers a host also finds its pages.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, StateView
from spotsieve.stream.fingerprints.tables import KEY_BITS, PRINT_TAG, TITLE_TAG
from spotsieve.stream.judge.slots import Slots, slots_of
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes import Probes, Scheme
from spotsieve.stream.signature import Signatures, emptied, page_ids_of

MOST_SHARDS, NO_SHARD = 1024, -1
# Odd, and so are shares of equal size: SplitMix64's (Steele, Lea, Flood 2014).
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _REST = np.uint64(32), np.uint64(29)


class Share(NamedTuple):
    """One of the shards. number: 0..shards - 1"""

    number: int
    shards: int


class Laid(NamedTuple):
    """The keys of a round's n pages.

    keys: uint64[u], ascending, all different  owner: int64[u], the shard of each  of_host: bool[u], it follows the host
    """

    keys: NDArray[np.uint64]
    slots: Slots
    owner: NDArray[np.int64]
    of_host: NDArray[np.bool_]


class Own(NamedTuple):
    """A part of a round's keys that is a shard's own.

    keys: uint64[v], ascending  slots: of all n pages, those that lead to these keys alone  buckets: of these keys
    """

    keys: NDArray[np.uint64]
    slots: Slots
    buckets: Buckets


class Held(NamedTuple):
    """What a shard reads for a round, once. laid: the keys that it has to know of  own: all that are its own"""

    laid: Laid
    own: Own

    def of_host(self, which: bool) -> Own:
        """The part of its own keys that is, or is not, mixed with the hosts of pages."""
        laid, slots = self.laid, self.own.slots
        chosen = laid.of_host[np.searchsorted(laid.keys, self.own.keys)] == which
        keys, slots = _chosen(self.own.keys, slots, chosen)
        return Own(keys, slots, self.own.buckets.take(np.flatnonzero(chosen)))


def shards_of(words: NDArray[np.uint64], shards: int) -> NDArray[np.int64]:
    """The shard of each word, a key or the hash of a host: uint64[m] -> int64[m]."""
    mixed = (words ^ words >> _HALF) * _FIRST
    mixed = (mixed ^ mixed >> _REST) * _SECOND
    return ((mixed >> _HALF) % np.uint64(shards)).astype(np.int64)


def shards_of_hosts(signatures: Signatures, shards: int) -> NDArray[np.int64]:
    """The shard that judges each page, that of its host: int64[n]. A page that comes again goes where it went first."""
    owner, words = shards_of(signatures.host, shards), _words_of_ids(signatures)
    if len(np.unique(words)) < len(words):
        first = dict[PageId, int]()
        for page, page_id in enumerate(page_ids_of(signatures)):
            owner[page] = owner[first.setdefault(page_id, page)]
    return owner


def shards_of_pages(signatures: Signatures, shards: int) -> NDArray[np.int64]:
    """The shard that remembers the verdict of each page, by its id: int64[n]."""
    return shards_of(_words_of_ids(signatures), shards)


def _words_of_ids(signatures: Signatures) -> NDArray[np.uint64]:
    """A word for the id of each page, equal where the ids are: uint64[n]."""
    source = np.array([xxhash.xxh3_64_intdigest(one.encode()) for one in signatures.sources], np.uint64)
    words = signatures.partition.astype(np.uint64) * _FIRST + signatures.offset.astype(np.uint64)
    return words ^ source[signatures.source] if len(source) else words


def lay_out(signatures: Signatures, scheme: Scheme, shards: int, number: int) -> Laid:
    """The keys of a round's pages, and whose each is.

    number: the shard that asks; NO_SHARD: the resolver. Keys of other shards' hosts are left out.
    """
    keys, slots = slots_of(_probed(signatures, scheme, Share(number, shards)))
    owner, of_host = shards_of(keys, shards), np.zeros(len(keys), np.bool_)
    if scheme.bars is not None:
        of_host = _are_of_hosts(keys)
        owner[of_host] = number  # Those of other hosts are left out above.
    return Laid(keys, slots, owner, of_host)


def own_keys(signatures: Signatures, scheme: Scheme, share: Share) -> NDArray[np.uint64]:
    """The keys of pages that are a shard's own: uint64[u], ascending, all different."""
    keys = _probed(signatures, scheme, share).keys
    own = shards_of(keys, share.shards) == share.number
    if scheme.bars is not None:
        own |= _are_of_hosts(keys)
    return np.unique(keys[own])


def _probed(signatures: Signatures, scheme: Scheme, asks: Share) -> Probes:
    """What the pages are looked for by, without the keys of other shards' hosts."""
    if scheme.bars is not None:
        mine = shards_of(signatures.host, asks.shards) == asks.number
        prints, prints_bounds = emptied(signatures.prints, signatures.prints_bounds, mine)
        titles, titles_bounds = emptied(signatures.titles, signatures.titles_bounds, mine)
        signatures = replace(
            signatures, prints=prints, prints_bounds=prints_bounds, titles=titles, titles_bounds=titles_bounds
        )
    return scheme.probe(signatures)


def _are_of_hosts(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which keys a scheme with a memory of hosts mixed with the host of a page: bool[m]."""
    tag = keys >> np.uint64(KEY_BITS)
    found: NDArray[np.bool_] = (tag == PRINT_TAG) | (tag == TITLE_TAG)
    return found


def hold(signatures: Signatures, scheme: Scheme, view: StateView, share: Share) -> Held:
    """Read the buckets of a shard for a round. view: what lives of its state by the clock of the round"""
    laid = lay_out(signatures, scheme, share.shards, share.number)
    keys, slots = _chosen(laid.keys, laid.slots, laid.owner == share.number)
    return Held(laid, Own(keys, slots, view.buckets(keys)))


def _chosen(keys: NDArray[np.uint64], slots: Slots, which: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], Slots]:
    """The keys that are chosen, and the slots that lead to them. which: bool[u]"""
    taken = which[slots.bucket]
    kept = np.zeros(len(taken) + 1, np.int64)
    np.cumsum(taken, out=kept[1:])
    place = np.cumsum(which) - 1
    return keys[which], Slots(
        kept[slots.bounds],
        place[slots.bucket[taken]],
        slots.inline[taken],
        slots.limit[taken],
        slots.decisive[taken],
        slots.cap[taken],
        slots.kind[taken],
        slots.least_shared,
    )
