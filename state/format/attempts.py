"""Encodes and decodes attempts: the verdicts of pages that are not filed, until they are committed.

key   = source number u32, partition u32 (plus 2**31), offset u64, all big endian: in the order of page ids
value = version u8 (1), original i64, score f64, reason u8, found_by u8
"""

import struct
from math import nan

from spotsieve.state.index import NOBODY, Attempt
from spotsieve.stream.errors import CorruptRecord

ATTEMPT_VERSION = 1
KEY_BYTES = 16
_KEY = struct.Struct(">IIQ")
_VALUE = struct.Struct("<BqdBB")
_SHIFT = 2**31
"""Added to partitions, so that keys of negative ones come first."""


def attempt_key(source: int, partition: int, offset: int) -> bytes:
    """Write the key of a page. source: its number"""
    return _KEY.pack(source, partition + _SHIFT, offset)


def page_of_key(key: bytes) -> tuple[int, int, int]:
    """Read a key of KEY_BYTES -> source number, partition, offset."""
    source, partition, offset = _KEY.unpack(key)
    return source, partition - _SHIFT, offset


def encode_attempt(attempt: Attempt) -> bytes:
    """Write a verdict."""
    original, score, reason, found_by = attempt
    # Of the many numbers that are none only one is stored, so that equal attempts have equal bytes.
    return _VALUE.pack(ATTEMPT_VERSION, original, score if score == score else nan, reason, found_by)


def decode_attempt(key: bytes, value: bytes) -> Attempt:
    """Read a verdict. Raises CorruptRecord."""
    if len(value) != _VALUE.size or value[0] != ATTEMPT_VERSION:
        raise CorruptRecord("attempts", key, f"must be version {ATTEMPT_VERSION} and {_VALUE.size} bytes")
    _, original, score, reason, found_by = _VALUE.unpack(value)
    # A score goes with an original; not a number stands for none. An original without a score is the page replaced.
    if original < NOBODY or (original == NOBODY and score == score):
        raise CorruptRecord("attempts", key, "must have an entry number, with or without a score, or neither")
    return Attempt(original, score, reason, found_by)
