"""Owns what a reader hands on: one record of a file, whole or cut, and what the file's layout is."""

import enum
from dataclasses import dataclass

from spotsieve.stream.errors import Reject

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected without being held in memory: a line that never ends must not fill it."""
SHOWN_BYTES = 1024
"""As much of a record that is too long as goes to the rejected ones."""


class Layout(enum.Enum):
    """How a file is divided into records."""

    JSONL = "JSONL"
    WARC = "WARC"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in its file.

    number: 0-based, counting every record of the file  raw: its bytes without the line feed (JSONL), or with the line
    ends that close it (WARC)  fault: why it cannot be a page, and the rule it broke; raw may then be its beginning only
    """

    number: int
    raw: bytes
    fault: tuple[Reject, str] | None = None
