"""Reads buckets before a round asks for them: a shard works ahead while the round before is resolved.

Which buckets the pages of the log lead to is known as soon as the log has them. What the buckets hold changes only when
the shard files a round. So what was read ahead counts until a filing changes that very bucket, and the answers are
those of a shard that reads nothing ahead, however the log is cut into rounds.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Attempt, Buckets, FiledPages, HostMemories, StateView
from spotsieve.stream.page import PageId
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.sharding.shares import Share, own_keys
from spotsieve.stream.signature import Signatures


class _Part:
    """What was read ahead for a record of the log. keys: uint64[u], ascending  counts: bool[u], not changed since"""

    def __init__(self, keys: NDArray[np.uint64], buckets: Buckets) -> None:
        self.keys, self.buckets = keys, buckets
        self.counts = np.ones(len(keys), np.bool_)

    def places(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where these keys stand: int64[k], and which of them are there: bool[k]."""
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return place, self.keys[place] == keys


class ReadAhead:
    """A view of a shard's state that holds some of its buckets. Tell it what a filing changes."""

    def __init__(self, state: StateView) -> None:
        self._state = state
        self._parts = dict[int, _Part]()

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed; the next one gets this entry number."""
        return self._state.entry_count

    def read(self, offset: int, signatures: Signatures, scheme: Scheme, share: Share) -> None:
        """Read the buckets that the pages of a record of the log lead to. offset: of the record, which is new"""
        keys = own_keys(signatures, scheme, share)
        if len(keys):
            self._parts[offset] = _Part(keys, self._state.buckets(keys))

    def changed(self, keys: NDArray[np.uint64]) -> None:
        """Let go of these buckets: uint64[c]. A filing has changed them."""
        for part in self._parts.values():
            place, there = part.places(keys)
            part.counts[place[there]] = False

    def drop_before(self, offset: int) -> None:
        """Let go of what was read for the records before this offset."""
        for passed in [one for one in self._parts if one < offset]:
            del self._parts[passed]

    def drop(self) -> None:
        """Let go of everything."""
        self._parts.clear()

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. What was not read ahead is read now."""
        found = list[Buckets]()
        first, size = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        missing, postings = np.ones(len(keys), np.bool_), 0
        for part in self._parts.values():
            place, there = part.places(keys)
            taken = np.flatnonzero(missing & there & part.counts[place])
            if not len(taken):
                continue
            missing[taken] = False
            rows = place[taken]
            first[taken] = part.buckets.bounds[rows] + postings
            size[taken] = part.buckets.bounds[rows + 1] - part.buckets.bounds[rows]
            found.append(part.buckets)
            postings += len(part.buckets.numbers)
        if not found:
            return self._state.buckets(keys)
        rest = self._state.buckets(keys[missing])
        first[missing], size[missing] = rest.bounds[:-1] + postings, np.diff(rest.bounds)
        bounds = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(size, out=bounds[1:])
        chosen = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], size)
        found.append(rest)
        numbers, inlines = (np.concatenate([getattr(one, name) for one in found]) for name in ("numbers", "inlines"))
        return Buckets(bounds, numbers[chosen], inlines[chosen])

    def filed(self, numbers: NDArray[np.uint64]) -> FiledPages:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        return self._state.filed(numbers)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        return self._state.page_ids(numbers)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows."""
        return self._state.memories(hosts)

    def attempts(self, page_ids: Sequence[PageId]) -> list[Attempt | None]:
        """Return the remembered verdict of each page that was not filed, None for all others."""
        return self._state.attempts(page_ids)
