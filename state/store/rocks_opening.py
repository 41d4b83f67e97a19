"""Opens a database: for its owner, with checks that its families belong together, or read-only beside its owner.

A read-only opening takes no lock and changes nothing.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rocksdict import AccessType, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from spotsieve.state.directory import INDEX_FOLDER, make_directory
from spotsieve.state.format.entries import ENTRY_BYTES
from spotsieve.state.format.meta import (
    HEARD,
    IDENTITY,
    KEY_BYTES,
    MARKS,
    PROGRESS,
    Identity,
    StateProgress,
    attempt_key,
    decode_clock,
    decode_identity,
    decode_outcome_ref,
    decode_progress,
    decode_source,
    encode_identity,
    encode_progress,
    page_of_key,
)
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_format
from spotsieve.state.index import OutcomeRef
from spotsieve.state.store.loaded import RememberedAttempts
from spotsieve.state.store.rocks_errors import REBUILD, rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.settings.model import IndexSettings


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


@contextmanager
def opened_secondary(directory: Path, path: Path) -> Iterator[Rdict]:
    """Open the database at path as a secondary of RocksDB's. directory: for messages. Raises StateError, CorruptRecord.

    A secondary writes nothing there. To open for reading only is not possible: it ends the process (a segmentation
    fault) where the manifest lists write-ahead logs, in RocksDB 9.8 as in 9.9 (facebook/rocksdb issue 13235).
    """
    refuse_other_format(directory, path)
    with _secondary(directory, path, column_families(None)) as database:
        yield database


def refuse_other_format(directory: Path, path: Path) -> None:
    """Refuse the database at path where it lacks families because another release wrote it.

    Opening would say no more than that a family is missing. directory: for messages  Raises StateError, CorruptRecord.
    """
    try:
        stored = set(Rdict.list_cf(str(path), database_options()))
    except Exception:  # rocksdict raises plain Exception; opening tells what is wrong
        return
    if stored >= column_families(None).keys():
        return
    families = {name: Options(raw_mode=True) for name in stored - {"default"}}
    identity = None
    with suppress(StateError), _secondary(directory, path, families) as database:
        identity = database.get(IDENTITY)
    if isinstance(identity, bytes):
        check_format(str(directory), decode_identity(identity))


@contextmanager
def _secondary(directory: Path, path: Path, families: dict[str, Options]) -> Iterator[Rdict]:
    with ExitStack() as closing:
        scratch = closing.enter_context(TemporaryDirectory(prefix="spotsieve-"))
        with rocks_errors(directory, "read"):
            database = Rdict(str(path), database_options(), families, AccessType.secondary(scratch))
        closing.callback(database.close)
        yield database


def read_meta(directory: Path, database: Rdict) -> MetaValues:
    """Read the meta values. directory: for messages. Raises StateError where the state has none yet, CorruptRecord."""
    with rocks_errors(directory, "read"):
        identity, progress, marks, heard = (database.get(name) for name in (IDENTITY, PROGRESS, MARKS, HEARD))
    if not isinstance(identity, bytes) or not isinstance(progress, bytes):
        raise StateError(
            "--state",
            "holds no identity: its first start did not finish",
            str(directory),
            "start it once more, or delete it",
        )
    decoded = decode_progress(progress)
    clock = decode_clock(decoded, marks if isinstance(marks, bytes) else None)
    last = decode_outcome_ref(heard) if isinstance(heard, bytes) else None
    return MetaValues(decode_identity(identity), decoded, clock, last)


def keys_and_values(family: Rdict, options: ReadOptions | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Give every key and value in order. (The items() of rocksdict ends without a word at a block it cannot read.)"""
    at = family.iter(options)
    at.seek_to_first()
    while at.valid():
        yield at.key(), at.value()
        at.next()
    at.status()


def open_database(directory: Path, settings: IndexSettings) -> tuple[Rdict, int]:
    """Open or begin the database in a state directory -> (database, how many entries may be unflushed at most).

    Raises StateLockedError, StateError (unreadable, another format), CorruptRecord.
    """
    path = directory / INDEX_FOLDER
    try:
        make_directory(directory)
        make_directory(path)
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
    # Over existing data RocksDB would begin anew if CURRENT is lost, and it would make a family empty if a damaged
    # manifest no longer names it.
    options.create_if_missing(not begun)
    options.create_missing_column_families(not begun)
    if begun and not (path / "CURRENT").exists():
        raise CorruptRecord("index", str(path / "CURRENT"), "is missing although the state is not new", REBUILD)
    if begun:
        refuse_other_format(directory, path)
    with rocks_errors(directory, "open"):
        database = Rdict(str(path), options, column_families(settings))
    return database, unflushed_bytes // ENTRY_BYTES + 1


def begin_state(directory: Path, database: Rdict, identity: Identity) -> None:
    """Write the meta values of a new state. Raises StateError."""
    batch = WriteBatch(raw_mode=True)
    batch[IDENTITY] = encode_identity(identity)
    batch[PROGRESS] = encode_progress(StateProgress(0, 0, 0))
    durable = WriteOptions()
    durable.sync = True
    with rocks_errors(directory, "write"):
        database.write(batch, durable)


def read_sources(directory: Path, family: Rdict) -> list[str]:
    """Read all sources, by number. Raises CorruptRecord."""
    with rocks_errors(directory, "read"):
        items = list(keys_and_values(family))
    for number, (key, _) in enumerate(items):
        if key != number.to_bytes(8, "big"):
            raise CorruptRecord("sources", key, f"must have the number {number}", REBUILD)
    return [decode_source(key, value) for key, value in items]


def read_pending_verdicts(directory: Path, family: Rdict) -> RememberedAttempts:
    """Find out which partitions have attempts, by two seeks for each. Raises CorruptRecord."""
    remembered = RememberedAttempts()
    with rocks_errors(directory, "read"):
        at = family.iter()
        at.seek_to_first()
        while at.valid():
            source, partition, offset = _page_of(at.key())
            remembered.add(source, partition, offset)
            at.seek_for_prev(attempt_key(source, partition, 2**64 - 1))
            if at.valid():
                remembered.add(*_page_of(at.key()))
                at.next()
        at.status()
    return remembered


def _page_of(key: Any) -> tuple[int, int, int]:
    if len(key) != KEY_BYTES:
        raise CorruptRecord("attempts", key, f"must have a key of {KEY_BYTES} bytes", REBUILD)
    return page_of_key(key)


def check_last_entries(directory: Path, entries: Rdict, count: int, floor: int, unflushed: int) -> None:
    """Check that the last entries are there; `spotsieve state verify` looks at all of them. Raises CorruptRecord.

    RocksDB lists a write-ahead log in its manifest at the next flush. If that log is lost before, the entries in it are
    missing and nothing else is. They are among the last ones.

    count, floor: entries floor..count - 1 live  unflushed: how many of them may be in write-ahead logs at most
    """
    missing = -1
    with rocks_errors(directory, "read"):
        at = entries.iter()
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
