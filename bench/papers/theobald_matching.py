"""Theobald et al. 2008, section 4: Algorithm 1 over a whole collection, with partitions and pruning on or off."""

import time
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.sign.schemes.spotsigs import REPEAT_BITS, SLACK, partition_boundaries
from spotsieve.stream.sign.schemes.terms import DECIMALS, order_repeats

NO_PARTITIONS = np.array([1, 2**62])


class Collection(NamedTuple):
    """n pages as multisets. features: uint64[m], bounds: int64[n + 1], of each page the rarest spot first

    distinct: distinct terms in the IDF range
    """

    features: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    distinct: int

    def thinned(self, least: int) -> "Collection":
        """The same pages, where pages with fewer than `least` features have none."""
        sizes = np.diff(self.bounds)
        kept = sizes >= least
        bounds = np.zeros_like(self.bounds)
        np.cumsum(np.where(kept, sizes, 0), out=bounds[1:])
        return Collection(self.features[np.repeat(kept, sizes)], bounds, self.distinct)


class Matches(NamedTuple):
    """Pairs of pages with J >= tau. pairs: int64[p, 2], the earlier first, in any order  jaccard: float64[p]

    comparisons: pairs whose vectors were compared  cpu_ms: of the thread, sorting and matching
    """

    pairs: NDArray[np.int64]
    jaccard: NDArray[np.float64]
    comparisons: int
    cpu_ms: float


def collect(terms: NDArray[np.uint64], bounds: NDArray[np.int64], least: float, most: float) -> Collection:
    """Keep the terms in an IDF range. terms: uint64[m]; page i has terms[bounds[i]:bounds[i + 1]]"""
    page = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    found, place = np.unique(terms, return_inverse=True)
    pages = len(bounds) - 1
    frequency = np.bincount(np.unique(place * pages + page) // pages, minlength=len(found))
    idf = np.round(np.log(pages / np.maximum(frequency, 1)) / np.log(pages), DECIMALS)
    rank = np.empty(len(found), np.uint64)
    rank[np.argsort(frequency, kind="stable")] = np.arange(len(found), dtype=np.uint64)
    chosen = (idf >= least) & (idf <= most)
    kept = chosen[place]
    before = np.concatenate([[0], np.cumsum(kept)])
    ordered, repeats = order_repeats(rank[place[kept]], before[bounds])
    return Collection(ordered << np.uint64(REPEAT_BITS) | repeats, before[bounds], int(chosen.sum()))


def brute_force(pages: Collection, tau: float) -> Matches:
    """Compare every pair of pages with features."""
    began = time.thread_time()
    has = np.flatnonzero(np.diff(pages.bounds))
    pairs, jaccard, comparisons = _all_pairs(pages.features, pages.bounds, has, tau)
    return Matches(pairs, jaccard, comparisons, (time.thread_time() - began) * 1e3)


def spotsigs(pages: Collection, tau: float, *, partitions: bool = True, pruning: bool = True) -> Matches:
    """Algorithm 1. partitions: False puts all pages into one (NoPart)  pruning: False drops delta_1, delta_2 (NoPrune)

    A pair is compared once, from its shorter page on; the paper compares two pages of one partition from both sides
    (and must: line 17 alone would lose a page that is contained in a longer one). Spots have one order for the whole
    collection, not one for each partition.
    """
    began = time.thread_time()
    lengths = np.diff(pages.bounds)
    boundaries = partition_boundaries(tau, int(lengths.max(initial=1))) if partitions else NO_PARTITIONS
    partition = np.searchsorted(boundaries, lengths, "right") - 1
    longest = np.zeros(len(boundaries) + 1, np.int64)
    np.maximum.at(longest, partition[lengths > 0], lengths[lengths > 0])
    first = pages.features & np.uint64(2**REPEAT_BITS - 1) == 0
    page = np.repeat(np.arange(len(lengths)), lengths)[first]
    spot = (pages.features[first] >> np.uint64(REPEAT_BITS)).astype(np.int64)
    order = np.lexsort((page, -lengths[page], spot, partition[page]))
    listed, key = page[order], partition[page[order]] * (int(spot.max(initial=0)) + 1) + spot[order]
    keys, starts = np.unique(key, return_index=True)
    lists = (keys, np.append(starts, len(key)), listed, int(spot.max(initial=0)) + 1)
    pairs, jaccard, comparisons = _algorithm_1(
        pages.features, pages.bounds, partition, boundaries, longest, lists, tau, pruning
    )
    return Matches(pairs, jaccard, comparisons, (time.thread_time() - began) * 1e3)


@numba.njit(nogil=True, cache=True)
def _similarity(features, at, end, other, other_end):  # type: ignore[no-untyped-def]
    # Eq. 4, of two ascending runs of features
    one, two, shared = end - at, other_end - other, 0
    while at < end and other < other_end:
        left, right = features[at], features[other]
        shared += left == right
        at += left <= right
        other += right <= left
    return shared / (one + two - shared)


@numba.njit(nogil=True, cache=True)
def _grown(pairs, jaccard, count):  # type: ignore[no-untyped-def]
    if count < len(pairs):
        return pairs, jaccard
    return np.concatenate((pairs, np.empty_like(pairs))), np.concatenate((jaccard, np.empty_like(jaccard)))


@numba.njit(nogil=True, cache=True)
def _all_pairs(features, bounds, has, tau):  # type: ignore[no-untyped-def]
    # has: int64[h], pages with features  ->  int64[p, 2], float64[p], pairs compared
    pairs, jaccard, found, comparisons = np.empty((64, 2), np.int64), np.empty(64), 0, 0
    for later in range(len(has)):
        for earlier in range(later):
            one, two = has[earlier], has[later]
            comparisons += 1
            similar = _similarity(features, bounds[one], bounds[one + 1], bounds[two], bounds[two + 1])
            if similar >= tau:
                pairs, jaccard = _grown(pairs, jaccard, found)
                pairs[found, 0], pairs[found, 1], jaccard[found] = one, two, similar
                found += 1
    return pairs[:found], jaccard[:found], comparisons


@numba.njit(nogil=True, cache=True)
def _algorithm_1(features, bounds, partition, boundaries, longest, lists, tau, pruning):  # type: ignore[no-untyped-def]
    # partition: int64[n]  boundaries: int64[p], with the one above all pages  longest: int64[p + 1], |d| by partition
    # lists: keys int64[l] ascending, starts int64[l + 1], pages by descending |d|, spots of a partition
    keys, starts, listed, spots = lists
    pairs, jaccard, found, comparisons = np.empty((64, 2), np.int64), np.empty(64), 0, 0
    checked = np.full(len(partition), -1)
    for page in range(len(partition)):
        first, last = bounds[page], bounds[page + 1]
        length, own = last - first, partition[page]
        if length == 0:
            continue
        reach = boundaries[own + 1] if own + 1 < len(boundaries) else boundaries[-1]
        right = own + 1 < len(longest) and reach - length <= (1 - tau) * reach + SLACK
        for where in range(own, own + 1 + right):
            delta_1, place = 0, first
            while place < last:
                spot, frequency = features[place] >> np.uint64(REPEAT_BITS), 0
                while place < last and features[place] >> np.uint64(REPEAT_BITS) == spot:
                    frequency += 1
                    place += 1
                key = where * spots + np.int64(spot)
                row = np.searchsorted(keys, key)
                if row < len(keys) and keys[row] == key:
                    for entry in range(starts[row], starts[row + 1]):
                        other = listed[entry]
                        size = bounds[other + 1] - bounds[other]
                        delta_2 = length - size
                        if delta_2 > 0:
                            break
                        if checked[other] == page or (delta_2 == 0 and other <= page):
                            continue
                        if pruning and delta_1 - delta_2 > (1 - tau) * size + SLACK:
                            continue
                        checked[other] = page
                        comparisons += 1
                        similar = _similarity(features, first, last, bounds[other], bounds[other + 1])
                        if similar >= tau:
                            pairs, jaccard = _grown(pairs, jaccard, found)
                            pairs[found, 0], pairs[found, 1] = min(page, other), max(page, other)
                            jaccard[found] = similar
                            found += 1
                delta_1 += frequency
                if pruning and delta_1 >= (1 - tau) * longest[where]:
                    break
    return pairs[:found], jaccard[:found], comparisons
