"""Owns the state on disk: buckets, entries, sources and log position in one RocksDB, each record one atomic write."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from rocksdict import Checkpoint, DbClosedError, Rdict, ReadOptions, WriteBatch, WriteOptions

from spotsieve.state.format import layouts as formats
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_identity
from spotsieve.state.index import Buckets, Filing, Removal
from spotsieve.state.store.entries import ReadEntries, page_ids
from spotsieve.state.store.rocks_errors import REBUILD, rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.sources import Sources
from spotsieve.state.sweep import Sweep, walk_on
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.settings.model import IndexSettings

DIRECTORY = "index"
"""Name of the database inside the state directory; the local log lies beside it."""

IDENTITY, MARKS, PROGRESS = b"identity", b"marks", b"progress"


class RocksState:
    """The index of one process. Use open(); not safe for several threads, but reading releases the GIL."""

    def __init__(self, directory: Path, database: Rdict) -> None:
        self.directory = directory
        self._database = database
        self._handles = {name: database.get_column_family_handle(name) for name in column_families(None)}
        self._buckets, self._entries, self._sources = (
            database.get_column_family(name) for name in ("buckets", "entries", "sources")
        )
        self._write_options = WriteOptions()
        # What a sweep reads once would push out of the cache what pages meet again and again.
        self._sweep_options = ReadOptions()
        self._sweep_options.fill_cache(False)  # type: ignore[call-arg]  # rocksdict's stub lacks the argument
        self._known = Sources()
        self._position = 0
        self._entry_count = 0
        self._last_record = 0
        self._pages_applied = 0
        self._clock = Clock()
        self._sweep = Sweep()
        self._swept_buckets = 0
        self._failed = False

    @classmethod
    def open(cls, directory: Path, settings_text: str, log_name: str, settings: IndexSettings) -> Self:
        """Open the state in directory, or begin one.

        settings_text: canonical text of the settings that change verdicts  log_name: which log the state follows
        Raises StateError (locked, unreadable, another log), SettingsMismatch, CorruptRecord.
        """
        path = directory / DIRECTORY
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(
                "index.directory",
                f"must be a directory that can be written: {error.strerror}",
                str(directory),
                "choose another with index.directory or --state",
            ) from None
        unflushed_bytes = sum(log.stat().st_size for log in path.glob("*.log"))
        options = database_options()
        begun = unflushed_bytes > 0 or any(path.glob("*.sst"))
        # Over what was written already, RocksDB would begin anew where CURRENT is lost, and where a damaged manifest no
        # longer names a family it would make it, empty.
        options.create_if_missing(not begun)
        options.create_missing_column_families(not begun)
        if begun and not (path / "CURRENT").exists():
            raise CorruptRecord("index", str(path / "CURRENT"), "is missing although the state is not new", REBUILD)
        with rocks_errors(directory, "open"):
            database = Rdict(str(path), options, column_families(settings))
        state = cls(directory, database)
        try:
            state._load(settings_text, log_name, unflushed_bytes // formats.ENTRY_BYTES + 1)
        except BaseException:
            state._let_go()
            raise
        return state

    @property
    def entry_count(self) -> int:
        """Number of pages ever filed."""
        return self._entry_count

    @property
    def position(self) -> int:
        """The next log offset to read."""
        return self._position

    @property
    def last_record(self) -> int:
        """Checksum of the last record applied."""
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
        """keys: uint64[u] -> their postings."""
        names = formats.number_keys(keys)
        with rocks_errors(self.directory, "read"):
            values: Any = self._buckets.get(cast("list[Any]", names))
        return formats.decode_buckets(keys, values)

    def filed(self, numbers: NDArray[np.uint64]) -> ReadEntries:
        """numbers: uint64[e] -> the filed pages. Raises CorruptRecord where one is missing."""
        names, values = self._read_entries(numbers)
        return ReadEntries(names, values, self._known.texts)

    def page_ids(self, numbers: NDArray[np.uint64]) -> list[tuple[str, int, int] | None]:
        """numbers: uint64[e] -> (source, partition, offset) of each, None where no entry has the number any more."""
        return page_ids(*self._read_entries(numbers), self._known.texts)

    def file(
        self,
        filing: Filing | None,
        position: int,
        last_record: int,
        pages_applied: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Write a filing and the position in one batch; where writing fails nothing of it is remembered."""
        clock = self._clock if clock is None else clock
        batch = WriteBatch(raw_mode=True)
        count, new_sources, sweep = self._entry_count, list[str](), self._sweep
        if clock.floor > self._clock.floor:
            # One tombstone for all of them: what it costs is RocksDB's to pay, when it compacts.
            batch.delete_range(
                self._clock.floor.to_bytes(8, "big"), clock.floor.to_bytes(8, "big"), self._handles["entries"]
            )
        if filing is not None and len(filing.pages):
            if filing.first_number != count:
                raise ValueError(f"filing begins at entry {filing.first_number}, the state at {count}")
            batch.set_default_column_family(self._handles["buckets"])
            swept = walk_on(sweep, clock.floor, filing, self._visit)
            if swept is not None:
                # Before the filing: of a bucket that both change, what the filing says is the newer.
                _put_buckets(batch, swept.keys, swept.buckets)
                sweep = swept.sweep
                self._swept_buckets += swept.visited
            _put_buckets(batch, filing.keys, filing.buckets)
            new_sources = self._put_entries(batch, filing)
            count += len(filing.pages)
        progress = formats.Progress(position, count, last_record, pages_applied, clock.watermark_ms, sweep)
        self._write(batch, progress, clock)
        for text in new_sources:
            self._known.add(text)

    def remove(self, removal: Removal, position: int, last_record: int) -> None:
        """Take forgotten pages out and move the position, in one batch."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handles["buckets"])
        _put_buckets(batch, removal.keys, removal.buckets)
        batch.set_default_column_family(self._handles["entries"])
        for name in formats.number_keys(removal.numbers):
            batch[name] = formats.FORGOTTEN
        progress = formats.Progress(position, self._entry_count, last_record, 0, self._clock.watermark_ms, self._sweep)
        self._write(batch, progress, self._clock)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything remembered but the identity, as (family/key, value), in order."""
        with rocks_errors(self.directory, "read"):
            if self._clock.marks:
                yield b"meta/" + MARKS, self._database[MARKS]  # type: ignore[misc]
            yield b"meta/" + PROGRESS, self._database[PROGRESS]  # type: ignore[misc]
            for name in ("buckets", "entries", "sources"):
                for key, value in keys_and_values(self._database.get_column_family(name)):
                    yield name.encode() + b"/" + key, value

    def stats(self) -> dict[str, int]:
        """Figures that cost microseconds: entries, position, bytes on disk and in memory, keys (estimated)."""
        families = [self._buckets, self._entries]

        def total(name: str) -> int:
            return sum(family.property_int_value(name) or 0 for family in families)

        return {
            "entries": self._entry_count - self._clock.floor,
            **self._clock.stats(),
            "swept_buckets": self._swept_buckets,
            "position": self._position,
            "bytes_on_disk": total("rocksdb.total-sst-files-size"),
            "memtable_bytes": total("rocksdb.cur-size-all-mem-tables"),
            "cache_bytes": self._buckets.property_int_value("rocksdb.block-cache-usage") or 0,
            "estimated_keys": self._buckets.property_int_value("rocksdb.estimate-num-keys") or 0,
            "sources": len(self._known.texts),
        }

    def compact(self) -> int:
        """Merge everything into the last level, as a state at rest has it; -> bytes of the live table files."""
        families = [self._database, self._buckets, self._entries, self._sources]
        with rocks_errors(self.directory, "write"):
            for family in families:
                family.flush()
                family.compact_range(None, None)
        return sum(family.property_int_value("rocksdb.live-sst-files-size") or 0 for family in families)

    def checkpoint(self, path: Path) -> None:
        """Flush, and make a directory that holds the state as it is now; table files are shared as hard links."""
        with rocks_errors(self.directory, "write"):
            Checkpoint(self._database).create_checkpoint(str(path))

    def sync(self) -> None:
        """Return once everything filed would survive a power failure."""
        with rocks_errors(self.directory, "write"):
            self._database.flush_wal(sync=True)

    def close(self) -> None:
        """Write what is buffered and let the directory go. Closing twice does nothing."""
        if self._failed:
            with suppress(Exception):  # RocksDB refuses to flush after a failed write; that error was raised then
                self._let_go()
        else:
            with rocks_errors(self.directory, "close"):
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_entries(self, numbers: NDArray[np.uint64]) -> tuple[list[bytes], list[bytes | None]]:
        names = formats.number_keys(numbers)
        with rocks_errors(self.directory, "read"):
            values: Any = self._entries.get(cast("list[Any]", names))
        return names, values

    def _write(self, batch: WriteBatch, progress: formats.Progress, clock: Clock) -> None:
        """Write a batch and the progress with it; where writing fails nothing of it is remembered."""
        batch.set_default_column_family(None)
        if clock.marks != self._clock.marks:
            batch[MARKS] = formats.encode_marks(clock.marks)
        batch[PROGRESS] = formats.encode_progress(progress)
        self._failed = True
        with rocks_errors(self.directory, "write"):
            self._database.write(batch, self._write_options)
        self._failed = False
        self._remember(progress, clock)

    def _remember(self, progress: formats.Progress, clock: Clock) -> None:
        self._position, self._entry_count, self._last_record, self._pages_applied, _, self._sweep = progress
        self._clock = clock

    def _visit(self, first_key: int, most: int) -> tuple[NDArray[np.uint64], Buckets]:
        """The next buckets from a key on, for the sweep."""
        keys, values = list[bytes](), list[bytes | None]()
        with rocks_errors(self.directory, "read"):
            at = self._buckets.iter(self._sweep_options)
            at.seek(first_key.to_bytes(8, "big"))
            while len(keys) < most and at.valid():
                keys.append(at.key())
                values.append(at.value())
                at.next()
            at.status()
        numbers = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
        return numbers, formats.decode_buckets(numbers, values)

    def _load(self, settings_text: str, log_name: str, unflushed: int) -> None:
        with rocks_errors(self.directory, "read"):
            identity: Any = self._database.get(IDENTITY)
            progress: Any = self._database.get(PROGRESS)
            marks: Any = self._database.get(MARKS)
            sources = list(keys_and_values(self._sources))
        if identity is None and progress is None and self._is_empty():
            batch = WriteBatch(raw_mode=True)
            batch[IDENTITY] = formats.encode_identity(settings_text, log_name)
            batch[PROGRESS] = formats.encode_progress(formats.Progress(0, 0, 0))
            durable = WriteOptions()
            durable.sync = True
            with rocks_errors(self.directory, "write"):
                self._database.write(batch, durable)
            return
        if identity is None or progress is None:
            missing = IDENTITY if identity is None else PROGRESS
            raise CorruptRecord("meta", missing, "is missing although the state is not new", REBUILD)
        check_identity(str(self.directory), formats.decode_identity(identity), settings_text, log_name)
        decoded = formats.decode_progress(progress)
        self._remember(decoded, formats.decode_clock(decoded, marks))
        for number, (key, value) in enumerate(sources):
            if key != number.to_bytes(8, "big"):
                raise CorruptRecord("sources", key, f"must have the number {number}", REBUILD)
            self._known.add(formats.decode_source(key, value))
        self._check_last_entries(unflushed)

    def _is_empty(self) -> bool:
        with rocks_errors(self.directory, "read"):
            families = (self._buckets, self._entries, self._sources)
            return all(next(keys_and_values(family), None) is None for family in families)

    def _check_last_entries(self, unflushed: int) -> None:
        """Families written together must have come back together; `spotsieve state verify` looks at all of it.

        A write-ahead log that is lost before RocksDB has listed it in the manifest, at its next flush, leaves out the
        entries that it held, and it alone: they are among the last ones.
        """
        count, floor, missing = self._entry_count, self._clock.floor, -1
        with rocks_errors(self.directory, "read"):
            at = self._entries.iter()
            at.seek_to_last()
            last: Any = at.key() if at.valid() else None
            for number in range(count - 1, max(count - unflushed, floor) - 1, -1):
                if not at.valid() or at.key() != number.to_bytes(8, "big"):
                    missing = number
                    break
                at.prev()
            at.status()
        if missing >= 0 or (last is not None and count == floor):
            key = last if missing < 0 else missing.to_bytes(8, "big")
            raise CorruptRecord("entries", key, f"must be there as one of {count} by the progress", REBUILD)

    def _put_entries(self, batch: WriteBatch, filing: Filing) -> list[str]:
        """Put the filed pages and the sources that are new."""
        numbers, new = self._known.number(filing)
        batch.set_default_column_family(self._handles["sources"])
        for number, text in enumerate(new, len(self._known.texts)):
            batch[number.to_bytes(8, "big")] = formats.encode_source(text)
        first, last = filing.first_number, filing.first_number + len(filing.pages)
        names = formats.number_keys(np.arange(first, last, dtype=np.uint64))
        batch.set_default_column_family(self._handles["entries"])
        for name, value in zip(names, formats.encode_entries(filing, numbers), strict=True):
            batch[name] = value
        return new

    def _let_go(self) -> None:
        """Every family flushes as it closes; the lock is gone with the last one, so all are closed whatever fails."""
        self._handles.clear()
        with ExitStack() as closing:
            for family in (self._database, self._sources, self._entries, self._buckets):
                closing.callback(_close, family)


def _put_buckets(batch: WriteBatch, keys: NDArray[np.uint64], buckets: Buckets) -> None:
    """Put buckets into the batch's family; one without postings is deleted."""
    sizes = np.diff(buckets.bounds).tolist()
    values = formats.encode_buckets(keys, buckets)
    for name, value, size in zip(formats.number_keys(keys), values, sizes, strict=True):
        if size:
            batch[name] = value
        else:
            batch.delete(name)


def keys_and_values(family: Rdict, options: ReadOptions | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Every key and value, in order. rocksdict's own items() ends without a word where a block cannot be read."""
    at = family.iter(options)
    at.seek_to_first()
    while at.valid():
        yield at.key(), at.value()
        at.next()
    at.status()


def _close(family: Rdict) -> None:
    with suppress(DbClosedError):
        family.close()
