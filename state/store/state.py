"""Stores the state of a log: buckets, entries, sources, host memories, pending verdicts, and the log position.

This module encodes them as keys and values of a backend. Each log record is applied as one batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import decode_keys, encode_keys
from spotsieve.state.format.common_text import (
    BASE_KEY,
    StoredCommonText,
    changes_key,
    encode_base,
    encode_changes,
    is_base_due,
    put_windows,
)
from spotsieve.state.format.entries import FORGOTTEN, StoredEntries, all_found, encode_entries, page_ids
from spotsieve.state.format.host_memory import decode_memories, encode_memories, last_learned
from spotsieve.state.format.meta import (
    IDENTITY,
    LAST_OUTCOME,
    MARKS,
    PROGRESS,
    Identity,
    LogIdentity,
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
from spotsieve.state.identity import check_log_identity
from spotsieve.state.index import (
    Buckets,
    CommonText,
    CommonWindows,
    HostMemories,
    HostUpdate,
    IndexUpdate,
    OutcomeRef,
    PendingVerdict,
    Removal,
    no_common_text,
)
from spotsieve.state.removal import Sweep, sweep_buckets, sweep_hosts
from spotsieve.state.store.backend import FAMILIES, META, Backend, Batch
from spotsieve.state.store.buckets import BucketTable
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.loaded import PendingVerdictRanges, SourceNumbers
from spotsieve.stream.base.page import PageId


class MetaValues(NamedTuple):
    """Identity, progress and clock of a state.

    last_outcome: the last outcome that the state of a shard has indexed
    """

    identity: Identity
    progress: StateProgress
    clock: Clock
    last_outcome: OutcomeRef | None = None

    @property
    def living_entries(self) -> int:
        """Number of living entries: all entries, or the ones within the deduplication window."""
        return self.progress.entry_count - self.clock.floor


def begin_state(backend: Backend, identity: Identity) -> MetaValues:
    """Write and return the meta values of a new state. Raises StateError."""
    batch, progress = Batch(), StateProgress(0, 0, 0)
    batch.put(META, [IDENTITY, PROGRESS], [encode_identity(identity), encode_progress(progress)])
    backend.write(batch, durable=True)
    return MetaValues(identity, progress, Clock())


class State:
    """The index, and its position in the log. Its content is a function of the log up to that position.

    disk_state(), memory_state() and read_only_state() make one. Not thread-safe.
    """

    def __init__(
        self,
        backend: Backend,
        buckets: BucketTable,
        meta: MetaValues,
        sources: Sequence[str] = (),
        pending_verdicts: PendingVerdictRanges | None = None,
        entries: EntryCache | None = None,
        common: StoredCommonText | None = None,
    ) -> None:
        """sources: texts by number  pending_verdicts: offset ranges by partition  entries: cache of read entries"""
        self._common = StoredCommonText(no_common_text(), 0, 0) if common is None else common
        self.backend = backend
        self.identity = meta.identity
        self._buckets = buckets
        self._progress, self._clock, self._last_outcome = meta.progress, meta.clock, meta.last_outcome
        self._sources = SourceNumbers()
        for text in sources:
            self._sources.add(text)
        self._pending_verdicts = PendingVerdictRanges() if pending_verdicts is None else pending_verdicts
        self._entries = entries
        self._swept_buckets = 0

    @property
    def salt(self) -> int:
        """The salt of block identities. A state that has read no log yet has none, which counts as 0."""
        return 0 if self.identity.log_identity is None else self.identity.log_identity.salt

    def adopt(self, log: LogIdentity) -> None:
        """Bind a new state to its log, or check that it belongs to this log. Raises StateError."""
        stored = self.identity.log_identity
        check_log_identity(self.directory, stored, log, self.identity.log)
        if stored is None:
            batch, identity = Batch(), self.identity._replace(log_identity=log)
            batch.put(META, [IDENTITY], [encode_identity(identity)])
            self.backend.write(batch, durable=True)
            self.identity = identity

    @property
    def directory(self) -> Path:
        """The state directory."""
        return self.backend.directory

    @property
    def progress(self) -> StateProgress:
        """Position in the log, and progress of the sweeps."""
        return self._progress

    @property
    def entry_count(self) -> int:
        """Number of pages ever indexed, which is the entry number of the next one."""
        return self._progress.entry_count

    @property
    def position(self) -> int:
        """The next log offset to apply."""
        return self._progress.position

    @property
    def last_record(self) -> int:
        """The checksum of the last applied record, which distinguishes logs; 0 before the first record.

        That is the record before the position, or the record at the position if pages_applied is not 0.
        """
        return self._progress.last_record

    @property
    def pages_applied(self) -> int:
        """Number of applied pages of the record at the position; above 0 only after a crash between two of its runs."""
        return self._progress.pages_applied

    @property
    def clock(self) -> Clock:
        """Watermark and floor; without a deduplication window they never move."""
        return self._clock

    @property
    def last_outcome(self) -> OutcomeRef | None:
        """The last outcome that the state of a shard has indexed; None in other states."""
        return self._last_outcome

    @property
    def sources(self) -> list[str]:
        """The topics and paths of all pages, by number."""
        return self._sources.texts

    def knows_source(self, text: str) -> bool:
        """Whether a page of this topic or path was ever recorded."""
        return self._sources.of(text) is not None

    def load_buckets(self, keys: NDArray[np.uint64]) -> bool:
        """Load buckets for later reads. keys: uint64[u], ascending, all different. They replace the loaded buckets.

        Returns whether it took one pass over all buckets. Raises StateError.
        """
        return self._buckets.load(keys)

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """Return the postings under keys: uint64[u], all different. A key without a bucket has no postings."""
        return self._buckets.read(keys)

    def indexed(self, numbers: NDArray[np.uint64]) -> StoredEntries:
        """Return the entries with these numbers: uint64[e]. Raises CorruptRecord if one is missing."""
        if self._entries is not None:
            return StoredEntries(encode_keys(numbers), self._entries.read(numbers, self._read_entries), self.sources)
        keys = encode_keys(numbers)
        return StoredEntries(keys, all_found(keys, self.backend.get("entries", keys)), self.sources)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None if the number has no entry any more."""
        keys = encode_keys(numbers)
        return page_ids(keys, self.backend.get("entries", keys), self.sources)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return the memories of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""
        return decode_memories(hosts, self.backend.get("hosts", encode_keys(hosts)))

    def common_text(self) -> CommonText:
        """Return the table of common text. The caller does not write to it."""
        return self._common.table

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the pending verdict of each page, None for a page without one. Raises CorruptRecord."""
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
        """Apply an index update and move the position, both or neither. Raises StateError if the write fails.

        last_record: checksum of the record before the position, or at the position if pages_applied is not 0
        clock: the new clock, None if it does not move; entries below its floor are removed, and buckets are swept
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
        common = self._common
        if index_update.learned is not None:
            common = self._put_common_text(batch, index_update.learned.common)
            host_sweep = self._put_memories(batch, index_update, index_update.learned, clock.floor)
            self._put_pending_verdicts(batch, index_update.learned, numbered.pending_verdicts)
        last_outcome = index_update.places.last_outcome if index_update.places is not None else None
        if last_outcome is not None:
            batch.put(META, [LAST_OUTCOME], [encode_outcome_ref(last_outcome)])
        # A shard may index keys of pages whose entries other shards hold.
        if len(index_update.pages) or len(index_update.keys):
            if index_update.first_number != self.entry_count:
                raise ValueError(f"update begins at entry {index_update.first_number}, the state at {self.entry_count}")
            sweep = self._put_postings(batch, index_update, clock.floor)
        self._write(batch, StateProgress(position, index_update.next_number, *applied, sweep, host_sweep), clock)
        self._last_outcome = self._last_outcome if last_outcome is None else last_outcome
        self._common = common
        if index_update.learned is not None:
            put_windows(common.table, index_update.learned.common)
        self._pending_verdicts.commit(index_update.committed, self._sources)
        for text in numbered.new:
            self._sources.add(text)
        if index_update.learned is not None:
            rows = zip(numbered.pending_verdicts, index_update.learned.page_ids, strict=True)
            for number, (_, partition, offset) in rows:
                self._pending_verdicts.add(number, partition, offset)

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Remove forgotten pages and move the position, both or neither. Raises StateError if the write fails."""
        self._forget_entries()
        batch = Batch()
        self._buckets.put(batch, removal.keys, removal.buckets)
        batch.put("entries", encode_keys(removal.numbers), [FORGOTTEN] * len(removal.numbers))
        batch.delete("hosts", encode_keys(removal.hosts))
        batch.delete("attempts", self._pending_verdicts.keys(removal.page_ids, self._sources)[1])
        progress = self._progress._replace(position=position, last_record=last_record, pages_applied=0)
        self._write(batch, progress, self._clock)

    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value of a family, in order. Raises CorruptRecord."""
        return self._buckets.scan() if family == "buckets" else self.backend.scan(family)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every stored value but the identity as (family/key, value), in order, to compare states. Slow."""
        names = [MARKS, PROGRESS]
        for key, stored in zip(names, self.backend.get(META, names), strict=True):
            if stored is not None:
                yield b"meta/" + key, stored
        for name in FAMILIES:
            # How the table of common text is cut into changes depends on the size of the updates.
            rows = self.scan(name) if name != "common" else self._common_text_rows()
            for key, value in rows:
                yield name.encode() + b"/" + key, value

    def stats(self) -> dict[str, int]:
        """Return numbers for metrics, in microseconds. A backend adds its own.

        entries (living ones), floor, watermark_ms, swept_buckets (since the state was opened), position, sources,
        bytes_on_disk, estimated_keys, hosts and attempts (pending verdicts). The last three are estimates; attempts is
        0 without a pending verdict.
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
            # The estimate counts a removed range until RocksDB compacts it.
            "attempts": self.backend.estimated_keys("attempts") if self._pending_verdicts else 0,
        }

    def compact(self) -> int:
        """Compact the store completely, and return the bytes of its table files."""
        return self.backend.compact()

    def checkpoint(self, path: Path) -> None:
        """Write a checkpoint of the present state into a new directory. Raises StateError."""
        self.backend.checkpoint(path)

    def sync(self) -> None:
        """Sync all writes, so that they survive a power failure."""
        self.backend.sync()

    def close(self) -> None:
        """Flush buffered writes and release the directory. Closing twice does nothing."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_entries(self, numbers: NDArray[np.uint64]) -> Sequence[bytes]:
        keys = encode_keys(numbers)
        return all_found(keys, self.backend.get("entries", keys))

    def _forget_entries(self) -> None:
        """Clear the cache of entries, because some entries change."""
        if self._entries is not None:
            self._entries.clear()

    def _put_entries(
        self, batch: Batch, index_update: IndexUpdate, sources: NDArray[np.uint32], new: Sequence[str]
    ) -> None:
        """Put the indexed pages and the new sources into the batch. sources: uint32[f], source numbers of the pages"""
        if new:
            numbers = range(len(self.sources), len(self.sources) + len(new))
            batch.put("sources", [number.to_bytes(8, "big") for number in numbers], list(map(encode_source, new)))
        if len(index_update.pages):
            batch.put("entries", encode_keys(index_update.numbers), encode_entries(index_update, sources))

    def _put_postings(self, batch: Batch, index_update: IndexUpdate, floor: int) -> Sweep:
        """Put the buckets of an update and a step of the sweep into the batch. Return the progress of the sweep."""
        sweep = self._progress.sweep
        swept = sweep_buckets(sweep, floor, index_update, self._buckets.next_buckets)
        if swept is not None:
            # Before the buckets of the update: if both change a bucket, the update has the newer content.
            self._buckets.put(batch, swept.keys, swept.buckets)
            sweep = swept.sweep
            self._swept_buckets += swept.visited
        self._buckets.put(batch, index_update.keys, index_update.buckets)
        return sweep

    def _put_memories(self, batch: Batch, index_update: IndexUpdate, learned: HostUpdate, floor: int) -> Sweep:
        """Put the updated host memories and a step of their sweep into the batch. Return the progress of the sweep."""
        sweep = self._progress.host_sweep
        swept = sweep_hosts(sweep, floor, index_update, self._next_hosts)
        if swept is not None:
            batch.delete("hosts", encode_keys(swept.dead))
            sweep = swept.sweep
        keys, values = encode_keys(learned.memories.hosts), encode_memories(learned.memories)
        stored = [(key, value) for key, value in zip(keys, values, strict=True) if value is not None]
        batch.put("hosts", [key for key, _ in stored], [value for _, value in stored])
        if len(stored) < len(keys):
            batch.delete("hosts", [key for key, value in zip(keys, values, strict=True) if value is None])
        return sweep

    def _put_common_text(self, batch: Batch, windows: CommonWindows) -> StoredCommonText:
        """Put new windows of common text into the batch. Return how the table is stored then; it changes after it."""
        before = self._common
        if is_base_due(before.changed):
            table = CommonText(before.table.slots.copy())
            put_windows(table, windows)
            batch.put("common", [BASE_KEY], [encode_base(table)])
            batch.delete_range("common", changes_key(1), changes_key(before.number + 1))
            return StoredCommonText(before.table, 0, 0)
        changes = encode_changes(before.table, windows)
        if not changes:
            return before
        batch.put("common", [changes_key(before.number + 1)], [changes])
        return StoredCommonText(before.table, before.number + 1, before.changed + len(changes))

    def _put_pending_verdicts(self, batch: Batch, learned: HostUpdate, sources: Sequence[int]) -> None:
        """Put pending verdicts into the batch. sources: source numbers of their pages"""
        rows = zip(sources, learned.page_ids, strict=True)
        keys = [pending_verdict_key(number, partition, offset) for number, (_, partition, offset) in rows]
        batch.put("attempts", keys, list(map(encode_pending_verdict, learned.pending_verdicts)))

    def _next_hosts(self, first_host: int, most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Read the next hosts from this one on, and their `last` (HostMemories), for the sweep."""
        keys, values = self.backend.next_items("hosts", first_host.to_bytes(8, "big"), most)
        return decode_keys(keys), last_learned(keys, values)

    def _common_text_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the whole table of common text, unless it is empty."""
        if self._common.table.slots.any():
            yield BASE_KEY, encode_base(self._common.table)

    def _write(self, batch: Batch, progress: StateProgress, clock: Clock) -> None:
        """Write a batch together with the progress. A failed write changes nothing."""
        if clock.marks != self._clock.marks:
            batch.put(META, [MARKS], [encode_marks(clock.marks)])
        batch.put(META, [PROGRESS], [encode_progress(progress)])
        self.backend.write(batch)
        self._progress, self._clock = progress, clock
