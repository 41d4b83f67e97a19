"""Looks up many pages at once in a state that does not change: it reads all their buckets together, in key order.

This is the batch query mode of Manku, Jain, Das Sarma (WWW 2007, sec. 4): queries in memory, tables read in order. The
keys of all queries are sorted. Their buckets are read by MultiGet, or by one pass over the whole family if they are a
good part of all buckets: a bucket in a pass costs less than one in a MultiGet.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_buckets, encode_keys
from spotsieve.state.format.entries import ReadEntries, all_found, page_ids
from spotsieve.state.format.host_memory import decode_memories
from spotsieve.state.format.meta import attempt_key, decode_attempt
from spotsieve.state.index import Buckets, HostMemories, PendingVerdict
from spotsieve.state.still.reading import ReadOnlyState
from spotsieve.state.store.loaded import SourceNumbers
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.stream.base.page import PageId

PASSED_TO_ASKED = 0.4
"""CPU time of a bucket in a pass, over that of one in a MultiGet in key order: .70 us over 1.72 us, in a state of
250,000 buckets (`python -m bench.speed.query`). If a greater share of the buckets is wanted, take a pass."""
_AT_ONCE = 65_536


class ReadOnlyView:
    """What judging reads of a ReadOnlyState. Load the keys before you ask buckets() for them."""

    def __init__(self, state: ReadOnlyState) -> None:
        self._state = state
        self._known = SourceNumbers()
        for text in state.sources:
            self._known.add(text)
        self._keys = np.empty(0, np.uint64)
        self._values: list[bytes | None] = []

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed."""
        return self._state.progress.entry_count

    def load(self, keys: NDArray[np.uint64]) -> bool:
        """Read the buckets of these keys, ascending and all different. They replace those loaded before.

        Returns whether it took a pass over all buckets. Raises StateError.
        """
        in_a_pass = len(keys) > PASSED_TO_ASKED * self._state.estimated_keys("buckets")
        self._keys = keys
        self._values = self.read_by_pass(keys) if in_a_pass else self.read_by_key(keys)
        return in_a_pass

    def read_by_key(self, keys: NDArray[np.uint64]) -> list[bytes | None]:
        """Read the buckets of ascending keys by MultiGet; None for one that was never filed under."""
        return self._read("buckets", encode_keys(keys))

    def read_by_pass(self, keys: NDArray[np.uint64]) -> list[bytes | None]:
        """Read the same by one pass over all buckets."""
        places = {name: place for place, name in enumerate(encode_keys(keys))}
        values: list[bytes | None] = [None] * len(keys)
        for name, value in self._state.items("buckets"):
            place = places.get(name)
            if place is not None:
                values[place] = value
        return values

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under loaded keys: uint64[u]. Raises CorruptRecord; KeyError for a key not loaded."""
        places = np.searchsorted(self._keys, keys)
        if len(keys) and (places.max() == len(self._keys) or (self._keys[places] != keys).any()):
            raise KeyError("load() must come before buckets() for every key")
        return decode_buckets(keys, [self._values[place] for place in places.tolist()])

    def indexed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        names = encode_keys(numbers)
        return ReadEntries(names, all_found(names, self._read("entries", names)), self._state.sources)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        names = encode_keys(numbers)
        return page_ids(names, self._read("entries", names), self._state.sources)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""
        return decode_memories(hosts, self._read("hosts", encode_keys(hosts)))

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the remembered verdict of each page that was not filed, None for all others. Raises CorruptRecord."""
        numbers = [self._known.of(source) for source, _, _ in page_ids]
        places = [place for place, number in enumerate(numbers) if number is not None]
        keys = [attempt_key(numbers[place] or 0, *page_ids[place][1:]) for place in places]
        found: list[PendingVerdict | None] = [None] * len(page_ids)
        for place, key, value in zip(places, keys, self._read("attempts", keys), strict=True):
            found[place] = None if value is None else decode_attempt(key, value)
        return found

    def _read(self, family: str, names: list[bytes]) -> list[bytes | None]:
        values = list[bytes | None]()
        with rocks_errors(self._state.directory, "read"):
            for first in range(0, len(names), _AT_ONCE):
                values += self._state.families[family].get(names[first : first + _AT_ONCE])  # type: ignore[arg-type]
        return values
