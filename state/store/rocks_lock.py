"""Holds the lock that RocksDB takes of a database, so that nobody opens the database meanwhile."""

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotsieve.stream.errors import StateLocked


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the database at this path. Raises StateLocked if another process holds it.

    The lock belongs to the process. A process that has the database open itself must not call this: it would lose its
    lock.
    """
    try:
        handle = (path / "LOCK").open("r+b")
    except FileNotFoundError:
        yield  # A snapshot: nobody works on it.
        return
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES}:
            raise
        yield  # We may not write it, so nobody with our rights works on it.
        return
    with handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StateLocked(
                "directory",
                "must not be in use, and a running process holds its lock",
                str(path.parent),
                "stop that process, or take a snapshot of it (spotsieve state snapshot) and verify the snapshot",
            ) from None
        yield
