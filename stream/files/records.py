"""One record of a file, whole or cut, and the number that stands for its bytes in the page's id."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash

from spotsieve.stream.base.errors import RejectReason

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected without being held in memory, which a line that never ends must not fill."""
SHOWN_BYTES = 1024
"""So much of a record that is too long is kept for the list of rejected ones."""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where the row of a Parquet file is held.

    batch: the pyarrow.RecordBatch, or a pyarrow.Table without rows  row: its number in the batch
    table: the file's pyarrow.parquet.FileMetaData, with its key-value metadata and codecs
    """

    batch: Any
    row: int
    table: Any


class Span(NamedTuple):
    """Where the bytes of a record stand in its unpacked file: from `start`, and before `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in its file.

    number: counts every record of the file from 0
    raw: its bytes without the line feed (JSONL), with the line ends that close it (WARC), or the row as JSON (Parquet)
    fault: why it cannot be a page, and the rule that it broke; raw may then hold its beginning only
    place: of a row of Parquet
    span: of `raw`, where it is a line of JSONL
    packed: the member of gzip that holds `raw` and nothing else, as it stands in its file, where there is one
    """

    number: int
    raw: bytes
    fault: tuple[RejectReason, str] | None = None
    place: RowPlace | None = None
    span: Span | None = field(default=None, compare=False)
    packed: bytes | None = field(default=None, compare=False, repr=False)


def too_large(number: int, shown: bytes, size: int, most: int) -> Record:
    """The record in place of one that is longer than is held. shown: its beginning"""
    return Record(number, shown[:SHOWN_BYTES], (RejectReason.TOO_LARGE, f"must have at most {most} bytes, has {size}"))


def content_number(raw: bytes) -> int:
    """The middle part of the id of a page of a file: 31 bits of the XXH3-64 of its record's bytes.

    Tomorrow's file may have today's name: without this number, its records would be taken for those of today, submitted
    again. The bytes hold whatever names the record, such as `id` or WARC-Record-ID.
    """
    return xxhash.xxh3_64_intdigest(raw) >> 33
