"""Tells whether the latest entries of a state are pages of a partition."""

import numpy as np

from spotsieve.state.index import State

MOST_ENTRIES = 2**18
"""So many of the latest entries are looked at, in about a second: a partition that is read leaves some among them."""
_AT_ONCE = 4096


def knows_pages_of(state: State, source: str, partition: int) -> bool:
    """Look for a page of this partition, the latest entries first. Raises CorruptRecord, StateError."""
    end = state.entry_count
    least = max(state.clock.floor, end - MOST_ENTRIES, 0)
    while end > least:
        first = max(end - _AT_ONCE, least)
        found = state.page_ids(np.arange(first, end, dtype=np.uint64))
        if any(page_id is not None and page_id[:2] == (source, partition) for page_id in found):
            return True
        end = first
    return False
