"""Reads a checkpoint or a snapshot without owning it, and describes a state directory for `spotsieve state info`."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rocksdict import Rdict, ReadOptions

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.format.meta import Identity, StateProgress, decode_source
from spotsieve.state.horizon import Clock
from spotsieve.state.identity import check_whole
from spotsieve.state.index import OutcomeRef, State
from spotsieve.state.snapshot.checkpoints import checkpoint_of
from spotsieve.state.snapshot.snapshots import MANIFEST_FILE
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_opening import keys_and_values, opened_secondary, read_meta
from spotsieve.state.store.rocks_options import column_families
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.progress import OnProgress, ignore_progress

_READAHEAD_BYTES = 2**21


@dataclass(frozen=True, slots=True)
class ReadOnlyState:
    """A state as it was at one position of its log.

    identity: what it belongs to  progress, clock: how far it had come  sources: texts by number
    heard: the outcome that the state of a shard was last filed by
    """

    directory: Path
    identity: Identity
    progress: StateProgress
    sources: list[str]
    families: dict[str, Rdict]
    clock: Clock
    heard: OutcomeRef | None = None

    def items(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Give every key and value of a family, in order. Raises CorruptRecord."""
        with rocks_errors(self.directory, "read"):
            yield from keys_and_values(self.families[family], _whole_pass())

    def values(self, family: str) -> Iterator[bytes]:
        """Give every value of a family, in the order of the keys: five times as fast as items().

        It ends without a word at a block that cannot be read: count what it gives.
        """
        with rocks_errors(self.directory, "read"):
            yield from self.families[family].values(read_opt=_whole_pass())

    def estimated_keys(self, family: str) -> int:
        """Return about how many keys a family has."""
        return self.families[family].property_int_value("rocksdb.estimate-num-keys") or 0


def _whole_pass() -> ReadOptions:
    """How a whole family is read. Its blocks are read once, so they stay out of the cache, which halves the time."""
    options = ReadOptions()
    options.set_readahead_size(_READAHEAD_BYTES)
    options.fill_cache(False)  # type: ignore[call-arg]  # its stub has no argument, the function takes one
    return options


@contextmanager
def read_only_state(
    directory: Path,
    timeout_s: float = 300.0,
    on_progress: OnProgress = ignore_progress,
    *,
    hold: bool = True,
    part: bool = False,
) -> Iterator[ReadOnlyState]:
    """Read a snapshot, or a state directory by a checkpoint. A process that works on the state makes it and goes on.

    hold: False: the checkpoint goes as soon as RocksDB has all its files open, so that whoever reads for long keeps
    nobody else from asking; its space on disk is free when the reading ends
    part: read the state of a shard too, which is refused else
    Raises StateError: there is no state, the owner does not answer in time, or somebody else asks; CorruptRecord.
    """
    with ExitStack() as asking, ExitStack() as closing:
        if (directory / MANIFEST_FILE).exists():
            path = directory / INDEX_FOLDER
        else:
            path = asking.enter_context(checkpoint_of(directory, timeout_s, on_progress))
        state = closing.enter_context(_read(directory, path, part=part))
        if not hold:
            asking.close()
        yield state


@contextmanager
def own_read_only_state(state: State, directory: Path) -> Iterator[ReadOnlyState]:
    """Read a state that this process works on, as it is now, by a checkpoint in its directory.

    Raises StateError, CorruptRecord.
    """
    with TemporaryDirectory(prefix="checkpoint-", dir=directory) as made:
        path = Path(made) / INDEX_FOLDER
        state.checkpoint(path)
        with _read(directory, path) as still:
            yield still


@contextmanager
def _read(directory: Path, path: Path, *, part: bool = False) -> Iterator[ReadOnlyState]:
    """Open an index that nobody writes. directory: of the state that it is of, for messages"""
    with ExitStack() as closing:
        database = closing.enter_context(opened_secondary(directory, path))
        families = {}
        for name in column_families(None):
            families[name] = database.get_column_family(name)
            closing.callback(families[name].close)
        with rocks_errors(directory, "read"):
            sources = [decode_source(key, value) for key, value in keys_and_values(families["sources"])]
        meta = read_meta(directory, database)
        if not part:
            check_whole(str(directory), meta.identity)
        yield ReadOnlyState(directory, meta.identity, meta.progress, sources, families, meta.clock, meta.heard)


def describe(directory: Path) -> dict[str, Any]:
    """Return entries, log position, log name, size and settings of a state, which a service may be working on.

    With a horizon it counts the entries within it, and says how far event time has come. What that service filed just
    now may be missing. Raises StateError if there is no state, CorruptRecord.
    """
    path = directory / INDEX_FOLDER
    if not (path / "CURRENT").exists():
        raise StateError(
            "directory", "must hold a state", str(directory), "name the directory given as index.directory"
        )
    with opened_secondary(directory, path) as database:
        meta = read_meta(directory, database)
    return {
        "format": meta.identity.state_format,
        "log": meta.identity.log,
        **({"part": str(meta.identity.part)} if meta.identity.part is not None else {}),
        "log_position": meta.progress.position,
        "entries": meta.living_entries,
        **_horizon(meta.identity.settings, meta.clock),
        "bytes_on_disk": sum(map(_size_of, path.iterdir())),
        "verdict_settings": meta.identity.settings,
    }


def _horizon(settings: str, clock: Clock) -> dict[str, Any]:
    """Return the length of the horizon, how far event time has come, and the first entry within; {} without one."""
    hours = json.loads(settings).get("index.horizon_hours", 0)
    if not hours:
        return {}
    watermark = None
    if clock.marks:
        # Not fromtimestamp: the log may hold times beyond its range.
        watermark = str(np.datetime64(clock.watermark_ms, "ms")) + "Z"
    return {"horizon_hours": hours, "watermark": watermark, "first_entry": clock.floor}


def _size_of(file: Path) -> int:
    """Return the size of a file; 0 if a running service has just removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
