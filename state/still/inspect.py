"""Describes a state directory without owning it, for `spotsieve state info`."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from spotsieve.state.horizon import Clock
from spotsieve.state.store.directory import INDEX_FOLDER
from spotsieve.state.store.rocks_reading import opened_secondary, read_meta
from spotsieve.stream.errors import StateError


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
