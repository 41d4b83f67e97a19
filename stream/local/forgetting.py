"""Forgets pages of a state with a local log: the records are appended to the log, and applied at once."""

from collections.abc import Sequence
from pathlib import Path

from spotsieve.state.directory import LOG_FILE
from spotsieve.state.log.local import LocalLog
from spotsieve.state.log.record import decode
from spotsieve.state.snapshot.snapshots import MANIFEST_FILE
from spotsieve.state.store.rocks import RocksState
from spotsieve.stream.engine import forget
from spotsieve.stream.errors import StateError, StateLockedError
from spotsieve.stream.local.local_engine import open_log
from spotsieve.stream.settings.model import IndexSettings


def open_log_to_forget(directory: Path) -> tuple[LocalLog, list[str]]:
    """Open the log of a state at rest, and return it with its notices.

    Raises StateError if it is a snapshot or has no log, StateLockedError if a running filter holds the log.
    """
    if (directory / MANIFEST_FILE).exists():
        raise StateError(
            "--state",
            "must not be a snapshot of a state with a local log: it would end before the state does",
            str(directory),
            "name the state directory itself",
        )
    if not (directory / LOG_FILE).exists():
        raise StateError(
            "--state", "must hold its local log", str(directory), f"bring the file {LOG_FILE!r} back from a snapshot"
        )
    try:
        return open_log(directory)
    except StateLockedError:
        raise StateLockedError(
            "--state",
            "must not be in use to forget pages of it, and a running spotsieve filter holds its log",
            str(directory),
            "wait until it has ended, then forget them; --dry-run works now",
        ) from None


def append_and_apply(directory: Path, log: LocalLog, records: Sequence[bytes], settings_text: str) -> list[int]:
    """Append records to the log, forget what they name, and return their offsets. Nobody may have the state open.

    A state that is behind its log, after a kill, stays as it is: the next `spotsieve filter` reads on.
    Raises StateError, CorruptRecord.
    """
    first = log.end
    offsets = [log.append(record) for record in records]
    log.sync()
    with RocksState.open(directory, settings_text, LocalLog.name, IndexSettings()) as state:
        if state.position == first:
            for offset, record in zip(offsets, records, strict=True):
                forget(state, decode(record, LocalLog.name, offset), offset)
    return offsets
