"""Translates RocksDB's messages into our errors, and takes RocksDB's lock of a database.

rocksdict raises plain Exception, and only the text says what happened. This is the only module that parses it.
"""

import errno
import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import DbClosedError

from spotsieve.state.directory import INDEX_FOLDER
from spotsieve.state.store.rocks_options import most_open_files
from spotsieve.stream.base.errors import CorruptRecord, StateError, StateLockedError, write_advice

_PLACE = re.compile(r"in \S*?([0-9]+\.sst) offset ([0-9]+)")
_DAMAGE = ("corruption", "no such file", "column family not found", "column families not opened")
_NO_ROOM = {"no space left": errno.ENOSPC, "disk quota": errno.EDQUOT, "file too large": errno.EFBIG}
REBUILD = (
    "restore it from a snapshot (spotsieve state restore), or rebuild the state from the log: delete its index "
    "directory and start"
)


class rocks_errors:  # noqa: N801 - used like a function: with rocks_errors(directory, "read"):
    """Translate errors of RocksDB. action: open, read, write or close. Raises StateError, CorruptRecord.

    A class, because a generator would cost a tenth of a read.
    """

    __slots__ = ("_action", "_directory")

    def __init__(self, directory: Path, action: str) -> None:
        self._directory, self._action = directory, action

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is not None:
            self._translate(error)

    def _translate(self, error: BaseException) -> None:
        """Raise the error for an exception of RocksDB's binding; do nothing for any other."""
        if isinstance(error, DbClosedError):
            raise StateError("index.directory", "is closed", str(self._directory), "open the state again") from None
        if isinstance(error, UnicodeEncodeError):
            raise StateError(
                "index.directory",
                "must have a path in UTF-8, because RocksDB's binding takes no other",
                str(self._directory),
                "choose another with index.directory or --state",
            ) from None
        if isinstance(error, PermissionError) or type(error) is Exception:
            raise explain(str(error), self._directory, self._action) from None


def explain(text: str, directory: Path, action: str) -> StateError:
    """Return the error for a message of RocksDB. action: open, read, write or close"""
    lower = text.lower()
    if action == "open" and "lock" in lower and ("unavailable" in lower or "held" in lower or "hold" in lower):
        return StateLockedError(
            "index.directory",
            "must belong to one process, and another one holds its lock",
            str(directory),
            "stop the other process, or choose another directory with index.directory or --state",
        )
    full = next((number for phrase, number in _NO_ROOM.items() if phrase in lower), None)
    if full is not None:
        advice = write_advice(OSError(full, text))
        return StateError(
            "index.directory",
            f"must have room to grow ({text})",
            str(directory),
            f"{advice} and start again: the state is intact and continues from the log where it stopped",
        )
    if "permission denied" in lower:
        return StateError(
            "index.directory",
            f"cannot be used to {action} the state by this user ({text})",
            str(directory),
            "run this as the owner of the directory, or ask the owner for the right to read and write it",
        )
    if "read-only file system" in lower:
        return StateError(
            "index.directory",
            f"must be on a file system that can be written ({text})",
            str(directory),
            "make the file system writable, or choose another directory with index.directory or --state",
        )
    if "too many open files" in lower:
        return StateError(
            "index.directory",
            f"must be able to open its files, {most_open_files()} at a time ({text})",
            str(directory),
            "raise the limit of open files (ulimit -n, LimitNOFILE of systemd, --ulimit nofile of Docker) and start "
            "again: the state is intact",
        )
    if any(word in lower for word in _DAMAGE):
        return corrupt(text, directory)
    return StateError(
        "index.directory",
        f"cannot be used to {action} the state ({text})",
        str(directory),
        "check the disk and the permissions, or delete the directory to rebuild the state from the log",
    )


def corrupt(text: str, directory: Path) -> CorruptRecord:
    """Return the error for damage. It names the table file and the offset of the block if the message has them."""
    place = _PLACE.search(text)
    if place is None:
        return CorruptRecord("index", str(directory), f"must be whole, but RocksDB says: {text.strip()}", REBUILD)
    name, offset = place.groups()
    # RocksDB names the copy of the table that it read, which may be of a checkpoint and gone soon.
    table, rule = str(directory / INDEX_FOLDER / name), f"must match its checksum, but RocksDB says: {text}"
    return CorruptRecord(table, int(offset), rule, REBUILD)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the database at this path. Raises StateLockedError if another process holds it.

    The lock belongs to the process. A process that has the database open must not call this: it would lose its lock.
    """
    try:
        handle = (path / "LOCK").open("r+b")
    except FileNotFoundError:
        yield  # A snapshot: no process owns it.
        return
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES}:
            raise
        yield  # We may not write it, so no process with our rights owns it.
        return
    with handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateLockedError(
                "directory",
                "must not be in use, and a running process holds its lock",
                str(path.parent),
                "stop that process, or take a snapshot of it (spotsieve state snapshot) and verify the snapshot",
            ) from None
        yield
