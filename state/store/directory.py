"""Names what lies in a state directory, and puts a new index there, whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spotsieve.state.log.local import LOG_FILE
from spotsieve.state.private import close_files, make_directory, open_file, warning_of
from spotsieve.stream.errors import StateError

INDEX_FOLDER = "index"
"""Name of the database inside the state directory; a local log lies beside it."""


@contextmanager
def made_beside(directory: Path, name: str) -> Iterator[Path]:
    """Give a new folder of this name in a state directory that has no index. At the end it is gone again.

    What is made there and then put in place appears whole or not at all. Raises StateError if the directory holds a
    state, or cannot be written.
    """
    check_free(directory)
    partial = directory / name
    try:
        make_directory(directory)
        shutil.rmtree(partial, ignore_errors=True)
        make_directory(partial)
        yield partial
    except OSError as error:
        raise StateError(
            "--state",
            f"must be a directory that can be written: {error.strerror}",
            str(error.filename or directory),
            "check the permissions and the free space there",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def put_in_place(index: Path, directory: Path) -> None:
    """Make a whole index the one of the state directory, which may hold an empty one. Raises OSError."""
    if (directory / INDEX_FOLDER).is_dir():
        (directory / INDEX_FOLDER).rmdir()
    close_files(index)
    index.rename(directory / INDEX_FOLDER)
    sync_directory(directory)


def check_free(directory: Path) -> None:
    """Check that the directory holds no state. Raises StateError."""
    index = directory / INDEX_FOLDER
    if index.exists() and (not index.is_dir() or any(index.iterdir())):
        raise StateError(
            "--state",
            "must hold no state yet: nothing is overwritten",
            str(directory),
            f"name another directory, or move {index} away",
        )


def readable_by_others(directory: Path) -> str | None:
    """Say whether others than its owner can read a state, and what closes it; None where they cannot."""
    return warning_of(directory, (INDEX_FOLDER, LOG_FILE))


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and return when it would survive a power failure."""
    with open_file(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Return when the names in the directory would survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
