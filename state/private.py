"""Makes directories and files that only their owner can read, since a state holds addresses."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_READ_OR_ENTER = stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH


def make_directory(path: Path) -> None:
    """Make a directory with mode 0700, whatever the umask; its parents are made as usual. One that is there stays.

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
    path.chmod(DIRECTORY_MODE)  # a umask such as 0777 takes rights from the owner too


def close_files(folder: Path) -> None:
    """Give every file of a folder that others cannot enter mode 0600; a folder that lets others in is left as it is.

    RocksDB makes its files by the umask, and a copy or an archive of a folder keeps the modes of what is in it. What
    cannot be changed stays: some file systems have no modes, and the folder is closed anyway.
    """
    if lets_others_in(folder):
        return
    with suppress(OSError), os.scandir(folder) as found:
        for file in found:
            with suppress(OSError):  # RocksDB removes files at any time.
                if file.is_file(follow_symlinks=False) and file.stat().st_mode & _OTHERS:
                    Path(file.path).chmod(FILE_MODE)


class NewFiles:
    """Closes the files that appear in a folder, at the price of one look at the folder where none has appeared."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed_ns = -1

    def close(self) -> None:
        """Close what has appeared since the last call."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            return  # RocksDB says what is wrong.
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            close_files(self._folder)


def open_file(path: Path, mode: str, buffering: int = -1) -> BinaryIO:
    """Open a file for writing. A new one gets mode 0600, whatever the umask. Raises OSError."""
    return cast("BinaryIO", open(path, mode, buffering, opener=_open))


def _open(name: str, flags: int) -> int:
    return os.open(name, flags, FILE_MODE)


def warning_of(directory: Path, names: Iterable[str]) -> str | None:
    """Say which of these names in a directory others than its owner can read, or None where there is none.

    Nothing is narrowed: a group may read on purpose, as that of a backup or of a Kubernetes volume. Where the directory
    lets nobody else in, what lies in it is closed too.
    """
    open_names = [name for name in names if lets_others_in(directory / name)] if lets_others_in(directory) else []
    if not open_names:
        return None
    shown = " and ".join(open_names)
    return f"{directory}: others than its owner can read {shown}, which holds addresses; chmod -R go-rwx closes it"


def lets_others_in(path: Path) -> bool:
    """Whether others than its owner can read a file, or can read or enter a directory."""
    try:
        return bool(path.stat().st_mode & _OTHERS_READ_OR_ENTER)
    except OSError:
        return False  # It is not there, or we may not look.
