"""Opens the target of an output: a file or URL that gets its name when it is complete, or a pipe."""

import errno
import os
import sys
from pathlib import Path
from typing import BinaryIO, Protocol

from spotsieve.state.directory import open_file
from spotsieve.stream.base.errors import SettingError, StateError, write_advice
from spotsieve.stream.files.remote import RemoteFile, is_url, local_name, shown_url

PARTIAL = ".partial"
STDOUT = "-"
_BUFFER_BYTES = 2**20
"""Bytes buffered before a write. A page of 15 KB takes 15 us if it is written alone, and 6 us in such a buffer."""
_NAME_A_FILE = "add the name of a file"
SAME_VERDICTS = ": with the same --state, pages get the same verdicts"
"""What the advice says besides, for outputs of judged pages."""


class Target(Protocol):
    """The target of one output.

    file: the open file
    watched: whether a reader may look at the bytes written so far
    next_step: the advice of the error if a write fails; empty: the advice for its error number
    """

    file: BinaryIO
    watched: bool
    next_step: str

    def close(self) -> None:
        """Close the file. Raises OSError."""

    def finish(self) -> None:
        """Rename the complete file to its name. Raises OSError."""

    def discard(self) -> None:
        """Remove the file. Raises OSError."""

    @property
    def left(self) -> Path | None:
        """The path of the incomplete file; None without one."""


def target_of(name: str, stdout: BinaryIO | None, private: bool = False) -> Target:
    """Open the target of this name. Raises SettingError if it cannot be written.

    stdout: replaces standard output
    private: whether a file gets mode 0600, independent of the umask
    """
    if name == STDOUT:
        return _Direct(stdout or sys.stdout.buffer, owned=False)
    if name.endswith("/"):
        raise SettingError(shown_url(name), "must be a file, and this is the name of a directory", None, _NAME_A_FILE)
    if is_url(name):
        return _Remote(name)
    path = Path(local_name(name))
    try:
        if _is_written_directly(path):
            return _Direct(path.open("wb"), owned=True)
        return _Local(path.resolve(), private)
    except OSError as error:
        raise _unwritable(name, error) from None


def _unwritable(name: str, error: OSError) -> SettingError:
    return SettingError(name, f"cannot be written: {error.strerror}", None, "check the directory and its permissions")


def write_error(name: str, error: OSError, target: Target, judged: bool) -> StateError:
    """The StateError for an output that cannot be written.

    name: the name in messages  judged: whether the output is of judged pages
    """
    then = (target.next_step or f"{write_advice(error)}, and run again") + (SAME_VERDICTS if judged else "")
    # Errors of Arrow have no strerror.
    return StateError(name, f"cannot be written: {error.strerror or error}", None, then)


def place_of(name: str) -> str:
    """The absolute path or the URL of an input or output. Two names of one place have the same result."""
    if is_url(name):
        return name.rstrip("/")
    return name if name == STDOUT else str(Path(local_name(name)).resolve())


def places_of(name: str) -> tuple[str, ...]:
    """The places that an output of this name occupies: its own place, and NAME.partial until it is complete.

    Standard output occupies only its own place. A pipe or device occupies none, because several outputs may share it.
    """
    if name == STDOUT:
        return (STDOUT,)
    if not is_url(name) and _is_written_directly(Path(local_name(name))):
        return ()
    return place_of(name), place_of(name) + PARTIAL


def _is_written_directly(path: Path) -> bool:
    """Whether a path is a pipe or a device."""
    return path.exists() and not path.is_file()


def output_exists(name: str) -> bool:
    """Whether a file of this name exists. Pipes and devices do not count.

    Raises SettingError for an invalid URL or file name.
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
    next_step = ""

    def __init__(self, file: BinaryIO, *, owned: bool) -> None:
        self.file = file
        self._owned = owned

    def close(self) -> None:
        try:
            self.file.flush()
        finally:
            if self._owned:
                self.file.close()

    def finish(self) -> None:
        pass

    def discard(self) -> None:
        pass


class _Local:
    """A file that is named NAME.partial until it is complete. A symbolic link stays, and its target is written.

    A hung process of an earlier, killed run may still have that run's NAME.partial open. So each run creates a new file
    (a new inode), and writes of the hung process do not reach it.
    """

    watched = True
    next_step = ""

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

    def finish(self) -> None:
        if not self._is_own():
            raise FileExistsError(errno.EEXIST, "another run has started to write it")
        self.left.replace(self._path)

    def discard(self) -> None:
        if self._is_own():
            self.left.unlink(missing_ok=True)

    def _is_own(self) -> bool:
        """Whether NAME.partial is the file that was opened here."""
        return self.left.exists() and os.path.samestat(self._opened, self.left.stat())


class _Remote:
    """A remote file that is named NAME.partial until it is complete. Object stores rename by copying and removing."""

    left = None
    watched = False
    next_step = "check the server and your access to it, and run again"

    def __init__(self, url: str) -> None:
        self._remote = RemoteFile(url, SettingError)
        if self._remote.is_directory():  # The driver would move the complete file into it, as NAME.partial.
            raise SettingError(shown_url(url), "must be a file, and is a directory", None, _NAME_A_FILE)
        self.file = self._remote.open_to_write(PARTIAL)

    def close(self) -> None:
        self.file.close()

    def finish(self) -> None:
        self._remote.rename_from(PARTIAL)

    def discard(self) -> None:
        self._remote.remove(PARTIAL)
