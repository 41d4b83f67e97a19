"""Names the inputs of a run, and opens them: paths, URLs and standard input, from the beginning or at any place."""

import io
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.files.remote import RemoteFile, is_url, local_name, shown_url

STDIN = "-"
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read, or standard input.

    path: of a local file, else None  source: the first part of its pages' ids; size: bytes as stored, or None
    url: of a remote file, else ""
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
        """Its absolute path, its URL, or "-": what an output of the same place has, too."""
        return self.url or (STDIN if self.path is None else str(self.path))


def check_inputs(names: Sequence[str], stdin_name: str = STDIN) -> list[Input]:
    """The inputs of these names, each once; "-" is standard input. Raises InputError for a file that cannot be opened,
    and where two of them would give equal ids, such as URLs that differ in their query alone.

    A page's id begins with its file's absolute path, so that the same file is the same source from any directory; or
    with its URL, without what may be a secret there.
    """
    inputs = dict[str, Input]()
    for name in dict.fromkeys(names):
        for found in _inputs_of(name, stdin_name):
            # One that is named twice would have its novel pages written twice.
            other = inputs.setdefault(found.source, found)
            if found.place != other.place:
                rule = "must be the one input of this name: ids of pages hold it, without the query of a URL"
                raise InputError(found.source, rule, None, "save both as files of different names")
    return list(inputs.values())


def total_bytes(inputs: Sequence[Input]) -> int | None:
    """The size of all files as stored; None if one of them has no known size."""
    sizes = [file.size for file in inputs]
    return None if None in sizes else sum(filter(None, sizes))


def open_input(file: Input) -> tuple[BinaryIO, int]:
    """The file, and the time when it was written, in ms; for standard input the time now. Raises InputError.

    That time replaces a missing fetch time and is an upper bound for the others, so reading a file again gives the same
    times.
    """
    if file.url:
        remote = RemoteFile(file.url, InputError)
        return remote.open_to_read(), remote.written_ms()
    try:
        if file.path is None:
            # Unbuffered: a read returns what a pipe holds, and does not wait for a full buffer.
            return os.fdopen(os.dup(0), "rb", buffering=0), int(time.time() * 1000)
        return file.path.open("rb"), int(file.path.stat().st_mtime * 1000)
    except OSError as error:
        raise unreadable(file.source, error) from None


def open_input_seeking(file: Input) -> BinaryIO:
    """The file once more, to be read here and there. Raises InputError."""
    if file.url:
        return RemoteFile(file.url, InputError).open_to_read(seeking=True)
    return open_input(file)[0]


def unreadable(name: str, error: OSError) -> InputError:
    """The error of a file that cannot be opened, or read on."""
    if isinstance(error, IsADirectoryError):
        then = f"name the files in it, such as {Path(name) / '*.warc.gz'}"
    elif name == STDIN:
        then = "pipe pages into it, or name their files"
    else:
        then = "check the path and the disk"
    return InputError(name, f"cannot be read: {error.strerror}", None, then)


class ByteCounter(Protocol):
    """What knows how many bytes of an input were read, for the progress line."""

    bytes_read: int


class RandomAccess(io.RawIOBase):
    """An input from its beginning. Reading raises InputError. head: its first bytes, as stored"""

    def __init__(self, file: Input, counts: ByteCounter) -> None:
        """Raises InputError where it cannot be read here and there, as a pipe."""
        self._name = file.source
        self._counts = counts
        self._file = open_input_seeking(file)
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.seek(0)
            self.head = self._file.read(_HEAD_BYTES)
        except (OSError, ValueError):
            self._file.close()
            rule = "must be a file that can be read from its end, as Parquet and zip are, and is read as it comes"
            raise InputError(self._name, rule, None, "save it as a file, and name that") from None

    def as_file(self) -> BinaryIO:
        """The same, as libraries type it."""
        return cast("BinaryIO", self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The present place."""
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; all of the rest for -1."""
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
        yield Input(None, _as_utf8(stdin_name), None)
    elif is_url(name):
        for url in RemoteFile(name, InputError).expand():
            yield Input(None, _as_utf8(shown_url(url)), RemoteFile(url, InputError).size(), url)
    else:
        given = Path(local_name(name))
        path = given.resolve()
        try:
            if stat.S_ISFIFO(given.stat().st_mode):
                # It can be opened once alone, and its name says nothing of what comes out of it.
                raise InputError(name, "must be a file, and is a pipe", None, "pipe it into standard input, named -")
            with path.open("rb") as file:
                yield Input(path, _as_utf8(str(path)), os.fstat(file.fileno()).st_size or None)
        except OSError as error:
            raise unreadable(name, error) from None


def _as_utf8(name: str) -> str:
    """The name with escapes for bytes that are no UTF-8, since page ids are UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
