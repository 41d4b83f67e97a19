"""Owns the log record: one columnar record a micro-batch, the form in which the order of pages is written down.

    record    = version u8 (1), kind u8, writer 16 bytes, sequence u64, settings digest 16 bytes, body, checksum u64
    body      = pages u32, sources u16, source*, column*, addresses               (kind 1: signatures)
    source    = length u16, UTF-8
    column*   = source u16[n], partition i32[n], offset i64[n], event_time_ms i64[n], digest u64[n][2],
                fingerprint u64[n], status u8[n], feature_count u32[n], url length u16[n], label length u16[n]
    addresses = all URLs, then all labels
    checksum  = xxh3-64 of everything before it

All integers little endian.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream.errors import CorruptRecord, StateError
from stream.signature import Signatures

RECORD_VERSION = 1
KIND_SIGNATURES = 1
MAX_ADDRESS_BYTES = 2048
"""Longer URLs and labels are cut in the log (and so in verdicts): they are shown, never compared."""

_HEAD = struct.Struct("<BB16sQ16s")
_COUNTS = struct.Struct("<IH")
_CHECKSUM_BYTES = 8
_COLUMNS = (
    ("source", "<u2"),
    ("partition", "<i4"),
    ("offset", "<i8"),
    ("event_time_ms", "<i8"),
    ("digest", "<u8"),
    ("fingerprint", "<u8"),
    ("status", "u1"),
    ("feature_count", "<u4"),
)
_PAGE_BYTES = sum(np.dtype(kind).itemsize for _, kind in _COLUMNS) + 8 + 4
_FIXED_BYTES = _HEAD.size + _COUNTS.size + _CHECKSUM_BYTES


@dataclass(frozen=True, slots=True)
class LogRecord:
    """What a record says: who wrote it, its number with that writer, under which settings, and the signatures."""

    writer: bytes
    sequence: int
    settings_digest: bytes
    signatures: Signatures


def encode(signatures: Signatures, writer: bytes, sequence: int, settings_digest: bytes) -> bytes:
    """writer, settings_digest: 16 bytes each  sequence: counts the writer's records. URLs must be cut: see split."""
    if len(writer) != 16 or len(settings_digest) != 16:
        raise ValueError(f"writer and settings_digest must be 16 bytes, got {len(writer)} and {len(settings_digest)}")
    sources = [text.encode() for text in signatures.sources]
    parts = [
        _HEAD.pack(RECORD_VERSION, KIND_SIGNATURES, writer, sequence, settings_digest),
        _COUNTS.pack(len(signatures), len(sources)),
    ]
    for source in sources:
        parts += (struct.pack("<H", len(source)), source)
    parts += (np.ascontiguousarray(getattr(signatures, name), kind).tobytes() for name, kind in _COLUMNS)
    for texts in (signatures.urls, signatures.labels):
        parts.append(_lengths(texts).astype("<u2").tobytes())
    parts += signatures.urls
    parts += signatures.labels
    body = b"".join(parts)
    return body + xxhash.xxh3_64_intdigest(body).to_bytes(_CHECKSUM_BYTES, "little")


def decode(record: bytes, log_name: str = "log", offset: int = 0) -> LogRecord:
    """log_name, offset: where the record was read, for messages.

    Raises CorruptRecord where checksum or grammar fail, StateError for a version or kind this release does not know.
    """
    _check(record, log_name, offset)
    _, _, writer, sequence, digest = _HEAD.unpack_from(record)
    try:
        signatures = _read_body(record[:-_CHECKSUM_BYTES])
    except (ValueError, struct.error, IndexError):
        raise CorruptRecord(log_name, offset, "must hold the columns that it declares", "upgrade spotsieve") from None
    return LogRecord(writer, sequence, digest, signatures)


def split(signatures: Signatures, max_bytes: int) -> Iterator[Signatures]:
    """Cut a micro-batch so that each part's record stays within max_bytes; verdicts do not depend on where.

    URLs and labels are cut to MAX_ADDRESS_BYTES here, at a whole UTF-8 character; a part holds one page at least.
    """
    urls, labels = tuple(map(_cut, signatures.urls)), tuple(map(_cut, signatures.labels))
    sources = sum(2 + len(text.encode()) for text in signatures.sources)
    room = max_bytes - _FIXED_BYTES - sources
    sizes = _PAGE_BYTES + _lengths(urls) + _lengths(labels)
    start = 0
    while start < len(signatures):
        taken = int(np.searchsorted(np.cumsum(sizes[start:]), room, side="right"))
        end = start + max(taken, 1)
        yield _part(signatures, urls, labels, start, end)
        start = end


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
            "a newer release wrote it: upgrade this worker",
        )
    checksum = xxhash.xxh3_64_intdigest(memoryview(record)[:-_CHECKSUM_BYTES])
    if checksum != int.from_bytes(record[-_CHECKSUM_BYTES:], "little"):
        raise CorruptRecord(
            log_name,
            offset,
            "must end in its xxh3-64 checksum",
            "something else wrote to the log, or it was damaged: restore it, or begin a new log and a new state",
        )
    if record[1] != KIND_SIGNATURES:
        raise StateError(
            f"{log_name}[{offset}]",
            f"must be of a kind known here ({KIND_SIGNATURES}: signatures)",
            record[1],
            "a newer release wrote it: upgrade this worker",
        )


def _read_body(body: bytes) -> Signatures:
    at = _HEAD.size
    pages, source_count = _COUNTS.unpack_from(body, at)
    at += _COUNTS.size
    sources = []
    for _ in range(source_count):
        (length,) = struct.unpack_from("<H", body, at)
        sources.append(body[at + 2 : at + 2 + length].decode())
        at += 2 + length
    columns: dict[str, NDArray[np.generic]] = {}
    for name, kind in (*_COLUMNS, ("url_bytes", "<u2"), ("label_bytes", "<u2")):
        count = pages * 2 if name == "digest" else pages
        columns[name] = np.frombuffer(body, kind, count, at)
        at += columns[name].nbytes
    urls, at = _texts(body, columns.pop("url_bytes"), at)
    labels, at = _texts(body, columns.pop("label_bytes"), at)
    if at != len(body) or (pages and int(columns["source"].max()) >= source_count):
        raise ValueError
    columns["digest"] = columns["digest"].reshape(pages, 2)
    return Signatures(sources=tuple(sources), urls=urls, labels=labels, **columns)  # type: ignore[arg-type]


def _texts(body: bytes, lengths: NDArray[np.generic], at: int) -> tuple[tuple[bytes, ...], int]:
    cuts = [at, *(at + np.cumsum(lengths, dtype=np.int64)).tolist()]
    return tuple(body[start:end] for start, end in pairwise(cuts)), cuts[-1]


def _lengths(texts: tuple[bytes, ...]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), np.int64, len(texts))


def _cut(text: bytes) -> bytes:
    if len(text) <= MAX_ADDRESS_BYTES:
        return text
    return text[:MAX_ADDRESS_BYTES].decode("utf-8", "ignore").encode()


def _part(
    signatures: Signatures, urls: tuple[bytes, ...], labels: tuple[bytes, ...], start: int, end: int
) -> Signatures:
    whole = slice(start, end)
    return Signatures(
        signatures.sources,
        signatures.source[whole],
        signatures.partition[whole],
        signatures.offset[whole],
        signatures.event_time_ms[whole],
        signatures.digest[whole],
        signatures.fingerprint[whole],
        signatures.status[whole],
        signatures.feature_count[whole],
        urls[whole],
        labels[whole],
    )
