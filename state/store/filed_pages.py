"""Decodes the entries that a store has read, each only as far as somebody asks."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.entries import (
    FORGOTTEN,
    decode_compared,
    decode_entry,
    decode_event_times,
    decode_own_texts,
    decode_ranks,
    head_of_entry,
)
from spotsieve.stream.byte_texts import byte_texts
from spotsieve.stream.errors import CorruptRecord
from spotsieve.stream.page import PageId
from spotsieve.stream.signature import Compared, Entry, OwnText


def page_ids(keys: Sequence[bytes], values: Sequence[bytes | None], sources: Sequence[str]) -> list[PageId | None]:
    """Return the page id of each entry, None where it is gone or forgotten. Raises CorruptRecord."""
    found = list[PageId | None]()
    for key, value in zip(keys, values, strict=True):
        if value is None or value == FORGOTTEN:
            found.append(None)
        else:
            head = head_of_entry(key, value, len(sources))
            found.append((sources[head.source], head.partition, head.offset))
    return found


def all_found(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Sequence[bytes]:
    """Return the values of entries that buckets refer to. Raises CorruptRecord if one is missing."""
    if None in values:
        raise CorruptRecord("entries", keys[values.index(None)], "is missing although a bucket refers to it")
    return cast("Sequence[bytes]", values)


class ReadEntries:
    """The values of e entries. keys: for messages  sources: texts by number"""

    def __init__(self, keys: Sequence[bytes], values: Sequence[bytes], sources: Sequence[str]) -> None:
        self._keys = keys
        self._values = byte_texts(values)
        self._sources = sources

    def compared(self, with_features: bool) -> Compared:
        """Return what a scheme confirms candidates by: e rows. Raises CorruptRecord."""
        return decode_compared(self._keys, self._values, with_features)

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """Return what verdicts tell of these pages. places: int64[a], each 0..e - 1. Raises CorruptRecord."""
        keys, values, sources = self._keys, self._values, self._sources
        return [decode_entry(keys[place], values[place], sources) for place in places.tolist()]

    def own_texts(self) -> OwnText:
        """Return what the pages are compared by on their hosts: e rows. Raises CorruptRecord."""
        return decode_own_texts(self._keys, self._values)

    def event_times_ms(self) -> NDArray[np.int64]:
        """Return when the pages were fetched: int64[e], milliseconds. Raises CorruptRecord."""
        return decode_event_times(self._keys, self._values)

    def ranks(self) -> NDArray[np.uint64]:
        """Return the ranks of the pages: uint64[e]. Raises CorruptRecord if entries have none."""
        return decode_ranks(self._keys, self._values)
