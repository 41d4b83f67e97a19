"""Owns the byte layouts of buckets, entries, sources and the two meta values; state/FORMATS.md has the grammar.

Every value begins with a version byte. The checksum of buckets, entries and sources is RocksDB's own: every block of a
table file and every write-ahead record carries one, and it is verified whenever the block is read. Here the length, the
version and the order of entry numbers are checked on top. The meta values, which everything hangs on, carry xxh3-64.
"""

import json
import struct
from collections.abc import Sequence
from itertools import pairwise

import numba
import numpy as np
import xxhash
from numpy.typing import NDArray

from state.index import Buckets
from stream.errors import CorruptRecord
from stream.signature import Entry

BUCKET_VERSION = 1
ENTRY_VERSION = 1
SOURCE_VERSION = 1
META_VERSION = 1
STATE_FORMAT = 1
"""Raised whenever a state of before can no longer be read."""

POSTING_BYTES = 16
_ENTRY = struct.Struct("<BIiqqHH")
_PROGRESS = struct.Struct("<BQQ")
_CHECKSUM = struct.Struct("<Q")
_U64 = np.dtype("<u8")


# ---- keys -----------------------------------------------------------------------------------------------------------


def number_keys(numbers: NDArray[np.uint64]) -> list[bytes]:
    """uint64[n] -> n keys of 8 bytes, big endian, so that RocksDB keeps them in numeric order."""
    keys: list[bytes] = numbers.astype(">u8").view("V8").tolist()
    return keys


# ---- buckets --------------------------------------------------------------------------------------------------------


def encode_buckets(buckets: Buckets) -> list[bytes]:
    """One value a bucket: version byte, then its postings, each entry number and inline word, little endian."""
    ends = buckets.bounds * POSTING_BYTES + np.arange(len(buckets.bounds))
    buffer = np.empty(int(ends[-1]), np.uint8)
    _write_buckets(buckets.bounds, buckets.numbers, buckets.inlines, buffer)
    raw, cuts = buffer.tobytes(), ends.tolist()
    return [raw[start:end] for start, end in pairwise(cuts)]


def decode_buckets(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Buckets:
    """The postings of values, None meaning an empty bucket. Raises CorruptRecord naming the key."""
    found = [value for value in values if value is not None]
    lengths = np.full(len(values), -1)
    if found:
        lengths[[index for index, value in enumerate(values) if value is not None]] = list(map(len, found))
    bounds = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.maximum(lengths - 1, 0) // POSTING_BYTES, out=bounds[1:])
    numbers, inlines = np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64)
    if found:
        wrong = _read_buckets(np.frombuffer(b"".join(found), np.uint8), lengths, numbers, inlines)
        if wrong >= 0:
            raise CorruptRecord(
                "buckets",
                keys[wrong],
                f"must be version {BUCKET_VERSION} and whole postings in ascending order of entry number",
            )
    return Buckets(bounds, numbers, inlines)


@numba.njit(nogil=True, cache=True)
def _write_buckets(bounds, numbers, inlines, buffer):  # type: ignore[no-untyped-def]
    # bounds: int64[u + 1]  numbers, inlines: uint64[p]  ->  buffer: uint8[u + 16 p]
    at = 0
    for bucket in range(len(bounds) - 1):
        buffer[at] = BUCKET_VERSION
        at += 1
        for posting in range(bounds[bucket], bounds[bucket + 1]):
            number, inline = numbers[posting], inlines[posting]
            for byte in range(8):
                shift = np.uint64(8 * byte)
                buffer[at + byte] = np.uint8(number >> shift & np.uint64(255))
                buffer[at + 8 + byte] = np.uint8(inline >> shift & np.uint64(255))
            at += POSTING_BYTES


@numba.njit(nogil=True, cache=True)
def _read_buckets(buffer, lengths, numbers, inlines):  # type: ignore[no-untyped-def]
    # buffer: uint8[...]  lengths: int64[u], -1 where there is no value
    # ->  numbers, inlines: uint64[p]; returns the first bad value, or -1
    at, posting = 0, 0
    for bucket in range(len(lengths)):
        if lengths[bucket] < 0:
            continue
        if buffer[at] != BUCKET_VERSION or lengths[bucket] < 1 + POSTING_BYTES or (lengths[bucket] - 1) % POSTING_BYTES:
            return bucket
        at += 1
        for place in range((lengths[bucket] - 1) // POSTING_BYTES):
            number, inline = np.uint64(0), np.uint64(0)
            for byte in range(8):
                shift = np.uint64(8 * byte)
                number |= np.uint64(buffer[at + byte]) << shift
                inline |= np.uint64(buffer[at + 8 + byte]) << shift
            if place > 0 and number <= numbers[posting - 1]:
                return bucket
            numbers[posting], inlines[posting] = number, inline
            posting += 1
            at += POSTING_BYTES
    return -1


# ---- entries and sources --------------------------------------------------------------------------------------------


def encode_entry(source: int, partition: int, offset: int, event_time_ms: int, url: bytes, label: bytes) -> bytes:
    """A filed page: whose url and label are shown, and whose id tells a page from its own second attempt."""
    head = _ENTRY.pack(ENTRY_VERSION, source, partition, offset, event_time_ms, len(url), len(label))
    return head + url + label


def decode_entry(key: bytes, value: bytes | None, sources: Sequence[str]) -> Entry:
    """Raises CorruptRecord where the value is missing, cut, of another version or names an unknown source."""
    if value is None:
        raise CorruptRecord("entries", key, "is missing although a bucket refers to it")
    if len(value) < _ENTRY.size or value[0] != ENTRY_VERSION:
        raise CorruptRecord("entries", key, f"must be version {ENTRY_VERSION} and at least {_ENTRY.size} bytes")
    _, source, partition, offset, event_time_ms, url_bytes, label_bytes = _ENTRY.unpack_from(value)
    if len(value) != _ENTRY.size + url_bytes + label_bytes or source >= len(sources):
        raise CorruptRecord("entries", key, "must have the length and the source that it declares")
    url = value[_ENTRY.size : _ENTRY.size + url_bytes].decode("utf-8", "replace")
    label = value[_ENTRY.size + url_bytes :].decode("utf-8", "replace")
    return Entry(sources[source], partition, offset, event_time_ms, url, label)


def encode_source(text: str) -> bytes:
    """A topic or path, named once."""
    return bytes([SOURCE_VERSION]) + text.encode()


def decode_source(key: bytes, value: bytes) -> str:
    """Raises CorruptRecord."""
    if not value or value[0] != SOURCE_VERSION:
        raise CorruptRecord("sources", key, f"must be version {SOURCE_VERSION}")
    try:
        return value[1:].decode()
    except UnicodeDecodeError:
        raise CorruptRecord("sources", key, "must be UTF-8") from None


# ---- meta -----------------------------------------------------------------------------------------------------------


def encode_progress(position: int, entry_count: int) -> bytes:
    """How far the log is applied: the value that moves with every record."""
    return seal(_PROGRESS.pack(META_VERSION, position, entry_count))


def decode_progress(value: bytes) -> tuple[int, int]:
    """(position, entry count). Raises CorruptRecord."""
    body = unseal("meta", b"progress", value)
    if len(body) != _PROGRESS.size or body[0] != META_VERSION:
        raise CorruptRecord("meta", b"progress", f"must be version {META_VERSION} and {_PROGRESS.size + 8} bytes")
    _, position, entry_count = _PROGRESS.unpack(body)
    return position, entry_count


def encode_identity(settings_text: str, log_name: str) -> bytes:
    """What the state belongs to, written once: format, settings that change verdicts, log."""
    text = json.dumps({"format": STATE_FORMAT, "log": log_name, "settings": settings_text}, sort_keys=True)
    return seal(bytes([META_VERSION]) + text.encode())


def decode_identity(value: bytes) -> tuple[int, str, str]:
    """(state format, settings text, log name). Raises CorruptRecord."""
    body = unseal("meta", b"identity", value)
    if not body or body[0] != META_VERSION:
        raise CorruptRecord("meta", b"identity", f"must be version {META_VERSION}")
    fields = json.loads(body[1:])
    return fields["format"], fields["settings"], fields["log"]


def seal(body: bytes) -> bytes:
    """body, then its xxh3-64, little endian."""
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def unseal(store: str, key: bytes, value: bytes) -> bytes:
    """The body of a sealed value. Raises CorruptRecord where the checksum is another."""
    body = value[: -_CHECKSUM.size]
    if len(value) <= _CHECKSUM.size or _CHECKSUM.unpack(value[-_CHECKSUM.size :])[0] != xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(store, key, "must end in its xxh3-64 checksum")
    return body
