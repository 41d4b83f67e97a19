"""Removes pages from a state: those that a record forgets, and dead postings and memories, which a sweep finds.

The sweep walks over all postings and memories, round after round, since no filing rewrites the dead ones.

Every filing pays for a part of the walk: it visits VISITS_PER_POSTING buckets for each posting that it adds. So the
cost is bounded, and nothing depends on time: the state stays a function of the log.

A posting makes at most one new bucket. Let L postings be filed in a horizon, and let there be B buckets in all. Then a
round takes B / 2 filings. A bucket whose last posting dies waits half a round on average, so B = L + B / 4: 4/3 of the
living buckets, and a round takes two thirds of a horizon. (Measured with the default scheme: 1.47 times, and three
quarters.) With one visit for each posting, B would be 2 L. With a fixed number of visits for each page, B would grow
without end under a scheme whose pages have twice as many keys.

A new round begins when the floor has moved since the last one began. A stream without novel pages adds nothing, and
nothing is swept.

The memories of hosts are walked over in the same way and for the same reason: VISITS_PER_MEMORY for each memory that a
filing writes. A host that learned nothing since the floor is dead, and its memory is removed whole.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, IndexUpdate, Removal, StateView
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import PageId


class ForgottenPage(NamedTuple):
    """A filed page that the log forgets. number: its entry  keys: the buckets that hold its postings

    with_host: whether what is remembered of its host goes too; so it is where all pages of the host are forgotten
    """

    number: int
    source: str
    partition: int
    offset: int
    keys: tuple[int, ...]
    with_host: bool = False

    @property
    def page_id(self) -> PageId:
        """The id of the page. If the entry of that number belongs to another page, it is left alone."""
        return self.source, self.partition, self.offset


def removal_of(pages: Sequence[ForgottenPage], state: StateView, floor: int, whole: bool = True) -> Removal:
    """Find what the state still holds of these pages. floor: entries below it are dead

    whole: whether it holds all entries, and not those of a shard alone

    A page is passed over if its entry is gone or belongs to another page. So a record that came into the log twice
    changes nothing the second time. A shard that does not hold the entry of a living number takes its postings out: it
    trusts that the record is of this log, which gives each number once. What a host learned from a page stays with its
    host, as counts of hashes: which of them came from the page is not known any more. Raises CorruptRecord, StateError.
    """
    found = state.page_ids(np.array([page.number for page in pages], np.uint64))
    there = {page.number: page for page, page_id in zip(pages, found, strict=True) if page_id == page.page_id}
    # Another shard may hold the entry of a page whose postings are here.
    elsewhere = [one for one, page_id in zip(pages, found, strict=True) if page_id is None]
    posted = [*there.values(), *(page for page in elsewhere if not whole and page.number >= floor)]
    keys = np.unique(np.array([key for page in posted for key in page.keys], np.uint64))
    held = state.buckets(keys)
    taken = np.isin(held.numbers, np.array([page.number for page in posted], np.uint64))
    bucket = np.repeat(np.arange(len(keys)), sizes_of(held.bounds))
    shrunk = np.unique(bucket[taken])
    kept = ~taken & np.isin(bucket, shrunk)
    sizes = np.bincount(np.searchsorted(shrunk, bucket[kept]), minlength=len(shrunk))
    bounds = bounds_of(sizes)
    ids = tuple(page.page_id for page in there.values())
    last = np.array([number for number, page in there.items() if page.with_host], np.uint64)
    hosts = np.unique(state.indexed(last).compared(with_features=False).host)
    numbers = np.array(list(there), np.uint64)
    return Removal(ids, numbers, keys[shrunk], Buckets(bounds, held.numbers[kept], held.inlines[kept]), hosts)


VISITS_PER_POSTING = 2
VISITS_PER_MEMORY = 2
_KEYS = 2**64
Visit = Callable[[int, int], tuple[NDArray[np.uint64], Buckets]]
"""visit(first key, how many) returns the next buckets from that key on: keys uint64[b], ascending, and contents."""
VisitHosts = Callable[[int, int], tuple[NDArray[np.uint64], NDArray[np.uint64]]]
"""visit(first host, how many) returns the next memories from that host on: hosts uint64[b], ascending, and when each
last learned: uint64[b]."""


class Sweep(NamedTuple):
    """How far a walk has come, over buckets or over memories.

    next_key: where the round goes on; 0 between two rounds
    floor: the horizon's floor when the round, or the last one, began. Buckets before next_key (all of them if it is 0)
    have no posting below it, and no memory there last learned below it.
    """

    next_key: int = 0
    floor: int = 0


class SweepStep(NamedTuple):
    """What one part of the walk changes.

    visited: how many buckets it looked at  keys: uint64[c]  buckets: their new contents; an empty one is deleted
    """

    sweep: Sweep
    visited: int
    keys: NDArray[np.uint64]
    buckets: Buckets


class HostSweepStep(NamedTuple):
    """What one part of the walk over memories removes. dead: uint64[c], hosts"""

    sweep: Sweep
    dead: NDArray[np.uint64]


def sweep_buckets(sweep: Sweep, floor: int, index_update: IndexUpdate, visit: Visit) -> SweepStep | None:
    """Walk the next part, over the buckets as they were before the filing; None if there is nothing to sweep.

    floor: entries below it are dead. If the filing rewrites a bucket too, write the filing's last: it has no dead
    postings either.
    """
    added = int(np.count_nonzero(index_update.buckets.numbers >= np.uint64(index_update.first_number)))
    if _rests(sweep, floor, added):
        return None
    most = VISITS_PER_POSTING * added
    keys, buckets = visit(sweep.next_key, most)
    living = buckets.living(floor)
    changed = np.flatnonzero(sizes_of(living.bounds) != sizes_of(buckets.bounds))
    return SweepStep(_moved(sweep, floor, keys, most), len(keys), keys[changed], living.take(changed))


def sweep_hosts(sweep: Sweep, floor: int, index_update: IndexUpdate, visit: VisitHosts) -> HostSweepStep | None:
    """Walk the next part over memories as they were before the filing; None if there is nothing to sweep.

    floor: a memory that last learned below it is dead. If the filing writes one of these too, write the filing's last.
    """
    written = len(index_update.learned.memories.hosts) if index_update.learned else 0
    if _rests(sweep, floor, written):
        return None
    most = VISITS_PER_MEMORY * written
    hosts, last = visit(sweep.next_key, most)
    return HostSweepStep(_moved(sweep, floor, hosts, most), hosts[last < np.uint64(floor)])


def _rests(sweep: Sweep, floor: int, added: int) -> bool:
    """Whether a walk stays where it is: nothing is added, or no new round is due."""
    return not added or (not sweep.next_key and sweep.floor == floor)


def _moved(sweep: Sweep, floor: int, keys: NDArray[np.uint64], most: int) -> Sweep:
    """The walk behind the keys that it visited. A round that begins here takes the floor of now."""
    next_key = (int(keys[-1]) + 1) % _KEYS if len(keys) == most else 0
    return Sweep(next_key, sweep.floor if sweep.next_key else floor)
