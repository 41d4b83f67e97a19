"""Defines the record of a file, and the content number, which identifies a record's bytes in the page's id."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash

from spotsieve.stream.base.errors import RejectReason

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected and not held in memory, so that a line without an end cannot fill the memory."""
SHOWN_BYTES = 1024
"""The first bytes of a record that is too long, for the list of rejected records."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The location in memory of a row of a Parquet file.

    batch: the pyarrow.RecordBatch of the row, or a pyarrow.Table without rows
    row: the number of the row in the batch
    table: the file's pyarrow.parquet.FileMetaData, with its key-value metadata and codecs
    """

    batch: Any
    row: int
    table: Any


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
    """

    number: int
    raw: bytes
    fault: tuple[RejectReason, str] | None = None
    place: RowPlace | None = None
    span: Span | None = field(default=None, compare=False)
    packed: bytes | None = field(default=None, compare=False, repr=False)


def too_large(number: int, shown: bytes, size: int, most: int) -> Record:
    """A record with the fault TOO_LARGE in place of one of size bytes. shown: its beginning; most: the limit"""
    return Record(number, shown[:SHOWN_BYTES], (RejectReason.TOO_LARGE, f"must have at most {most} bytes, has {size}"))


def content_number(raw: bytes) -> int:
    """The middle part of the id of a file's page: 31 bits of the XXH3-64 of its record's bytes.

    A later file may have the same name. Without this number its records would be mistaken for resubmitted records of
    the earlier file. The bytes include the record's own name, such as `id` or WARC-Record-ID.
    """
    return xxhash.xxh3_64_intdigest(raw) >> 33
