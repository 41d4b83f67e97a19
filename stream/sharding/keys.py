"""Lays out the keys of a round for a shard: all keys that it needs, and its own keys among them.

A shard resolves the pages of its hosts, so it needs all of their keys. Of all other pages it needs its own keys, under
which it responds and indexes, and the keys that also belong to a page that it resolves.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, CommonWindows, StateView
from spotsieve.stream.base.arrays import distinct, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import Signatures, empty_rows
from spotsieve.stream.judge.by_host.confirmation import read_pages
from spotsieve.stream.judge.by_host.distinctive_text import PageTexts
from spotsieve.stream.judge.slots import Slots, kinds_of, slots_of
from spotsieve.stream.sharding.shares import Share, are_of_hosts, are_own, shards_of, shards_of_hosts
from spotsieve.stream.sign.schemes import Probes, Scheme

_MIXING = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and spreads keys over the high bits: 2^64 / the golden ratio (Knuth, TAOCP 3, sec. 6.4)."""


class RoundKeys(NamedTuple):
    """Keys of a round's n pages. keys: uint64[u], ascending, all different"""

    keys: NDArray[np.uint64]
    slots: Slots


class OwnKeys(NamedTuple):
    """The keys of a round that belong to one shard.

    keys: uint64[v], ascending  slots: of all n pages, only the slots that lead to these keys  buckets: of these keys
    """

    keys: NDArray[np.uint64]
    slots: Slots
    buckets: Buckets


class ShardReads(NamedTuple):
    """The data that a shard reads once for a round.

    own_pages: bool[n], the pages that the shard resolves: those of its hosts, if the scheme has a memory of hosts
    laid: the shard's own keys, the keys of the pages that it resolves, and a few others
    own: all of its own keys
    decided: uint8, all kinds (KeyKind) that decide for a page of the round
    all_decide: whether every key is decisive
    shared: bool[n], pages that share a candidate key with a page that another shard resolves, if one of both is the
    shard's own
    common, pages: the windows of common text that the round changes, and the columns by which its pages are compared;
    None for schemes without a memory of hosts
    """

    own_pages: NDArray[np.bool_]
    laid: RoundKeys
    own: OwnKeys
    decided: np.uint8
    all_decide: bool
    shared: NDArray[np.bool_]
    common: CommonWindows | None
    pages: PageTexts | None

    def of_host(self, which: bool) -> OwnKeys:
        """Own keys that are (or are not) mixed with hosts. Only for schemes that mix keys with hosts."""
        chosen = are_of_hosts(self.own.keys) == which
        buckets = self.own.buckets.take(np.flatnonzero(chosen))
        return OwnKeys(self.own.keys[chosen], _chosen(self.own.slots, chosen), buckets)


def lay_out_keys(signatures: Signatures, scheme: Scheme) -> RoundKeys:
    """All keys of a round's pages that are not mixed with a host."""
    return RoundKeys(*slots_of(_probed(signatures, scheme, np.zeros(len(signatures), np.bool_)), signatures.status))


def own_keys(signatures: Signatures, scheme: Scheme, share: Share) -> NDArray[np.uint64]:
    """The shard's own keys of pages: uint64[u], ascending, all different."""
    probes, own = _probed_by(signatures, scheme, share)
    return distinct(probes.keys[own])


def _probed(signatures: Signatures, scheme: Scheme, of_hosts: NDArray[np.bool_]) -> Probes:
    """Keys of the pages. of_hosts: bool[n], the pages that keep their keys mixed with a host"""
    if scheme.host_thresholds is not None:
        blocks, blocks_bounds = empty_rows(signatures.blocks, signatures.blocks_bounds, of_hosts)
        titles, titles_bounds = empty_rows(signatures.titles, signatures.titles_bounds, of_hosts)
        signatures = replace(
            signatures, blocks=blocks, blocks_bounds=blocks_bounds, titles=titles, titles_bounds=titles_bounds
        )
    return scheme.probe(signatures)


def _probed_by(signatures: Signatures, scheme: Scheme, share: Share) -> tuple[Probes, NDArray[np.bool_]]:
    """Keys of the pages, without keys that are mixed with hosts of other shards.

    Returns the probes, and for each of their keys whether it belongs to the shard: bool[m].
    """
    probes = _probed(signatures, scheme, shards_of(signatures.host, share.shards) == share.number)
    return probes, are_own(probes.keys, share, scheme.host_thresholds is not None)


def read_round(signatures: Signatures, scheme: Scheme, view: StateView, share: Share) -> ShardReads:
    """Read the buckets of a shard for a round. view: the live part of its state by the clock of the round"""
    probes, are_its_own = _probed_by(signatures, scheme, share)
    decided = np.bitwise_or.reduce(kinds_of(probes.keys[probes.decisive]), initial=np.uint8(0))
    own_pages, common, pages = np.zeros(len(signatures), np.bool_), None, None
    if scheme.host_thresholds is not None:
        own_pages = shards_of_hosts(signatures, share.shards) == share.number
        common, pages = read_pages(signatures, view, True)
    needed = _need_kernel(probes.keys, probes.bounds, own_pages, are_its_own)
    laid = RoundKeys(*slots_of(_kept(probes, needed), signatures.status))
    chosen = are_own(laid.keys, share, scheme.host_thresholds is not None)
    keys = laid.keys[chosen]
    own = OwnKeys(keys, _chosen(laid.slots, chosen), view.buckets(keys))
    shared = _shared_pages(laid.slots, own_pages)
    return ShardReads(own_pages, laid, own, decided, bool(probes.decisive.all()), shared, common, pages)


def _shared_pages(slots: Slots, own_pages: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pages that share a candidate key with a page for which `own_pages` is different: bool[n]. own_pages: bool[n]"""
    page = np.repeat(np.arange(len(own_pages)), sizes_of(slots.bounds))[~slots.decisive]
    bucket, is_own = slots.bucket[~slots.decisive], own_pages[page]
    buckets = int(slots.bucket.max(initial=-1)) + 1
    both = (np.bincount(bucket[is_own], minlength=buckets) > 0) & (np.bincount(bucket[~is_own], minlength=buckets) > 0)
    shared = np.zeros(len(own_pages), np.bool_)
    shared[page[both[bucket]]] = True
    return shared


def read_own_buckets(
    signatures: Signatures, scheme: Scheme, view: StateView, share: Share, indexed: NDArray[np.bool_]
) -> OwnKeys:
    """Read the buckets into which a shard indexes a round.

    view: the live part of its state by the clock of the round  indexed: bool[n], the pages that become indexed
    """
    probes, own = _probed_by(signatures, scheme, share)
    kept = _kept(probes, own & np.repeat(indexed, sizes_of(probes.bounds)))
    keys, slots = slots_of(kept, signatures.status)
    return OwnKeys(keys, slots, view.buckets(keys))


@kernel
def _need_kernel(keys, bounds, own_pages, own):
    # keys: uint64[m]  bounds: int64[n + 1], of each page's keys  own_pages: bool[n], the pages that the shard resolves
    # own: bool[m], its own keys  ->  bool[m], the keys that it needs: its own, and those of the pages that it resolves,
    # also where other pages have them. A few others stay by chance; they do no harm.
    resolution = 0
    for page in range(len(own_pages)):
        if own_pages[page]:
            resolution += bounds[page + 1] - bounds[page]
    # A bitmap instead of a set: a key that collides with another is kept needlessly.
    bits = 4
    while resolution << 4 > 1 << bits:
        bits += 1
    shift = np.uint64(64 - bits)
    marked = np.zeros(1 << bits, np.bool_)
    for page in range(len(own_pages)):
        if own_pages[page]:
            for slot in range(bounds[page], bounds[page + 1]):
                marked[keys[slot] * _MIXING >> shift] = True
    needed = np.empty(len(keys), np.bool_)
    for page in range(len(own_pages)):
        for slot in range(bounds[page], bounds[page + 1]):
            needed[slot] = own_pages[page] or own[slot] or marked[keys[slot] * _MIXING >> shift]
    return needed


def _kept(probes: Probes, which: NDArray[np.bool_]) -> Probes:
    """The probes of these keys. which: bool[m]"""
    chosen, bounds = _take_kernel(probes.bounds, which)
    return Probes(
        probes.keys[chosen],
        bounds,
        probes.inline[chosen],
        probes.limit[chosen],
        probes.decisive[chosen],
        probes.cap[chosen],
        probes.least_shared,
    )


def _chosen(slots: Slots, which: NDArray[np.bool_]) -> Slots:
    """The slots that lead to these keys. which: bool[u]"""
    chosen, bounds = _take_kernel(slots.bounds, which[slots.bucket])
    place = np.cumsum(which) - 1
    return Slots(
        bounds,
        place[slots.bucket[chosen]],
        slots.inline[chosen],
        slots.limit[chosen],
        slots.decisive[chosen],
        slots.cap[chosen],
        slots.kind[chosen],
        slots.least_shared,
    )


@kernel
def _take_kernel(bounds, which):
    # bounds: int64[n + 1], of each page's rows  which: bool[m], of all rows
    # ->  the places of the chosen rows: int64[k], and the bounds of each page's rows among them: int64[n + 1]
    chosen, kept, some = np.empty(len(which), np.int64), np.zeros(len(bounds), np.int64), 0
    for page in range(len(bounds) - 1):
        for row in range(bounds[page], bounds[page + 1]):
            chosen[some] = row
            some += which[row]
        kept[page + 1] = some
    return chosen[:some], kept
