"""Owns looking at a state directory without owning it: what it holds, for `spotsieve state info`."""

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rocksdict import AccessType, Rdict

from spotsieve.state.format import layouts as formats
from spotsieve.state.horizon import Clock
from spotsieve.state.store.rocks import DIRECTORY, IDENTITY, MARKS, PROGRESS
from spotsieve.state.store.rocks_errors import rocks_errors
from spotsieve.state.store.rocks_options import column_families, database_options
from spotsieve.stream.errors import StateError


def describe(directory: Path) -> dict[str, Any]:
    """Entries, log position, log name, size and settings of a state; a running service may own it meanwhile.

    With a horizon entries are those within it, and it says how far event time has come.
    What that service has filed just now may be missing. Raises StateError where there is no state, CorruptRecord.
    """
    path = directory / DIRECTORY
    if not (path / "CURRENT").exists():
        raise StateError(
            "directory", "must hold a state", str(directory), "name the directory given as index.directory"
        )
    # As a secondary: opening for reading only ends the process (a segmentation fault) where the manifest lists
    # write-ahead logs, in RocksDB 9.8 as in 9.9 (facebook/rocksdb issue 13235).
    with ExitStack() as closing:
        scratch = closing.enter_context(TemporaryDirectory(prefix="spotsieve-"))
        with rocks_errors(directory, "read"):
            database = Rdict(str(path), database_options(), column_families(None), AccessType.secondary(scratch))
        closing.callback(database.close)
        identity, progress, marks = (database.get(name) for name in (IDENTITY, PROGRESS, MARKS))
        if not isinstance(identity, bytes) or not isinstance(progress, bytes):
            raise StateError(
                "directory", "holds no identity: its first start did not finish", str(directory), "delete it"
            )
        state_format, settings, log_name = formats.decode_identity(identity)
        decoded = formats.decode_progress(progress)
        clock = formats.decode_clock(decoded, marks if isinstance(marks, bytes) else None)
    return {
        "format": state_format,
        "log": log_name,
        "log_position": decoded.position,
        "entries": decoded.entry_count - clock.floor,
        **_horizon(settings, clock),
        "bytes_on_disk": sum(map(_size_of, path.iterdir())),
        "verdict_settings": settings,
    }


def _horizon(settings: str, clock: Clock) -> dict[str, Any]:
    """With a horizon: how long it is, how far event time has come, and the number of the first entry within it."""
    hours = json.loads(settings).get("index.horizon_hours", 0)
    if not hours:
        return {}
    watermark = None
    if clock.marks:
        # Not fromtimestamp: times of the log may lie beyond what it takes.
        watermark = str(np.datetime64(clock.watermark_ms, "ms")) + "Z"
    return {"horizon_hours": hours, "watermark": watermark, "first_entry": clock.floor}


def _size_of(file: Path) -> int:
    """Bytes of a file; 0 where a running service has just removed it."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
