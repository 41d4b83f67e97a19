"""Defines a file format: how a file is recognized and divided into records, and how records are joined in an output.

A new format is one class: a FileFormat if it is also written, an InputFormat if its records are written in another
format. stream/files/formats.py registers it. Reader, writer and messages ask the class; none of them names a format.
"""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import CompressedStream, GzipMembers
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.files.records import Record, content_number
from spotsieve.stream.sign.intake import Acceptance, Decoder, Message, make_page
from spotsieve.stream.sign.intake.fields import RankSource


class FileRecord(NamedTuple):
    """A record as its file gives it. fields: by their names, where the format has them without parsing the record"""

    record: Record
    fields: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of one input, for a format that divides it into records.

    name: of the input, for errors
    chunks: the decompressed bytes from the beginning  members: the gzip members that the chunks come from
    open_seeking: opens the file for reading at any place; takes the name of the format. Raises InputError
    body_field: the field whose bytes stay bytes  max_record_bytes: a longer record has the fault TOO_LARGE
    """

    name: str
    chunks: Iterator[bytes]
    members: GzipMembers
    open_seeking: Callable[[str], BinaryIO]
    body_field: str
    max_record_bytes: int


class Intake:
    """Makes pages of the records of one input, by its settings. Every method raises PageError for a rejected record."""

    written_ms = 0
    """When the file was written, in ms since the epoch. It replaces a missing fetch time."""

    def __init__(self, source: str, settings: InputSettings) -> None:
        """source: the first part of the pages' ids"""
        # A file has its format by its content; `format` says how the messages of a topic are read.
        self._decoder = Decoder(settings.model_copy(update={"format": "json"}))
        self._acceptance = Acceptance(settings)
        self._ranks = RankSource(settings.rank_from)
        self._source = source
        self.max_page_bytes = settings.max_page_bytes

    @property
    def body_field(self) -> str:
        """The path of the field that holds the body."""
        return self._decoder.body_field

    def page_of_fields(self, found: FileRecord) -> Page:
        """The page in the fields of a row, or of a JSON object."""
        record, fields = found
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
    ) -> Page:
        """The page that a crawler stored.

        time_ms: of the fetch  status: of the HTTP response, if there is one  headers: by names in lower case
        """
        return make_page(
            body,
            source=self._source,
            partition=content_number(record.raw),
            offset=record.number,
            url=url,
            content_type=content_type,
            event_time_ms=time_ms,
            latest_ms=self.written_ms,
            filtered=self._acceptance.filtered(status, content_type),
            max_page_bytes=self.max_page_bytes,
            rank=self._ranks.find({}, headers),
        )


class FormatWriter(ABC):
    """Joins records in one output, so that a reader of the format finds the same records one by one, in order."""

    def know(self, record: Record) -> None:  # noqa: B027 - most formats need no record to write an empty output
        """Take the form of a record that need not be written. Raises SettingError if it cannot stand in the output."""

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one record behind those before it. Raises SettingError if it cannot stand in the output."""

    def finish(self) -> None:  # noqa: B027 - most formats write every record at once, and nothing for none
        """Write the waiting records and the end of the file. An output without records is a valid file, too."""


class InputFormat(ABC):
    """A format that files are read in. Formats are values: two objects of one class are equal."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The format's name in messages, such as WARC."""

    @property
    @abstractmethod
    def endings(self) -> tuple[str, ...]:
        """The endings of its files' names, without that of a compression; the usual one first."""

    @property
    @abstractmethod
    def written_as(self) -> "FileFormat":
        """The format of its records: it decodes them, and they are written in it."""

    @abstractmethod
    def recognizes(self, beginning: bytes) -> bool:
        """Whether a file with these first bytes, decompressed, is of this format. No other format may say so, too."""

    def recognizes_name(self, name: str) -> bool:  # noqa: ARG002 - most formats have telling first bytes
        """Whether a file of this name is of this format. It is asked where no format recognizes the first bytes."""
        return False

    @abstractmethod
    def read(self, content: FileContent) -> Iterator[FileRecord]:
        """Divide a file into records, in bounded memory. Raises InputError after the records before any damage."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class FileFormat(InputFormat):
    """A format that files are read and written in."""

    @property
    def written_as(self) -> "FileFormat":
        """Itself."""
        return self

    @property
    @abstractmethod
    def content(self) -> str:
        """What its files hold, in the plural, such as "JSON lines"."""

    @property
    def fields_label(self) -> str:
        """The words before a list of its records' fields in a message."""
        return "JSON objects with the fields"

    @property
    def compressible(self) -> bool:
        """Whether a whole file may be compressed. False for a format that compresses its parts itself."""
        return True

    @abstractmethod
    def decode(self, found: FileRecord, intake: Intake) -> Page | None:
        """The page of a record; None for a record without a page, such as a request. Raises PageError."""

    @abstractmethod
    def writer(self, stream: CompressedStream) -> FormatWriter:
        """The object that joins records in an output."""

    def check_writable(self, name: str) -> None:
        """Check that a package which writes the format is installed. name: of the output. Raises SettingError."""

    def find_form(self, inputs: Sequence[Input], out: str) -> Record | None:  # noqa: ARG002 - most formats need none
        """A record that shows an output the form of its inputs before any work, for FormatWriter.know; or None.

        out: the name of the output. Raises SettingError if records of these inputs cannot stand in one output.
        """
        return None


def check_installed(name: str, what: str, package: str, extra: str) -> None:
    """Raises InputError for a file of a format whose package is not installed, with the extra that brings it."""
    if importlib.util.find_spec(package) is None:
        raise InputError(name, f"is {what}, which {package} reads", None, f"pip install 'spotsieve[{extra}]'")
