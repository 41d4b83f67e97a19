"""Stores a log in a file, for the filter without a broker. Frames hold the records, numbered from 0.

    file   = magic 8 bytes ("SPSVLOG" and version 1), frame*
    frame  = length u32, head check u32, record, record check u64
    head check   = xxh32 of the length's 4 bytes, seeded with the frame's number (its low 32 bits)
    record check = xxh3-64 of the record

All integers are little endian. A crash may cut the last frame short: its head is valid, and bytes after it are missing.
That is a torn tail. Without the head check a damaged length would look the same, and lose all records after it.
"""

import fcntl
import os
import struct
import warnings
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import xxhash

from spotsieve.state.directory import LOG_FILE, make_directory, open_file
from spotsieve.state.format.meta import LOCAL
from spotsieve.stream.base.errors import CorruptRecord, StateError, StateLockedError, write_advice

RECORD_BYTES = 8 * 2**20
"""Greatest size of a record of signatures in a local log."""
MAGIC = b"SPSVLOG\x01"
_HEAD = struct.Struct("<II")
_CHECK = struct.Struct("<Q")


class TornTail(UserWarning):
    """Warns that the last frame of a local log was incomplete and was cut off; its pages were never judged."""


class LocalLog:
    """An append-only log in a directory, owned by one process. Offsets are record numbers."""

    name = LOCAL

    def __init__(self, directory: Path) -> None:
        """Open or create the log. A torn tail is cut off, with a TornTail warning.

        Raises StateLockedError, StateError (not a log, not writable), CorruptRecord (damage before the last frame).
        """
        self.path = directory / LOG_FILE
        self._starts = array("Q")
        try:
            make_directory(directory)
            self._file = open_file(self.path, "a+b", buffering=0)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            self._lock()
            self._end = self._scan()
        except BaseException:
            self._file.close()
            raise

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self._starts)

    def append(self, record: bytes) -> int:
        """Append one record and return its offset. A failed write leaves no part of it. Raises StateError."""
        length = struct.pack("<I", len(record))
        frame = b"".join(
            (
                length,
                struct.pack("<I", xxhash.xxh32_intdigest(length, self.end & 0xFFFFFFFF)),
                record,
                _CHECK.pack(xxhash.xxh3_64_intdigest(record)),
            )
        )
        try:
            written = 0
            while written < len(frame):
                written += self._file.write(frame[written:])
        except OSError as error:
            self._file.truncate(self._end)
            raise _unusable(self.path, error) from None
        self._starts.append(self._end)
        self._end += len(frame)
        return self.end - 1

    def read_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, record) from an offset to the present end. Raises CorruptRecord with the file and place."""
        for number in range(offset, self.end):
            start = self._starts[number]
            stop = self._starts[number + 1] if number + 1 < self.end else self._end
            frame = os.pread(self._file.fileno(), stop - start, start)
            record = frame[_HEAD.size : -_CHECK.size]
            check = _CHECK.pack(xxhash.xxh3_64_intdigest(record))
            if len(frame) != stop - start or frame[-_CHECK.size :] != check:
                raise self._damaged(start, f"record {number} must match its checksum")
            yield number, record

    def sync(self) -> None:
        """Sync the file, so that all records survive a power failure. Raises StateError."""
        try:
            os.fdatasync(self._file.fileno())
        except OSError as error:
            raise _unusable(self.path, error) from None

    def close(self) -> None:
        """Sync and release the log. Closing twice does nothing."""
        if not self._file.closed:
            try:
                self.sync()
            finally:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLockedError(
                "local log",
                "must belong to one process, and another one holds its lock",
                str(self.path),
                "stop the other process, or choose another directory with --state",
            ) from None

    def _scan(self) -> int:
        """Find every frame by its head. Return the end of the valid part of the file."""
        size, handle = os.fstat(self._file.fileno()).st_size, self._file.fileno()
        magic = os.pread(handle, len(MAGIC), 0)
        if magic != MAGIC:
            if not MAGIC.startswith(magic):
                raise StateError(
                    "local log",
                    f"must begin with {MAGIC!r}",
                    str(self.path),
                    "this is no log of this release: choose another directory with --state",
                )
            self._file.truncate(0)
            self._file.write(MAGIC)
            return len(MAGIC)
        at = len(MAGIC)
        while at < size:
            head = os.pread(handle, _HEAD.size, at)
            if len(head) < _HEAD.size:
                return self._cut(at, size)
            length, check = _HEAD.unpack(head)
            if check != xxhash.xxh32_intdigest(head[:4], self.end & 0xFFFFFFFF):
                if not any(os.pread(handle, size - at, at)):
                    return self._cut(at, size)  # after a power failure a file may end in zeros
                raise self._damaged(at, f"the head of record {self.end} must match its checksum")
            end = at + _HEAD.size + length + _CHECK.size
            if end > size or (end == size and not self._is_sound(at, end)):
                return self._cut(at, size)
            self._starts.append(at)
            at = end
        return at

    def _is_sound(self, start: int, end: int) -> bool:
        frame = os.pread(self._file.fileno(), end - start, start)
        check: int = _CHECK.unpack(frame[-_CHECK.size :])[0]
        return check == xxhash.xxh3_64_intdigest(frame[_HEAD.size : -_CHECK.size])

    def _cut(self, at: int, size: int) -> int:
        warnings.warn(
            f"{self.path}: the last {size - at} bytes are an incomplete record {self.end}; they were cut off and its "
            "pages will be judged when they are sent again",
            TornTail,
            stacklevel=4,
        )
        self._file.truncate(at)
        return at

    def _damaged(self, at: int, rule: str) -> CorruptRecord:
        return CorruptRecord(
            str(self.path), at, rule, "restore the log from a copy, or start with another directory (--state)"
        )


def whole_frames(file: BinaryIO) -> tuple[int, int]:
    """Count the complete records of a log file by their heads -> (records, bytes with the magic). The file may grow."""
    places = record_places(file)
    end = places[-1][1] + _CHECK.size if places else len(MAGIC)
    return len(places), min(end, os.fstat(file.fileno()).st_size)


def record_places(file: BinaryIO) -> list[tuple[int, int]]:
    """Return (begin, end) of each complete record of a log file, by the heads of the frames. The file may grow."""
    size, at, places = os.fstat(file.fileno()).st_size, len(MAGIC), list[tuple[int, int]]()
    while at + _HEAD.size <= size:
        file.seek(at)
        head = file.read(_HEAD.size)
        length, check = _HEAD.unpack(head)
        start, end = at + _HEAD.size, at + _HEAD.size + length
        if check != xxhash.xxh32_intdigest(head[:4], len(places) & 0xFFFFFFFF) or end + _CHECK.size > size:
            break
        places.append((start, end))
        at = end + _CHECK.size
    return places


def read_records(path: Path) -> Iterator[tuple[int, bytes, int, int]]:
    """Yield (offset, record, bytes read, bytes in all) of the complete records of a log file.

    Another process may append meanwhile; its new records are not read. Raises StateError, CorruptRecord.
    """
    try:
        with path.open("rb") as file:
            records, size = whole_frames(file)
            file.seek(len(MAGIC))
            for number in range(records):
                length, _ = _HEAD.unpack(file.read(_HEAD.size))
                record, check = file.read(length), file.read(_CHECK.size)
                if check != _CHECK.pack(xxhash.xxh3_64_intdigest(record)):
                    if number == records - 1:
                        return  # A torn tail: the next start of the owner cuts it off.
                    raise CorruptRecord(
                        str(path), number, "must match its checksum", "restore the log from a copy, or start a new one"
                    )
                yield number, record, file.tell(), size
    except OSError as error:
        raise StateError("local log", f"cannot be read: {error.strerror}", str(path), "check its permissions") from None


def _unusable(path: Path, error: OSError) -> StateError:
    return StateError(
        "local log",
        f"must be a file that can grow: {error.strerror}",
        str(path),
        f"{write_advice(error)} or choose another directory with --state, and start again: all judged pages are stored",
    )
