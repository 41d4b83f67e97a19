"""Finds the partitions of the latest entries of a state."""

import numpy as np

from spotsieve.state.store.state import State

MOST_ENTRIES = 2**18
"""Number of latest entries that are read, in about a second: a partition in use has some among them."""
_AT_ONCE = 4096


class RecentPartitions:
    """The partitions of a state's latest entries.

    Each entry is read once, for any number of partitions. Otherwise 1,000 new partitions would take a second each.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = 0
        self._known: set[tuple[str, int]] = set()

    def has(self, source: str, partition: int) -> bool:
        """Whether a page of this partition is among the latest entries. Raises CorruptRecord, StateError."""
        state, end = self._state, self._state.entry_count
        first = max(self._seen, state.clock.floor, end - MOST_ENTRIES, 0)
        while first < end:
            last = min(first + _AT_ONCE, end)
            for page_id in state.page_ids(np.arange(first, last, dtype=np.uint64)):
                if page_id is not None:
                    self._known.add((page_id[0], page_id[1]))
            first = self._seen = last
        return (source, partition) in self._known
