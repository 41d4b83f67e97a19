"""Removes forgotten pages from a state, and sweeps dead postings and host memories.

Dead postings lie in buckets that no later page rewrites. So a sweep visits all buckets, round after round. Every index
update pays for a part of it: VISITS_PER_POSTING buckets for each posting that it adds. The cost is bounded and does not
depend on time, so the state stays a function of the log.

A posting makes at most one new bucket. Let L postings be added in a deduplication window, and let there be B buckets in
all. Then a round takes B / 2 added postings. A bucket whose last posting dies waits half a round on average, so
B = L + B / 4: 4/3 of the living buckets, and a round takes two thirds of a window. (Measured with the default scheme:
1.47 times, and three quarters.) With one visit for each posting, B would be 2 L. With a fixed number of visits for each
page, B would grow without end under a scheme whose pages have twice as many keys.

A new round begins when the floor has moved since the last round began. A stream without novel pages adds nothing and
sweeps nothing.

Host memories are swept in the same way: VISITS_PER_MEMORY for each memory that an update writes. The memory of a host
that last learned below the floor is dead, and is removed whole.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, IndexUpdate, Removal, StateView
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import PageId


class ForgottenPage(NamedTuple):
    """An indexed page to forget. number: its entry  keys: the buckets that hold its postings

    with_host: whether the memory of its host is removed too, as for a host whose pages are all forgotten
    """

    number: int
    source: str
    partition: int
    offset: int
    keys: tuple[int, ...]
    with_host: bool = False

    @property
    def page_id(self) -> PageId:
        """The id of the page. An entry of this number that belongs to another page stays."""
        return self.source, self.partition, self.offset


def removal_of(pages: Sequence[ForgottenPage], state: StateView, floor: int, whole: bool = True) -> Removal:
    """Return the removal of these pages: the parts that the state still holds. floor: entries below it are dead

    whole: whether the state holds all entries; False for the state of a shard

    A page is skipped if its entry is gone or belongs to another page. So a record that the log holds twice changes
    nothing the second time. A shard without the entry of a living number still removes its postings: it relies on the
    log, which gives each number once. Counts that a host learned from a page stay in the memory of the host, because
    nothing says any more which counts came from the page. Raises CorruptRecord, StateError.
    """
    found = state.page_ids(np.array([page.number for page in pages], np.uint64))
    stored = {page.number: page for page, page_id in zip(pages, found, strict=True) if page_id == page.page_id}
    # Another shard may hold the entry of a page whose postings are here.
    missing = [page for page, page_id in zip(pages, found, strict=True) if page_id is None]
    posted = [*stored.values(), *(page for page in missing if not whole and page.number >= floor)]
    keys = np.unique(np.array([key for page in posted for key in page.keys], np.uint64))
    buckets = state.buckets(keys)
    removed = np.isin(buckets.numbers, np.array([page.number for page in posted], np.uint64))
    bucket = np.repeat(np.arange(len(keys)), sizes_of(buckets.bounds))
    shrunk = np.unique(bucket[removed])
    kept = ~removed & np.isin(bucket, shrunk)
    sizes = np.bincount(np.searchsorted(shrunk, bucket[kept]), minlength=len(shrunk))
    bounds = bounds_of(sizes)
    ids = tuple(page.page_id for page in stored.values())
    of_hosts = np.array([number for number, page in stored.items() if page.with_host], np.uint64)
    hosts = np.unique(state.indexed(of_hosts).compared(with_features=False).host)
    numbers = np.array(list(stored), np.uint64)
    return Removal(ids, numbers, keys[shrunk], Buckets(bounds, buckets.numbers[kept], buckets.inlines[kept]), hosts)


VISITS_PER_POSTING = 2
VISITS_PER_MEMORY = 2
_KEYS = 2**64
Visit = Callable[[int, int], tuple[NDArray[np.uint64], Buckets]]
"""visit(first key, count) returns the next buckets from that key on: keys uint64[b], ascending, and contents."""
VisitHosts = Callable[[int, int], tuple[NDArray[np.uint64], NDArray[np.uint64]]]
"""visit(first host, count) returns the next memories from that host on: hosts uint64[b], ascending, and the `last` of
each (HostMemories): uint64[b]."""


class Sweep(NamedTuple):
    """The progress of a sweep over buckets or over host memories.

    next_key: the next key of the round; 0 between two rounds
    floor: floor of the window when the latest round began. Buckets before next_key (all buckets if it is 0) have no
    posting below it, and memories before next_key did not last learn below it.
    """

    next_key: int = 0
    floor: int = 0


class SweepStep(NamedTuple):
    """The changes of one step of the sweep over buckets.

    visited: number of buckets read  keys: uint64[c]  buckets: their new contents; an empty one is deleted
    """

    sweep: Sweep
    visited: int
    keys: NDArray[np.uint64]
    buckets: Buckets


class HostSweepStep(NamedTuple):
    """The changes of one step of the sweep over host memories. dead: uint64[c], the hosts to remove"""

    sweep: Sweep
    dead: NDArray[np.uint64]


def sweep_buckets(sweep: Sweep, floor: int, index_update: IndexUpdate, visit: Visit) -> SweepStep | None:
    """Sweep the next buckets, as they were before the update. Return None if there is nothing to sweep.

    floor: entries below it are dead. If the update rewrites a bucket too, write its content last: it has no dead
    postings either.
    """
    if _rests(sweep, floor):
        return None
    added = int(np.count_nonzero(index_update.buckets.numbers >= np.uint64(index_update.first_number)))
    if not added:
        return None
    most = VISITS_PER_POSTING * added
    keys, buckets = visit(sweep.next_key, most)
    living = buckets.living(floor)
    changed = np.flatnonzero(sizes_of(living.bounds) != sizes_of(buckets.bounds))
    return SweepStep(_moved(sweep, floor, keys, most), len(keys), keys[changed], living.take(changed))


def sweep_hosts(sweep: Sweep, floor: int, index_update: IndexUpdate, visit: VisitHosts) -> HostSweepStep | None:
    """Sweep the next host memories, as they were before the update. Return None if there is nothing to sweep.

    floor: a memory that last learned below it is dead. If the update writes a memory too, write its content last.
    """
    written = len(index_update.learned.memories.hosts) if index_update.learned else 0
    if not written or _rests(sweep, floor):
        return None
    most = VISITS_PER_MEMORY * written
    hosts, last = visit(sweep.next_key, most)
    return HostSweepStep(_moved(sweep, floor, hosts, most), hosts[last < np.uint64(floor)])


def _rests(sweep: Sweep, floor: int) -> bool:
    """Whether a sweep pauses, because no new round is due."""
    return not sweep.next_key and sweep.floor == floor


def _moved(sweep: Sweep, floor: int, keys: NDArray[np.uint64], most: int) -> Sweep:
    """Return the sweep after the keys that it visited. A new round takes the present floor."""
    next_key = (int(keys[-1]) + 1) % _KEYS if len(keys) == most else 0
    return Sweep(next_key, sweep.floor if sweep.next_key else floor)
