"""Defines what the judge sees of the state and what it hands back to be filed. It imports no store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import CandidateColumns, Entry, OwnText, Signatures, empty_rows

NOBODY = -1
"""Stands for an entry number where there is no entry."""
ITEM_COUNT_BITS, WORD_COUNT_BITS = 4, 8
"""The lowest bits of an item and of a word in HostMemories: on how many pages it stands."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The postings of u buckets, each in the order of filing, so entry numbers ascend.

    bounds: int64[u + 1]  numbers: uint64[p] (entry numbers)  inlines: uint64[p] (fingerprint, or second digest word)
    """

    bounds: NDArray[np.int64]
    numbers: NDArray[np.uint64]
    inlines: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def living(self, floor: int) -> "Buckets":
        """Return the same u buckets without the postings of entries below the floor."""
        keep = self.numbers >= np.uint64(floor)
        if keep.all():
            return self
        kept = bounds_of(keep)
        return Buckets(kept[self.bounds], self.numbers[keep], self.inlines[keep])

    def take(self, rows: NDArray[np.int64]) -> "Buckets":
        """Choose buckets by their rows: int64[r], ascending, each once -> r buckets."""
        sizes = sizes_of(self.bounds)
        chosen = np.zeros(len(sizes), np.bool_)
        chosen[rows] = True
        postings = np.repeat(chosen, sizes)
        bounds = bounds_of(sizes[rows])
        return Buckets(bounds, self.numbers[postings], self.inlines[postings])


class CommitMark(NamedTuple):
    """Every page of this source and partition below this offset is committed: no crash can bring it back.

    partition -1: of every source, all pages.
    """

    source: str
    partition: int
    offset: int


class PendingVerdict(NamedTuple):
    """The verdict of a page that was not filed, or that replaces another.

    original: the entry number of its original, of the page that it replaces (LONGER), or NOBODY  reason: Reason
    score: nan without an original, 0 where it is replaced  found_by: KeyKind
    """

    original: int
    score: float
    reason: int
    found_by: int


class HostMemories(NamedTuple):
    """What is known of h hosts (stream/judge/by_host/memory.py has the rule).

    hosts: uint64[h], ascending  pages: uint32[h], how many taught it; 0: nothing is known of the host
    last: uint64[h], the entry number that the next filed page had when the host last learned
    first: int64[h], the entry of its only page, whose prints and title stand for items and words; NOBODY: they are here
    items: uint32[i], item_bounds: int64[h + 1], a print's identity << ITEM_COUNT_BITS | count, ascending within a host
    words: uint32[w], word_bounds: int64[h + 1], a title word << WORD_COUNT_BITS | count, ascending within a host
    """

    hosts: NDArray[np.uint64]
    pages: NDArray[np.uint32]
    last: NDArray[np.uint64]
    first: NDArray[np.int64]
    items: NDArray[np.uint32]
    item_bounds: NDArray[np.int64]
    words: NDArray[np.uint32]
    word_bounds: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HostUpdate:
    """What a scheme with a memory of hosts adds to a filing.

    own: of the f filed pages, as their entries keep it  memories: the WHOLE new memory of every host that learned
    page_ids, pending_verdicts: the verdicts of pages that are not filed, to be remembered until they are committed
    """

    own: OwnText
    memories: HostMemories
    page_ids: tuple[PageId, ...]
    pending_verdicts: tuple[PendingVerdict, ...]


class OutcomeRef(NamedTuple):
    """The outcome that a part of a state was filed by: its offset in the topic of verdicts, and its checksum."""

    offset: int
    checksum: int


class EntryPlaces(NamedTuple):
    """Where a state that holds a part of the entries puts f pages.

    numbers: uint64[f], their entry numbers, ascending, from the first number of the filing on
    next_number: that of the next page that is filed anywhere
    heard: the outcome that said it, where a topic has it
    """

    numbers: NDArray[np.uint64]
    next_number: int
    heard: OutcomeRef | None = None


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What one record adds to the state.

    signatures: the pages of the record
    pages: int64[f], which of them are filed, ascending; they get the entry numbers first_number, first_number + 1, ...
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that grew
    capped: filings left out because their bucket was full (a page that fits in no bucket is not filed)
    keeps_features: whether entries hold the features of their pages
    keeps_ranks: whether entries hold the ranks of their pages
    learned: what a scheme with a memory of hosts adds; None for the others
    committed: before the attempts of `learned` are added, those below these marks are removed
    places: in a state that holds a part of the entries, which numbers its pages get, and the next one; else None
    """

    signatures: Signatures
    pages: NDArray[np.int64]
    first_number: int
    keys: NDArray[np.uint64]
    buckets: Buckets
    capped: int
    keeps_features: bool = False
    learned: HostUpdate | None = None
    committed: tuple[CommitMark, ...] = ()
    places: EntryPlaces | None = None
    keeps_ranks: bool = False

    @property
    def numbers(self) -> NDArray[np.uint64]:
        """The entry numbers of the filed pages: uint64[f]."""
        if self.places is not None:
            return self.places.numbers
        return np.arange(self.first_number, self.next_number, dtype=np.uint64)

    @property
    def next_number(self) -> int:
        """The entry number that the next page gets."""
        return self.first_number + len(self.pages) if self.places is None else self.places.next_number


@dataclass(frozen=True, slots=True)
class Removal:
    """What forgetting takes out of the state.

    page_ids: the r pages  numbers: uint64[r], their entries; of each only the number stays
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that shrinks; an empty one is deleted
    hosts: uint64[h], whose memories are deleted
    """

    page_ids: tuple[PageId, ...]
    numbers: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    buckets: Buckets
    hosts: NDArray[np.uint64]


class IndexedEntries(Protocol):
    """What verdicts tell of e filed pages."""

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """Return what verdicts tell of these pages. places: int64[a], each 0..e - 1. Raises CorruptRecord."""


class IndexedPages(IndexedEntries, Protocol):
    """The entries of e filed pages, read at once; each is decoded only as far as somebody asks."""

    def compared(self, with_features: bool) -> CandidateColumns:
        """Return what a scheme confirms candidates by: e rows. Raises CorruptRecord.

        with_features: whether the scheme compares features; if not, their column stays empty
        """

    def own_texts(self) -> OwnText:
        """Return what the pages are compared by on their hosts: e rows. Raises CorruptRecord."""

    def event_times_ms(self) -> NDArray[np.int64]:
        """Return when the pages were fetched: int64[e], milliseconds. Raises CorruptRecord."""

    def ranks(self) -> NDArray[np.uint64]:
        """Return the ranks of the pages (stream/base/page.py): uint64[e]. Raises CorruptRecord if entries have none."""


class StateView(Protocol):
    """What judging reads of a state."""

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed; the next one gets this entry number."""

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. A bucket that was never filed under is empty."""

    def indexed(self, numbers: NDArray[np.uint64]) -> IndexedPages:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the remembered verdict of each page that was not filed, None for all others. Raises CorruptRecord."""


class WrappedView:
    """A view of a state that reads everything from another view. Subclasses change a part of it."""

    def __init__(self, state: StateView) -> None:
        self._state = state

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed; the next one gets this entry number."""
        return self._state.entry_count

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different."""
        return self._state.buckets(keys)

    def indexed(self, numbers: NDArray[np.uint64]) -> IndexedPages:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        return self._state.indexed(numbers)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        return self._state.page_ids(numbers)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows."""
        return self._state.memories(hosts)

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the recorded verdict of each page that was not filed, None for all others."""
        return self._state.pending_verdicts(page_ids)


class LiveView(WrappedView):
    """A view of a state without its dead entries.

    It stays apart from the state, since a query gives pages of different times different floors.
    """

    def __init__(self, state: StateView, floor: int) -> None:
        super().__init__(state)
        self._floor = floor

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the living postings under keys: uint64[u]."""
        return self._state.buckets(keys).living(self._floor)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each living entry: uint64[e]. None stands for all others."""
        living = numbers >= np.uint64(self._floor)
        found = iter(self._state.page_ids(numbers[living]))
        return [next(found) if lives else None for lives in living.tolist()]

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h] -> h rows. A host that learned nothing since is forgotten."""
        return live_memories(self._state.memories(hosts), self._floor)


def live_memories(memories: HostMemories, floor: int) -> HostMemories:
    """What is known of h hosts, without those that last learned before the floor of the horizon."""
    alive = memories.last >= np.uint64(floor)
    if alive.all():
        return memories
    first = np.where(alive & (memories.first >= floor), memories.first, NOBODY)
    pages = np.where(alive, memories.pages, np.uint32(0))
    items, item_bounds = empty_rows(memories.items, memories.item_bounds, alive)
    words, word_bounds = empty_rows(memories.words, memories.word_bounds, alive)
    return HostMemories(memories.hosts, pages, memories.last, first, items, item_bounds, words, word_bounds)
