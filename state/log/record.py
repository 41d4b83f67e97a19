"""Encodes and decodes log records. The log writes down the order of pages; every reader of it reaches the same state.

A record of kind 1 holds the signatures of a micro-batch, and marks of what is committed. A record of kind 2 names pages
to forget.

    record   = magic F5 73 70 73, version u8 (3), kind u8, writer 16 bytes, sequence u64, settings digest 16 bytes,
               body, checksum u64
    checksum = xxh3-64 of everything before it

state/log/pages_body.py has the body of kind 1, signatures, and state/log/forget_body.py that of kind 2, forget. All
integers are little endian.
"""

import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from spotsieve.state.forgetting import ForgottenPage
from spotsieve.state.index import Committed
from spotsieve.state.log.forget_body import decode_body, encode_body, split_pages
from spotsieve.state.log.pages_body import decode_pages, encode_pages
from spotsieve.state.log.pages_body import split as split_signatures
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.signature import Signatures, unused_columns

MAGIC = b"\xf5sps"
"""No UTF-8 text begins with it."""
RECORD_VERSION = 3
KIND_SIGNATURES = 1
KIND_FORGET = 2

_HEAD = struct.Struct("<4sBB16sQ16s")
_CHECKSUM_BYTES = 8
FRAME_BYTES = _HEAD.size + _CHECKSUM_BYTES
"""Size of a record without its body."""
NO_PAGES = Signatures(
    sources=(),
    source=np.empty(0, np.uint16),
    partition=np.empty(0, np.int32),
    offset=np.empty(0, np.int64),
    event_time_ms=np.empty(0, np.int64),
    digest=np.empty((0, 2), np.uint64),
    fingerprint=np.empty(0, np.uint64),
    status=np.empty(0, np.uint8),
    feature_count=np.empty(0, np.uint32),
    urls=(),
    labels=(),
    **unused_columns(0),
)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """What a record says: who wrote it, its number with that writer, under which settings, and its pages.

    signatures: empty in a record that forgets  forgotten: the pages to forget, empty in a record of signatures
    committed: how far the writer knew its inputs to be committed
    checksum: xxh3-64 of all before it; it covers writer and sequence, so no two appends have the same
    """

    writer: bytes
    sequence: int
    settings_digest: bytes
    signatures: Signatures
    checksum: int
    forgotten: tuple[ForgottenPage, ...] = ()
    committed: tuple[Committed, ...] = ()


def encode(
    signatures: Signatures,
    writer: bytes,
    sequence: int,
    settings_digest: bytes,
    committed: Sequence[Committed] = (),
) -> bytes:
    """Write a record of signatures, whose addresses split() has cut.

    writer, settings_digest: 16 bytes each  sequence: counts the records of the writer  committed: at most MAX_MARKS
    """
    return _sealed(KIND_SIGNATURES, writer, sequence, settings_digest, encode_pages(signatures, committed))


def encode_forget(pages: Sequence[ForgottenPage], writer: bytes, sequence: int, settings_digest: bytes) -> bytes:
    """Write a record that forgets these pages. writer, sequence, settings_digest: as in encode()"""
    return _sealed(KIND_FORGET, writer, sequence, settings_digest, encode_body(pages))


def encode_forget_records(pages: Iterable[ForgottenPage], settings_digest: bytes, max_bytes: int) -> list[bytes]:
    """Write as many records as it takes to forget these pages, each within max_bytes, by a writer of its own."""
    writer, parts = uuid.uuid4().bytes, split_pages(pages, max_bytes - FRAME_BYTES)
    return [encode_forget(part, writer, number, settings_digest) for number, part in enumerate(parts)]


def decode(record: bytes, log_name: str = "log", offset: int = 0) -> LogRecord:
    """Read a record. log_name, offset: where it was found, for messages

    Raises CorruptRecord where checksum or grammar fail, StateError for a version or kind this release does not know.
    """
    _check(record, log_name, offset)
    _, _, kind, writer, sequence, digest = _HEAD.unpack_from(record)
    body = record[_HEAD.size : -_CHECKSUM_BYTES]
    signatures, forgotten, committed = NO_PAGES, tuple[ForgottenPage, ...](), tuple[Committed, ...]()
    try:
        if kind == KIND_FORGET:
            forgotten = decode_body(body)
        else:
            signatures, committed = decode_pages(body)
    except (ValueError, struct.error, IndexError):
        what = "pages" if kind == KIND_FORGET else "columns"
        raise CorruptRecord(log_name, offset, f"must hold the {what} that it declares", "upgrade spotsieve") from None
    return LogRecord(writer, sequence, digest, signatures, checksum_of(record), forgotten, committed)


def checksum_of(record: bytes) -> int:
    """Return the checksum at the end of a record, without checking it; 0 if the record is too short to have one."""
    return int.from_bytes(record[-_CHECKSUM_BYTES:], "little") if len(record) >= FRAME_BYTES else 0


def split(signatures: Signatures, max_bytes: int, committed: Sequence[Committed] = ()) -> Iterator[Signatures]:
    """Cut a micro-batch into parts whose records stay within max_bytes; the first has room for these marks.

    URLs and labels are cut here (cut_address). A part holds at least one page.
    """
    return split_signatures(signatures, max_bytes, FRAME_BYTES, committed)


def _sealed(kind: int, writer: bytes, sequence: int, settings_digest: bytes, body: bytes) -> bytes:
    if len(writer) != 16 or len(settings_digest) != 16:
        raise ValueError(f"writer and settings_digest must be 16 bytes, got {len(writer)} and {len(settings_digest)}")
    record = _HEAD.pack(MAGIC, RECORD_VERSION, kind, writer, sequence, settings_digest) + body
    return record + xxhash.xxh3_64_intdigest(record).to_bytes(_CHECKSUM_BYTES, "little")


def _check(record: bytes, log_name: str, offset: int) -> None:
    if _is_older(record):
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be record version {RECORD_VERSION}",
            record[0],
            "an older release wrote it: go on with that one, or begin a new log (topics.log) and a new state",
        )
    if not record.startswith(MAGIC):
        raise CorruptRecord(log_name, offset, f"must begin with {MAGIC!r}", "check what writes to the log")
    if len(record) < FRAME_BYTES:
        raise CorruptRecord(
            log_name, offset, f"must be at least {FRAME_BYTES} bytes, is {len(record)}", "check what writes to the log"
        )
    version, kind = record[len(MAGIC)], record[len(MAGIC) + 1]
    if version != RECORD_VERSION:
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be record version {RECORD_VERSION}",
            version,
            "a newer release wrote it: upgrade this worker",
        )
    if not _is_sound(record):
        raise CorruptRecord(
            log_name,
            offset,
            "must end in its xxh3-64 checksum",
            "something else wrote to the log, or it was damaged: restore it, or begin a new log and a new state",
        )
    if kind not in (KIND_SIGNATURES, KIND_FORGET):
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be of a kind known here ({KIND_SIGNATURES}: signatures, {KIND_FORGET}: forget)",
            kind,
            "a newer release wrote it: upgrade this worker",
        )


def _is_sound(record: bytes) -> bool:
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    return checksum == int.from_bytes(record[-_CHECKSUM_BYTES:], "little")


def _is_older(record: bytes) -> bool:
    """Whether a release before version 3 wrote this record. These began with their version, without a magic."""
    return record[:1] in (b"\x01", b"\x02") and len(record) >= FRAME_BYTES - len(MAGIC) and _is_sound(record)
