"""Queue of batches that wait for their verdicts, without holding their records where they can be read again.

The records of an uncompressed local file are read a second time when their verdicts arrive (RecordRereader). Other
records are held in memory, and beyond a limit in a temporary file (BatchQueue).
"""

import contextlib
import os
import pickle
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, BinaryIO, Self, cast

from spotsieve.stream.base.errors import InputError, StateError, write_advice
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.compression import compression_of
from spotsieve.stream.files.file_format import content_number
from spotsieve.stream.files.inputs import Input, open_input, unreadable
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.local.batch_reader import FileBatch

_HEAD_BYTES = 8


class RecordRereader:
    """Reads records of an uncompressed local file a second time. Close it at the end."""

    def __init__(self, file: Input) -> None:
        """Raises InputError if the file cannot be opened."""
        self._source = file.source
        self._file, _ = open_input(file)

    @classmethod
    def of(cls, file: Input) -> Self | None:
        """A rereader, or None if the records cannot be read twice cheaply: a pipe, a URL, a compressed file.

        It is also None for a file that cannot be opened, which the first reader reports.
        """
        if file.path is None or not file.path.is_file():
            return None
        with contextlib.suppress(InputError), contextlib.ExitStack() as stack:
            rereader = cls(file)
            stack.callback(rereader.close)
            if compression_of(rereader._read(0, _HEAD_BYTES)) is None:
                stack.pop_all()
                return rereader
        return None

    def has(self, outcome: RecordResult) -> bool:
        """Whether the record of a page can be read again."""
        return isinstance(outcome.result, Page) and outcome.record.span is not None

    def read(self, outcome: RecordResult) -> RecordResult:
        """The outcome with the bytes of its record. Raises InputError if they have changed."""
        record, page = outcome.record, outcome.result
        assert isinstance(page, Page)
        assert record.span is not None
        raw = self._read(*record.span)
        if content_number(raw) != page.partition:
            raise InputError(
                self._source,
                f"must not change during a run, and record {record.number} has changed",
                None,
                "stop writing to inputs during a run; delete backfill/run.json in the state directory, and run again",
            )
        return replace(outcome, record=replace(record, raw=raw))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, start: int, end: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), end - start, start)
        except OSError as error:
            raise unreadable(self._source, error) from None


MOST_HELD_BYTES = 256 * 2**20
"""Limit per input in memory. A file that is read ahead of the judge may be larger than memory."""
_OUTCOME_BYTES = 1024
"""Approximate size of an outcome without its record: its URL and Python objects."""


class BatchQueue:
    """First-in, first-out queue of the batches of one input that wait for their verdicts."""

    def __init__(
        self, file: Input, keep_records: bool, most_bytes: int = MOST_HELD_BYTES, keep_bodies: bool = False
    ) -> None:
        """keep_records: whether the records of pages will be written  most_bytes: limit on records in memory

        keep_bodies: whether the bodies of pages are needed too; those of JSON lines can be decoded again
        """
        self._keep_bodies = keep_bodies
        self._rereader = RecordRereader.of(file) if keep_records else None
        self._keep_records, self._most, self._bytes = keep_records, most_bytes, 0
        self._waiting: deque[tuple[int, FileBatch | int]] = deque()
        self._file: BinaryIO | None = None
        self._in_file = 0
        self._metadata: Any = None

    def put(self, batch: FileBatch) -> None:
        """Add a batch, without the data that only signing needs. Raises StateError if the disk is full."""
        light = list(map(self._light, batch.outcomes))
        places = [outcome.record.place for outcome in light]
        self._metadata = next((place.metadata for place in places if place is not None), self._metadata)
        size = sum(map(_size_of, light))
        # `_light` drops the JSON of a row, and the row's Arrow buffers are about as long.
        size += sum(len(one.record.raw) for one, place in zip(batch.outcomes, places, strict=True) if place is not None)
        batch = replace(batch, outcomes=light)
        if self._bytes + size <= self._most:
            self._bytes += size
            self._waiting.append((size, batch))
            return
        try:
            place = self._to_file(batch)
        except OSError as error:
            raise StateError(
                tempfile.gettempdir(),
                f"must hold the records that wait for their verdicts, and cannot be written: {error.strerror}",
                None,
                f"{write_advice(error)}, or set TMPDIR; then run it again",
            ) from None
        self._waiting.append((0, place))

    def take(self) -> FileBatch:
        """Remove and return the next batch, with its records. Raises InputError if they have changed in their file."""
        size, batch = self._waiting.popleft()
        self._bytes -= size
        if not isinstance(batch, FileBatch):
            batch = self._from_file(batch)
        rereader = self._rereader
        if rereader is None:
            return batch
        outcomes = [rereader.read(outcome) if rereader.has(outcome) else outcome for outcome in batch.outcomes]
        return replace(batch, outcomes=outcomes)

    def close(self) -> None:
        """Drop all batches and close the files."""
        self._waiting.clear()
        for file in (self._file, self._rereader):
            if file is not None:
                file.close()

    def _to_file(self, batch: FileBatch) -> int:
        """Append a batch to the temporary file and return its offset."""
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="spotsieve-"))  # noqa: SIM115 - close() closes it
        place = self._file.seek(0, 2)
        _Pickler(self._file, self._metadata).dump(replace(batch, outcomes=_with_own_rows(batch.outcomes)))
        self._file.flush()
        self._in_file += 1
        return place

    def _from_file(self, place: int) -> FileBatch:
        assert self._file is not None
        self._file.seek(place)
        read: FileBatch = _Unpickler(self._file, self._metadata).load()
        self._in_file -= 1
        if not self._in_file:
            self._file.truncate(0)
        return read

    def _light(self, outcome: RecordResult) -> RecordResult:
        record = outcome.record
        if not isinstance(outcome.result, Page):
            return replace(outcome, record=replace(record, place=None))
        if not self._keep_records or (self._rereader is not None and self._rereader.has(outcome)):
            record = replace(record, raw=b"", place=None, packed=None)
        elif record.place is not None:
            record = replace(record, raw=b"")  # A row is written from its place.
        keeps_body = self._keep_bodies and record.place is not None
        return RecordResult(record, outcome.format, outcome.result if keeps_body else outcome.result._replace(body=b""))


class _Pickler(pickle.Pickler):
    """Pickles batches without the metadata of their Parquet file, which is as large as its footer."""

    def __init__(self, file: BinaryIO, metadata: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._metadata = metadata

    def persistent_id(self, value: object) -> str | None:
        return "metadata" if value is self._metadata and value is not None else None


class _Unpickler(pickle.Unpickler):
    """Unpickles batches of a Parquet file with its metadata."""

    def __init__(self, file: BinaryIO, metadata: Any) -> None:
        super().__init__(file)
        self._metadata = metadata

    def persistent_load(self, _: str) -> Any:
        return self._metadata


def _with_own_rows(outcomes: Sequence[RecordResult]) -> list[RecordResult]:
    """The outcomes with copies of their rows of Parquet, without the other rows of the Arrow batches.

    An Arrow batch may be several times as large as a FileBatch, and pickling a slice writes the whole batch.
    """
    copied = list(outcomes)
    rows = [(number, place) for number, one in enumerate(outcomes) if (place := one.record.place) is not None]
    for _, group in groupby(rows, key=lambda row: id(row[1].batch)):
        numbers, places = zip(*group, strict=True)
        own = places[0].batch.take([place.row for place in places])
        for row, (number, place) in enumerate(zip(numbers, places, strict=True)):
            record = replace(outcomes[number].record, place=replace(place, batch=own, row=row))
            copied[number] = replace(outcomes[number], record=record)
    return copied


def _size_of(outcome: RecordResult) -> int:
    """Approximate size of an outcome in memory, in bytes."""
    record, body = outcome.record, outcome.result.body if isinstance(outcome.result, Page) else b""
    return _OUTCOME_BYTES + len(record.raw) + len(record.packed or b"") + len(body)
