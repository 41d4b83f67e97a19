"""Reads an input here and there, as Parquet and zip need it, and counts the bytes that were read."""

import io
import os
from typing import BinaryIO, Protocol, cast

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.inputs import Input, open_input_seeking, unreadable

_HEAD_BYTES = 8


class Counts(Protocol):
    """What knows how many bytes of an input were read, for the progress line."""

    bytes_read: int


class RandomAccess(io.RawIOBase):
    """An input from its beginning. Reading raises InputError. head: its first bytes, as stored"""

    def __init__(self, file: Input, counts: Counts) -> None:
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
