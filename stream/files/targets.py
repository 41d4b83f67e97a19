"""Where an output goes: a file or a URL, which gets its name when it is complete, or a pipe, written directly."""

import errno
import os
import sys
from pathlib import Path
from typing import BinaryIO, Protocol

from spotsieve.state.directory import open_file
from spotsieve.stream.base.errors import SettingError, StateError
from spotsieve.stream.files.remote import RemoteFile, is_url, local_name

PARTIAL = ".partial"
STDOUT = "-"
_BUFFER_BYTES = 2**20
"""Before they are written. A page of 15 KB that is written by itself takes 15 us, and as a part of so many 6 us."""
_FREE = "free disk space, and run again: a --state repeats its verdicts"


class Target(Protocol):
    """A place for one output.

    file: what is open there  watched: somebody may look at what is written so far  next_step: where that fails
    """

    file: BinaryIO
    watched: bool
    next_step: str

    def close(self) -> None:
        """Close what is open. Raises OSError."""

    def name_it(self) -> None:
        """Give it its name: it is complete. Raises OSError."""

    def discard(self) -> None:
        """Remove it: nothing of use is in it. Raises OSError."""

    @property
    def left(self) -> Path | None:
        """Where it lies before it is complete, or None."""


def target_of(name: str, stdout: BinaryIO | None, private: bool = False) -> Target:
    """Open the place of this name; a file that is private gets mode 0600, whatever the umask.

    Raises SettingError if it cannot be written.
    """
    if name == STDOUT:
        return _Direct(stdout or sys.stdout.buffer, owned=False)
    if is_url(name):
        return _Remote(name)
    path = Path(local_name(name))
    try:
        if _is_written_directly(path):
            return _Direct(path.open("wb"), owned=True)
        return _Local(path, private)
    except OSError as error:
        raise _unwritable(name, error) from None


def _unwritable(name: str, error: OSError) -> SettingError:
    return SettingError(name, f"cannot be written: {error.strerror}", None, "check the directory and its permissions")


def write_error(name: str, error: OSError, target: Target) -> StateError:
    """The error of an output that cannot be written on. Arrow's errors have no strerror. name: as it is shown"""
    return StateError(name, f"cannot be written: {error.strerror or error}", None, target.next_step)


def place_of(name: str) -> str:
    """The place of an input or an output: its absolute path, or its URL. Equal places have equal names."""
    if is_url(name):
        return name.rstrip("/")
    return name if name == STDOUT else str(Path(local_name(name)).resolve())


def places_of(name: str) -> tuple[str, ...]:
    """The places that an output of this name takes: its own, and that of NAME.partial until it is complete.

    Standard output has its own alone. A pipe or a device has none: anybody may write there.
    """
    if name == STDOUT:
        return (STDOUT,)
    if not is_url(name) and _is_written_directly(Path(local_name(name))):
        return ()
    return place_of(name), place_of(name + PARTIAL)


def _is_written_directly(path: Path) -> bool:
    """Whether a path is a pipe or a device."""
    return path.exists() and not path.is_file()


def output_exists(name: str) -> bool:
    """Whether a file of this name is there already; pipes and devices are none.

    Raises SettingError for a wrong URL, and for a name that no file can have.
    """
    if is_url(name):
        return RemoteFile(name, SettingError).exists()
    try:
        return name != STDOUT and Path(local_name(name)).is_file()
    except OSError as error:
        raise _unwritable(name, error) from None


class _Direct:
    """Standard output, a pipe, or /dev/null."""

    left = None
    watched = True
    next_step = _FREE

    def __init__(self, file: BinaryIO, *, owned: bool) -> None:
        self.file = file
        self._owned = owned

    def close(self) -> None:
        try:
            self.file.flush()
        finally:
            if self._owned:
                self.file.close()

    def name_it(self) -> None:
        pass

    def discard(self) -> None:
        pass


class _Local:
    """A file that is NAME.partial until it is complete.

    A process of an earlier run may still have that run's NAME.partial open, if it hung while the run was killed. So
    this one is a new file, and what that process writes goes nowhere.
    """

    watched = True
    next_step = _FREE

    def __init__(self, path: Path, private: bool) -> None:
        self._path = path
        self.left = path.with_name(path.name + PARTIAL)
        self.left.unlink(missing_ok=True)
        self.file: BinaryIO = (
            open_file(self.left, "wb", _BUFFER_BYTES) if private else self.left.open("wb", _BUFFER_BYTES)
        )
        self._opened = os.fstat(self.file.fileno())

    def close(self) -> None:
        self.file.close()

    def name_it(self) -> None:
        if not self._is_own():
            raise FileExistsError(errno.EEXIST, "another run writes it by now")
        self.left.replace(self._path)

    def discard(self) -> None:
        if self._is_own():
            self.left.unlink(missing_ok=True)

    def _is_own(self) -> bool:
        """Whether NAME.partial is the file that was opened here."""
        return self.left.exists() and os.path.samestat(self._opened, self.left.stat())


class _Remote:
    """The same behind a URL. An object store copies and removes where a disk renames."""

    left = None
    watched = False
    next_step = "check the server and your access to it, and run again: a --state repeats its verdicts"

    def __init__(self, url: str) -> None:
        self._remote = RemoteFile(url, SettingError)
        self.file = self._remote.open_to_write(PARTIAL)

    def close(self) -> None:
        self.file.close()

    def name_it(self) -> None:
        self._remote.rename_from(PARTIAL)

    def discard(self) -> None:
        self._remote.remove(PARTIAL)
