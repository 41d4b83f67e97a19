"""Makes private directories and files, names the parts of a state directory, and puts what is complete in its place.

Only the owner can read these files, because a state holds URLs.
"""

import fcntl
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from spotsieve.stream.base.errors import StateError, write_advice

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_READ_OR_ENTER = stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH


def make_directory(path: Path) -> None:
    """Make a directory with mode 0700, whatever the umask. Its parents get default modes; an existing directory stays.

    Raises OSError.
    """
    try:
        path.mkdir(DIRECTORY_MODE)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(DIRECTORY_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(DIRECTORY_MODE)  # A umask such as 0777 takes rights from the owner too.


def close_files(folder: Path) -> None:
    """Set mode 0600 on every file of a private folder. A folder that other users can enter is left unchanged.

    RocksDB creates files by the umask, and a copied or archived folder keeps the modes of its files. Errors are
    ignored: some file systems have no modes, and the folder is private anyway.
    """
    if lets_others_in(folder):
        return
    with suppress(OSError), os.scandir(folder) as found:
        for file in found:
            with suppress(OSError):  # RocksDB removes files at any time.
                if file.is_file(follow_symlinks=False) and file.stat().st_mode & _OTHERS:
                    Path(file.path).chmod(FILE_MODE)


class NewFiles:
    """Makes new files in a folder private. Without new files a call costs one stat of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = str(folder)
        self._changed_ns = -1

    def close(self) -> None:
        """Make the files private that have appeared since the last call."""
        try:
            changed_ns = os.stat(self._name).st_mtime_ns  # noqa: PTH116 - after each write: a third of Path.stat()
        except OSError:
            return  # RocksDB reports the error.
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            close_files(self._folder)


def open_file(path: Path, mode: str, buffering: int = -1) -> BinaryIO:
    """Open a file for writing. A new one gets mode 0600, whatever the umask. Raises OSError."""
    return cast("BinaryIO", open(path, mode, buffering, opener=_open))


def _open(name: str, flags: int) -> int:
    return os.open(name, flags, FILE_MODE)


def warning_of(directory: Path, names: Iterable[str]) -> str | None:
    """Return a warning that lists the names in a directory that other users can read, or None.

    Modes are not changed, because a group may have access on purpose (a backup, a Kubernetes volume). In a directory
    that other users cannot enter, all files are private.
    """
    open_names = [name for name in names if lets_others_in(directory / name)] if lets_others_in(directory) else []
    if not open_names:
        return None
    shown = " and ".join(open_names)
    return f"{directory}: others than its owner can read {shown}, which holds URLs; chmod -R go-rwx closes it"


def lets_others_in(path: Path) -> bool:
    """Whether users other than the owner can read a file, or can read or enter a directory."""
    try:
        return bool(path.stat().st_mode & _OTHERS_READ_OR_ENTER)
    except OSError:
        return False  # The path does not exist, or we may not read it.


INDEX_FOLDER, LOG_FILE, INPUTS_FILE = "index", "log", "inputs.jsonl"
"""Names in a state directory: the database, and the local log if there is one."""
MANIFEST_FILE = "snapshot.manifest"
"""A directory with this file is a snapshot."""


def is_snapshot(directory: Path) -> bool:
    """Whether a directory is a snapshot, not a state directory."""
    return (directory / MANIFEST_FILE).exists()


def check_no_snapshot(name: str, directory: Path) -> None:
    """Check that a directory that is opened for writing is no snapshot, and not in one. name: of its argument

    Raises StateError.
    """
    check_place(name, directory)
    if is_snapshot(directory):
        then = "restore it with `spotsieve state restore`, and name the restored state"
        raise StateError(name, "must not be a snapshot, which any change makes unusable", str(directory), then)


def check_place(name: str, directory: Path) -> None:
    """Check that a directory for a state or a snapshot is not in a snapshot, nor in the database of a state.

    The folder of a database holds files only, and a snapshot its own files only. name: of its argument
    Raises StateError.
    """
    place = directory.resolve()
    for above in (place, *place.parents):
        if above.name == INDEX_FOLDER and (above / "CURRENT").is_file():
            then = f"did you mean {above.parent}?" if above == place else "name a directory outside of it"
            raise StateError(name, f"must be outside of the database {above} of a state", str(directory), then)
        if above != place and is_snapshot(above):
            rule = f"must be outside of the snapshot {above}, which any change makes unusable"
            raise StateError(name, rule, str(directory), "name a directory outside of it")


@contextmanager
def made_beside(directory: Path, name: str) -> Iterator[Path]:
    """Yield a new folder of this name in a state directory without an index, and remove it at the end.

    Build an index there, then call put_in_place(): the index appears complete or not at all. Raises StateError if the
    directory holds a state, or cannot be written, or if another process builds an index there.
    """
    check_free(directory)
    partial = directory / name
    with directory_errors("--state", "must be a directory that can be written", directory):
        make_directory(directory)
        with _built_alone(directory):
            try:
                check_free(directory)  # Another process may have ended since the first check.
                shutil.rmtree(partial, ignore_errors=True)
                make_directory(partial)
                yield partial
            finally:
                shutil.rmtree(partial, ignore_errors=True)


_BUILD_LOCK = ".building"
_building = set[Path]()
"""The directories that this process builds indexes in: a new shard fetches snapshots into one, then splits them."""


@contextmanager
def _built_alone(directory: Path) -> Iterator[None]:
    """Hold a lock against other processes that build an index in the directory. Raises StateError, OSError."""
    place = directory.resolve()
    if place in _building:
        yield
        return
    path = place / _BUILD_LOCK
    with open_file(path, "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat())
        except BlockingIOError:
            is_ours = False
        if not is_ours:
            rule, then = "must be built by one process at a time, and another one builds it now", "wait until it ends"
            raise StateError("--state", rule, str(directory), f"{then}, or name another directory")
        _building.add(place)
        try:
            yield
        finally:
            _building.remove(place)
            path.unlink(missing_ok=True)


def check_new(name: str, target: Path) -> None:
    """Check that there is no target yet. name: of its argument, for errors  Raises StateError."""
    check_place(name, target)
    if target.exists() or target.is_symlink():
        raise StateError(name, "must not exist yet", str(target), "name a new directory")


@contextmanager
def made_whole(name: str, target: Path) -> Iterator[Path]:
    """Yield a new directory beside the target, which becomes the target at the end of the block, durably.

    After an error there is no target. name: of the argument that names the target, for errors  Raises StateError.
    """
    partial = target.with_name(f"{target.name}.partial-{uuid.uuid4().hex}")
    with directory_errors(name, "must be a directory that can be made", target):
        try:
            make_directory(partial)
            yield partial
            partial.rename(target)
            sync_directory(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def directory_errors(name: str, rule: str, directory: Path, then: str | None = None) -> Iterator[None]:
    """Raise an error of the file system in the block as a StateError about the file, or about the directory.

    then: the next step; None: the advice that fits the error
    """
    try:
        yield
    except OSError as error:
        fits = "check the permissions there" if isinstance(error, PermissionError) else write_advice(error)
        place = str(error.filename or directory)
        raise StateError(name, f"{rule}: {error.strerror or error}", place, then or fits) from None


def put_in_place(index: Path, directory: Path) -> None:
    """Move a complete index into the state directory, where it may replace an empty one. Raises OSError."""
    if (directory / INDEX_FOLDER).is_dir():
        (directory / INDEX_FOLDER).rmdir()
    close_files(index)
    index.rename(directory / INDEX_FOLDER)
    sync_directory(directory)


def check_free(directory: Path) -> None:
    """Check that the directory holds no state. Raises StateError."""
    check_place("--state", directory)
    index = directory / INDEX_FOLDER
    if index.exists() and (not index.is_dir() or any(index.iterdir())):
        raise StateError(
            "--state",
            "must hold no state yet: nothing is overwritten",
            str(directory),
            f"name another directory, or move {index} away",
        )


def readable_by_others(directory: Path) -> str | None:
    """Return a warning with the fix if users other than the owner can read a state, else None."""
    return warning_of(directory, (INDEX_FOLDER, LOG_FILE))


def has_index(path: Path) -> bool:
    """Whether a directory is an index with a database: RocksDB's file CURRENT names its present files."""
    return (path / "CURRENT").exists()


def write_atomically(path: Path, content: bytes, sync: bool = False, private: bool = True) -> None:
    """Write a file atomically: readers see all of it or the earlier file, which an error leaves unchanged.

    sync: the content is on disk before the file has its name
    private: a new file gets mode 0600; otherwise the umask decides
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open_file(partial, "wb") if private else partial.open("wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file atomically, so that it survives a power failure."""
    write_atomically(path, content, sync=True)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Sync the directory, so that its names survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
