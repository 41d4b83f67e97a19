"""The state of a log: buckets, entries, sources, memories of hosts, attempts, and the position in the log.

This module gives the keys and values of a backend their meaning. Each record of the log is one batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_keys, encode_keys
from spotsieve.state.format.entries import FORGOTTEN, StoredEntries, all_found, encode_entries, page_ids
from spotsieve.state.format.host_memory import decode_memories, encode_memories, last_learned
from spotsieve.state.format.meta import (
    HEARD,
    IDENTITY,
    MARKS,
    PROGRESS,
    Identity,
    StateProgress,
    decode_pending_verdict,
    encode_identity,
    encode_marks,
    encode_outcome_ref,
    encode_pending_verdict,
    encode_progress,
    encode_source,
    pending_verdict_key,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.index import Buckets, HostMemories, HostUpdate, IndexUpdate, OutcomeRef, PendingVerdict, Removal
from spotsieve.state.removal import Sweep, sweep_buckets, sweep_hosts
from spotsieve.state.store.backend import FAMILIES, META, Backend, Batch
from spotsieve.state.store.buckets import BucketTable
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.loaded import PendingVerdictRanges, SourceNumbers
from spotsieve.stream.base.page import PageId


class MetaValues(NamedTuple):
    """What a state belongs to, how far it has applied its log, and how far event time has come.

    heard: the outcome that the state of a shard was last filed by
    """

    identity: Identity
    progress: StateProgress
    clock: Clock
    heard: OutcomeRef | None = None

    @property
    def living_entries(self) -> int:
        """How many entries count: all of them, or those within the horizon."""
        return self.progress.entry_count - self.clock.floor


def begin_state(backend: Backend, identity: Identity) -> MetaValues:
    """Write the meta values of a new state. Raises StateError."""
    batch, progress = Batch(), StateProgress(0, 0, 0)
    batch.put(META, [IDENTITY, PROGRESS], [encode_identity(identity), encode_progress(progress)])
    backend.write(batch, durable=True)
    return MetaValues(identity, progress, Clock())


class State:
    """A store of the index. Its content is a function of the log up to its position.

    disk_state(), memory_state() and read_only_state() make one. One thread at a time may use it.
    """

    def __init__(
        self,
        backend: Backend,
        buckets: BucketTable,
        meta: MetaValues,
        sources: Sequence[str] = (),
        pending_verdicts: PendingVerdictRanges | None = None,
        entries: EntryCache | None = None,
    ) -> None:
        """sources: texts by number  pending_verdicts: which partitions have some  entries: keeps entries that are
        read
        """
        self.backend = backend
        self.identity = meta.identity
        self._buckets = buckets
        self._progress, self._clock, self._heard = meta.progress, meta.clock, meta.heard
        self._sources = SourceNumbers()
        for text in sources:
            self._sources.add(text)
        self._pending_verdicts = PendingVerdictRanges() if pending_verdicts is None else pending_verdicts
        self._entries = entries
        self._swept_buckets = 0

    @property
    def directory(self) -> Path:
        """The state directory."""
        return self.backend.directory

    @property
    def progress(self) -> StateProgress:
        """How far the log is applied, and how far the sweeps have come."""
        return self._progress

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed; the next one gets this entry number."""
        return self._progress.entry_count

    @property
    def position(self) -> int:
        """The next log offset to read; everything before it is applied."""
        return self._progress.position

    @property
    def last_record(self) -> int:
        """The checksum of the last record applied, which tells logs apart; 0 before the first record.

        It belongs to the record before the position, or to the one at the position if pages_applied is not 0.
        """
        return self._progress.last_record

    @property
    def pages_applied(self) -> int:
        """How many pages of the record at the position are applied; more than 0 only after a crash between two runs."""
        return self._progress.pages_applied

    @property
    def clock(self) -> Clock:
        """How far event time has come; without a horizon it stays at its beginning."""
        return self._clock

    @property
    def heard(self) -> OutcomeRef | None:
        """The outcome that it was last filed by, in a state that holds a part."""
        return self._heard

    @property
    def sources(self) -> list[str]:
        """The topics and paths of all pages, by number."""
        return self._sources.texts

    def knows_source(self, text: str) -> bool:
        """Tell whether a page of this topic or path was ever recorded."""
        return self._sources.of(text) is not None

    def load_buckets(self, keys: NDArray[np.uint64]) -> bool:
        """Read buckets ahead of buckets(): uint64[u], ascending, all different. They replace those loaded before.

        Returns whether it took one pass over all buckets. Raises StateError.
        """
        return self._buckets.load(keys)

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. A bucket that was never filed under is empty."""
        return self._buckets.read(keys)

    def indexed(self, numbers: NDArray[np.uint64]) -> StoredEntries:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        if self._entries is not None:
            return StoredEntries(encode_keys(numbers), self._entries.read(numbers, self._read_entries), self.sources)
        keys = encode_keys(numbers)
        return StoredEntries(keys, all_found(keys, self.backend.get("entries", keys)), self.sources)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        keys = encode_keys(numbers)
        return page_ids(keys, self.backend.get("entries", keys), self.sources)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""
        return decode_memories(hosts, self.backend.get("hosts", encode_keys(hosts)))

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the recorded verdict of each page that was not filed, None for all others. Raises CorruptRecord."""
        found: list[PendingVerdict | None] = [None] * len(page_ids)
        places, keys = self._pending_verdicts.keys(page_ids, self._sources)
        if keys:
            for place, key, value in zip(places, keys, self.backend.get("attempts", keys), strict=True):
                found[place] = None if value is None else decode_pending_verdict(key, value)
        return found

    def file(
        self,
        index_update: IndexUpdate | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Apply a filing and move the position, both or neither. Raises StateError if writing fails.

        last_record: checksum of the record that ends at the position, or whose first pages_applied are applied
        clock: the new clock, None if it stays; entries below its floor are removed, and buckets are swept
        """
        clock = self._clock if clock is None else clock
        batch, before = Batch(), self._progress
        sweep, host_sweep = before.sweep, before.host_sweep
        applied = last_record, pages_applied, clock.watermark_ms
        if clock.floor > self._clock.floor:
            self._forget_entries()
            first, end = (floor.to_bytes(8, "big") for floor in (self._clock.floor, clock.floor))
            batch.delete_range("entries", first, end)
        if index_update is None:
            self._write(batch, StateProgress(position, before.entry_count, *applied, sweep, host_sweep), clock)
            return
        numbered = self._sources.number(index_update)
        self._put_entries(batch, index_update, numbered.indexed, numbered.new)
        for first, end in self._pending_verdicts.below(index_update.committed, self._sources):
            batch.delete_range("attempts", first, end)
        if index_update.learned is not None:
            host_sweep = self._put_memories(batch, index_update, index_update.learned, clock.floor)
            self._put_attempts(batch, index_update.learned, numbered.pending_verdicts)
        heard = index_update.places.heard if index_update.places is not None else None
        if heard is not None:
            batch.put(META, [HEARD], [encode_outcome_ref(heard)])
        if len(index_update.pages) or len(
            index_update.keys
        ):  # A shard may file keys of pages whose entries others hold.
            if index_update.first_number != self.entry_count:
                raise ValueError(f"filing begins at entry {index_update.first_number}, the state at {self.entry_count}")
            sweep = self._put_postings(batch, index_update, clock.floor)
        self._write(batch, StateProgress(position, index_update.next_number, *applied, sweep, host_sweep), clock)
        self._heard = self._heard if heard is None else heard
        self._pending_verdicts.commit(index_update.committed, self._sources)
        for text in numbered.new:
            self._sources.add(text)
        if index_update.learned is not None:
            rows = zip(numbered.pending_verdicts, index_update.learned.page_ids, strict=True)
            for number, (_, partition, offset) in rows:
                self._pending_verdicts.add(number, partition, offset)

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position, both or neither. Raises StateError if writing fails."""
        self._forget_entries()
        batch = Batch()
        self._buckets.put(batch, removal.keys, removal.buckets)
        batch.put("entries", encode_keys(removal.numbers), [FORGOTTEN] * len(removal.numbers))
        batch.delete("hosts", encode_keys(removal.hosts))
        batch.delete("attempts", self._pending_verdicts.keys(removal.page_ids, self._sources)[1])
        progress = self._progress._replace(position=position, last_record=last_record, pages_applied=0)
        self._write(batch, progress, self._clock)

    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Give every key and value of a family, in order. Raises CorruptRecord."""
        return self._buckets.scan() if family == "buckets" else self.backend.scan(family)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Give everything stored but the identity as (family/key, value), in order, to compare states. Slow."""
        names = [MARKS, PROGRESS]
        for key, stored in zip(names, self.backend.get(META, names), strict=True):
            if stored is not None:
                yield b"meta/" + key, stored
        for name in FAMILIES:
            for key, value in self.scan(name):
                yield name.encode() + b"/" + key, value

    def stats(self) -> dict[str, int]:
        """Return figures for metrics, which cost microseconds; a backend adds its own.

        entries (the living ones), floor, watermark_ms, swept_buckets (since the state was opened), position, sources,
        bytes_on_disk, estimated_keys, hosts and attempts (estimated; attempts is 0 if there is none)
        """
        return {
            "entries": self.entry_count - self._clock.floor,
            **self._clock.stats(),
            "swept_buckets": self._swept_buckets,
            "position": self.position,
            **self.backend.figures(),
            "estimated_keys": self._buckets.estimated_keys(),
            "sources": len(self.sources),
            "hosts": self.backend.estimated_keys("hosts"),
            # A range that is removed still counts until RocksDB compacts.
            "attempts": self.backend.estimated_keys("attempts") if self._pending_verdicts else 0,
        }

    def compact(self) -> int:
        """Merge everything as in a state at rest, and return the bytes of the table files."""
        return self.backend.compact()

    def checkpoint(self, path: Path) -> None:
        """Make a directory that holds the state as it is now. Raises StateError."""
        self.backend.checkpoint(path)

    def sync(self) -> None:
        """Return when everything filed would survive a power failure."""
        self.backend.sync()

    def close(self) -> None:
        """Write what is buffered and release the directory. Closing twice does nothing."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_entries(self, numbers: NDArray[np.uint64]) -> Sequence[bytes]:
        keys = encode_keys(numbers)
        return all_found(keys, self.backend.get("entries", keys))

    def _forget_entries(self) -> None:
        """Let go of the entries that were read: some of them change."""
        if self._entries is not None:
            self._entries.clear()

    def _put_entries(
        self, batch: Batch, index_update: IndexUpdate, sources: NDArray[np.uint32], new: Sequence[str]
    ) -> None:
        """Put the filed pages into the batch, and the new sources. sources: uint32[f], the number of each page's one"""
        numbers = range(len(self.sources), len(self.sources) + len(new))
        batch.put("sources", [number.to_bytes(8, "big") for number in numbers], list(map(encode_source, new)))
        if len(index_update.pages):
            batch.put("entries", encode_keys(index_update.numbers), encode_entries(index_update, sources))

    def _put_postings(self, batch: Batch, index_update: IndexUpdate, floor: int) -> Sweep:
        """Put the buckets of a filing, and a part of the sweep, into the batch; return how far the sweep has come."""
        sweep = self._progress.sweep
        swept = sweep_buckets(sweep, floor, index_update, self._buckets.next_buckets)
        if swept is not None:
            # Before the index_update: if both change a bucket, the filing's content is the newer.
            self._buckets.put(batch, swept.keys, swept.buckets)
            sweep = swept.sweep
            self._swept_buckets += swept.visited
        self._buckets.put(batch, index_update.keys, index_update.buckets)
        return sweep

    def _put_memories(self, batch: Batch, index_update: IndexUpdate, learned: HostUpdate, floor: int) -> Sweep:
        """Put the memories that learned, and a part of the sweep over memories; return how far the sweep has come."""
        sweep = self._progress.host_sweep
        swept = sweep_hosts(sweep, floor, index_update, self._next_hosts)
        if swept is not None:
            batch.delete("hosts", encode_keys(swept.dead))
            sweep = swept.sweep
        stored, dead = dict[bytes, bytes](), list[bytes]()
        for key, value in zip(encode_keys(learned.memories.hosts), encode_memories(learned.memories), strict=True):
            if value is None:  # the memory of 0 pages
                dead.append(key)
            else:
                stored[key] = value
        batch.put("hosts", list(stored), list(stored.values()))
        batch.delete("hosts", dead)
        return sweep

    def _put_attempts(self, batch: Batch, learned: HostUpdate, sources: Sequence[int]) -> None:
        """Put attempts into the batch. sources: the number of each one's source"""
        rows = zip(sources, learned.page_ids, strict=True)
        keys = [pending_verdict_key(number, partition, offset) for number, (_, partition, offset) in rows]
        batch.put("attempts", keys, list(map(encode_pending_verdict, learned.pending_verdicts)))

    def _next_hosts(self, first_host: int, most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Read when the next hosts from this one on last learned, for the sweep."""
        keys, values = self.backend.next_items("hosts", first_host.to_bytes(8, "big"), most)
        return decode_keys(keys), last_learned(keys, values)

    def _write(self, batch: Batch, progress: StateProgress, clock: Clock) -> None:
        """Write a batch and the progress with it. If writing fails, nothing of it is kept."""
        if clock.marks != self._clock.marks:
            batch.put(META, [MARKS], [encode_marks(clock.marks)])
        batch.put(META, [PROGRESS], [encode_progress(progress)])
        self.backend.write(batch)
        self._progress, self._clock = progress, clock


def states_equal(one: State, other: State) -> bool:
    """Tell whether two states hold the same, byte for byte."""
    return first_difference(one, other) is None


def first_difference(one: State, other: State) -> tuple[bytes, bytes, bytes] | None:
    """Return (name, value in one, value in other) where two states first differ; b"" for a side without it."""
    left, right = one.items(), other.items()
    while True:
        a, b = next(left, None), next(right, None)
        if a is None and b is None:
            return None
        if a != b:
            name = min(pair[0] for pair in (a, b) if pair is not None)
            return name, a[1] if a and a[0] == name else b"", b[1] if b and b[0] == name else b""
