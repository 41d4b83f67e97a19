"""Reads and writes JSONL in bounded memory: each line is a record, and blank lines are skipped."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping

import orjson

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.compression import CompressedStream
from spotsieve.stream.files.file_format import (
    FileContent,
    FileFormat,
    FileRecord,
    FormatWriter,
    Intake,
    Record,
    Span,
    field_exists,
    too_large,
)
from spotsieve.stream.sign.text.prose import parse_json

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\n\r\x0b\x0c]+")
"""What bytes.strip removes. A file may have millions of empty lines."""


class JsonLines(FileFormat):
    """The JSONL format: one JSON object per line."""

    name = "JSONL"
    content = "JSON lines"
    endings = (".jsonl", ".json", ".ndjson")

    def recognizes(self, beginning: bytes) -> bool:
        """Whether the first visible character opens a JSON object."""
        return beginning.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")

    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """The lines of the file."""
        return map(FileRecord, split_lines(content.chunks, content.max_record_bytes))

    def decode(self, file_record: FileRecord, intake: Intake) -> Page:
        """The page in the fields of the object."""
        return intake.page_of_fields(file_record)

    @property
    def has_fields(self) -> bool:
        """True: a line is an object."""
        return True

    def with_fields(self, record: Record, fields: Mapping[str, str | None]) -> Record:
        """The line with more fields at the end of its object; all other bytes are unchanged."""
        line = record.raw.rstrip()
        separator = b"" if line[:-1].rstrip().endswith(b"{") else b","
        return dataclasses.replace(record, raw=line[:-1] + separator + orjson.dumps(fields)[1:])

    def check_new_fields(self, record: Record, names: Iterable[str]) -> None:
        """Check that the line has no field of these names. Raises SettingError."""
        suspects = [name for name in names if name.encode() in record.raw]
        # The bytes may be part of a text, so look closely.
        found = parse_json(record.raw.decode("utf-8", "replace")) if suspects else None
        fields = found if isinstance(found, dict) else {}
        for name in suspects:
            if name in fields:
                raise field_exists(name, f"line {record.number + 1}")

    def writer(self, stream: CompressedStream) -> FormatWriter:
        """A writer that ends every record with a line feed."""
        return _LineWriter(stream)


class _LineWriter(FormatWriter):
    def __init__(self, stream: CompressedStream) -> None:
        self._stream = stream

    def write(self, record: Record) -> None:
        self._stream.write(record.raw + b"\n")


JSON_LINES = JsonLines()


def split_lines(chunks: Iterator[bytes], max_record_bytes: int) -> Iterator[Record]:
    """The lines of a file as records, without line feeds and without a byte order mark at the beginning.

    A line longer than max_record_bytes gets the fault TOO_LARGE and keeps its first SHOWN_BYTES. A line that damage to
    the file truncates gets the fault TRUNCATED. The InputError of a damaged file is raised after the last record.
    """
    number = start = 0
    line = bytearray()
    dropped = 0
    fault: InputError | None = None
    while True:
        try:
            chunk = next(chunks, None)
        except InputError as error:
            fault, chunk = error, None
        if chunk is None:
            break
        begin = 0
        while True:
            if not line and not dropped:
                first = _after_blank_lines(chunk, begin)
                start, begin = start + first - begin, first
            # bytes.split looks at one byte after the other; find takes a tenth of the time.
            end = chunk.find(b"\n", begin)
            if end < 0:
                break
            part = chunk[begin:end]
            begin = end + 1
            raw, length = part, len(part)
            if line or dropped:
                length = _append(line, part, dropped, max_record_bytes)
                raw = bytes(line)
                line.clear()
                dropped = 0
            record = _record(number, raw, start, length, max_record_bytes)
            start += length + 1
            if record is not None:
                yield record
                number += 1
        dropped = max(0, _append(line, chunk[begin:], dropped, max_record_bytes) - len(line))
    if line:
        yield from _last(number, bytes(line), start, dropped, fault, max_record_bytes)
    if fault is not None:
        raise fault


def _after_blank_lines(chunk: bytes, begin: int) -> int:
    """The beginning of the first line from `begin` on that is not blank, or not complete. begin: of a line"""
    space = _SPACE.match(chunk, begin)
    return max(begin, chunk.rfind(b"\n", begin, space.end()) + 1) if space else begin


def _append(line: bytearray, part: bytes, dropped: int, most: int) -> int:
    """Append to the line, up to most + 1 bytes of it; return the line's full length so far.

    dropped: bytes of the line that were not stored before
    """
    length = len(line) + dropped + len(part)
    line += part[: max(0, most + 1 - len(line))]
    return length


def _record(number: int, raw: bytes, start: int, length: int, most: int) -> Record | None:
    if length > most:
        return too_large(number, raw, length, most)
    if number == 0:
        raw = raw.removeprefix(BYTE_ORDER_MARK)
    end = start + length
    return Record(number, raw, span=Span(end - len(raw), end)) if raw.strip() else None


def _last(number: int, line: bytes, start: int, dropped: int, fault: InputError | None, most: int) -> Iterator[Record]:
    record = _record(number, line, start, len(line) + dropped, most)
    if record is not None and record.fault is None and fault is not None:
        record = Record(number, line, (RejectReason.TRUNCATED, "is truncated, because the file is damaged here"))
    if record is not None:
        yield record
