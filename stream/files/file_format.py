"""Defines a record of a file, and a file format: how to recognize a file, split it into records, and join records.

The content number of a record identifies its bytes in the id of its page.

A new format is one class: a FileFormat if it is also written, an InputFormat if its records are written in another
format. stream/files/formats.py registers it. Reader, writer and messages use the class and name no format.
"""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

import xxhash

from spotsieve.stream.base.errors import InputError, RejectReason, SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import CompressedStream, GzipMembers
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.sign.intake import Acceptance, Decoder, Message, make_page
from spotsieve.stream.sign.intake.fields import RankSource

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected and not held in memory, so that a line without an end cannot fill the memory."""
SHOWN_BYTES = 1024
"""The first bytes of a record that is too long, for the list of rejected records."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The location in memory of a row of a Parquet file.

    batch: the pyarrow.RecordBatch of the row, or a pyarrow.Table without rows
    row: the number of the row in the batch
    metadata: the file's pyarrow.parquet.FileMetaData, with its key-value metadata and codecs
    """

    batch: Any
    row: int
    metadata: Any


class Span(NamedTuple):
    """The byte range of a record in the decompressed file: from `start` to before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file.

    number: its number in the file, from 0
    raw: its bytes without the line feed (JSONL), with its closing line ends (WARC), or the row as JSON (Parquet)
    fault: the reason why it cannot be a page, and the broken rule; then raw may be only its beginning
    place: the location of a Parquet row
    span: the byte range of a JSONL line
    packed: the gzip member whose content is exactly `raw`, as stored in the file, if there is one
    added: text columns that a written Parquet row gets besides its own
    """

    number: int
    raw: bytes
    fault: tuple[RejectReason, str] | None = None
    place: RowPlace | None = None
    span: Span | None = field(default=None, compare=False)
    packed: bytes | None = field(default=None, compare=False, repr=False)
    added: Mapping[str, str | None] | None = field(default=None, compare=False, repr=False)


def too_large(number: int, shown: bytes, size: int, most: int) -> Record:
    """A record with the fault TOO_LARGE that replaces a record of `size` bytes.

    shown: beginning of the replaced record  most: the limit in bytes
    """
    return Record(number, shown[:SHOWN_BYTES], (RejectReason.TOO_LARGE, f"must have at most {most} bytes, has {size}"))


def content_number(raw: bytes) -> int:
    """The middle part of the id of a file's page: 31 bits of the XXH3-64 of its record's bytes.

    A later file may have the same name. Without this number its records would be mistaken for resubmitted records of
    the earlier file. The bytes include the record's own name, such as `id` or WARC-Record-ID.
    """
    return xxhash.xxh3_64_intdigest(raw) >> 33


class FileRecord(NamedTuple):
    """A record of a file. fields: its fields by name, if the format has them without parsing the record"""

    record: Record
    fields: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of one input, for a format that splits it into records.

    name: the name of the input, for errors
    chunks: the decompressed bytes from the beginning
    members: the gzip members of the chunks
    open_seeking: opens the file for random access; takes the name of the format and raises InputError
    body_field: the path of the field whose bytes are not decoded to text
    max_record_bytes: a longer record gets the fault TOO_LARGE
    """

    name: str
    chunks: Iterator[bytes]
    members: GzipMembers
    open_seeking: Callable[[str], BinaryIO]
    body_field: str
    max_record_bytes: int


@dataclass(frozen=True, slots=True)
class Capture:
    """The page in a record of a web archive.

    time_ms: the fetch time in ms since the epoch
    status: of the HTTP response; None where the record holds none
    headers: those of the record before those of the HTTP response, which a stranger wrote, by names in lower case
    encoded: the payload as sent, if `body` is only a part of it; None for a whole payload
    """

    url: str
    content_type: str | None
    body: bytes
    time_ms: int
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    encoded: bytes | None = None

    @property
    def whole(self) -> bool:
        """Whether the whole payload was stored and could be decoded."""
        return self.encoded is None


class Intake:
    """Makes pages from the records of one input, by its settings. The methods raise PageError for a rejected record."""

    written_ms = 0
    """The time when the file was written, in ms since the epoch. It replaces a missing fetch time."""

    def __init__(self, source: str, settings: InputSettings) -> None:
        """source: the first part of the pages' ids"""
        # The content of a file shows its format; the setting `format` is for the messages of a topic.
        self._decoder = Decoder(settings.model_copy(update={"format": "json"}))
        self._acceptance = Acceptance(settings)
        self._ranks = RankSource(settings.rank_from)
        self._source = source
        self.max_page_bytes = settings.max_page_bytes
        self.companion_uris = settings.companion_uris

    @property
    def body_field(self) -> str:
        """The path of the field that holds the body."""
        return self._decoder.body_field

    def page_of_fields(self, file_record: FileRecord) -> Page:
        """The page in the fields of a row or of a JSON object."""
        record, fields = file_record
        partition = content_number(record.raw)
        message = Message(None, record.raw, (), self._source, partition, record.number, self.written_ms)
        return self._decoder.decode(message) if fields is None else self._decoder.decode_fields(fields, message)

    def page_of_capture(self, record: Record, capture: Capture) -> Page:
        """The page in a record of a web archive."""
        return make_page(
            capture.body,
            source=self._source,
            partition=content_number(record.raw),
            offset=record.number,
            url=capture.url,
            content_type=capture.content_type,
            event_time_ms=capture.time_ms,
            latest_ms=self.written_ms,
            filtered=self._acceptance.filtered(capture.status, capture.content_type),
            max_page_bytes=self.max_page_bytes,
            rank=self._ranks.find({}, capture.headers),
            encoded=capture.encoded,
        )


class FormatWriter(ABC):
    """Joins records in one output, so that a reader of the format reads the same records in the same order."""

    def know(self, record: Record) -> None:  # noqa: B027 - most formats need no record to write an empty output
        """Take the layout, such as the columns, from a record without writing it.

        Raises SettingError if records of this layout cannot be part of the output.
        """

    @abstractmethod
    def write(self, record: Record) -> None:
        """Append one record. Raises SettingError if it cannot be part of the output."""

    def finish(self) -> None:  # noqa: B027 - most formats buffer no records and write no end
        """Write the buffered records and the end of the file. An output without records becomes a valid file, too."""


class InputFormat(ABC):
    """A format of input files. Formats are values: two objects of one class are equal."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The format's name in messages, such as WARC."""

    @property
    @abstractmethod
    def endings(self) -> tuple[str, ...]:
        """The suffixes of its files' names without a suffix of compression; the usual one first."""

    @property
    @abstractmethod
    def written_as(self) -> "FileFormat":
        """The format that decodes its records and that they are written in."""

    @abstractmethod
    def recognizes(self, beginning: bytes) -> bool:
        """Whether a file with these first bytes, decompressed, is of this format. At most one format returns True."""

    def recognizes_name(self, name: str) -> bool:  # noqa: ARG002 - the first bytes show most formats
        """Whether a file of this name is of this format. It decides only if no format recognizes the first bytes."""
        return False

    @abstractmethod
    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """Split a file into records, in bounded memory. Raises InputError for damage, after the records before it."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class FileFormat(InputFormat):
    """A format of input and output files."""

    @property
    def written_as(self) -> "FileFormat":
        """The format itself."""
        return self

    @property
    @abstractmethod
    def content(self) -> str:
        """The records of its files in messages, in the plural, such as "JSON lines"."""

    @property
    def fields_label(self) -> str:
        """The words before a list of its records' fields in messages."""
        return "JSON objects with the fields"

    @property
    def compressible(self) -> bool:
        """Whether a whole file may be compressed. False for a format with its own compression."""
        return True

    @abstractmethod
    def decode(self, file_record: FileRecord, intake: Intake) -> Page | None:
        """The page of a record; None for a record without a page, such as a request. Raises PageError."""

    def is_about_page(self, record: Record, intake: Intake) -> bool:  # noqa: ARG002 - most formats have no such records
        """Whether a crawler wrote a record without a page about a page. A file may consist of such records."""
        return False

    @abstractmethod
    def writer(self, stream: CompressedStream) -> FormatWriter:
        """The writer that joins records in an output."""

    @property
    def has_fields(self) -> bool:
        """Whether a record has fields by name, so that an output can add some."""
        return False

    def with_fields(self, record: Record, fields: Mapping[str, str | None]) -> Record:  # noqa: ARG002
        """The record with more fields, for an output, after check_new_fields."""
        raise ValueError(f"a record of {self.name} has no fields")

    def check_new_fields(self, record: Record, names: Iterable[str]) -> None:
        """Check that a record has no field of these names, so that with_fields can add them. Raises SettingError."""

    def check_writable(self, name: str) -> None:
        """Check that the package that writes the format is installed. Raises SettingError.

        name: the name of the output
        """

    def find_form(self, inputs: Sequence[Input], out: str) -> Record | None:  # noqa: ARG002 - most formats need none
        """A record with the layout of the inputs, for FormatWriter.know; None if the format needs none.

        out: the name of the output
        Raises SettingError if records of these inputs cannot be part of one output.
        """
        return None


def field_exists(name: str, place: str) -> SettingError:
    """The SettingError for a field or column that an output adds and a record has. place: of the record"""
    rule = f"adds {name} to each page, and {place} has it already, perhaps from an earlier run"
    # A changed record has another id: in the same state it would be a copy of the unchanged record.
    then = "leave out --text; or remove the field from the input, and judge that with a new state"
    return SettingError("--text", rule, None, then)


def check_installed(name: str, format_name: str, package: str, extra: str) -> None:
    """Check that the package that reads a format is installed. Raises InputError.

    name: the name of the input; extra: the extra of spotsieve that installs the package
    """
    if importlib.util.find_spec(package) is None:
        rule = f"is {format_name}, and the package {package}, which reads it, is not installed"
        raise InputError(name, rule, None, f"pip install 'spotsieve[{extra}]'")
