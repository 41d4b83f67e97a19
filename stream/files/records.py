"""One record of a file, whole or cut, and the layout of the file: what a reader hands on."""

import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spotsieve.stream.errors import Reject

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected without being held in memory, which a line that never ends must not fill."""
SHOWN_BYTES = 1024
"""So much of a record that is too long is kept for the list of rejected ones."""


class Layout(enum.Enum):
    """How a file is divided into records."""

    JSONL = "JSONL"
    WARC = "WARC"
    PARQUET = "Parquet"


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
    fault: tuple[Reject, str] | None = None
    place: RowPlace | None = None
    span: Span | None = field(default=None, compare=False)
    packed: bytes | None = field(default=None, compare=False, repr=False)


def too_large(number: int, shown: bytes, size: int, most: int) -> Record:
    """The record in place of one that is longer than is held. shown: its beginning"""
    return Record(number, shown[:SHOWN_BYTES], (Reject.TOO_LARGE, f"must have at most {most} bytes, has {size}"))
