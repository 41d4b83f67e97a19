"""Reads log records of version 2, the former layout, as far as a migration needs: the pages and their order.

    record    = version u8 (2), kind u8, writer 16 bytes, sequence u64, settings digest 16 bytes, body, checksum u64
    body      = pages u32 (n), sources u16, sketch words u8 (w), source*, column*, features, sketch, addresses
                                                                                  (kind 1, signatures)
              | as in version 3 (state/log/bodies.py)                        (kind 2, forget)
    source    = length u16, UTF-8
    column*   = source u16[n], partition i32[n], offset i64[n], event_time_ms i64[n], digest u64[n][2],
                text_digest u64[n][2], host u64[n], fingerprint u64[n], status u8[n], language u8[n],
                feature_count u32[n], features u16[n], url length u16[n], label length u16[n]
    features  = u64*, page after page
    sketch    = u64[n][w]
    addresses = all URLs, then all labels

Its signatures are not read, because another release made them: pages of such a log are signed again.
"""

import struct
from dataclasses import replace
from itertools import pairwise

import numpy as np

from spotsieve.state.log.bodies import decode_body
from spotsieve.state.log.record import KIND_FORGET, KIND_SIGNATURES, NO_PAGES, LogRecord, checksum_of, decode, is_older
from spotsieve.stream.base.errors import DamagedRecord
from spotsieve.stream.base.signature import Signatures, unused_columns

FORMER_VERSION = 2
_HEAD = struct.Struct("<BB16sQ16s")
_COUNTS = struct.Struct("<IHB")
_LENGTH = struct.Struct("<H")
_CHECKSUM_BYTES = 8
_NOT_READ_BYTES = 16 + 16 + 8 + 8 + 1 + 1 + 4
"""Size of the columns between the event time and the number of features, for each page."""


def is_former(record: bytes) -> bool:
    """Whether these bytes are an intact record of the former version."""
    return record[:1] == bytes([FORMER_VERSION]) and is_older(record)


def decode_moved(record: bytes, log_name: str = "log", offset: int = 0) -> LogRecord:
    """Read a record of the former or the present version. Raises DamagedRecord, StateError.

    The signatures of a former record have page ids, event times, URLs and labels. Other columns are zero.
    """
    if not is_former(record):
        return decode(record, log_name, offset)
    _, kind, writer, sequence, digest = _HEAD.unpack_from(record)
    found = LogRecord(writer, sequence, digest, NO_PAGES, checksum_of(record))
    body = record[_HEAD.size : -_CHECKSUM_BYTES]
    try:
        if kind == KIND_FORGET:
            return replace(found, forgotten=decode_body(body))
        if kind == KIND_SIGNATURES:
            return replace(found, signatures=_decode_pages(body))
    except (ValueError, struct.error, IndexError):
        pass
    raise DamagedRecord(
        log_name,
        offset,
        f"must hold pages, or pages to forget, of record version {FORMER_VERSION}",
        "restore the log, or begin a new log and a new state",
    )


def _decode_pages(body: bytes) -> Signatures:
    pages, source_count, words = _COUNTS.unpack_from(body)
    at, sources = _COUNTS.size, list[str]()
    for _ in range(source_count):
        (length,) = _LENGTH.unpack_from(body, at)
        sources.append(body[at + _LENGTH.size : at + _LENGTH.size + length].decode())
        at += _LENGTH.size + length
    columns = []
    for dtype in ("<u2", "<i4", "<i8", "<i8"):
        columns.append(np.frombuffer(body, dtype, pages, at))
        at += columns[-1].nbytes
    at += _NOT_READ_BYTES * pages
    features, urls, labels = np.frombuffer(body, "<u2", 3 * pages, at).reshape(3, pages).astype(np.int64)
    at += 3 * 2 * pages + 8 * int(features.sum()) + 8 * words * pages
    cuts = [at, *(at + np.cumsum(np.concatenate([urls, labels]))).tolist()]
    source, partition, offset, event_time_ms = columns
    if cuts[-1] != len(body) or (pages and int(source.max()) >= source_count):
        raise ValueError
    texts = tuple(body[start:end] for start, end in pairwise(cuts))
    return Signatures(
        sources=tuple(sources),
        source=source,
        partition=partition,
        offset=offset,
        event_time_ms=event_time_ms,
        digest=np.zeros((pages, 2), np.uint64),
        fingerprint=np.zeros(pages, np.uint64),
        status=np.zeros(pages, np.uint8),
        feature_count=np.zeros(pages, np.uint32),
        urls=texts[:pages],
        labels=texts[pages:],
        **unused_columns(pages),
    )
