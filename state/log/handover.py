"""Encodes what joins two logs where one is migrated into another: who writes such records, and where a log ends.

    body     = closed u8 (1), offset u64 (0), name             the log ends here, and goes on in the log of this name
             | closed u8 (0), offset u64, name                 the log is open: it holds what the log of this name had
                                                               before this offset
    writer   = "migrate:" 8 bytes, xxh3-64 of the old log's name
    sequence = offset of the old record << 16 | number of the part that came of it

Worker writers are random, so none begins as that of a migration does. A log that a migration has begun is open for
workers once it has a record of kind 5 with closed = 0: until then it holds less than the old log.
"""

import struct
from typing import NamedTuple

import xxhash

MIGRATING = b"migrate:"
_PART_BITS = 16
_BODY = struct.Struct("<BQ")


class Handover(NamedTuple):
    """closed: whether the log ends here, or is open from here on  log: the other log  offset: the end of what it had"""

    closed: bool
    log: str
    offset: int = 0


class Origin(NamedTuple):
    """Where a migrated record comes from. offset: of the old record  part: of what it became, counted from 0"""

    offset: int
    part: int

    @property
    def sequence(self) -> int:
        """The number that stands in the record."""
        return self.offset << _PART_BITS | self.part


def origin_of(sequence: int) -> Origin:
    """Read the origin of a migrated record from its sequence."""
    return Origin(sequence >> _PART_BITS, sequence & (1 << _PART_BITS) - 1)


def migration_writer(old_log: str) -> bytes:
    """The writer of records that come from this log: 16 bytes, the same at every start of a migration."""
    return MIGRATING + xxhash.xxh3_64_digest(old_log.encode())


def is_migrating(writer: bytes) -> bool:
    """Whether a migration wrote a record of this writer."""
    return writer.startswith(MIGRATING)


def encode_handover_body(handover: Handover) -> bytes:
    """Write the body of a record of kind 5."""
    return _BODY.pack(handover.closed, handover.offset) + handover.log.encode()


def decode_handover_body(body: bytes) -> Handover:
    """Read the body of a record of kind 5. Raises ValueError or struct.error where it is none."""
    closed, offset = _BODY.unpack_from(body)
    name = body[_BODY.size :].decode()
    if closed > 1 or not name:
        raise ValueError
    return Handover(bool(closed), name, offset)
