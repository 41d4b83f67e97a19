"""Encodes and decodes keys and buckets (the postings of one key). state/FORMATS.md has the grammar.

A bucket has no checksum of its own. RocksDB keeps one on every block of a table file and on every write-ahead record,
and verifies it at each read. Decoding checks the version, the length and the order of entry numbers.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.sign.fingerprints.permuted_tables import BARE_TAGS, KEY_BITS


def encode_keys(numbers: NDArray[np.uint64]) -> list[bytes]:
    """Write numbers: uint64[n] -> n keys of 8 bytes, big endian, so that RocksDB keeps them in numeric order."""
    keys: list[bytes] = numbers.astype(">u8").view("V8").tolist()
    return keys


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
_POSTING_BYTES = np.array([NUMBER_BYTES + INLINE_BYTES.get(tag, 8) for tag in range(256)])


def encode_buckets(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """Write the buckets under keys: uint64[u] -> u values: the version byte, then the postings, little endian.

    A posting is the entry number in 5 bytes, then 0 or 8 bytes of inline word by the tag of the key (INLINE_BYTES).
    """
    sizes = _posting_bytes(keys)
    ends = bounds_of(sizes_of(buckets.bounds) * sizes + 1)
    buffer = np.empty(int(ends[-1]), np.uint8)
    _write_buckets(sizes, buckets.bounds, buckets.numbers, buckets.inlines, buffer)
    raw, cuts = buffer.tobytes(), ends.tolist()
    return [raw[start:end] for start, end in pairwise(cuts)]


def decode_buckets(keys: NDArray[np.uint64], values: Sequence[bytes | None]) -> Buckets:
    """Read the values under keys: uint64[u] -> their postings. None is an empty bucket.

    An inline word that is not stored is 0. Raises CorruptRecord, which names the key.
    """
    sizes = _posting_bytes(keys)
    lengths = np.array([-1 if value is None else len(value) for value in values], np.int64)
    bounds = bounds_of(np.maximum(lengths - 1, 0) // sizes)
    numbers, inlines = np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64)
    wrong = _read_buckets(sizes, np.frombuffer(b"".join(filter(None, values)), np.uint8), lengths, numbers, inlines)
    if wrong >= 0:
        raise CorruptRecord(
            "buckets",
            encode_keys(keys[wrong : wrong + 1])[0],
            f"must be version {BUCKET_VERSION} and whole postings in ascending order of entry number",
        )
    return Buckets(bounds, numbers, inlines)


def _posting_bytes(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    return _POSTING_BYTES[(keys >> np.uint64(KEY_BITS)).astype(np.uint8)]


@kernel
def _write_buckets(sizes, bounds, numbers, inlines, buffer):
    # sizes: int64[u], bytes of a posting  bounds: int64[u + 1]  numbers, inlines: uint64[p]  ->  buffer: uint8[...]
    at = 0
    for bucket in range(len(sizes)):
        buffer[at] = BUCKET_VERSION
        at += 1
        for posting in range(bounds[bucket], bounds[bucket + 1]):
            write_word(buffer, at, NUMBER_BYTES, numbers[posting])
            write_word(buffer, at + NUMBER_BYTES, sizes[bucket] - NUMBER_BYTES, inlines[posting])
            at += sizes[bucket]


@kernel
def _read_buckets(sizes, buffer, lengths, numbers, inlines):
    # sizes: int64[u], bytes of a posting  buffer: uint8[...]  lengths: int64[u], -1 for a missing value
    # ->  numbers, inlines: uint64[p]; returns the first bad value, or -1
    at, posting = 0, 0
    for bucket in range(len(lengths)):
        length, size = lengths[bucket], sizes[bucket]
        if length < 0:
            continue
        if length < 1 + size or (length - 1) % size or buffer[at] != BUCKET_VERSION:
            return bucket
        at += 1
        for place in range((length - 1) // size):
            numbers[posting] = read_word(buffer, at, NUMBER_BYTES)
            inlines[posting] = read_word(buffer, at + NUMBER_BYTES, size - NUMBER_BYTES)
            if place > 0 and numbers[posting] <= numbers[posting - 1]:
                return bucket
            posting += 1
            at += size
    return -1
