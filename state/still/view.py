"""Owns looking many pages up at once in a state that lies still: all their buckets are read in one go, in key order.

This is the batch query mode of Manku, Jain, Das Sarma (WWW 2007, sec. 4): queries in memory, tables read in order. The
keys of all queries are sorted, and their buckets are read by MultiGet, or, where they are a good part of all buckets,
by one pass over the whole family: a bucket that is passed costs less than one that is asked for.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format import layouts as formats
from spotsieve.state.index import Buckets
from spotsieve.state.still.reading import StillState
from spotsieve.state.store.entries import ReadEntries
from spotsieve.state.store.rocks_errors import rocks_errors

PASSED_TO_ASKED = 0.4
"""CPU time of a bucket that a pass reads, over that of one in a MultiGet in key order: .70 us over 1.72 us, in a state
of 250,000 buckets (`python -m tests.measure.bench.query`). A pass is taken where more is wanted."""
_AT_ONCE = 65_536


class StillView:
    """What judging reads of a StillState. Load the keys before buckets() is asked for them."""

    def __init__(self, state: StillState) -> None:
        self._state = state
        self._keys = np.empty(0, np.uint64)
        self._values: list[bytes | None] = []

    @property
    def entry_count(self) -> int:
        """Number of pages ever filed."""
        return self._state.progress.entry_count

    def load(self, keys: NDArray[np.uint64]) -> bool:
        """Read the buckets of these keys, ascending and all different, in the place of those loaded before.

        -> whether it took a pass over all buckets. Raises StateError.
        """
        in_a_pass = len(keys) > PASSED_TO_ASKED * self._state.estimated_keys("buckets")
        self._keys = keys
        self._values = self.read_by_pass(keys) if in_a_pass else self.read_by_key(keys)
        return in_a_pass

    def read_by_key(self, keys: NDArray[np.uint64]) -> list[bytes | None]:
        """The buckets of ascending keys, by MultiGet; None for one that was never filed under."""
        return self._read("buckets", keys)

    def read_by_pass(self, keys: NDArray[np.uint64]) -> list[bytes | None]:
        """The same, by one pass over all buckets."""
        places = {name: place for place, name in enumerate(formats.number_keys(keys))}
        values: list[bytes | None] = [None] * len(keys)
        for name, value in self._state.items("buckets"):
            place = places.get(name)
            if place is not None:
                values[place] = value
        return values

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """keys: uint64[u], loaded -> their postings. Raises CorruptRecord, KeyError."""
        places = np.searchsorted(self._keys, keys)
        if len(keys) and (places.max() == len(self._keys) or (self._keys[places] != keys).any()):
            raise KeyError("a bucket is asked for that was not loaded")
        return formats.decode_buckets(keys, [self._values[place] for place in places.tolist()])

    def filed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """numbers: uint64[e] -> the filed pages. Raises CorruptRecord where one is missing."""
        return ReadEntries(formats.number_keys(numbers), self._read("entries", numbers), self._state.sources)

    def _read(self, family: str, keys: NDArray[np.uint64]) -> list[bytes | None]:
        names, values = formats.number_keys(keys), list[bytes | None]()
        with rocks_errors(self._state.directory, "read"):
            for first in range(0, len(names), _AT_ONCE):
                values += self._state.families[family].get(names[first : first + _AT_ONCE])  # type: ignore[arg-type]
        return values
