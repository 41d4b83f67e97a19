"""Implements the backend in RocksDB, for the owner of a state and for a read-only checkpoint.

It handles only bytes. Each batch is one write, which RocksDB applies completely or not at all.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

from rocksdict import (
    AccessType,
    Checkpoint,
    ColumnFamily,
    DbClosedError,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from spotsieve.state.directory import NewFiles, close_files, has_index
from spotsieve.state.store.backend import FAMILIES, META, Backend, Batch, Put, RangeDeletion
from spotsieve.state.store.rocks_errors import REBUILD, rocks_errors
from spotsieve.state.store.rocks_options import (
    MIB,
    PARTS_OPTION,
    TUNING,
    WHOLE_PER_CACHE,
    can_all_be_open,
    column_families,
    database_options,
)
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.settings.model import IndexSettings

PASSED_TO_ASKED = 0.4
"""CPU time of a bucket in a pass, divided by that of one in a MultiGet in key order: 0.70 us over 1.72 us, in a state
of 250,000 buckets (`python -m bench.speed.query`). For a greater share of a family, a pass is faster."""
_AT_ONCE = 256
"""Number of keys in a MultiGet. With 4,500 keys at once a key takes a fifth more CPU (nine rounds in turn)."""
_CHECKED_BATCHES = 256
"""Number of batches after which the size of the table files is compared with the bound of whole filters."""
_FILTERED = ("buckets", "entries", "hosts")
"""The families whose filters and indexes are in the cache."""
_READAHEAD_BYTES = 2**21


class RocksBackend(Backend):
    """The database of the process that owns it. Make it with open(). Reads release the GIL."""

    def __init__(self, directory: Path, path: Path, database: Rdict) -> None:
        """directory: the state directory, for messages  path: the database"""
        self.directory = directory
        self.database = database
        self.families = {META: database, **{name: database.get_column_family(name) for name in FAMILIES}}
        self._path = path
        self._handles: dict[str, ColumnFamily | None] = {
            META: None,
            **{name: database.get_column_family_handle(name) for name in FAMILIES},
        }
        # A scan reads each key once. It must not evict the blocks that are read again and again from the cache.
        self._pass_options = ReadOptions()
        self._pass_options.fill_cache(False)  # type: ignore[call-arg]  # rocksdict's stub lacks the argument
        self._write_options, self._durable_options = WriteOptions(), WriteOptions()
        self._durable_options.sync = True
        self._failed = False
        self._new_files = NewFiles(path)
        # The greatest size of the table files with whole filters and indexes; None if these are written in parts.
        self._most_whole: int | None = None
        self._unchecked = 0

    @classmethod
    def open(cls, directory: Path, path: Path, settings: IndexSettings, *, begun: bool) -> Self:
        """Open the database at path for its owner. begun: the database has data, so nothing may be created

        Raises StateLockedError, StateError, CorruptRecord.
        """
        options = database_options()
        # Over existing data RocksDB would create a new database if CURRENT is lost, and an empty family if a damaged
        # manifest no longer names it.
        options.create_if_missing(not begun)
        options.create_missing_column_families(not begun)
        if begun and not has_index(path):
            raise CorruptRecord("index", str(path / "CURRENT"), "is missing although the state is not new", REBUILD)
        most_whole = WHOLE_PER_CACHE * settings.cache_mb * MIB
        whole = _bytes_of_tables(path) <= most_whole
        tuning = TUNING._replace(filters="whole") if whole else TUNING
        with rocks_errors(directory, "open"):
            database = Rdict(str(path), options, column_families(settings, tuning))
        backend = cls(directory, path, database)
        backend._most_whole = most_whole if whole else None
        backend._new_files.close()
        return backend

    def get(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys by MultiGet."""
        with rocks_errors(self.directory, "read"):
            values: Any = self.families[family].get(cast("list[Any]", keys))
        return cast("list[bytes | None]", values)

    def next_items(self, family: str, first: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """Return up to `most` keys from first on, and their values."""
        keys, values = list[bytes](), list[bytes]()
        with rocks_errors(self.directory, "read"):
            at = self._iterator(family)
            at.seek(first)
            while len(keys) < most and at.valid():
                keys.append(at.key())
                values.append(at.value())
                at.next()
            at.status()
        return keys, values

    def scan(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield every key and value in order. (items() of rocksdict ends silently at a block that it cannot read.)"""
        with rocks_errors(self.directory, "read"):
            at = self._iterator(family)
            at.seek_to_first()
            while at.valid():
                yield at.key(), at.value()
                at.next()
            at.status()

    def values(self, family: str) -> Iterator[bytes]:
        """Yield every value in the order of the keys, five times as fast as scan().

        It ends silently at a block that cannot be read: count the values.
        """
        with rocks_errors(self.directory, "read"):
            yield from self.families[family].values(read_opt=self._pass_options)

    def keys_down(self, family: str, last: bytes | None = None) -> Iterator[bytes]:
        """Yield every key in descending order, starting at or below `last`."""
        with rocks_errors(self.directory, "read"):
            at = self._iterator(family)
            if last is None:
                at.seek_to_last()
            else:
                at.seek_for_prev(last)
            while at.valid():
                yield at.key()
                at.prev()
            at.status()

    def estimated_keys(self, family: str) -> int:
        """Return RocksDB's estimate. It counts rewritten and recently removed keys too."""
        return self._figure(family, "rocksdb.estimate-num-keys")

    def write(self, batch: Batch, *, durable: bool = False) -> None:
        """Apply all changes of a batch, or none."""
        if not self._handles:
            with rocks_errors(self.directory, "write"):
                raise DbClosedError
        self._bound_filters()
        written = WriteBatch(raw_mode=True)
        for change in batch.changes:
            handle = self._handles[change.family]
            if isinstance(change, RangeDeletion):
                # One tombstone for the whole range. RocksDB removes the keys later, at compaction.
                written.delete_range(change.first, change.end, handle)
                continue
            written.set_default_column_family(handle)
            if isinstance(change, Put):
                for key, value in zip(change.keys, change.values, strict=True):
                    written[key] = value
            else:
                for key in change.keys:
                    written.delete(key)
        self._failed = True
        with rocks_errors(self.directory, "write"):
            self.database.write(written, self._durable_options if durable else self._write_options)
        self._failed = False
        self._new_files.close()

    def _bound_filters(self) -> None:
        """Write filters and indexes of new table files in parts from now on, once the table files are large."""
        self._unchecked += 1
        if self._most_whole is None or self._unchecked < _CHECKED_BATCHES:
            return
        self._unchecked = 0
        if self._total("rocksdb.live-sst-files-size") > self._most_whole:
            with rocks_errors(self.directory, "write"):
                for family in _FILTERED:
                    self.families[family].set_options(PARTS_OPTION)
            self._most_whole = None

    def figures(self) -> dict[str, int]:
        """Return bytes on disk and in memory. The families share one cache, so any family reports its size."""
        return {
            "bytes_on_disk": self._total("rocksdb.total-sst-files-size"),
            "memtable_bytes": self._total("rocksdb.cur-size-all-mem-tables"),
            "cache_bytes": self._figure("buckets", "rocksdb.block-cache-usage"),
            "cache_capacity_bytes": self._figure("buckets", "rocksdb.block-cache-capacity"),
            "cache_pinned_bytes": self._figure("buckets", "rocksdb.block-cache-pinned-usage"),
            "table_reader_bytes": self._total("rocksdb.estimate-table-readers-mem"),
        }

    def compact(self) -> int:
        """Compact everything into the last level, and return the bytes of the live table files."""
        with rocks_errors(self.directory, "write"):
            for family in self.families.values():
                family.flush()
                family.compact_range(None, None)
        return sum(self._figure(name, "rocksdb.live-sst-files-size") for name in self.families)

    def checkpoint(self, path: Path) -> None:
        """Flush, and write a checkpoint into a new directory. It shares table files by hard links."""
        with rocks_errors(self.directory, "write"):
            Checkpoint(self.database).create_checkpoint(str(path))

    def sync(self) -> None:
        """Sync all writes, so that they survive a power failure."""
        with rocks_errors(self.directory, "write"):
            self.database.flush_wal(sync=True)

    def close(self) -> None:
        """Flush buffered writes and release the directory. Closing twice does nothing."""
        if self._failed:
            with suppress(Exception):  # After a failed write RocksDB refuses to flush; the write has raised the error.
                self._release()
        else:
            with rocks_errors(self.directory, "close"):
                self._release()

    def _release(self) -> None:
        """Close every family, whatever fails. Each flushes as it closes; closing the last one releases the lock."""
        self._handles.clear()
        with ExitStack() as closing:
            closing.callback(close_files, self._path)
            for family in self.families.values():
                closing.callback(_close, family)

    def _iterator(self, family: str) -> RdictIter:
        return self.families[family].iter(self._pass_options)

    def _total(self, name: str) -> int:
        return sum(self._figure(family, name) for family in FAMILIES)

    def _figure(self, family: str, name: str) -> int:
        return self.families[family].property_int_value(name) or 0


class CheckpointBackend(RocksBackend):
    """A read-only database, opened without its lock. Its owner may go on writing it.

    get_sorted() is the batch query mode of Manku, Jain, Das Sarma (WWW 2007, sec. 4): queries in memory, tables read in
    order. It reads ascending keys by MultiGet, or by one pass over the family if they are a large share of all keys: a
    value costs less in a pass than in a MultiGet.
    """

    def __init__(self, directory: Path, path: Path, database: Rdict) -> None:
        super().__init__(directory, path, database)
        self._pass_options.set_readahead_size(_READAHEAD_BYTES)

    def get(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys by MultiGet, _AT_ONCE keys at a time."""
        values = list[bytes | None]()
        for first in range(0, len(keys), _AT_ONCE):
            values += super().get(family, keys[first : first + _AT_ONCE])
        return values

    def get_sorted(self, family: str, keys: Sequence[bytes]) -> tuple[list[bytes | None], bool]:
        """Return the values of many ascending keys, and whether it took one pass over the whole family."""
        in_a_pass = len(keys) > PASSED_TO_ASKED * self.estimated_keys(family)
        return (self.get_by_pass if in_a_pass else self.get)(family, keys), in_a_pass

    def get_by_pass(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys by one pass over the family."""
        places = {key: place for place, key in enumerate(keys)}
        values: list[bytes | None] = [None] * len(keys)
        for key, value in self.scan(family):
            place = places.get(key)
            if place is not None:
                values[place] = value
        return values

    def write(self, batch: Batch, *, durable: bool = False) -> None:  # noqa: ARG002 - of the interface
        """Raise StateError: a checkpoint is read-only."""
        raise StateError("state", "is read-only", str(self.directory), "open the state directory to add to it")

    def close(self) -> None:
        """Release the files. Closing twice does nothing."""
        self._handles.clear()
        for family in reversed(self.families.values()):
            _close(family)


@contextmanager
def opened_secondary(directory: Path, path: Path, families: dict[str, Options]) -> Iterator[Rdict]:
    """Open the database at path as a secondary instance, which takes no lock. rocksdict writes its configuration there.

    All table files are open and stay open if can_all_be_open(path), so that they may be removed meanwhile.
    RocksDB's read-only mode cannot be used: it ends the process with a segmentation fault if the manifest lists
    write-ahead logs, in RocksDB 9.8 as in 9.9 (facebook/rocksdb issue 13235).  directory: for messages
    Raises StateError, CorruptRecord.
    """
    with ExitStack() as closing:
        scratch = closing.enter_context(TemporaryDirectory(prefix="spotsieve-"))
        options = database_options()
        if can_all_be_open(path):
            options.set_max_open_files(-1)
        with rocks_errors(directory, "read"):
            database = Rdict(str(path), options, families, AccessType.secondary(scratch))
        closing.callback(_close, database)
        yield database


def _close(family: Rdict) -> None:
    with suppress(DbClosedError):
        family.close()


def _bytes_of_tables(path: Path) -> int:
    """The size of the table files of a database. Another process may own it, and remove some meanwhile."""
    found = 0
    for file in path.glob("*.sst"):
        with suppress(FileNotFoundError):
            found += file.stat().st_size
    return found
