"""Reads buckets before a round needs them: a shard works ahead while the resolver resolves the previous round.

The buckets of a page are known as soon as the page is in the log. Their contents change only when the shard indexes a
round. A prefetched bucket is therefore valid until indexing changes that bucket, and the responses are the same as
without prefetching, wherever the rounds end.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, StateView, WrappedView
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.sharding.keys import own_keys
from spotsieve.stream.sharding.shares import Share
from spotsieve.stream.sign.schemes import Scheme

_MISSING = -1


class _Part:
    """Prefetched buckets of one log record. keys: uint64[u], ascending  counts: bool[u], true for valid buckets"""

    def __init__(self, keys: NDArray[np.uint64], buckets: Buckets) -> None:
        self.keys, self.buckets = keys, buckets
        self.counts = np.ones(len(keys), np.bool_)


class BucketPrefetch(WrappedView):
    """A view of a shard's state that holds some of its buckets in memory. Callers report changed buckets to it."""

    def __init__(self, state: StateView) -> None:
        super().__init__(state)
        self._parts = dict[int, _Part]()

    def read(self, offset: int, signatures: Signatures, scheme: Scheme, share: Share) -> None:
        """Read the buckets that the pages of a log record lead to. offset: of the record, which must be new"""
        keys = own_keys(signatures, scheme, share)
        if len(keys):
            self._parts[offset] = _Part(keys, self._state.buckets(keys))

    def changed(self, keys: NDArray[np.uint64]) -> None:
        """Invalidate buckets that indexing has changed. keys: uint64[c], ascending"""
        for part in self._parts.values():
            _let_go(part.keys, keys, part.counts)

    def drop_before(self, offset: int) -> None:
        """Drop the buckets that were read for records before this offset."""
        for passed in [one for one in self._parts if one < offset]:
            del self._parts[passed]

    def drop(self) -> None:
        """Drop all prefetched buckets."""
        self._parts.clear()

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """The postings under keys: uint64[u], ascending, all different. Missing buckets are read now."""
        first, size = np.zeros(len(keys), np.int64), np.full(len(keys), _MISSING, np.int64)
        found, postings = list[Buckets](), 0
        for part in self._parts.values():
            if _find(keys, part.keys, part.counts, part.buckets.bounds, postings, first, size):
                found.append(part.buckets)
                postings += len(part.buckets.numbers)
        if not found:
            return self._state.buckets(keys)
        missing = size == _MISSING
        rest = self._state.buckets(keys[missing])
        first[missing], size[missing] = rest.bounds[:-1] + postings, sizes_of(rest.bounds)
        found.append(rest)
        bounds = bounds_of(size)
        numbers, inlines = (np.concatenate([getattr(one, name) for one in found]) for name in ("numbers", "inlines"))
        return Buckets(bounds, _gather(first, bounds, numbers), _gather(first, bounds, inlines))


@kernel
def _let_go(held, changed, counts):
    # held: uint64[u], changed: uint64[c], both ascending  ->  counts: bool[u], cleared for every held key that has
    # changed
    at = 0
    for row in range(len(held)):
        while at < len(changed) and changed[at] < held[row]:
            at += 1
        if at == len(changed):
            break
        if changed[at] == held[row]:
            counts[row] = False


@kernel
def _find(keys, held, counts, bounds, postings, first, size):
    # keys: uint64[k], held: uint64[u], both ascending  counts: bool[u]  bounds: int64[u + 1], of the held buckets
    # postings: number of postings before these buckets
    # ->  first, size: int64[k], written for each bucket found; returns whether any was found
    at, any_found = 0, False
    for row in range(len(keys)):
        while at < len(held) and held[at] < keys[row]:
            at += 1
        if at == len(held):
            break
        if held[at] == keys[row] and counts[at]:
            first[row], size[row] = postings + bounds[at], bounds[at + 1] - bounds[at]
            any_found = True
    return any_found


@kernel
def _gather(first, bounds, values):
    # first: int64[k]  bounds: int64[k + 1], of the gathered buckets  values: uint64[p]  ->  uint64[bounds[k]]
    gathered = np.empty(bounds[-1], np.uint64)
    for row in range(len(first)):
        for place in range(bounds[row], bounds[row + 1]):
            gathered[place] = values[first[row] + place - bounds[row]]
    return gathered
