"""Holds batches until their verdicts come: their records are read again if that is cheap, else they are held, too.

They are held first in memory, and what is more in a temporary file.

Reads records again when their verdicts come, from an input that lets it, so that nobody holds them meanwhile.
"""

import contextlib
import os
import pickle
import tempfile
from collections import deque
from dataclasses import replace
from typing import BinaryIO, Self, cast

from spotsieve.stream.base.errors import InputError, StateError
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.compression import compression_of
from spotsieve.stream.files.inputs import Input, open_input, unreadable
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.records import content_number
from spotsieve.stream.local.batch_reader import FileBatch

_HEAD_BYTES = 8


class RecordRereader:
    """The records of a file of this machine that is not compressed. Close it at the end."""

    def __init__(self, file: Input) -> None:
        """Raises InputError where it cannot be opened."""
        self._source = file.source
        self._file, _ = open_input(file)

    @classmethod
    def of(cls, file: Input) -> Self | None:
        """None for an input whose records cannot be had twice, or not for little: a pipe, a URL, a compressed file.

        None, too, for a file that cannot be opened: who reads it says why.
        """
        if file.path is None or not file.path.is_file():
            return None
        with contextlib.suppress(InputError), contextlib.ExitStack() as stack:
            again = cls(file)
            stack.callback(again.close)
            if compression_of(again._read(0, _HEAD_BYTES)) is None:
                stack.pop_all()
                return again
        return None

    def has(self, outcome: RecordResult) -> bool:
        """Whether the record of a page can be read again."""
        return isinstance(outcome.result, Page) and outcome.record.span is not None

    def read(self, outcome: RecordResult) -> RecordResult:
        """The outcome with the bytes of its record. Raises InputError where they are other ones by now."""
        record, page = outcome.record, outcome.result
        assert isinstance(page, Page)
        assert record.span is not None
        raw = self._read(*record.span)
        if content_number(raw) != page.partition:
            raise InputError(
                self._source,
                f"must stay as it is while it is read, and record {record.number} has changed",
                None,
                "let nothing write into inputs during a run; delete backfill/run.json in the state directory, and run "
                "again",
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
"""Of one input, in memory. A file that is read ahead of the judge may be larger than any memory."""
_OUTCOME_BYTES = 1024
"""What an outcome takes beside its record: about so much, with its address and the objects of Python."""


class BatchQueue:
    """A queue of the batches of an input: the first that is put is the first that is taken."""

    def __init__(self, file: Input, keep_records: bool, most_bytes: int = MOST_HELD_BYTES) -> None:
        """keep_records: whether pages' records are to be written"""
        self._again = RecordRereader.of(file) if keep_records else None
        self._keep_records, self._most, self._bytes = keep_records, most_bytes, 0
        self._waiting: deque[tuple[int, FileBatch | int]] = deque()
        self._file: BinaryIO | None = None
        self._in_file = 0

    def put(self, batch: FileBatch) -> None:
        """Hold a batch, without what signing alone needs. Raises StateError where that cannot be written."""
        batch = replace(batch, outcomes=list(map(self._light, batch.outcomes)))
        size = sum(map(_size_of, batch.outcomes))
        # Rows of Parquet lie in Arrow's memory, many to a part, and are held as they are.
        if self._bytes + size <= self._most or any(outcome.record.place for outcome in batch.outcomes):
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
                "free disk space there, or set TMPDIR; then run it again",
            ) from None
        self._waiting.append((0, place))

    def take(self) -> FileBatch:
        """The next batch, with its records. Raises InputError where those have changed in their file."""
        size, batch = self._waiting.popleft()
        self._bytes -= size
        if not isinstance(batch, FileBatch):
            batch = self._from_file(batch)
        again = self._again
        if again is None:
            return batch
        outcomes = [again.read(outcome) if again.has(outcome) else outcome for outcome in batch.outcomes]
        return replace(batch, outcomes=outcomes)

    def close(self) -> None:
        """Let go of all."""
        self._waiting.clear()
        for file in (self._file, self._again):
            if file is not None:
                file.close()

    def _to_file(self, batch: FileBatch) -> int:
        """Where it stands in the file."""
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="spotsieve-"))  # noqa: SIM115 - close() closes it
        place = self._file.seek(0, 2)
        pickle.dump(batch, self._file, pickle.HIGHEST_PROTOCOL)
        self._file.flush()
        self._in_file += 1
        return place

    def _from_file(self, place: int) -> FileBatch:
        assert self._file is not None
        self._file.seek(place)
        read: FileBatch = pickle.load(self._file)
        self._in_file -= 1
        if not self._in_file:
            self._file.truncate(0)
        return read

    def _light(self, outcome: RecordResult) -> RecordResult:
        if not isinstance(outcome.result, Page):
            return outcome
        record = outcome.record
        if not self._keep_records or (self._again is not None and self._again.has(outcome)):
            record = replace(record, raw=b"", place=None, packed=None)
        return RecordResult(record, outcome.format, outcome.result._replace(body=b""))


def _size_of(outcome: RecordResult) -> int:
    """Bytes that it takes in memory."""
    record = outcome.record
    return _OUTCOME_BYTES + len(record.raw) + len(record.packed or b"")
