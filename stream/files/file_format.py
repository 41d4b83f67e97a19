"""Defines a file format: how to recognize a file, split it into records, and join records in an output.

A new format is one class: a FileFormat if it is also written, an InputFormat if its records are written in another
format. stream/files/formats.py registers it. Reader, writer and messages use the class and name no format.
"""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import CompressedStream, GzipMembers
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.records import Record, content_number
from spotsieve.stream.sign.intake import Acceptance, Decoder, Message, make_page
from spotsieve.stream.sign.intake.fields import RankSource


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

    def page_of_capture(
        self,
        record: Record,
        *,
        body: bytes,
        url: str,
        content_type: str | None,
        time_ms: int,
        status: int | None,
        headers: Mapping[str, str],
        whole: bool,
    ) -> Page:
        """The page in a record of a web archive.

        time_ms: the fetch time in ms since the epoch
        status: the HTTP status; None without an HTTP response
        headers: the headers by their names in lower case
        whole: whether the whole body could be decoded
        """
        filtered = self._acceptance.filtered(status, content_type)
        if not whole and not filtered:
            filtered = FilterReason.INCOMPLETE
        return make_page(
            body,
            source=self._source,
            partition=content_number(record.raw),
            offset=record.number,
            url=url,
            content_type=content_type,
            event_time_ms=time_ms,
            latest_ms=self.written_ms,
            filtered=filtered,
            max_page_bytes=self.max_page_bytes,
            rank=self._ranks.find({}, headers),
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


def check_installed(name: str, format_name: str, package: str, extra: str) -> None:
    """Check that the package that reads a format is installed. Raises InputError.

    name: the name of the input; extra: the extra of spotsieve that installs the package
    """
    if importlib.util.find_spec(package) is None:
        rule = f"is {format_name}, and the package {package}, which reads it, is not installed"
        raise InputError(name, rule, None, f"pip install 'spotsieve[{extra}]'")
