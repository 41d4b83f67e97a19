"""Reads records again when their verdicts come, from an input that lets it, so that nobody holds them meanwhile."""

import contextlib
import os
from dataclasses import replace
from typing import Self

from spotsieve.stream.errors import InputError
from spotsieve.stream.files.compression import compression_of
from spotsieve.stream.files.inputs import Input, open_input, unreadable
from spotsieve.stream.files.reader import RecordResult
from spotsieve.stream.files.records import content_number
from spotsieve.stream.page import Page

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
