"""One record of a file, whole or cut, and the layout of the file: what a reader hands on."""

import enum
from dataclasses import dataclass

from spotsieve.stream.errors import Reject

MAX_RECORD_BYTES = 64 * 2**20
"""A longer record is rejected without being held in memory, which a line that never ends must not fill."""
SHOWN_BYTES = 1024
"""So much of a record that is too long is kept for the list of rejected ones."""


class Layout(enum.Enum):
    """How a file is divided into records."""

    JSONL = "JSONL"
    WARC = "WARC"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it stands in its file.

    number: counts every record of the file from 0
    raw: its bytes without the line feed (JSONL), or with the line ends that close it (WARC)
    fault: why it cannot be a page, and the rule that it broke; raw may then hold its beginning only
    """

    number: int
    raw: bytes
    fault: tuple[Reject, str] | None = None
