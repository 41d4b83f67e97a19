"""Keeps the state on disk: buckets, entries, sources and the log position in one RocksDB. Each record is one write."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from rocksdict import Checkpoint, DbClosedError, Rdict, ReadOptions, WriteBatch, WriteOptions

from spotsieve.state.directory import INDEX_FOLDER, NewFiles, close_files
from spotsieve.state.format.buckets import decode_buckets, decode_keys, encode_keys
from spotsieve.state.format.entries import FORGOTTEN, ReadEntries, all_found, page_ids
from spotsieve.state.format.host_memory import decode_memories, last_learned
from spotsieve.state.format.meta import (
    HEARD,
    IDENTITY,
    MARKS,
    PROGRESS,
    STATE_FORMAT,
    Identity,
    StatePart,
    StateProgress,
    decode_attempt,
    decode_clock,
    decode_identity,
    decode_outcome_ref,
    decode_progress,
    encode_marks,
    encode_outcome_ref,
    encode_progress,
    page_of_key,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_identity
from spotsieve.state.index import Buckets, HostMemories, HostUpdate, IndexUpdate, OutcomeRef, PendingVerdict, Removal
from spotsieve.state.removal import Sweep, walk_on, walk_on_hosts
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.loaded import RememberedAttempts, SourceNumbers
from spotsieve.state.store.rocks_batch import put_buckets, put_entries, put_memories, put_pending_verdicts
from spotsieve.state.store.rocks_errors import REBUILD, rocks_errors
from spotsieve.state.store.rocks_opening import (
    begin_state,
    check_last_entries,
    keys_and_values,
    open_database,
    read_pending_verdicts,
    read_sources,
)
from spotsieve.state.store.rocks_options import FAMILIES, column_families
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.model import IndexSettings


class RocksState:
    """The state of one process. Make it with open(). One thread at a time may use it; reading releases the GIL."""

    def __init__(self, directory: Path, database: Rdict) -> None:
        self.directory = directory
        self._database = database
        self._handles = {name: database.get_column_family_handle(name) for name in column_families(None)}
        self._buckets, self._entries, self._sources, self._hosts, self._pending_verdicts = (
            database.get_column_family(name) for name in FAMILIES
        )
        self._write_options = WriteOptions()
        # A sweep reads its buckets once. They would push out of the cache those that pages meet again and again.
        self._sweep_options = ReadOptions()
        self._sweep_options.fill_cache(False)  # type: ignore[call-arg]  # rocksdict's stub lacks the argument
        self._known = SourceNumbers()
        self._position = 0
        self._entry_count = 0
        self._last_record = 0
        self._pages_applied = 0
        self._clock = Clock()
        self._remembered = RememberedAttempts()
        self._kept = EntryCache()
        self._sweep = Sweep()
        self._host_sweep = Sweep()
        self._swept_buckets = 0
        self._failed = False
        self._heard: OutcomeRef | None = None
        self._new_files = NewFiles(directory / INDEX_FOLDER)
        self._new_files.close()

    @classmethod
    def open(
        cls, directory: Path, settings_text: str, log_name: str, settings: IndexSettings, part: StatePart | None = None
    ) -> Self:
        """Open the state in a directory, or begin one.

        settings_text: canonical text of the settings that change verdicts  log_name: the log that the state follows
        part: which part of all it holds, None: all of them
        Raises StateLockedError, StateError (unreadable, another log), SettingsMismatch, CorruptRecord.
        """
        database, unflushed = open_database(directory, settings)
        state = cls(directory, database)
        try:
            state._load(Identity(STATE_FORMAT, settings_text, log_name, part), unflushed)
        except BaseException:
            state._release()
            raise
        return state

    @property
    def entry_count(self) -> int:
        """How many pages were ever filed."""
        return self._entry_count

    @property
    def position(self) -> int:
        """The next log offset to read."""
        return self._position

    @property
    def last_record(self) -> int:
        """The checksum of the last record applied."""
        return self._last_record

    @property
    def heard(self) -> OutcomeRef | None:
        """The outcome that it was last filed by, in a state that holds a part."""
        return self._heard

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
        return decode_buckets(keys, self._read(self._buckets, encode_keys(keys))[1])

    def indexed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """Return the filed pages by number: uint64[e]. Raises CorruptRecord if one is missing."""
        values = self._kept.read(numbers, self._read_entries)
        return ReadEntries(encode_keys(numbers), values, self._known.texts)

    def knows_source(self, text: str) -> bool:
        """Tell whether a page of this topic or path was ever remembered."""
        return self._known.of(text) is not None

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[PageId | None]:
        """Return the page id of each entry: uint64[e]. None stands where no entry has the number any more."""
        return page_ids(*self._read(self._entries, encode_keys(numbers)), self._known.texts)

    def memories(self, hosts: NDArray[np.uint64]) -> HostMemories:
        """Return what is known of these hosts: uint64[h], ascending, all different -> h rows. Raises CorruptRecord."""
        return decode_memories(hosts, self._read(self._hosts, encode_keys(hosts))[1])

    def pending_verdicts(self, page_ids: Sequence[PageId]) -> list[PendingVerdict | None]:
        """Return the remembered verdict of each page that was not filed, None for all others. Raises CorruptRecord."""
        found: list[PendingVerdict | None] = [None] * len(page_ids)
        places, keys = self._remembered.keys(page_ids, self._known)
        if keys:
            for place, key, value in zip(places, *self._read(self._pending_verdicts, keys), strict=True):
                found[place] = None if value is None else decode_attempt(key, value)
        return found

    def file(
        self,
        index_update: IndexUpdate | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Write a filing and the position in one batch. If writing fails, nothing of it is remembered."""
        clock = self._clock if clock is None else clock
        batch = WriteBatch(raw_mode=True)
        numbers = self._entry_count if index_update is None else index_update.next_number
        progress = StateProgress(
            position, numbers, last_record, pages_applied, clock.watermark_ms, self._sweep, self._host_sweep
        )
        if clock.floor > self._clock.floor:
            self._kept.clear()
            # One tombstone for all of them. RocksDB pays for it later, when it compacts.
            batch.delete_range(
                self._clock.floor.to_bytes(8, "big"), clock.floor.to_bytes(8, "big"), self._handles["entries"]
            )
        if index_update is None:
            self._write(batch, progress, clock)
            return
        if len(index_update.pages) or len(
            index_update.keys
        ):  # A shard may file keys of pages whose entries others hold.
            if index_update.first_number != self._entry_count:
                raise ValueError(
                    f"filing begins at entry {index_update.first_number}, the state at {self._entry_count}"
                )
            progress = self._put_postings(batch, index_update, progress, clock.floor)
        numbered = put_entries(batch, index_update, self._handles, self._known)
        for first, end in self._remembered.below(index_update.committed, self._known):
            batch.delete_range(first, end, self._handles["attempts"])
        pending_verdicts = list[bytes]()
        if index_update.learned is not None:
            progress = self._put_memories(batch, index_update, index_update.learned, progress, clock.floor)
            batch.set_default_column_family(self._handles["attempts"])
            pending_verdicts = put_pending_verdicts(batch, index_update.learned, numbered.pending_verdicts)
        heard = index_update.places.heard if index_update.places is not None else None
        if heard is not None:
            batch.set_default_column_family(None)
            batch[HEARD] = encode_outcome_ref(heard)
        self._write(batch, progress, clock)
        self._heard = self._heard if heard is None else heard
        self._remembered.commit(index_update.committed, self._known)
        for text in numbered.new:
            self._known.add(text)
        for key in pending_verdicts:
            self._remembered.add(*page_of_key(key))

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position, in one batch."""
        self._kept.clear()
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handles["buckets"])
        put_buckets(batch, removal.keys, removal.buckets)
        batch.set_default_column_family(self._handles["entries"])
        for name in encode_keys(removal.numbers):
            batch[name] = FORGOTTEN
        batch.set_default_column_family(self._handles["hosts"])
        for name in encode_keys(removal.hosts):
            batch.delete(name)
        _, forgotten = self._remembered.keys(removal.page_ids, self._known)
        batch.set_default_column_family(self._handles["attempts"])
        for name in forgotten:
            batch.delete(name)
        counted = (position, self._entry_count, last_record, 0, self._clock.watermark_ms)
        self._write(batch, StateProgress(*counted, self._sweep, self._host_sweep), self._clock)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Give everything remembered but the identity, as (family/key, value), in order."""
        with rocks_errors(self.directory, "read"):
            if self._clock.marks:
                yield b"meta/" + MARKS, self._database[MARKS]  # type: ignore[misc]
            yield b"meta/" + PROGRESS, self._database[PROGRESS]  # type: ignore[misc]
            for name in FAMILIES:
                for key, value in keys_and_values(self._database.get_column_family(name)):
                    yield name.encode() + b"/" + key, value

    def stats(self) -> dict[str, int]:
        """Return figures that cost microseconds: entries, position, bytes on disk and in memory, estimated keys.

        hosts, pending_verdicts: estimates, which count what was written twice or removed lately; attempts is 0 if
        there is none
        """
        families = self._families()

        def total(name: str) -> int:
            return sum(family.property_int_value(name) or 0 for family in families)

        return {
            "entries": self._entry_count - self._clock.floor,
            **self._clock.stats(),
            "swept_buckets": self._swept_buckets,
            "position": self._position,
            "bytes_on_disk": total("rocksdb.total-sst-files-size"),
            "memtable_bytes": total("rocksdb.cur-size-all-mem-tables"),
            # The families share one cache, so each tells of all.
            "cache_bytes": self._buckets.property_int_value("rocksdb.block-cache-usage") or 0,
            "cache_capacity_bytes": self._buckets.property_int_value("rocksdb.block-cache-capacity") or 0,
            "cache_pinned_bytes": self._buckets.property_int_value("rocksdb.block-cache-pinned-usage") or 0,
            "table_reader_bytes": total("rocksdb.estimate-table-readers-mem"),
            "estimated_keys": self._buckets.property_int_value("rocksdb.estimate-num-keys") or 0,
            "sources": len(self._known.texts),
            "hosts": self._hosts.property_int_value("rocksdb.estimate-num-keys") or 0,
            "attempts": self._estimated_attempts(),
        }

    def compact(self) -> int:
        """Merge everything into the last level, as in a state at rest, and return the bytes of the live table files."""
        families = [self._database, *self._families()]
        with rocks_errors(self.directory, "write"):
            for family in families:
                family.flush()
                family.compact_range(None, None)
        return sum(family.property_int_value("rocksdb.live-sst-files-size") or 0 for family in families)

    def checkpoint(self, path: Path) -> None:
        """Flush, and make a directory that holds the state as it is now. It shares table files as hard links."""
        with rocks_errors(self.directory, "write"):
            Checkpoint(self._database).create_checkpoint(str(path))

    def sync(self) -> None:
        """Return when everything filed would survive a power failure."""
        with rocks_errors(self.directory, "write"):
            self._database.flush_wal(sync=True)

    def close(self) -> None:
        """Write what is buffered and release the directory. Closing twice does nothing."""
        if self._failed:
            with suppress(Exception):  # After a failed write RocksDB refuses to flush; the write has raised its error.
                self._release()
        else:
            with rocks_errors(self.directory, "close"):
                self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, family: Rdict, keys: list[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """Read values by MultiGet -> the keys, and their values or None."""
        with rocks_errors(self.directory, "read"):
            values: Any = family.get(cast("list[Any]", keys))
        return keys, values

    def _read_entries(self, numbers: NDArray[np.uint64]) -> Sequence[bytes]:
        return all_found(*self._read(self._entries, encode_keys(numbers)))

    def _write(self, batch: WriteBatch, progress: StateProgress, clock: Clock) -> None:
        """Write a batch and the progress with it. If writing fails, nothing of it is remembered."""
        batch.set_default_column_family(None)
        if clock.marks != self._clock.marks:
            batch[MARKS] = encode_marks(clock.marks)
        batch[PROGRESS] = encode_progress(progress)
        self._failed = True
        with rocks_errors(self.directory, "write"):
            self._database.write(batch, self._write_options)
        self._failed = False
        self._new_files.close()
        self._remember(progress, clock)

    def _put_postings(
        self, batch: WriteBatch, index_update: IndexUpdate, progress: StateProgress, floor: int
    ) -> StateProgress:
        """Put the buckets of a filing, and a part of the sweep, into the batch."""
        batch.set_default_column_family(self._handles["buckets"])
        swept = walk_on(self._sweep, floor, index_update, self._visit)
        if swept is not None:
            # Before the index_update: if both change a bucket, the filing's content is the newer.
            put_buckets(batch, swept.keys, swept.buckets)
            progress = progress._replace(sweep=swept.sweep)
            self._swept_buckets += swept.visited
        put_buckets(batch, index_update.keys, index_update.buckets)
        return progress

    def _put_memories(
        self, batch: WriteBatch, index_update: IndexUpdate, learned: HostUpdate, progress: StateProgress, floor: int
    ) -> StateProgress:
        """Put the memories that learned, and a part of the sweep over memories, into the batch."""
        batch.set_default_column_family(self._handles["hosts"])
        swept = walk_on_hosts(self._host_sweep, floor, index_update, self._visit_hosts)
        if swept is not None:
            for name in encode_keys(swept.dead):
                batch.delete(name)
            progress = progress._replace(host_sweep=swept.sweep)
        put_memories(batch, learned.memories)
        return progress

    def _remember(self, progress: StateProgress, clock: Clock) -> None:
        self._position, self._entry_count, self._last_record, self._pages_applied, _, *sweeps = progress
        self._sweep, self._host_sweep = sweeps
        self._clock = clock

    def _visit(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        """Read the next buckets from a key on, for the sweep."""
        keys, values = self._read_on(self._buckets, first_key, most)
        numbers = decode_keys(keys)
        return numbers, decode_buckets(numbers, values)

    def _visit_hosts(self, first_host: int, most: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Read when the next hosts from this one on last learned, for the sweep."""
        keys, values = self._read_on(self._hosts, first_host, most)
        return decode_keys(keys), last_learned(keys, values)

    def _read_on(self, family: Rdict, first_key: int, most: int) -> tuple[list[bytes], list[bytes]]:
        """Read the next keys and values from a key on."""
        keys, values = list[bytes](), list[bytes]()
        with rocks_errors(self.directory, "read"):
            at = family.iter(self._sweep_options)
            at.seek(first_key.to_bytes(8, "big"))
            while len(keys) < most and at.valid():
                keys.append(at.key())
                values.append(at.value())
                at.next()
            at.status()
        return keys, values

    def _load(self, wanted: Identity, unflushed: int) -> None:
        with rocks_errors(self.directory, "read"):
            identity: Any = self._database.get(IDENTITY)
            progress: Any = self._database.get(PROGRESS)
            marks: Any = self._database.get(MARKS)
            heard: Any = self._database.get(HEARD)
        if identity is None and progress is None and self._is_empty():
            begin_state(self.directory, self._database, wanted)
            return
        if identity is None or progress is None:
            missing = IDENTITY if identity is None else PROGRESS
            raise CorruptRecord("meta", missing, "is missing although the state is not new", REBUILD)
        check_identity(str(self.directory), decode_identity(identity), wanted.settings, wanted.log, wanted.part)
        decoded = decode_progress(progress)
        self._remember(decoded, decode_clock(decoded, marks))
        for text in read_sources(self.directory, self._sources):
            self._known.add(text)
        self._remembered = read_pending_verdicts(self.directory, self._pending_verdicts)
        if wanted.part is None:
            # A part lacks entries anyway, so its last ones tell nothing.
            check_last_entries(self.directory, self._entries, self._entry_count, self._clock.floor, unflushed)
        self._heard = decode_outcome_ref(heard) if heard is not None else None

    def _estimated_attempts(self) -> int:
        # A range that is removed still counts until RocksDB compacts.
        return (self._pending_verdicts.property_int_value("rocksdb.estimate-num-keys") or 0) if self._remembered else 0

    def _is_empty(self) -> bool:
        with rocks_errors(self.directory, "read"):
            return all(next(keys_and_values(family), None) is None for family in self._families())

    def _families(self) -> list[Rdict]:
        return [self._buckets, self._entries, self._sources, self._hosts, self._pending_verdicts]

    def _release(self) -> None:
        """Close every family. Each flushes as it closes, and the last one gives the lock back, whatever fails."""
        self._handles.clear()
        with ExitStack() as closing:
            closing.callback(close_files, self.directory / INDEX_FOLDER)
            for family in (self._database, *self._families()):
                closing.callback(_close, family)


def _close(family: Rdict) -> None:
    with suppress(DbClosedError):
        family.close()
