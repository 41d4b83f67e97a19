"""Reads a checkpoint or a snapshot without owning it, and describes a state directory for `spotsieve state info`."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from spotsieve.state.directory import INDEX_FOLDER, has_index, is_snapshot
from spotsieve.state.format.meta import Identity, log_identity_fields
from spotsieve.state.horizon import Clock
from spotsieve.state.snapshot.checkpoints import checkpoint_of
from spotsieve.state.store.opening import checkpoint_backend, checkpoint_state, read_meta
from spotsieve.state.store.rocks import CheckpointBackend
from spotsieve.state.store.rocks_options import can_all_be_open
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.base.progress import OnProgress, ignore_progress
from spotsieve.stream.base.settings.model import IndexSettings

TIMEOUT_S = 300.0
"""How long to wait for the process that owns a state."""
ROCKSDICT_FILE = "rocksdict-config.json"


@contextmanager
def read_only_state(
    directory: Path,
    timeout_s: float = TIMEOUT_S,
    on_progress: OnProgress = ignore_progress,
    *,
    part: bool = False,
) -> Iterator[State]:
    """Open a snapshot, or a checkpoint of a state directory. If a process owns the state, it makes the checkpoint.

    The checkpoint is removed as soon as RocksDB has opened all its files, if all can be open at a time. Then a long
    read does not block other requests; the disk space is freed when the read ends.

    part: whether the state of a shard is allowed
    Raises StateError if there is no state, the owner does not respond in time, or another request stays open;
    CorruptRecord.
    """
    with ExitStack() as requesting, ExitStack() as closing:
        if is_snapshot(directory):
            path = closing.enter_context(linked_index(directory / INDEX_FOLDER))
        else:
            path = requesting.enter_context(checkpoint_of(directory, timeout_s, on_progress))
        state = closing.enter_context(checkpoint_state(directory, path, part=part))
        if can_all_be_open(path):
            requesting.close()
        yield state


@contextmanager
def linked_index(still: Path) -> Iterator[Path]:
    """Yield a folder of links to the files of an unchanging index: of a snapshot, or of a checkpoint.

    rocksdict writes its configuration where it opens a database, also as a secondary instance. So another process that
    checks the snapshot would find a cut file, and a snapshot on a read-only file system could not be opened.
    """
    with TemporaryDirectory(prefix="spotsieve-") as made:
        index = Path(made) / INDEX_FOLDER
        index.mkdir()
        for file in still.glob("*"):
            if file.name != ROCKSDICT_FILE:
                (index / file.name).symlink_to(file.resolve())
        yield index


@contextmanager
def own_checkpoint(state: State, directory: Path) -> Iterator[State]:
    """Open a read-only checkpoint of a state that this process owns, made in the state directory.

    Raises StateError, CorruptRecord.
    """
    with TemporaryDirectory(prefix="checkpoint-", dir=directory) as made:
        path = Path(made) / INDEX_FOLDER
        state.checkpoint(path)
        with checkpoint_state(directory, path) as checkpoint:
            yield checkpoint


def describe(directory: Path) -> dict[str, Any]:
    """Return entries, log position, log name, size and settings of a state. A service may own it and go on writing.

    With a deduplication window the result counts the entries within it, and has the watermark. The latest pages of the
    service may be missing. Raises StateError if there is no state, CorruptRecord.
    """
    with _backend_of(directory) as backend:
        meta = read_meta(backend)
    return {
        "format": meta.identity.state_format,
        "log": meta.identity.log,
        **log_identity_fields(meta.identity.log_identity),
        **({"part": str(meta.identity.part)} if meta.identity.part is not None else {}),
        "log_position": meta.progress.position,
        "entries": meta.living_entries,
        **_window(meta.identity.settings, meta.clock),
        "bytes_on_disk": sum(map(_size_of, _index_of(directory).iterdir())),
        "verdict_settings": meta.identity.settings,
    }


def identity_of(directory: Path) -> Identity:
    """Return the identity of a state or snapshot, which a service may own. Raises StateError, CorruptRecord."""
    with _backend_of(directory) as backend:
        return read_meta(backend).identity


@contextmanager
def _backend_of(directory: Path) -> Iterator[CheckpointBackend]:
    """Open the database of a state or snapshot read-only. Raises StateError, CorruptRecord."""
    path = _index_of(directory)
    with ExitStack() as closing:
        if is_snapshot(directory):
            path = closing.enter_context(linked_index(directory / INDEX_FOLDER))
        yield closing.enter_context(checkpoint_backend(directory, path))


def salt_from(settings: IndexSettings) -> int | None:
    """The salt of the state that index.salt_from names; None if it names none. Raises SettingError, CorruptRecord."""
    directory = settings.salt_from
    if directory is None:
        return None
    try:
        found = identity_of(directory).log_identity
    except StateError as error:
        raise SettingError("index.salt_from", f"must name a state: {error.rule}", str(directory), _NAME_STATE) from None
    if found is None:
        raise SettingError("index.salt_from", "names a state that has read no log yet", str(directory), _NAME_STATE)
    return found.salt


_NAME_STATE = "name the directory of a state (--state, index.directory) or a snapshot"


def _index_of(directory: Path) -> Path:
    path = directory / INDEX_FOLDER
    if not has_index(path):
        raise StateError(
            "directory", "must hold a state", str(directory), "name the directory given as index.directory"
        )
    return path


def _window(settings: str, clock: Clock) -> dict[str, Any]:
    """Return the length of the window, the watermark, and the first entry within; {} without a window."""
    hours = json.loads(settings).get("index.horizon_hours", 0)
    if not hours:
        return {}
    watermark = None
    if clock.marks:
        # numpy, because the log may hold times beyond the range of datetime.fromtimestamp().
        watermark = str(np.datetime64(clock.watermark_ms, "ms")) + "Z"
    return {"horizon_hours": hours, "watermark": watermark, "first_entry": clock.floor}


def _size_of(file: Path) -> int:
    """Return the size of a file, 0 if a running service has just removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
