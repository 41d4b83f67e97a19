"""Keeps a state in memory, under the same contract as the one on disk: for tests, trials and comparisons."""

import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.format.entries import FORGOTTEN, ReadEntries, all_found, encode_entries, page_ids
from spotsieve.state.format.host_memory import decode_memories, encode_memories, last_learned
from spotsieve.state.format.meta import (
    StateProgress,
    attempt_key,
    decode_attempt,
    encode_attempt,
    encode_marks,
    encode_progress,
    encode_source,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.index import Buckets, CommitMark, HostMemories, HostUpdate, IndexUpdate, PendingVerdict, Removal
from spotsieve.state.removal import Sweep, walk_on, walk_on_hosts
from spotsieve.state.store.loaded import RememberedAttempts, SourceNumbers
from spotsieve.state.store.memory_buckets import MemoryBuckets
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.page import PageId


class MemoryState:
    """A state in dictionaries and arrays. It is lost when the process ends."""

    def __init__(self) -> None:
        self._buckets = MemoryBuckets()
        self._entries: dict[int, bytes] = {}
        self._next_number = 0
        self._sources = SourceNumbers()
        self._hosts: dict[int, bytes] = {}
        self._pending_verdicts: dict[bytes, bytes] = {}
        self._remembered = RememberedAttempts()
        self._position = 0
        self._last_record = 0
        self._pages_applied = 0
        self._clock = Clock()
        self._sweep = Sweep()
        self._host_sweep = Sweep()
        self._swept_buckets = 0

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed."""
        return self._next_number

    @property
    def position(self) -> int:
        """The next log offset to read."""
        return self._position

    @property
    def last_record(self) -> int:
        """The checksum of the last record applied."""
        return self._last_record

    @property
    def pages_applied(self) -> int:
        """How many pages of the record at the position are applied."""
        return self._pages_applied

    @property
    def clock(self) -> Clock:
        """How far event time has come."""
        return self._clock

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u]."""
        return self._buckets.read(keys)

    def indexed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        names = encode_keys(numbers)
        return ReadEntries(names, all_found(names, self._values(numbers)), self._sources.texts)

    def _values(self, numbers: NDArray[np.uint64]) -> list[bytes | None]:
        return [self._entries.get(number) for number in numbers.tolist()]

    def file(
        self,
        index_update: IndexUpdate | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Apply a filing and move the position."""
        clock = self._clock if clock is None else clock
        for number in range(self._clock.floor, clock.floor):
            self._entries.pop(number, None)
        if index_update is not None:
            self._walk_on(index_update, clock.floor)
            self._buckets.put(index_update.keys, index_update.buckets)
            numbered = self._sources.number(index_update)
            for text in numbered.new:
                self._sources.add(text)
            self._entries.update(
                zip(index_update.numbers.tolist(), encode_entries(index_update, numbered.indexed), strict=True)
            )
            self._next_number = index_update.next_number
            self._commit(index_update.committed)
            if index_update.learned is not None:
                self._learn(index_update, index_update.learned, clock.floor, numbered.pending_verdicts)
        self._position, self._last_record, self._pages_applied = position, last_record, pages_applied
        self._clock = clock

    def _commit(self, marks: Sequence[CommitMark]) -> None:
        """Remove the attempts below the marks."""
        for first, end in self._remembered.below(marks, self._sources):
            for key in [key for key in self._pending_verdicts if first <= key < end]:
                del self._pending_verdicts[key]
        self._remembered.commit(marks, self._sources)

    def _learn(self, index_update: IndexUpdate, learned: HostUpdate, floor: int, sources: Sequence[int]) -> None:
        """Keep what a filing learned. sources: the number of each attempt's source"""
        swept = walk_on_hosts(self._host_sweep, floor, index_update, self._visit_hosts)
        if swept is not None:
            for host in swept.dead.tolist():
                del self._hosts[host]
            self._host_sweep = swept.sweep
        for host, value in zip(learned.memories.hosts.tolist(), encode_memories(learned.memories), strict=True):
            if value is None:
                self._hosts.pop(host, None)
            else:
                self._hosts[host] = value
        rows = zip(sources, learned.page_ids, learned.pending_verdicts, strict=True)
        for number, (_, partition, offset), attempt in rows:
            self._pending_verdicts[attempt_key(number, partition, offset)] = encode_attempt(attempt)
            self._remembered.add(number, partition, offset)

    def _visit_hosts(self, first_host: int, most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        hosts = heapq.nsmallest(most, (host for host in self._hosts if host >= first_host))
        keys = np.array(hosts, np.uint64)
        return keys, last_learned(encode_keys(keys), [self._hosts[host] for host in hosts])

    def _walk_on(self, index_update: IndexUpdate, floor: int) -> None:
        """Remove dead postings, as RocksState does."""
        swept = walk_on(self._sweep, floor, index_update, self._visit)
        if swept is not None:
            self._buckets.put(swept.keys, swept.buckets)
            self._sweep = swept.sweep
            self._swept_buckets += swept.visited

    def _visit(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        keys = self._buckets.next_keys(first_key, most)
        return keys, self.buckets(keys)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        return page_ids(encode_keys(numbers), self._values(numbers), self._sources.texts)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows."""
        return decode_memories(hosts, [self._hosts.get(host) for host in hosts.tolist()])

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the remembered verdict of each page that was not filed, None for all others."""
        found: list[PendingVerdict | None] = [None] * len(page_ids)
        for place, key in zip(*self._remembered.keys(page_ids, self._sources), strict=True):
            value = self._pending_verdicts.get(key)
            found[place] = None if value is None else decode_attempt(key, value)
        return found

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position."""
        self._buckets.put(removal.keys, removal.buckets)
        for number in removal.numbers.tolist():
            self._entries[number] = FORGOTTEN
        for host in removal.hosts.tolist():
            self._hosts.pop(host, None)
        for key in self._remembered.keys(removal.page_ids, self._sources)[1]:
            self._pending_verdicts.pop(key, None)
        self._position, self._last_record, self._pages_applied = position, last_record, 0

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Give everything remembered, named and ordered as in RocksState.items."""
        if self._clock.marks:
            yield b"meta/marks", encode_marks(self._clock.marks)
        counted = (self._position, self.entry_count, self._last_record, self._pages_applied)
        progress = StateProgress(*counted, self._clock.watermark_ms, self._sweep, self._host_sweep)
        yield b"meta/progress", encode_progress(progress)
        keys = np.sort(self._buckets.keys())
        for key, value in zip(encode_keys(keys), encode_buckets(keys, self.buckets(keys)), strict=True):
            yield b"buckets/" + key, value
        for number, value in sorted(self._entries.items()):
            yield b"entries/" + number.to_bytes(8, "big"), value
        for number, text in enumerate(self._sources.texts):
            yield b"sources/" + number.to_bytes(8, "big"), encode_source(text)
        for host in sorted(self._hosts):
            yield b"hosts/" + host.to_bytes(8, "big"), self._hosts[host]
        for name, attempt in sorted(self._pending_verdicts.items()):
            yield b"attempts/" + name, attempt

    def stats(self) -> dict[str, int]:
        """Return entries, position, how full the buckets are, and how many hosts and attempts are remembered."""
        return {
            "entries": len(self._entries),
            **self._clock.stats(),
            "swept_buckets": self._swept_buckets,
            "position": self._position,
            "bytes_on_disk": 0,
            "estimated_keys": len(self._buckets),
            "hosts": len(self._hosts),
            "attempts": len(self._pending_verdicts),
            "largest_bucket": self._buckets.largest(),
        }

    def checkpoint(self, path: Path) -> None:
        """Refuse: a state in memory has no files."""
        raise StateError("state", "must be on disk to be snapshot", str(path), "open it with RocksState")

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
