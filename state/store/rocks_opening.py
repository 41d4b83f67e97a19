"""Opens the database of a state for its owner, and checks that what was written together came back together."""

from pathlib import Path
from typing import Any

from rocksdict import Rdict, WriteBatch, WriteOptions

from spotsieve.state.format.attempts import KEY_BYTES, attempt_key, page_of_key
from spotsieve.state.format.entries import ENTRY_BYTES
from spotsieve.state.format.meta import IDENTITY, PROGRESS, Identity, Progress, encode_identity, encode_progress
from spotsieve.state.format.sources import decode_source
from spotsieve.state.private import make_directory
from spotsieve.state.store.directory import INDEX_FOLDER
from spotsieve.state.store.remembered import RememberedAttempts
from spotsieve.state.store.rocks_errors import REBUILD, rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.state.store.rocks_reading import keys_and_values, refuse_other_format
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.settings.model import IndexSettings


def open_database(directory: Path, settings: IndexSettings) -> tuple[Rdict, int]:
    """Open or begin the database in a state directory -> (database, how many entries may be unflushed at most).

    Raises StateLocked, StateError (unreadable, another format), CorruptRecord.
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
    batch[PROGRESS] = encode_progress(Progress(0, 0, 0))
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


def read_attempts(directory: Path, family: Rdict) -> RememberedAttempts:
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
