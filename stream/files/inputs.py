"""Resolves the inputs of a run (paths, URLs, standard input) and opens them for sequential or random access."""

import io
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.terminal import as_utf8
from spotsieve.stream.files.remote import RemoteFile, is_url, local_name, shown_url

STDIN = "-"
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read, or standard input.

    path: the path of a local file; otherwise None
    source: the first part of its pages' ids
    size: bytes as stored; None if unknown
    url: the URL of a remote file; otherwise ""
    """

    path: Path | None
    source: str
    size: int | None
    url: str = ""

    @property
    def is_stdin(self) -> bool:
        """Whether it is standard input."""
        return self.path is None and not self.url

    @property
    def place(self) -> str:
        """Its absolute path, its URL, or "-" for standard input. An output at the same place has the same value."""
        return self.url or (STDIN if self.path is None else str(self.path))


def check_inputs(names: Sequence[str], stdin_name: str = STDIN) -> list[Input]:
    """The inputs of these names, without repetitions; "-" is standard input.

    A page's id begins with the absolute path of its file, which is the same from any working directory, or with its URL
    without user, password, query and fragment, which may be secrets.

    Raises InputError for a file that cannot be opened, and for two files whose pages would have equal ids, such as URLs
    that differ only in their queries.
    """
    inputs = dict[str, Input]()
    for name in dict.fromkeys(names):
        for resolved in _inputs_of(name, stdin_name):
            # Reading a file twice would write its novel pages twice.
            other = inputs.setdefault(resolved.source, resolved)
            if resolved.place != other.place:
                rule = "is the name of two inputs (without the query of a URL), and page ids need different names"
                raise InputError(resolved.source, rule, None, "save both as files with different names")
    return list(inputs.values())


def total_bytes(inputs: Sequence[Input]) -> int | None:
    """The total size of the files as stored; None if the size of one is unknown."""
    sizes = [file.size for file in inputs]
    return None if None in sizes else sum(filter(None, sizes))


def open_input(file: Input) -> tuple[BinaryIO, int]:
    """The opened file, and the time when it was written, in ms since the epoch; for standard input the current time.

    That time replaces a missing fetch time and is an upper bound for the others. So reading a file again gives the same
    times. Raises InputError.
    """
    if file.url:
        remote = RemoteFile(file.url, InputError)
        return remote.open_to_read(), remote.written_ms()
    try:
        if file.path is None:
            # Unbuffered: a read returns the bytes in the pipe at once and does not wait for a full buffer.
            return os.fdopen(os.dup(0), "rb", buffering=0), int(time.time() * 1000)
        return file.path.open("rb"), int(file.path.stat().st_mtime * 1000)
    except OSError as error:
        raise unreadable(file.source, error) from None


def open_input_seeking(file: Input) -> BinaryIO:
    """The file, opened for random access. Raises InputError."""
    if file.url:
        return RemoteFile(file.url, InputError).open_to_read(seeking=True)
    return open_input(file)[0]


def unreadable(name: str, error: OSError) -> InputError:
    """The InputError for a file that cannot be opened or read."""
    if isinstance(error, IsADirectoryError):
        then = f"name its files, such as {Path(name) / '*.warc.gz'}"
    elif is_url(name):
        then = "check the URL, its server and your access to it"
    elif name == STDIN:
        then = "pipe pages into standard input, or name files"
    else:
        then = "check the path and the disk"
    return InputError(name, f"cannot be read: {error.strerror}", None, then)


class ByteCounter(Protocol):
    """The number of bytes read from an input, for the progress line."""

    bytes_read: int


class RandomAccess(io.RawIOBase):
    """An input opened for random access. Reading raises InputError. head: its first bytes as stored"""

    def __init__(self, file: Input, counts: ByteCounter) -> None:
        """Open the input. Raises InputError if it has no random access, such as a pipe."""
        self._name = file.source
        self._counts = counts
        self._file = open_input_seeking(file)
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
            self.head = self._file.read(_HEAD_BYTES)
        except (OSError, ValueError):
            self._file.close()
            rule = "cannot be read at any position, which Parquet and zip archives need"
            raise InputError(self._name, rule, None, "save it as a file, and name that file") from None

    def as_file(self) -> BinaryIO:
        """The same object, with the type that libraries expect."""
        return cast("BinaryIO", self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Set the position."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The current position."""
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        """Read at most size bytes; the rest of the file for -1."""
        try:
            data = self._file.read(size)
        except OSError as error:
            raise unreadable(self._name, error) from None
        self._counts.bytes_read += len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()


def _inputs_of(name: str, stdin_name: str) -> Iterator[Input]:
    if name == STDIN:
        yield Input(None, as_utf8(stdin_name), None)
    elif is_url(name):
        for url in RemoteFile(name, InputError).expand():
            yield Input(None, as_utf8(shown_url(url)), RemoteFile(url, InputError).size(), url)
    else:
        local = Path(local_name(name))
        path = local.resolve()
        try:
            if stat.S_ISFIFO(local.stat().st_mode):
                # A pipe can be opened only once, and its name does not identify its content.
                raise InputError(name, "is a pipe and not a file", None, "pipe it into standard input, named -")
            with path.open("rb") as file:
                yield Input(path, as_utf8(str(path)), os.fstat(file.fileno()).st_size or None)
        except OSError as error:
            raise unreadable(name, error) from None
