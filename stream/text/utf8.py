"""Reads and writes UTF-8, one character at a time, as Unicode 14 says it (table 3-7)."""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.machine.memory import byte_at, put_byte

REPLACEMENT = 0xFFFD
"""The code point that stands for bytes which are no UTF-8."""


@part
def is_alphanumeric(character):  # uint8 -> bool
    """Whether a byte is an ASCII letter or digit."""
    lowered = np.int64(character) | 0x20
    return (97 <= lowered <= 122) or (48 <= np.int64(character) <= 57)


@part
def encode(address, code_point):  # int64, int64 -> int64
    """Write a code point as UTF-8, return the number of bytes."""
    if code_point < 0x80:
        put_byte(address, code_point)
        return 1
    if code_point < 0x800:
        put_byte(address, 0xC0 | code_point >> 6)
        put_byte(address + 1, 0x80 | code_point & 63)
        return 2
    if code_point < 0x10000:
        put_byte(address, 0xE0 | code_point >> 12)
        put_byte(address + 1, 0x80 | code_point >> 6 & 63)
        put_byte(address + 2, 0x80 | code_point & 63)
        return 3
    put_byte(address, 0xF0 | code_point >> 18)
    put_byte(address + 1, 0x80 | code_point >> 12 & 63)
    put_byte(address + 2, 0x80 | code_point >> 6 & 63)
    put_byte(address + 3, 0x80 | code_point & 63)
    return 4


@part
def decode(address, end):  # int64, int64 -> (int64, int64)
    """(code point, bytes) of the UTF-8 at `address`; U+FFFD and 1 where it is none (Unicode 14, table 3-7)."""
    first = np.int64(byte_at(address))
    if first < 0xC2 or first > 0xF4:
        return REPLACEMENT, 1
    needed = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
    if address + needed > end:
        return REPLACEMENT, 1
    second = np.int64(byte_at(address + 1))
    if second & 0xC0 != 0x80:
        return REPLACEMENT, 1
    if needed == 2:
        return (first & 31) << 6 | second & 63, 2
    third = np.int64(byte_at(address + 2))
    if third & 0xC0 != 0x80:
        return REPLACEMENT, 1
    if needed == 3:
        code_point = (first & 15) << 12 | (second & 63) << 6 | third & 63
        valid = code_point >= 0x800 and not 0xD800 <= code_point <= 0xDFFF
    else:
        fourth = np.int64(byte_at(address + 3))
        code_point = (first & 7) << 18 | (second & 63) << 12 | (third & 63) << 6 | fourth & 63
        valid = fourth & 0xC0 == 0x80 and 0x10000 <= code_point <= 0x10FFFF
    if valid:
        return code_point, needed
    return REPLACEMENT, 1
