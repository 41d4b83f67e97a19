"""Owns the state in memory: the same contract as the stored one, in dictionaries, for tests, trials and comparisons."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from state import formats
from state.entries import ReadEntries, page_ids
from state.index import Buckets, Filing, Removal
from state.sources import Sources
from stream.errors import StateError


class MemoryState:
    """Buckets and entries in dictionaries; lost when the process ends."""

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        self._entries: list[bytes] = []
        self._sources = Sources()
        self._position = 0
        self._last_record = 0

    @property
    def entry_count(self) -> int:
        """Number of filed pages."""
        return len(self._entries)

    @property
    def position(self) -> int:
        """The next log offset to read."""
        return self._position

    @property
    def last_record(self) -> int:
        """Checksum of the record before the position."""
        return self._last_record

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """keys: uint64[u] -> their postings."""
        empty = np.empty(0, np.uint64)
        found = [self._buckets.get(key, (empty, empty)) for key in keys.tolist()]
        bounds = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(numbers) for numbers, _ in found], out=bounds[1:])
        return Buckets(
            bounds,
            np.concatenate([empty, *(numbers for numbers, _ in found)]),
            np.concatenate([empty, *(inlines for _, inlines in found)]),
        )

    def filed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """numbers: uint64[e] -> the filed pages. Raises CorruptRecord where one is missing."""
        entries = self._entries
        values = [entries[number] if number < len(entries) else None for number in numbers.tolist()]
        return ReadEntries(formats.number_keys(numbers), values, self._sources.texts)

    def file(self, filing: Filing | None, position: int, last_record: int = 0) -> None:
        """Apply a filing and move the position."""
        if filing is not None:
            bounds = filing.buckets.bounds.tolist()
            for place, key in enumerate(filing.keys.tolist()):
                part = slice(bounds[place], bounds[place + 1])
                self._buckets[key] = (filing.buckets.numbers[part], filing.buckets.inlines[part])
            numbers, new = self._sources.number(filing)
            for text in new:
                self._sources.add(text)
            self._entries += formats.encode_entries(filing, numbers)
        self._position, self._last_record = position, last_record

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[tuple[str, int, int] | None]:
        """numbers: uint64[e] -> (source, partition, offset) of each, None where no entry has the number any more."""
        values = [self._entries[number] if number < len(self._entries) else None for number in numbers.tolist()]
        return page_ids(formats.number_keys(numbers), values, self._sources.texts)

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position."""
        bounds = removal.buckets.bounds.tolist()
        for place, key in enumerate(removal.keys.tolist()):
            part = slice(bounds[place], bounds[place + 1])
            if part.start < part.stop:
                self._buckets[key] = (removal.buckets.numbers[part], removal.buckets.inlines[part])
            else:
                del self._buckets[key]
        for number in removal.numbers.tolist():
            self._entries[number] = formats.FORGOTTEN
        self._position, self._last_record = position, last_record

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything remembered, named and ordered as RocksState.items does."""
        yield b"meta/progress", formats.encode_progress(self._position, len(self._entries), self._last_record)
        for key in sorted(self._buckets):
            numbers, inlines = self._buckets[key]
            bucket = Buckets(np.array([0, len(numbers)]), numbers, inlines)
            value = formats.encode_buckets(np.array([key], np.uint64), bucket)[0]
            yield b"buckets/" + key.to_bytes(8, "big"), value
        for number, value in enumerate(self._entries):
            yield b"entries/" + number.to_bytes(8, "big"), value
        for number, text in enumerate(self._sources.texts):
            yield b"sources/" + number.to_bytes(8, "big"), formats.encode_source(text)

    def stats(self) -> dict[str, int]:
        """Entries, position, and how full the buckets are."""
        sizes = [len(numbers) for numbers, _ in self._buckets.values()]
        return {
            "entries": len(self._entries),
            "position": self._position,
            "bytes_on_disk": 0,
            "estimated_keys": len(sizes),
            "largest_bucket": max(sizes, default=0),
        }

    def checkpoint(self, path: Path) -> None:
        """Refused: there are no files."""
        raise StateError("state", "must be on disk to be snapshot", str(path), "open it with RocksState")

    def close(self) -> None:
        """Nothing to let go of."""
