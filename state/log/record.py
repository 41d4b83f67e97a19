"""Encodes and decodes log records. The log writes down the order of pages; every reader of it reaches the same state.

A record of kind 1 holds the signatures of a micro-batch, column by column. A record of kind 2 names pages to forget.

    record    = version u8 (2), kind u8, writer 16 bytes, sequence u64, settings digest 16 bytes, body, checksum u64
    body      = pages u32, sources u16, sketch words u8 (w), source*, column*, features, sketch, addresses
                                                                                (kind 1: signatures)
    source    = length u16, UTF-8
    column*   = source u16[n], partition i32[n], offset i64[n], event_time_ms i64[n], digest u64[n][2],
                text_digest u64[n][2], host u64[n], fingerprint u64[n], status u8[n], language u8[n],
                feature_count u32[n], features u16[n], url length u16[n], label length u16[n]
    features  = u64*, page after page
    sketch    = u64[n][w]
    addresses = all URLs, then all labels
    checksum  = xxh3-64 of everything before it

state/log/forget_body.py has the body of kind 2, forget. All integers are little endian.
"""

import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.state.forgetting import ForgottenPage
from spotsieve.state.log.forget_body import decode_body, encode_body, split_pages
from spotsieve.stream.errors import CorruptRecord, StateError
from spotsieve.stream.signature import MAX_FEATURES, MAX_SKETCH_WORDS, Signatures, Status, unused_columns

RECORD_VERSION = 2
KIND_SIGNATURES = 1
KIND_FORGET = 2
MAX_ADDRESS_BYTES = 2048
"""The log cuts longer URLs and labels, and so verdicts show them cut. They are only shown, never compared."""

_HEAD = struct.Struct("<BB16sQ16s")
_STATUSES = tuple(Status)
_COUNTS = struct.Struct("<IHB")
_CHECKSUM_BYTES = 8
_COLUMNS = (
    ("source", "<u2"),
    ("partition", "<i4"),
    ("offset", "<i8"),
    ("event_time_ms", "<i8"),
    ("digest", "<u8"),
    ("text_digest", "<u8"),
    ("host", "<u8"),
    ("fingerprint", "<u8"),
    ("status", "u1"),
    ("language", "u1"),
    ("feature_count", "<u4"),
)
_PAIRS = ("digest", "text_digest")
_LENGTHS = ("features", "urls", "labels")
_PAGE_BYTES = sum(np.dtype(kind).itemsize * (1 + (name in _PAIRS)) for name, kind in _COLUMNS) + 2 * len(_LENGTHS)
_FIXED_BYTES = _HEAD.size + _COUNTS.size + _CHECKSUM_BYTES
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
    checksum: xxh3-64 of all before it; it covers writer and sequence, so no two appends have the same
    """

    writer: bytes
    sequence: int
    settings_digest: bytes
    signatures: Signatures
    checksum: int
    forgotten: tuple[ForgottenPage, ...] = ()


def encode(signatures: Signatures, writer: bytes, sequence: int, settings_digest: bytes) -> bytes:
    """Write a record of signatures, whose addresses split() has cut.

    writer, settings_digest: 16 bytes each  sequence: counts the records of the writer
    """
    feature_counts, words = np.diff(signatures.features_bounds), signatures.sketch.shape[1]
    if words > MAX_SKETCH_WORDS or feature_counts.max(initial=0) > MAX_FEATURES:
        raise ValueError(f"a page has at most {MAX_SKETCH_WORDS} sketch words and {MAX_FEATURES} features")
    sources = [text.encode() for text in signatures.sources]
    parts = [_COUNTS.pack(len(signatures), len(sources), words)]
    for source in sources:
        parts += (struct.pack("<H", len(source)), source)
    parts += (np.ascontiguousarray(getattr(signatures, name), kind).tobytes() for name, kind in _COLUMNS)
    for lengths in (feature_counts, _lengths(signatures.urls), _lengths(signatures.labels)):
        parts.append(lengths.astype("<u2").tobytes())
    parts += (np.ascontiguousarray(column, "<u8").tobytes() for column in (signatures.features, signatures.sketch))
    parts += signatures.urls
    parts += signatures.labels
    return _sealed(KIND_SIGNATURES, writer, sequence, settings_digest, b"".join(parts))


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
    _, kind, writer, sequence, digest = _HEAD.unpack_from(record)
    signatures, forgotten = NO_PAGES, tuple[ForgottenPage, ...]()
    try:
        if kind == KIND_FORGET:
            forgotten = decode_body(record[_HEAD.size : -_CHECKSUM_BYTES])
        else:
            signatures = _read_body(record[:-_CHECKSUM_BYTES])
    except (ValueError, struct.error, IndexError):
        what = "pages" if kind == KIND_FORGET else "columns"
        raise CorruptRecord(log_name, offset, f"must hold the {what} that it declares", "upgrade spotsieve") from None
    return LogRecord(writer, sequence, digest, signatures, checksum_of(record), forgotten)


def checksum_of(record: bytes) -> int:
    """Return the checksum at the end of a record, without checking it; 0 if the record is too short to have one."""
    return int.from_bytes(record[-_CHECKSUM_BYTES:], "little") if len(record) >= _FIXED_BYTES else 0


def split(signatures: Signatures, max_bytes: int) -> Iterator[Signatures]:
    """Cut a micro-batch into parts whose records stay within max_bytes. Verdicts do not depend on where the cuts are.

    URLs and labels are cut to MAX_ADDRESS_BYTES here, at a whole UTF-8 character. A part holds at least one page.
    """
    urls, labels = tuple(map(cut_address, signatures.urls)), tuple(map(cut_address, signatures.labels))
    sources = sum(2 + len(text.encode()) for text in signatures.sources)
    room = max_bytes - _FIXED_BYTES - sources
    words = np.diff(signatures.features_bounds) + signatures.sketch.shape[1]
    sizes = _PAGE_BYTES + 8 * words + _lengths(urls) + _lengths(labels)
    cut, start = replace(signatures, urls=urls, labels=labels), 0
    while start < len(signatures):
        taken = int(np.searchsorted(np.cumsum(sizes[start:]), room, side="right"))
        end = start + max(taken, 1)
        yield cut.part(start, end)
        start = end


def _sealed(kind: int, writer: bytes, sequence: int, settings_digest: bytes, body: bytes) -> bytes:
    if len(writer) != 16 or len(settings_digest) != 16:
        raise ValueError(f"writer and settings_digest must be 16 bytes, got {len(writer)} and {len(settings_digest)}")
    record = _HEAD.pack(RECORD_VERSION, kind, writer, sequence, settings_digest) + body
    return record + xxhash.xxh3_64_intdigest(record).to_bytes(_CHECKSUM_BYTES, "little")


def _check(record: bytes, log_name: str, offset: int) -> None:
    if len(record) < _FIXED_BYTES:
        raise CorruptRecord(
            log_name, offset, f"must be at least {_FIXED_BYTES} bytes, is {len(record)}", "check what writes to the log"
        )
    if record[0] != RECORD_VERSION:
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be record version {RECORD_VERSION}",
            record[0],
            "a newer release wrote it: upgrade this worker"
            if record[0] > RECORD_VERSION
            else "an older release wrote it: go on with that one, or begin a new log (topics.log) and a new state",
        )
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    if checksum != int.from_bytes(record[-_CHECKSUM_BYTES:], "little"):
        raise CorruptRecord(
            log_name,
            offset,
            "must end in its xxh3-64 checksum",
            "something else wrote to the log, or it was damaged: restore it, or begin a new log and a new state",
        )
    if record[1] not in (KIND_SIGNATURES, KIND_FORGET):
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be of a kind known here ({KIND_SIGNATURES}: signatures, {KIND_FORGET}: forget)",
            record[1],
            "a newer release wrote it: upgrade this worker",
        )


def _read_body(body: bytes) -> Signatures:
    at = _HEAD.size
    pages, source_count, words = _COUNTS.unpack_from(body, at)
    at += _COUNTS.size
    sources = []
    for _ in range(source_count):
        (length,) = struct.unpack_from("<H", body, at)
        sources.append(body[at + 2 : at + 2 + length].decode())
        at += 2 + length
    columns: dict[str, NDArray[Any]] = {}
    for name, kind in _COLUMNS:
        columns[name] = np.frombuffer(body, kind, pages * (1 + (name in _PAIRS)), at)
        at += columns[name].nbytes
    lengths = np.frombuffer(body, "<u2", pages * len(_LENGTHS), at).reshape(len(_LENGTHS), pages)
    at += lengths.nbytes
    bounds = np.zeros(pages + 1, np.int64)
    np.cumsum(lengths[0], out=bounds[1:])
    features = np.frombuffer(body, "<u8", int(bounds[-1]), at)
    sketch = np.frombuffer(body, "<u8", pages * words, at + features.nbytes).reshape(pages, words)
    urls, at = _texts(body, lengths[1], at + features.nbytes + sketch.nbytes)
    labels, at = _texts(body, lengths[2], at)
    known = not pages or (int(columns["source"].max()) < source_count and np.isin(columns["status"], _STATUSES).all())
    if at != len(body) or not known:
        raise ValueError
    for name in _PAIRS:
        columns[name] = columns[name].reshape(pages, 2)
    columns |= {"features": features, "features_bounds": bounds, "sketch": sketch}
    return Signatures(sources=tuple(sources), urls=urls, labels=labels, **columns)


def _texts(body: bytes, lengths: NDArray[np.uint16], at: int) -> tuple[tuple[bytes, ...], int]:
    cuts = [at, *(at + np.cumsum(lengths, dtype=np.int64)).tolist()]
    return tuple(body[start:end] for start, end in pairwise(cuts)), cuts[-1]


def _lengths(texts: tuple[bytes, ...]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def cut_address(text: bytes) -> bytes:
    """Cut a URL or label in UTF-8 as the log holds it: at most MAX_ADDRESS_BYTES, ending in a whole character."""
    if len(text) <= MAX_ADDRESS_BYTES:
        return text
    return text[:MAX_ADDRESS_BYTES].decode("utf-8", "ignore").encode()
