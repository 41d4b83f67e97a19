"""Reads a file as pages: it opens the file, finds out its compression and layout, and decodes its records."""

import importlib.util
import re
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import xxhash

from spotsieve.stream.errors import InputError, PageError
from spotsieve.stream.files.compression import Members, compression_of, read_chunks
from spotsieve.stream.files.inputs import Input, open_input, unreadable
from spotsieve.stream.files.jsonlines import split_lines
from spotsieve.stream.files.misread import Tally, foreign_format
from spotsieve.stream.files.random_access import RandomAccess
from spotsieve.stream.files.records import MAX_RECORD_BYTES, Layout, Record
from spotsieve.stream.files.warc import capture_of, split_warc
from spotsieve.stream.files.warc.wacz import is_zip, split_wacz
from spotsieve.stream.intake import Acceptance, Decoder, Message, make_page, shorten
from spotsieve.stream.intake.ranks import RankSource
from spotsieve.stream.page import Page
from spotsieve.stream.settings.model import InputSettings

_PARQUET = b"PAR1"
_ARC = b"filedesc://"
_MOST_BEFORE = 2**20
_NAMED_WARC = re.compile(r"\.warc(\.(gz|xz|zst|bz2))?$")
_Records = Iterator[tuple[Record, dict[str, Any] | None]]
"""Records, and of each row of Parquet what stands in its columns."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A record and its result: a page, a rejection, or None for a WARC record that is no page."""

    record: Record
    layout: Layout
    result: Page | PageError | None


class FileReader:
    """Reads one input, as a context: iterating gives an Outcome for each record, in order, in bounded memory.

    Iterating raises InputError for a file of no format that is read, and for a damaged file after every record before
    the damage.
    before_waiting: called when standard input has nothing to read, so that the pages read so far can be judged
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
        self._max_page_bytes = settings.max_page_bytes
        # Files are JSONL or WARC by their content; `format` says what the messages of a topic are.
        self._decoder = Decoder(settings.model_copy(update={"format": "json"}))
        self._acceptance = Acceptance(settings)
        self._ranks = RankSource(settings.rank_from)
        self._before_waiting = before_waiting
        self._file: BinaryIO | None = None
        self._seeking: BinaryIO | None = None
        self._written_ms = 0
        self.bytes_read = 0
        self._tally: Tally | None = None

    def __enter__(self) -> Self:
        """Open the file. Raises InputError."""
        self._file, self._written_ms = open_input(self._input)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._file, self._seeking):
            if file is not None:
                file.close()

    def read(self, size: int, /) -> bytes:
        """The next bytes of the file, still compressed, counted for the progress line."""
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

    def __iter__(self) -> Iterator[Outcome]:
        members = Members()
        chunks = read_chunks(self, self._input.source, members)
        beginning, fault = _begin(chunks)
        layout, records = self._records_of(beginning, _again(beginning, chunks, fault), members)
        self._tally = Tally(self._input.source, beginning, layout)
        for record, fields in records:
            result = self._decode(record, layout, fields)
            self._tally.count(record, result)
            yield Outcome(record, layout, result)

    def check_read(self) -> None:
        """Check, after the last record, that the input was not misread. Raises InputError if too few are pages."""
        if self._tally is not None:
            self._tally.check()

    def _records_of(self, beginning: bytes, chunks: Iterator[bytes], members: Members) -> tuple[Layout, _Records]:
        """The layout of the file, by its first bytes, and its records."""
        name, most = self._input.source, self._max_record_bytes
        if beginning.startswith(_PARQUET):
            return Layout.PARQUET, self._rows()
        if is_zip(beginning):
            return Layout.WARC, _plain(split_wacz(self._random_access("a zip archive"), name, most))
        if beginning.startswith(_ARC):
            return Layout.WARC, _plain(self._arc_records(chunks))
        head = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
        # The name is asked only where the bytes say nothing: of a WARC whose first record is damaged, or that is empty.
        if head.startswith(b"WARC/") or (_NAMED_WARC.search(name) and not head.startswith(b"{")):
            return Layout.WARC, _plain(split_warc(chunks, most, members=members))
        foreign = foreign_format(beginning) or foreign_format(head)
        if foreign is not None:
            rule = f"must be JSONL, WARC or Parquet, plain or as gzip, xz, zstd or bzip2, and looks like {foreign[0]}"
            raise InputError(name, rule, shorten(head[:20]), foreign[1])
        return Layout.JSONL, _plain(split_lines(chunks, most))

    def _rows(self) -> _Records:
        check_installed(self._input.source, "Parquet", "pyarrow", "parquet")
        from spotsieve.stream.files.parquet.rows import read_rows

        file = self._random_access("Parquet")
        return read_rows(file, self._input.source, self._decoder.body_field, self._max_record_bytes)

    def _arc_records(self, chunks: Iterator[bytes]) -> Iterator[Record]:
        check_installed(self._input.source, "ARC, the format before WARC", "warcio", "archives")
        from spotsieve.stream.files.warc.arc import split_arc

        return split_arc(chunks, self._input.source, self._max_record_bytes)

    def _random_access(self, what: str) -> BinaryIO:
        """The file from its beginning, to be read here and there. Raises InputError where that cannot be."""
        self.bytes_read = 0
        file = RandomAccess(self._input, self)
        self._seeking = file.as_file()
        if compression_of(file.head) is not None:
            rule = f"is {what} inside {compression_of(file.head)}, and such a file is read from its end"
            raise InputError(self._input.source, rule, None, "unpack it first")
        return self._seeking

    def _decode(self, record: Record, layout: Layout, fields: dict[str, Any] | None) -> Page | PageError | None:
        source, number, partition = self._input.source, record.number, content_number(record.raw)
        if record.fault is not None:
            reason, rule = record.fault
            return PageError(reason, f"{source} record {number}", rule, None, "look at the file at this place")
        try:
            if layout is not Layout.WARC:
                message = Message(None, record.raw, (), source, partition, number, self._written_ms)
                return self._decoder.decode(message) if fields is None else self._decoder.decode_fields(fields, message)
            capture = capture_of(record.raw, self._max_page_bytes, self._written_ms)
            if capture is None:
                return None
            return make_page(
                capture.body,
                source=source,
                partition=partition,
                offset=number,
                url=capture.url,
                content_type=capture.content_type,
                event_time_ms=capture.time_ms,
                latest_ms=self._written_ms,
                filtered=self._acceptance.filtered(capture.status, capture.content_type),
                max_page_bytes=self._max_page_bytes,
                rank=self._ranks.find({}, capture.headers),
            )
        except PageError as error:
            return error


def pages_of(files: Iterable[Input], settings: InputSettings) -> Iterator[Page]:
    """All pages of files; records that are none are left out. Raises InputError."""
    for file in files:
        with FileReader(file, settings) as reader:
            for outcome in reader:
                if isinstance(outcome.result, Page):
                    yield outcome.result
            reader.check_read()


def content_number(raw: bytes) -> int:
    """The middle part of the id of a page of a file: 31 bits of the XXH3-64 of its record's bytes.

    Tomorrow's file may have today's name: without it, its records would be taken for those of today, submitted again.
    The bytes hold whatever names the record, such as `id` or WARC-Record-ID.
    """
    return xxhash.xxh3_64_intdigest(raw) >> 33


def columns_before(inputs: Sequence[Input], out: str) -> Record | None:
    """A record that tells an output the columns of its Parquet inputs before any work, by their names; else None.

    Raises SettingError where their rows cannot stand in one output.
    """
    named = [file for file in inputs if not file.is_stdin and Path(file.source).suffix.lower() == ".parquet"]
    if not named or importlib.util.find_spec("pyarrow") is None:
        return None
    from spotsieve.stream.files.parquet.rows import columns_of

    columns = columns_of(named, out)
    return None if columns is None else Record(0, b"", None, columns)


def check_installed(name: str, what: str, package: str, extra: str) -> None:
    """Raises InputError for a file of a format whose package is not installed, with the extra that brings it."""
    if importlib.util.find_spec(package) is None:
        raise InputError(name, f"is {what}, which {package} reads", None, f"pip install 'spotsieve[{extra}]'")


def _begin(chunks: Iterator[bytes]) -> tuple[bytes, InputError | None]:
    """The first bytes, which show the layout, and the fault if the file is damaged there.

    White space before them is looked through as far as _MOST_BEFORE: a small file can unfold to any amount of it.
    """
    beginning, head = bytearray(), b""
    try:
        while len(head) < 16 and len(beginning) < _MOST_BEFORE:
            chunk = next(chunks, None)
            if chunk is None:
                break
            beginning += chunk
            head = (head + chunk).lstrip()
    except InputError as error:
        return bytes(beginning), error
    return bytes(beginning), None


def _again(beginning: bytes, chunks: Iterator[bytes], fault: InputError | None) -> Iterator[bytes]:
    if beginning:
        yield beginning
    if fault is not None:
        raise fault
    yield from chunks


def _plain(records: Iterator[Record]) -> _Records:
    return ((record, None) for record in records)
