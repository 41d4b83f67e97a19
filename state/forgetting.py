"""Says which pages a record forgets, and works out what forgetting them changes in a state."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spotsieve.state.index import Buckets, Removal, State
from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.page import PageId


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


def removal_of(pages: Sequence[ForgottenPage], state: State, whole: bool = True) -> Removal:
    """Find what the state still holds of these pages. whole: it holds all entries, and not those of a shard alone

    A page is passed over if its entry is gone or belongs to another page. So a record that came into the log twice
    changes nothing the second time. A shard that does not hold the entry of a living number takes its postings out: it
    trusts that the record is of this log, which gives each number once. What a host learned from a page stays with its
    host, as counts of hashes: which of them came from the page is not known any more. Raises CorruptRecord, StateError.
    """
    found = state.page_ids(np.array([page.number for page in pages], np.uint64))
    there = {page.number: page for page, page_id in zip(pages, found, strict=True) if page_id == page.page_id}
    # Another shard may hold the entry of a page whose postings are here.
    floor, elsewhere = state.clock.floor, [one for one, page_id in zip(pages, found, strict=True) if page_id is None]
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
    hosts = np.unique(state.filed(last).compared(with_features=False).host)
    numbers = np.array(list(there), np.uint64)
    return Removal(ids, numbers, keys[shrunk], Buckets(bounds, held.numbers[kept], held.inlines[kept]), hosts)
