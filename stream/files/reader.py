"""Reads the pages of a file: opens it, detects its compression and format, and decodes its records."""

import select
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Self

from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import GzipMembers, compression_of, read_chunks
from spotsieve.stream.files.file_format import MAX_RECORD_BYTES, FileContent, FileFormat, FileRecord, Intake, Record
from spotsieve.stream.files.foreign_formats import Tally
from spotsieve.stream.files.formats import format_of
from spotsieve.stream.files.inputs import Input, RandomAccess, open_input, unreadable

_MOST_WHITE_SPACE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class RecordResult:
    """A record and its result: a page, a rejection, or None for a record without a page, such as a request."""

    record: Record
    format: FileFormat
    result: Page | PageError | None


class FileReader:
    """Iterates over the records of one input, in order and in bounded memory. Use it as a context.

    Iterating raises InputError for a file of an unsupported format, and for a damaged file after the records before the
    damage.

    before_waiting: called when standard input has no bytes to read, so that the pages read so far can be judged
    bytes_read: bytes of the file, as stored, read so far
    """

    def __init__(
        self,
        file: Input,
        settings: InputSettings,
        max_record_bytes: int = MAX_RECORD_BYTES,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._input = file
        self._max_record_bytes = max_record_bytes
        self._intake = Intake(file.source, settings)
        self._before_waiting = before_waiting
        self._file: BinaryIO | None = None
        self._seeking: BinaryIO | None = None
        self.bytes_read = 0
        self._tally: Tally | None = None

    def __enter__(self) -> Self:
        """Open the file. Raises InputError."""
        self._file, self._intake.written_ms = open_input(self._input)
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, self._seeking):
            if file is not None:
                file.close()

    def read(self, size: int, /) -> bytes:
        """Read the next bytes of the file as stored, and count them for the progress line."""
        if self._file is None:
            raise ValueError("a FileReader is read inside its context")
        if self._input.is_stdin and not select.select([self._file], [], [], 0)[0]:
            self._before_waiting()
        try:
            data = self._file.read(size)
        except OSError as error:
            raise unreadable(self._input.source, error) from None
        self.bytes_read += len(data)
        return data

    def __iter__(self) -> Iterator[RecordResult]:
        members = GzipMembers()
        chunks = read_chunks(self, self._input.source, members)
        beginning, fault = _read_beginning(chunks)
        input_format = format_of(self._input.source, beginning)
        content = FileContent(
            name=self._input.source,
            chunks=_prepend(beginning, chunks, fault),
            members=members,
            open_seeking=self._random_access,
            body_field=self._intake.body_field,
            max_record_bytes=self._max_record_bytes,
        )
        records, written_as = input_format.read(content), input_format.written_as
        self._tally = Tally(self._input.source, beginning, written_as)
        for record in records:
            result = self._result_of(record, written_as)
            if result is not None or not written_as.is_about_page(record.record, self._intake):
                self._tally.count(record.record, result)
            yield RecordResult(record.record, written_as, result)

    def check_read(self) -> None:
        """Check, after the last record, that enough records are pages. Raises InputError if the input was misread."""
        if self._tally is not None:
            self._tally.check()

    def _random_access(self, format_name: str) -> BinaryIO:
        """Open the file for random access. Raises InputError if it is compressed or cannot seek."""
        self.bytes_read = 0
        file = RandomAccess(self._input, self)
        self._seeking = file.as_file()
        if compression_of(file.head) is not None:
            rule = f"is {format_name} compressed with {compression_of(file.head)}, which allows no random access"
            raise InputError(self._input.source, rule, None, "decompress it first")
        return self._seeking

    def _result_of(self, file_record: FileRecord, format_: FileFormat) -> Page | PageError | None:
        fault = file_record.record.fault
        if fault is not None:
            place = f"{self._input.source} record {file_record.record.number}"
            return PageError(fault[0], place, fault[1], None, "look at the file at this place")
        try:
            return format_.decode(file_record, self._intake)
        except PageError as error:
            return error


def pages_of(files: Iterable[Input], settings: InputSettings) -> Iterator[Page]:
    """All pages of files, without rejected records and records without a page. Raises InputError."""
    for file in files:
        with FileReader(file, settings) as reader:
            for outcome in reader:
                if isinstance(outcome.result, Page):
                    yield outcome.result
            reader.check_read()


def _read_beginning(chunks: Iterator[bytes]) -> tuple[bytes, InputError | None]:
    """The first bytes, which show the format, and the error if the file is damaged there.

    Leading white space is skipped up to _MOST_WHITE_SPACE_BYTES: a small file can decompress to any amount of it.
    """
    beginning, head = bytearray(), b""
    try:
        while len(head) < 16 and len(beginning) < _MOST_WHITE_SPACE_BYTES:
            chunk = next(chunks, None)
            if chunk is None:
                break
            beginning += chunk
            head = (head + chunk).lstrip()
    except InputError as error:
        return bytes(beginning), error
    return bytes(beginning), None


def _prepend(beginning: bytes, chunks: Iterator[bytes], fault: InputError | None) -> Iterator[bytes]:
    """The beginning, then the remaining chunks, or the error of the beginning."""
    if beginning:
        yield beginning
    if fault is not None:
        raise fault
    yield from chunks
