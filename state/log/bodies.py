"""Encodes and decodes the bodies of two record kinds: pages to forget (kind 2) and log handovers (kind 5).

It also has the sources that begin the body of a record of signatures (state/log/pages_body.py).

state/log/record.py encodes the record around the body. All integers are little endian.

    forget = pages u32, page*
    page   = entry number u64, partition i32, offset i64, source length u16, keys u32 (k; its highest bit says that the
             memory of the page's host goes too), source (UTF-8), key u64[k]

A handover links two logs when one is migrated into the other.

    handover = closed u8 (1), offset u64 (0), name             the log ends here, and continues in the log of this name
             | closed u8 (0), offset u64, name                 the log is open: it holds the content of the log of this
                                                               name before this offset
    writer   = "migrate:" 8 bytes, xxh3-64 of the old log's name
    sequence = offset of the old record << 16 | number of the new record made from it

Writer ids of workers are random and do not begin with "migrate:". Workers may use a log that a migration has begun
once the log has a record of kind 5 with closed = 0: until then it holds less than the old log.
"""

import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import xxhash

from spotsieve.state.format.meta import MAX_ENTRIES
from spotsieve.state.index import CommitMark
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.batches import batches
from spotsieve.stream.base.signature import Signatures

LENGTH = struct.Struct("<H")
"""The length of a source in a body of signatures."""
_COUNT = struct.Struct("<I")
_PAGE = struct.Struct("<QiqHI")
_WITH_HOST = 1 << 31


def split_pages(pages: Iterable[ForgottenPage], max_bytes: int) -> Iterator[list[ForgottenPage]]:
    """Split the pages into parts. The body of each part stays within max_bytes, or holds one page."""
    return batches(pages, sys.maxsize, max_bytes - _COUNT.size, _body_bytes)


def _body_bytes(page: ForgottenPage) -> int:
    return _PAGE.size + len(page.source.encode()) + 8 * len(page.keys)


def encode_body(pages: Sequence[ForgottenPage]) -> bytes:
    """Write the body of a record of kind 2."""
    parts = [_COUNT.pack(len(pages))]
    for page in pages:
        source = page.source.encode()
        keys = len(page.keys) | _WITH_HOST * page.with_host
        head = _PAGE.pack(page.number, page.partition, page.offset, len(source), keys)
        parts += (head, source, struct.pack(f"<{len(page.keys)}Q", *page.keys))
    return b"".join(parts)


def decode_body(body: bytes) -> tuple[ForgottenPage, ...]:
    """Read the body of a record of kind 2.

    Raises ValueError or struct.error if its length is not the declared one, or it names no page.
    """
    (count,) = _COUNT.unpack_from(body)
    pages, at = list[ForgottenPage](), _COUNT.size
    for _ in range(count):
        number, partition, offset, length, keys = _PAGE.unpack_from(body, at)
        source, at = body[at + _PAGE.size : at + _PAGE.size + length], at + _PAGE.size + length
        with_host, keys = bool(keys & _WITH_HOST), keys & ~_WITH_HOST
        if number >= MAX_ENTRIES or offset < 0:
            raise ValueError
        words = struct.unpack_from(f"<{keys}Q", body, at)
        pages.append(ForgottenPage(number, source.decode(), partition, offset, words, with_host))
        at += 8 * keys
    if at != len(body) or not pages:
        raise ValueError
    return tuple(pages)


MIGRATING = b"migrate:"
_PART_BITS = 16
_BODY = struct.Struct("<BQ")


class Handover(NamedTuple):
    """A link to another log.

    closed: True: this log ends here; False: it is open from here on  log: the other log
    offset: end of the content taken from the other log
    """

    closed: bool
    log: str
    offset: int = 0


class Origin(NamedTuple):
    """The origin of a migrated record. offset: of the old record  part: number of the new record from it, from 0"""

    offset: int
    part: int

    @property
    def sequence(self) -> int:
        """The sequence number stored in the record."""
        return self.offset << _PART_BITS | self.part


def origin_of(sequence: int) -> Origin:
    """Return the origin of a migrated record by its sequence number."""
    return Origin(sequence >> _PART_BITS, sequence & (1 << _PART_BITS) - 1)


def migration_writer(old_log: str) -> bytes:
    """Return the writer id of records migrated from this log: 16 bytes, the same at every start of a migration."""
    return MIGRATING + xxhash.xxh3_64_digest(old_log.encode())


def is_migrating(writer: bytes) -> bool:
    """Whether this is the writer id of a migration."""
    return writer.startswith(MIGRATING)


def encode_handover_body(handover: Handover) -> bytes:
    """Write the body of a record of kind 5."""
    return _BODY.pack(handover.closed, handover.offset) + handover.log.encode()


def decode_handover_body(body: bytes) -> Handover:
    """Read the body of a record of kind 5. Raises ValueError or struct.error if it is invalid."""
    closed, offset = _BODY.unpack_from(body)
    name = body[_BODY.size :].decode()
    if closed > 1 or not name:
        raise ValueError
    return Handover(bool(closed), name, offset)


def sources_of(signatures: Signatures, committed: Sequence[CommitMark]) -> list[str]:
    """Return the sources of the pages, then the sources that only marks name."""
    named = dict.fromkeys(mark.source for mark in committed)
    return [*signatures.sources, *(source for source in named if source not in signatures.sources)]


def source_bytes(sources: Sequence[str]) -> int:
    """Return the size of these sources in a body."""
    return sum(LENGTH.size + len(source.encode()) for source in sources)


def read_sources(body: bytes | memoryview, count: int, at: int) -> tuple[list[str], int]:
    """Return the sources that begin at a place of a body, and the next place. Raises ValueError, struct.error."""
    sources = list[str]()
    for _ in range(count):
        (length,) = LENGTH.unpack_from(body, at)
        sources.append(str(body[at + LENGTH.size : at + LENGTH.size + length], "utf-8"))
        at += LENGTH.size + length
    return sources, at
