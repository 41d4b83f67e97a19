"""Reads and writes the buckets of a state in a family of its backend."""

from collections.abc import Iterator
from itertools import compress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_buckets, decode_keys, encode_buckets, encode_keys
from spotsieve.state.index import Buckets
from spotsieve.state.store.backend import Backend, Batch
from spotsieve.stream.base.arrays import sizes_of


class BucketTable(Protocol):
    """The buckets of a state."""

    def read(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. Raises CorruptRecord."""

    def load(self, keys: NDArray[np.uint64]) -> bool:
        """Load buckets for later reads. keys: uint64[u], ascending, all different. They replace the loaded buckets.

        Returns whether it took one pass over all buckets.
        """

    def put(self, batch: Batch, keys: NDArray[np.uint64], buckets: Buckets) -> None:
        """Put the whole contents of buckets, one for each key: uint64[c], all different. An empty one is deleted."""

    def next_buckets(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        """Return up to `most` buckets from a key on: keys uint64[b], ascending, and their postings."""

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value as stored on disk, in the order of the keys."""

    def estimated_keys(self) -> int:
        """Return about how many buckets there are."""


class StoredBuckets:
    """Buckets encoded in a family of a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._loaded = np.empty(0, np.uint64)
        self._values: list[bytes | None] = []

    def read(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], from memory if all of them are loaded. Raises CorruptRecord."""
        if len(self._loaded):
            places = np.minimum(np.searchsorted(self._loaded, keys), len(self._loaded) - 1)
            if (self._loaded[places] == keys).all():
                return decode_buckets(keys, [self._values[place] for place in places.tolist()])
        return decode_buckets(keys, self._backend.get("buckets", encode_keys(keys)))

    def load(self, keys: NDArray[np.uint64]) -> bool:
        """Load buckets for later reads. Return whether it took one pass over all buckets."""
        self._loaded = keys
        self._values, in_a_pass = self._backend.get_sorted("buckets", encode_keys(keys))
        return in_a_pass

    def put(self, batch: Batch, keys: NDArray[np.uint64], buckets: Buckets) -> None:
        """Put the whole contents of buckets into the batch, and drop the loaded buckets."""
        self._loaded, self._values = self._loaded[:0], []
        names, values, filled = encode_keys(keys), encode_buckets(keys, buckets), sizes_of(buckets.bounds) > 0
        if False not in filled.tolist():
            batch.put("buckets", names, values)
            return
        batch.put("buckets", list(compress(names, filled)), list(compress(values, filled)))
        batch.delete("buckets", list(compress(names, ~filled)))

    def next_buckets(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        """Return the next buckets from a key on."""
        names, values = self._backend.next_items("buckets", first_key.to_bytes(8, "big"), most)
        keys = decode_keys(names)
        return keys, decode_buckets(keys, values)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value, in order."""
        return self._backend.scan("buckets")

    def estimated_keys(self) -> int:
        """Return about how many buckets there are."""
        return self._backend.estimated_keys("buckets")
