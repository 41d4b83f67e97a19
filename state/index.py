"""Defines how judging reads a state, and the updates that it returns. It imports no store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import CandidateColumns, DistinctiveText, Entry, Signatures, empty_rows

NOBODY = -1
"""Stands for an entry number if there is no entry."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The postings of u buckets. Entry numbers ascend within a bucket.

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
        """Return the buckets in these rows: int64[r], ascending, all different -> r buckets."""
        sizes = sizes_of(self.bounds)
        chosen = np.zeros(len(sizes), np.bool_)
        chosen[rows] = True
        postings = np.repeat(chosen, sizes)
        bounds = bounds_of(sizes[rows])
        return Buckets(bounds, self.numbers[postings], self.inlines[postings])


class CommitMark(NamedTuple):
    """Marks every page of a source and partition below an offset as committed: no crash can bring it back.

    partition -1: all pages of all sources are committed
    """

    source: str
    partition: int
    offset: int


class PendingVerdict(NamedTuple):
    """The verdict of a page that was not indexed, or that supersedes another.

    original: entry number of its original, of the superseded page (LONGER), or NOBODY  reason: Reason
    score: nan without an original, 0 if the page supersedes another  found_by: KeyKind
    """

    original: int
    score: float
    reason: int
    found_by: int


class HostMemories(NamedTuple):
    """The memories of h hosts: how often each block and title word was seen there (stream/judge/by_host/memory.py).

    hosts: uint64[h], ascending
    urls, texts: uint64[h], sketches of 64 bits of the URLs and of the texts of a host's pages; urls 0: no memory
    last: uint64[h], number of the next entry when the host last learned
    item_hand, word_hand: uint16[h], where the search for an item to evict goes on  item_floor, word_floor: uint8[h]
    items: uint64[i], item_bounds: int64[h + 1], blocks, by slot: identity << 28 | error << 24 | urls << 12 | texts
    words: uint64[w], word_bounds: int64[h + 1], title words, in the same layout
    """

    hosts: NDArray[np.uint64]
    urls: NDArray[np.uint64]
    texts: NDArray[np.uint64]
    last: NDArray[np.uint64]
    item_hand: NDArray[np.uint16]
    word_hand: NDArray[np.uint16]
    item_floor: NDArray[np.uint8]
    word_floor: NDArray[np.uint8]
    items: NDArray[np.uint64]
    item_bounds: NDArray[np.int64]
    words: NDArray[np.uint64]
    word_bounds: NDArray[np.int64]


COMMON_SLOTS = 1 << 18
"""The size of the table of common text: 2 MB."""
COMMON_WINDOW = 8
"""The number of slots of a window, which change together."""


class CommonText(NamedTuple):
    """Blocks that were seen on several hosts (stream/judge/by_host/common_text.py).

    slots: uint64[COMMON_SLOTS], key << 32 | sketch of hosts << 16 | sketch of titles; 0: empty
    """

    slots: NDArray[np.uint64]


def no_common_text() -> CommonText:
    """The table before the first page."""
    return CommonText(np.zeros(COMMON_SLOTS, np.uint64))


class CommonWindows(NamedTuple):
    """The windows of the table of common text that the pages of a record were counted in, with their new contents.

    numbers: int64[k], all different  slots: uint64[k, COMMON_WINDOW]
    """

    numbers: NDArray[np.int64]
    slots: NDArray[np.uint64]


def no_windows() -> CommonWindows:
    """The windows of a record that counts no page."""
    return CommonWindows(np.empty(0, np.int64), np.empty((0, COMMON_WINDOW), np.uint64))


@dataclass(frozen=True, slots=True)
class HostUpdate:
    """The additions of a scheme with host memories to an index update.

    own: distinctive texts of the f indexed pages, as stored in their entries
    memories: the WHOLE new memory of every host that learned
    page_ids, pending_verdicts: verdicts of pages that are not indexed, to be recorded until the pages are committed
    common: the new contents of windows of common text
    """

    own: DistinctiveText
    memories: HostMemories
    page_ids: tuple[PageId, ...]
    pending_verdicts: tuple[PendingVerdict, ...]
    common: CommonWindows


class OutcomeRef(NamedTuple):
    """The last outcome that a shard has indexed: its offset in the topic of verdicts, and its checksum."""

    offset: int
    checksum: int


class EntryPlaces(NamedTuple):
    """The entry numbers of f pages in the state of a shard, which holds a part of the entries.

    numbers: uint64[f], ascending, not below the first number of the update
    next_number: number of the next page that any shard indexes
    last_outcome: the outcome with these numbers, if a topic has it
    """

    numbers: NDArray[np.uint64]
    next_number: int
    last_outcome: OutcomeRef | None = None


@dataclass(slots=True)
class IndexUpdate:
    """The changes of a state by one record.

    signatures: the pages of the record
    pages: int64[f], rows of the indexed pages, ascending; they get entry numbers from first_number on
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that grew
    capped: number of postings left out because their bucket was full (a page that fits in no bucket is not indexed)
    keeps_features: whether entries hold the features of their pages
    keeps_ranks: whether entries hold the ranks of their pages
    learned: additions of a scheme with host memories; None for other schemes
    committed: pending verdicts below these marks are removed, before the ones in `learned` are added
    places: entry numbers of the pages in the state of a shard; None in a state with all entries
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
        """The entry numbers of the indexed pages: uint64[f]."""
        if self.places is not None:
            return self.places.numbers
        return np.arange(self.first_number, self.next_number, dtype=np.uint64)

    @property
    def next_number(self) -> int:
        """The entry number of the next page."""
        return self.first_number + len(self.pages) if self.places is None else self.places.next_number


@dataclass(frozen=True, slots=True)
class Removal:
    """The changes of a state that forgets r pages.

    page_ids: the r pages  numbers: uint64[r], their entries; of each entry only the number stays
    keys: uint64[c] and buckets: the WHOLE new contents of every bucket that shrinks; an empty one is deleted
    hosts: uint64[h], whose memories are deleted
    """

    page_ids: tuple[PageId, ...]
    numbers: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    buckets: Buckets
    hosts: NDArray[np.uint64]


class IndexedEntries(Protocol):
    """The entries of e indexed pages, for verdicts."""

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """Return the entries at these places: int64[a], each 0..e - 1. Raises CorruptRecord."""


class IndexedPages(IndexedEntries, Protocol):
    """The entries of e indexed pages, read at once. Columns are decoded on demand."""

    def compared(self, with_features: bool) -> CandidateColumns:
        """Return the columns that a scheme compares candidates by: e rows. Raises CorruptRecord.

        with_features: whether to read features; if not, their column stays empty
        """

    def distinctive_texts(self) -> DistinctiveText:
        """Return the distinctive texts of the pages, which are compared within a host: e rows. Raises CorruptRecord."""

    def event_times_ms(self) -> NDArray[np.int64]:
        """Return the event times of the pages: int64[e], milliseconds. Raises CorruptRecord."""

    def ranks(self) -> NDArray[np.uint64]:
        """Return the ranks of the pages (stream/base/page.py): uint64[e]. Raises CorruptRecord if entries have none."""


class StateView(Protocol):
    """The view of a state that judging reads."""

    @property
    def entry_count(self) -> int:
        """Number of pages ever indexed, which is the entry number of the next one."""

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. A key without a bucket has no postings."""

    def indexed(self, numbers: NDArray[np.uint64]) -> IndexedPages:
        """Return the entries with these numbers: uint64[e]. Raises CorruptRecord if one is missing."""

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None if the number has no entry any more."""

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return the memories of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""

    def common_text(self) -> CommonText:
        """Return the table of common text. The caller does not write to it; the next update of the state does."""

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the pending verdict of each page, None for a page without one. Raises CorruptRecord."""


class WrappedView:
    """A view that forwards to another view. Subclasses override a part of it."""

    def __init__(self, state: StateView) -> None:
        self._state = state

    @property
    def entry_count(self) -> int:
        """Number of pages ever indexed, which is the entry number of the next one."""
        return self._state.entry_count

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different."""
        return self._state.buckets(keys)

    def indexed(self, numbers: NDArray[np.uint64]) -> IndexedPages:
        """Return the entries with these numbers: uint64[e]. Raises CorruptRecord if one is missing."""
        return self._state.indexed(numbers)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None if the number has no entry any more."""
        return self._state.page_ids(numbers)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return the memories of these hosts: uint64[h], ascending, all different -> h rows."""
        return self._state.memories(hosts)

    def common_text(self) -> CommonText:
        """Return the table of common text. The caller does not write to it."""
        return self._state.common_text()

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the pending verdict of each page, None for a page without one."""
        return self._state.pending_verdicts(page_ids)


class LiveView(WrappedView):
    """A view of a state without its dead entries.

    It is not part of the state, because a query judges pages of different times by different floors.
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
        """Return the memories of these hosts: uint64[h] -> h rows, empty for hosts that learned before the floor."""
        return live_memories(self._state.memories(hosts), self._floor)


def live_memories(memories: HostMemories, floor: int) -> HostMemories:
    """Return memories of h hosts, emptied for hosts that last learned before the floor of the window."""
    alive = memories.last >= np.uint64(floor)
    if alive.all():
        return memories
    columns = {
        name: np.where(alive, column, 0).astype(column.dtype)
        for name, column in memories._asdict().items()
        if name in ("urls", "texts", "item_hand", "word_hand", "item_floor", "word_floor")
    }
    items, item_bounds = empty_rows(memories.items, memories.item_bounds, alive)
    words, word_bounds = empty_rows(memories.words, memories.word_bounds, alive)
    return memories._replace(**columns, items=items, item_bounds=item_bounds, words=words, word_bounds=word_bounds)
