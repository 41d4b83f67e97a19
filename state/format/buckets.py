"""Encodes and decodes keys and buckets (the postings of one key). state/FORMATS.md has the grammar.

A bucket has no checksum of its own. RocksDB keeps one on every block of a table file and on every write-ahead record,
and verifies it at each read. Decoding checks the version, the length and the order of entry numbers.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS, KEY_BITS


def encode_keys(numbers: NDArray[np.uint64]) -> list[bytes]:
    """Write numbers: uint64[n] -> n keys of 8 bytes, big endian, so that RocksDB keeps them in numeric order."""
    keys: list[bytes] = numbers.astype(_BIG_ENDIAN).view(_KEY).tolist()
    return keys


_BIG_ENDIAN, _KEY = np.dtype(">u8"), np.dtype("V8")
"""The dtypes of keys, because NumPy takes as long to read their names as to convert a few numbers."""


def decode_keys(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Read n keys of 8 bytes -> their numbers: uint64[n]."""
    return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)


@kernel
def write_word(buffer, at, size, word):
    """Write the low `size` bytes of word: uint64 -> buffer: uint8[at:at + size]."""
    for byte in range(size):
        buffer[at + byte] = np.uint8(word >> np.uint64(8 * byte) & np.uint64(255))


@kernel
def read_word(buffer, at, size):
    """Read buffer: uint8[at:at + size] -> uint64."""
    word = np.uint64(0)
    for byte in range(size):
        word |= np.uint64(buffer[at + byte]) << np.uint64(8 * byte)
    return word


BUCKET_VERSION = 2
NUMBER_BYTES = 5
"""Size of an entry number in a posting: enough for 10^12 pages."""
INLINE_BYTES = dict.fromkeys(BARE_TAGS, 0)
"""Size of the inline word in a posting, by the tag of the key; all other tags keep 8 bytes."""
_TAG_SHIFT = np.uint64(KEY_BITS)
_POSTING_BYTES = np.array([NUMBER_BYTES + INLINE_BYTES.get(tag, 8) for tag in range(256)])


def encode_buckets(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """Write the buckets under keys: uint64[u] -> u values: the version byte, then the postings, little endian.

    A posting is the entry number in 5 bytes, then 0 or 8 bytes of inline word by the tag of the key (INLINE_BYTES).
    """
    buffer, ends = _write_buckets(keys, _POSTING_BYTES, buckets.bounds, buckets.numbers, buckets.inlines)
    raw = buffer.tobytes()
    return [raw[start:end] for start, end in pairwise(ends.tolist())]


def decode_buckets(keys: NDArray[np.uint64], values: Sequence[bytes | None]) -> Buckets:
    """Read the values under keys: uint64[u] -> their postings. None is an empty bucket.

    An inline word that is not stored is 0. Raises CorruptRecord, which names the key.
    """
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    raw = np.frombuffer(b"".join(filter(None, values)), np.uint8)
    bounds, numbers, inlines, wrong = _read_buckets(keys, _POSTING_BYTES, raw, lengths)
    if wrong >= 0:
        raise CorruptRecord(
            "buckets",
            encode_keys(keys[wrong : wrong + 1])[0],
            f"must be version {BUCKET_VERSION} and whole postings in ascending order of entry number",
        )
    return Buckets(bounds, numbers, inlines)


@kernel
def _write_buckets(keys, posting_bytes, bounds, numbers, inlines):
    # keys: uint64[u]  posting_bytes: int64[256], by tag  bounds: int64[u + 1]  numbers, inlines: uint64[p]
    # ->  buffer: uint8[...], ends: int64[u + 1], of the values
    ends = np.zeros(len(keys) + 1, np.int64)
    for bucket in range(len(keys)):
        size = posting_bytes[keys[bucket] >> _TAG_SHIFT]
        ends[bucket + 1] = ends[bucket] + 1 + size * (bounds[bucket + 1] - bounds[bucket])
    buffer = np.empty(ends[len(keys)], np.uint8)
    for bucket in range(len(keys)):
        at, size = ends[bucket], posting_bytes[keys[bucket] >> _TAG_SHIFT]
        buffer[at] = BUCKET_VERSION
        at += 1
        for posting in range(bounds[bucket], bounds[bucket + 1]):
            write_word(buffer, at, NUMBER_BYTES, numbers[posting])
            write_word(buffer, at + NUMBER_BYTES, size - NUMBER_BYTES, inlines[posting])
            at += size
    return buffer, ends


@kernel
def _read_buckets(keys, posting_bytes, buffer, lengths):
    # keys: uint64[u]  posting_bytes: int64[256], by tag  buffer: uint8[...]  lengths: int64[u], -1: a missing value
    # ->  the columns of Buckets, and the first bad value, or -1
    bounds = np.zeros(len(keys) + 1, np.int64)
    for bucket in range(len(keys)):
        size = posting_bytes[keys[bucket] >> _TAG_SHIFT]
        bounds[bucket + 1] = bounds[bucket] + max(lengths[bucket] - 1, 0) // size
    numbers, inlines = np.empty(bounds[len(keys)], np.uint64), np.empty(bounds[len(keys)], np.uint64)
    at, posting = 0, 0
    for bucket in range(len(keys)):
        length, size = lengths[bucket], posting_bytes[keys[bucket] >> _TAG_SHIFT]
        if length < 0:
            continue
        if length < 1 + size or (length - 1) % size or buffer[at] != BUCKET_VERSION:
            return bounds, numbers, inlines, bucket
        at += 1
        for place in range((length - 1) // size):
            numbers[posting] = read_word(buffer, at, NUMBER_BYTES)
            inlines[posting] = read_word(buffer, at + NUMBER_BYTES, size - NUMBER_BYTES)
            if place > 0 and numbers[posting] <= numbers[posting - 1]:
                return bounds, numbers, inlines, bucket
            posting += 1
            at += size
    return bounds, numbers, inlines, -1
