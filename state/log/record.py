"""Encodes and decodes log records. The log defines the order of pages, so every reader reaches the same state.

Kind 1 holds the signatures of a micro-batch, and commit marks. Kind 2 names pages to forget. Kind 3 is the first record
of a log: its id and its salt, which are random, and the settings that change verdicts. Kind 4 names a record that
cannot be applied, and that all readers skip. Kind 5 says that the log ends here and continues in another log, or that
it is open and continues another log. Bytes without the magic are foreign records, which every reader skips.

    record   = magic F5 73 70 73, version u8 (4), kind u8, writer 16 bytes, sequence u64, settings digest 16 bytes,
               body, checksum u64
    checksum = xxh3-64 of everything before it

    body     = log id 16 bytes, salt u64, settings text UTF-8  (kind 3, configuration)
             | offset u64                                      (kind 4, skip)

state/log/pages_body.py has the body of kind 1 (signatures), state/log/bodies.py the bodies of kind 2 (forget) and
kind 5 (handover). All integers are little endian.
"""

import json
import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xxhash

from spotsieve.state.format.meta import MAX_OFFSET, LogIdentity, draw_log_identity
from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import (
    Handover,
    decode_body,
    decode_handover_body,
    encode_body,
    encode_handover_body,
    is_migrating,
    split_pages,
)
from spotsieve.state.log.pages_body import decode_pages, encode_pages
from spotsieve.state.log.pages_body import may_name as pages_may_name
from spotsieve.state.log.pages_body import split as split_signatures
from spotsieve.state.removal import ForgottenPage
from spotsieve.stream.base.errors import DamagedRecord, StateError
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.settings.digest import settings_digest
from spotsieve.stream.base.signature import Signatures, unused_columns

MAGIC = b"\xf5sps"
"""No UTF-8 text begins with it."""
RECORD_VERSION = 4
KIND_SIGNATURES = 1
KIND_FORGET = 2
KIND_CONFIGURATION = 3
KIND_SKIP = 4
KIND_HANDOVER = 5
_KINDS = {
    KIND_SIGNATURES: "signatures",
    KIND_FORGET: "forget",
    KIND_CONFIGURATION: "configuration",
    KIND_SKIP: "skip",
    KIND_HANDOVER: "handover",
}

_HEAD = struct.Struct("<4sBB16sQ16s")
_OFFSET = struct.Struct("<Q")
_CONFIGURATION = struct.Struct("<16sQ")
_CHECKSUM_BYTES = 8
_NEXT_STEP = "restore the log, or begin a new log and a new state"
_NEWER = "a newer release wrote it: upgrade this worker"
_OLDER = "an older release wrote it: continue with that release, or begin a new log (topics.log) and a new state"
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


@dataclass(slots=True)
class LogRecord:
    """A decoded record.

    writer: id of the writer, 16 bytes  sequence: number of the record of this writer
    signatures: of kind 1, else empty  forgotten: pages to forget, of kind 2
    committed: commit marks that the writer knew, of kind 1
    configuration: settings text, of kind 3  log: the identity of the log, of kind 3
    skips: offset of the record to skip, of kind 4
    handover: link to another log, of kind 5
    foreign: not a record of Spotsieve: only the checksum is set
    checksum: xxh3-64 of all bytes before it; it covers writer and sequence, so no two appends share one
    """

    writer: bytes
    sequence: int
    settings_digest: bytes
    signatures: Signatures
    checksum: int
    forgotten: tuple[ForgottenPage, ...] = ()
    committed: tuple[CommitMark, ...] = ()
    configuration: str | None = None
    log: LogIdentity | None = None
    skips: int | None = None
    handover: Handover | None = None
    foreign: bool = False


def encode(
    signatures: Signatures,
    writer: bytes,
    sequence: int,
    settings_digest: bytes,
    committed: Sequence[CommitMark] = (),
) -> bytes:
    """Write a record of signatures, whose URLs split() has cut.

    writer, settings_digest: 16 bytes each  sequence: number of the record of this writer  committed: at most MAX_MARKS
    """
    return _sealed(KIND_SIGNATURES, writer, sequence, settings_digest, encode_pages(signatures, committed))


def encode_and_keep(
    signatures: Signatures,
    writer: bytes,
    sequence: int,
    settings_digest: bytes,
    committed: Sequence[CommitMark] = (),
) -> tuple[bytes, LogRecord]:
    """Write a record as encode() does -> the record, and its decoded form, so that its writer need not decode it."""
    record = encode(signatures, writer, sequence, settings_digest, committed)
    return record, LogRecord(
        writer, sequence, settings_digest, signatures, checksum_of(record), committed=tuple(committed)
    )


def encode_void(source: str, partition: int, writer: bytes, sequence: int, settings_digest: bytes) -> bytes:
    """Write a record that removes all pending verdicts of a partition: a mark behind every offset.

    The other parameters are the ones of encode().
    """
    return encode(NO_PAGES, writer, sequence, settings_digest, [CommitMark(source, partition, MAX_OFFSET)])


def writer_of(record: bytes) -> bytes:
    """Return the writer of a valid record, 16 bytes, without decoding its pages."""
    writer: bytes = _HEAD.unpack_from(record)[3]
    return writer


def encode_forget(pages: Sequence[ForgottenPage], writer: bytes, sequence: int, settings_digest: bytes) -> bytes:
    """Write a record that forgets these pages. The other parameters are the ones of encode()."""
    return _sealed(KIND_FORGET, writer, sequence, settings_digest, encode_body(pages))


def encode_forget_records(pages: Iterable[ForgottenPage], settings_digest: bytes, max_bytes: int) -> list[bytes]:
    """Write the records that forget these pages, each within max_bytes, with a new writer id."""
    writer, parts = uuid.uuid4().bytes, split_pages(pages, max_bytes - FRAME_BYTES)
    return [encode_forget(part, writer, number, settings_digest) for number, part in enumerate(parts)]


def encode_configuration(text: str, writer: bytes, log: LogIdentity | None = None) -> bytes:
    """Write the first record of a log. text: the canonical text of the settings that change verdicts

    log: the identity of the log; None: a new one is drawn
    """
    identity = _CONFIGURATION.pack(*(draw_log_identity() if log is None else log))
    return _sealed(KIND_CONFIGURATION, writer, 0, settings_digest(text), identity + text.encode())


def encode_skip(offset: int, settings_digest: bytes) -> bytes:
    """Write a record that makes all readers skip the record at this offset, with a new writer id."""
    return _sealed(KIND_SKIP, uuid.uuid4().bytes, 0, settings_digest, _OFFSET.pack(offset))


def encode_handover(handover: Handover, settings_digest: bytes) -> bytes:
    """Write the record that closes or opens a log, with a new writer id."""
    return _sealed(KIND_HANDOVER, uuid.uuid4().bytes, 0, settings_digest, encode_handover_body(handover))


def decode(record: bytes, log_name: str = "log", offset: int = 0) -> LogRecord:
    """Read a record. log_name, offset: its place, for messages

    Bytes that do not begin with the magic are a foreign record, not an error: other programs may write to a topic.
    Raises DamagedRecord if checksum or grammar fail, StateError for a version or kind that this release does not know.
    """
    if is_foreign(record):
        return LogRecord(b"", 0, b"", NO_PAGES, checksum_of(record), foreign=True)
    _check(record, log_name, offset)
    _, _, kind, writer, sequence, digest = _HEAD.unpack_from(record)
    body, checksum = record[_HEAD.size : -_CHECKSUM_BYTES], checksum_of(record)
    try:
        if kind == KIND_SIGNATURES:
            signatures, committed = decode_pages(body)
            return LogRecord(writer, sequence, digest, signatures, checksum, committed=committed)
        found = LogRecord(writer, sequence, digest, NO_PAGES, checksum)
        if kind == KIND_FORGET:
            return replace(found, forgotten=decode_body(body))
        if kind == KIND_CONFIGURATION:
            text = _settings_text(body[_CONFIGURATION.size :], digest)
            return replace(found, configuration=text, log=LogIdentity(*_CONFIGURATION.unpack_from(body)))
        if kind == KIND_SKIP:
            return replace(found, skips=_OFFSET.unpack(body)[0])
        return replace(found, handover=decode_handover_body(body))
    except (ValueError, struct.error, IndexError):
        what = {KIND_SIGNATURES: "columns", KIND_FORGET: "pages"}.get(kind, _KINDS[kind])
        raise DamagedRecord(log_name, offset, f"must hold the {what} that it declares", _NEXT_STEP) from None


def check_sketches(record: LogRecord, words: int | None, log_name: str, offset: int) -> None:
    """Check that the sketches of a record have the width of the scheme. words: of a sketch; None: not compared

    Raises DamagedRecord.
    """
    found = record.signatures.sketch.shape[1]
    if words is not None and len(record.signatures) and found != words:
        rule = f"must hold sketches of {words} words, as its settings say, and holds sketches of {found}"
        raise DamagedRecord(log_name, offset, rule, _NEXT_STEP)


def may_name(record: memoryview, name: bytes, page_id: PageId | None) -> bool:
    """Whether a record of signatures may have a page with this URL, label or page id.

    It is much faster than decode(), and checks nothing. Decode the record for certainty. True for a damaged record.
    """
    if kind_of(record) != KIND_SIGNATURES:
        return False
    try:
        return pages_may_name(record[_HEAD.size : -_CHECKSUM_BYTES], name, page_id)
    except (ValueError, struct.error, IndexError):
        return True


def kind_of(record: memoryview) -> int | None:
    """Return the kind that a record declares, unchecked; None for a foreign record."""
    if record[: len(MAGIC)] != MAGIC or len(record) < FRAME_BYTES:
        return None
    return record[len(MAGIC) + 1]


def is_handover(record: bytes) -> bool:
    """Whether a record declares to be a handover, unchecked."""
    return kind_of(memoryview(record)) == KIND_HANDOVER


def checksum_of(record: bytes) -> int:
    """Return the checksum that identifies a record: the stored one, unchecked, or the one of foreign bytes."""
    if record.startswith(MAGIC) and len(record) >= FRAME_BYTES:
        return int.from_bytes(record[-_CHECKSUM_BYTES:], "little")
    return xxhash.xxh3_64_intdigest(record)


def first_of_ours(records: Iterable[tuple[int, bytes]], log_name: str) -> tuple[int, LogRecord] | None:
    """Return the first readable record of Spotsieve among (offset, bytes): its settings are the settings of the log.

    Raises StateError for a version or kind that this release does not know.
    """
    for offset, value in records:
        try:
            record = decode(value, log_name, offset)
        except DamagedRecord:
            continue
        if not record.foreign:
            return offset, record
    return None


def tells_open(record: LogRecord) -> bool | None:
    """Whether a log that a migration has begun is open for workers after this record; None: it decides nothing."""
    if record.foreign or record.configuration is not None:
        return None
    return record.handover is not None or not is_migrating(record.writer)


def split(signatures: Signatures, max_bytes: int, committed: Sequence[CommitMark] = ()) -> Iterator[Signatures]:
    """Split a micro-batch into parts whose records stay within max_bytes; the first has room for these marks.

    URLs and labels are cut here (cut_url). A part holds at least one page.
    """
    return split_signatures(signatures, max_bytes, FRAME_BYTES, committed)


def _sealed(kind: int, writer: bytes, sequence: int, settings_digest: bytes, body: bytes) -> bytes:
    if len(writer) != 16 or len(settings_digest) != 16:
        raise ValueError(f"writer and settings_digest must be 16 bytes, got {len(writer)} and {len(settings_digest)}")
    record = _HEAD.pack(MAGIC, RECORD_VERSION, kind, writer, sequence, settings_digest) + body
    return record + xxhash.xxh3_64_intdigest(record).to_bytes(_CHECKSUM_BYTES, "little")


def _check(record: bytes, log_name: str, offset: int) -> None:
    if not record.startswith(MAGIC):
        raise DamagedRecord(log_name, offset, f"must begin with {MAGIC!r}", _NEXT_STEP)
    if len(record) < FRAME_BYTES:
        raise DamagedRecord(log_name, offset, f"must be at least {FRAME_BYTES} bytes, is {len(record)}", _NEXT_STEP)
    if not _is_sound(record):
        raise DamagedRecord(log_name, offset, "must end in its xxh3-64 checksum", _NEXT_STEP)
    version, kind = record[len(MAGIC)], record[len(MAGIC) + 1]
    if version != RECORD_VERSION:
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be record version {RECORD_VERSION}",
            version,
            _NEWER if version > RECORD_VERSION else _OLDER,
        )
    if kind not in _KINDS:
        known = ", ".join(f"{number}: {name}" for number, name in _KINDS.items())
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be of a kind known here ({known})",
            kind,
            _NEWER,
        )


def _settings_text(body: bytes, digest: bytes) -> str:
    """Return the text of a configuration. Raises ValueError if it is not settings, or does not match the digest."""
    text = body.decode()
    if settings_digest(text) != digest or not isinstance(json.loads(text), dict):
        raise ValueError
    return text


def _is_sound(record: bytes) -> bool:
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    return checksum == int.from_bytes(record[-_CHECKSUM_BYTES:], "little")


def is_foreign(record: bytes) -> bool:
    """Whether these bytes are no record of Spotsieve: without the magic, and not a record with a damaged magic."""
    if record.startswith(MAGIC):
        return False
    return len(record) < FRAME_BYTES or not _is_sound(MAGIC + record[len(MAGIC) :])
