"""Holds batches of records until their verdicts come: first in memory, and what is more in a temporary file."""

import pickle
import tempfile
from collections import deque
from dataclasses import replace
from typing import BinaryIO, cast

from spotsieve.stream.files.reader import Outcome
from spotsieve.stream.local.read_ahead import Batch
from spotsieve.stream.page import Page

MOST_HELD_BYTES = 256 * 2**20
"""Of one input, in memory. A file that is read ahead of the judge may be larger than any memory."""


class HeldBatches:
    """A queue of batches: the first that is put is the first that is taken."""

    def __init__(self, most_bytes: int = MOST_HELD_BYTES) -> None:
        self._most, self._bytes = most_bytes, 0
        self._waiting: deque[tuple[int, Batch | int]] = deque()
        self._file: BinaryIO | None = None
        self._in_file = 0

    def put(self, batch: Batch) -> None:
        """Hold a batch. Raises OSError where the disk for temporary files is full."""
        size = batch.held_bytes
        # Rows of Parquet lie in Arrow's memory, many to a part, and are held as they are.
        if self._bytes + size <= self._most or any(outcome.record.place for outcome in batch.outcomes):
            self._bytes += size
            self._waiting.append((size, batch))
            return
        if self._file is None:
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="spotsieve-"))  # noqa: SIM115 - close() closes it
        place = self._file.seek(0, 2)
        pickle.dump(batch, self._file, pickle.HIGHEST_PROTOCOL)
        self._in_file += 1
        self._waiting.append((0, place))

    def take(self) -> Batch:
        """The next batch."""
        size, batch = self._waiting.popleft()
        self._bytes -= size
        if isinstance(batch, Batch):
            return batch
        assert self._file is not None
        self._file.seek(batch)
        read: Batch = pickle.load(self._file)
        self._in_file -= 1
        if not self._in_file:
            self._file.truncate(0)
        return read

    def close(self) -> None:
        """Let go of all."""
        self._waiting.clear()
        if self._file is not None:
            self._file.close()


def without_bodies(batch: Batch, keep_records: bool) -> Batch:
    """The batch without what signing alone needs. keep_records: whether pages' records are to be written"""
    return replace(batch, outcomes=[_light(outcome, keep_records) for outcome in batch.outcomes])


def _light(outcome: Outcome, keep_record: bool) -> Outcome:
    if not isinstance(outcome.result, Page):
        return outcome
    record = outcome.record if keep_record else replace(outcome.record, raw=b"", place=None)
    return Outcome(record, outcome.layout, outcome.result._replace(body=b""))
