"""Opens the state in a directory for its owner, or a checkpoint read-only, and checks that it is complete."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rocksdict import Options, Rdict

from spotsieve.state.directory import INDEX_FOLDER, check_no_snapshot, has_index, make_directory, readable_by_others
from spotsieve.state.format.common_text import read_common_text
from spotsieve.state.format.entries import ENTRY_BYTES
from spotsieve.state.format.meta import (
    IDENTITY,
    KEY_BYTES,
    LAST_OUTCOME,
    MARKS,
    PROGRESS,
    STATE_FORMAT,
    Identity,
    StatePart,
    decode_clock,
    decode_identity,
    decode_outcome_ref,
    decode_progress,
    decode_source,
    page_of_key,
    pending_verdict_key,
)
from spotsieve.state.identity import check_format, check_identity, check_whole
from spotsieve.state.store.backend import FAMILIES, META, Backend
from spotsieve.state.store.buckets import StoredBuckets
from spotsieve.state.store.entry_cache import EntryCache
from spotsieve.state.store.loaded import PendingVerdictRanges
from spotsieve.state.store.rocks import CheckpointBackend, RocksBackend, opened_secondary
from spotsieve.state.store.rocks_errors import REBUILD
from spotsieve.state.store.rocks_options import column_families, database_options, too_few_open_files
from spotsieve.state.store.state import MetaValues, State, begin_state
from spotsieve.stream.base.errors import CorruptRecord, StateError
from spotsieve.stream.base.settings.model import IndexSettings


def disk_state(
    directory: Path, settings_text: str, log_name: str, settings: IndexSettings, part: StatePart | None = None
) -> State:
    """Open the state in a directory, or create one.

    settings_text: canonical text of the settings that change verdicts  log_name: the log that the state follows
    part: the shard whose part the state holds; None: all entries
    Raises StateLockedError, StateError (unreadable, snapshot, another format or log), SettingsMismatch, CorruptRecord.
    """
    check_no_snapshot("index.directory", directory)
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
    begun = unflushed_bytes > 0 or any(path.glob("*.sst"))
    if begun and has_index(path):
        refuse_other_format(directory, path)
    backend = RocksBackend.open(directory, path, settings, begun=begun)
    try:
        return _loaded(backend, Identity(STATE_FORMAT, settings_text, log_name, part), unflushed_bytes)
    except BaseException:
        backend.close()
        raise


def state_warnings(directory: Path) -> list[str]:
    """Return warnings, each with its fix, about a state that this process has opened for writing."""
    return [text for text in (readable_by_others(directory), too_few_open_files(directory)) if text is not None]


@contextmanager
def checkpoint_state(directory: Path, path: Path, *, part: bool = False) -> Iterator[State]:
    """Open the index at path as a read-only state; no process may write it. directory: the state directory

    part: whether the state of a shard is allowed
    Raises StateError, CorruptRecord.
    """
    with checkpoint_backend(directory, path) as backend:
        meta = read_meta(backend)
        if not part:
            check_whole(str(directory), meta.identity)
        sources = [decode_source(key, value) for key, value in backend.scan("sources")]
        pending_verdicts, common = read_pending_verdicts(backend), read_common_text(backend.scan("common"))
        yield State(backend, StoredBuckets(backend), meta, sources, pending_verdicts, EntryCache(), common)


@contextmanager
def checkpoint_backend(directory: Path, path: Path) -> Iterator[CheckpointBackend]:
    """Open the database at path read-only; its owner may go on writing it. Raises StateError, CorruptRecord."""
    refuse_other_format(directory, path)
    with opened_secondary(directory, path, column_families(None)) as database:
        backend = CheckpointBackend(directory, path, database)
        try:
            yield backend
        finally:
            backend.close()


def refuse_other_format(directory: Path, path: Path) -> None:
    """Refuse a database that lacks column families because another release wrote it.

    Opening it would only report a missing family. directory: for messages  Raises StateError, CorruptRecord.
    """
    try:
        stored = set(Rdict.list_cf(str(path), database_options()))
    except Exception:  # rocksdict raises plain Exception; opening reports the error
        return
    if stored >= set(FAMILIES):
        return
    families = {name: Options(raw_mode=True) for name in stored - {META}}
    identity = None
    with suppress(StateError), opened_secondary(directory, path, families) as database:
        identity = database.get(IDENTITY)
    if isinstance(identity, bytes):
        check_format(str(directory), decode_identity(identity))


def read_meta(backend: Backend) -> MetaValues:
    """Read the meta values. Raises StateError if the state has none yet, CorruptRecord."""
    identity, progress, marks, last_outcome = backend.get(META, [IDENTITY, PROGRESS, MARKS, LAST_OUTCOME])
    if identity is None or progress is None:
        raise StateError(
            "--state",
            "holds no identity: its first start did not finish",
            str(backend.directory),
            "start it once more, or delete it",
        )
    decoded = decode_progress(progress)
    last = None if last_outcome is None else decode_outcome_ref(last_outcome)
    return MetaValues(decode_identity(identity), decoded, decode_clock(decoded, marks), last)


def _loaded(backend: RocksBackend, wanted: Identity, unflushed_bytes: int) -> State:
    """Load the state of a backend, or create one. Raises StateError, SettingsMismatch, CorruptRecord."""
    identity, progress = backend.get(META, [IDENTITY, PROGRESS])
    if identity is None and progress is None and all(next(backend.scan(name), None) is None for name in FAMILIES):
        return State(backend, StoredBuckets(backend), begin_state(backend, wanted), entries=EntryCache())
    if identity is None or progress is None:
        missing = IDENTITY if identity is None else PROGRESS
        raise CorruptRecord("meta", missing, "is missing although the state is not new", REBUILD)
    # First of all, because another format may have other layouts.
    check_identity(str(backend.directory), decode_identity(identity), wanted.settings, wanted.log, wanted.part)
    meta = read_meta(backend)
    sources, pending_verdicts = read_sources(backend), read_pending_verdicts(backend)
    if wanted.part is None:
        # The part of a shard has gaps, so missing last entries prove nothing.
        check_last_entries(backend, meta, unflushed_bytes // ENTRY_BYTES + 1)
    common = read_common_text(backend.scan("common"))
    return State(backend, StoredBuckets(backend), meta, sources, pending_verdicts, EntryCache(), common)


def read_sources(backend: Backend) -> list[str]:
    """Read all sources, by number. Raises CorruptRecord."""
    items = list(backend.scan("sources"))
    for number, (key, _) in enumerate(items):
        if key != number.to_bytes(8, "big"):
            raise CorruptRecord("sources", key, f"must have the number {number}", REBUILD)
    return [decode_source(key, value) for key, value in items]


def read_pending_verdicts(backend: Backend) -> PendingVerdictRanges:
    """Find the offset ranges of pending verdicts, with two seeks for each partition. Raises CorruptRecord."""
    pending_verdicts, first = PendingVerdictRanges(), b""
    while key := next(iter(backend.next_items("attempts", first, 1)[0]), None):
        source, partition, offset = _page_of(key)
        pending_verdicts.add(source, partition, offset)
        last = next(backend.keys_down("attempts", pending_verdict_key(source, partition, 2**64 - 1)), key)
        pending_verdicts.add(*_page_of(last))
        first = last + b"\0"
    return pending_verdicts


def _page_of(key: bytes) -> tuple[int, int, int]:
    if len(key) != KEY_BYTES:
        raise CorruptRecord("attempts", key, f"must have a key of {KEY_BYTES} bytes", REBUILD)
    return page_of_key(key)


def check_last_entries(backend: Backend, meta: MetaValues, unflushed: int) -> None:
    """Check that the last entries exist; `spotsieve state verify` checks all entries. Raises CorruptRecord.

    RocksDB lists a write-ahead log in its manifest only at the next flush. If that log is lost before, exactly its
    entries are missing, and they are among the last ones.

    unflushed: greatest number of living entries that may be in write-ahead logs
    """
    count, floor = meta.progress.entry_count, meta.clock.floor
    keys, missing = backend.keys_down("entries"), -1
    last = next(keys, None)
    key = last
    for number in range(count - 1, max(count - unflushed, floor) - 1, -1):
        if key != number.to_bytes(8, "big"):
            missing = number
            break
        key = next(keys, None)
    if missing >= 0 or (last is not None and count == floor):
        key = (last or b"") if missing < 0 else missing.to_bytes(8, "big")
        raise CorruptRecord("entries", key, f"must exist as one of {count} entries by the progress", REBUILD)
