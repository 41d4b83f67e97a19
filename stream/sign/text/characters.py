"""Holds the frozen character and entity tables, and decodes UTF-8 and HTML character references.

The tables are files of this repository (characters.txt, entities.txt), not data of the running Python. So a page gives
the same tokens, and the same verdict, with every Unicode version of the interpreter. The digests below guard the files.

    leaves[pages[code point >> 7] << 7 | code point & 127] = lower case << 3 | class

UTF-8 is read and written one character at a time (Unicode 14, table 3-7). Character references such as `&amp;`,
`&#123;` and `&#x7B;` follow the HTML standard (13.2.5.72).
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.hashing import hash_bytes, hash_token
from spotsieve.stream.sign.text.machine import byte_at, load_int, load_word, put_byte

DIGESTS = {
    "characters.txt": "7f99ff229b255b0107ba3ae3e258f348d1f22a9db16e9b64ad623e7464f035ad",
    "entities.txt": "babbbc3f719300853aba95028b9456ab8d030759f875397b6be991f00ce8e2ad",
}

SEPARATOR, WORD, MARK, IDEOGRAPH, IGNORED = range(5)
"""Classes of characters. SEPARATOR ends a token. WORD is part of a token. MARK is part of an open token, and
ignored elsewhere. IDEOGRAPH is a token by itself. IGNORED has no effect."""

LONGEST_ENTITY = 32
"""Characters of the longest entity name, including its ';'."""
LONGEST_BARE_ENTITY = 6
"""Characters of the longest entity name that may omit its ';'."""

ENTITY_SLOT_BITS = 13
_LEAF_BITS = 7
_CODE_POINTS = 0x110000
_CLASSES = {"w": WORD, "m": MARK, "i": IDEOGRAPH, "x": IGNORED}


@dataclass(frozen=True, slots=True)
class TextTables:
    """The frozen tables as arrays.

    pages: uint16[8704]  leaves: uint32[m * 128]
    entity_keys, entity_values: uint64[8192], a hash table by entity name with linear probing; key 0 is an empty slot.
    A value is the first code point, and the second, if any, shifted left by 32.
    """

    pages: NDArray[np.uint16]
    leaves: NDArray[np.uint32]
    entity_keys: NDArray[np.uint64]
    entity_values: NDArray[np.uint64]


@cache
def text_tables() -> TextTables:
    """The tables, read once per process. Raises RuntimeError if a file does not have its digest."""
    pages, leaves = _character_arrays(frozen_lines("characters.txt"))
    keys, values = _entity_arrays(frozen_lines("entities.txt"))
    return TextTables(pages, leaves, keys, values)


def class_and_lower(code_point: int) -> tuple[int, int]:
    """Class and lower case of a code point, from the frozen table."""
    tables = text_tables()
    leaf = int(tables.pages[code_point >> _LEAF_BITS]) << _LEAF_BITS
    entry = int(tables.leaves[leaf | code_point & (1 << _LEAF_BITS) - 1])
    return entry & 7, entry >> 3


def is_token(word: str) -> bool:
    """Whether `word` is a token: normalised, and not cut by a separator."""
    if not word:
        return False
    kinds = [class_and_lower(ord(character))[0] for character in word]
    if any(class_and_lower(ord(character))[1] != ord(character) for character in word):
        return False
    if kinds == [IDEOGRAPH]:
        return True
    return kinds[0] == WORD and all(kind in (WORD, MARK) for kind in kinds)


def frozen_lines(name: str) -> list[str]:
    """Lines of a frozen file without its header. Raises RuntimeError if the file does not have its digest."""
    written = files(__package__).joinpath(name).read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGESTS[name]:
        raise RuntimeError(
            f"stream/sign/text/{name} must have the digest {DIGESTS[name]}, got {digest}; "
            "install the package again, or put the new digest into stream/sign/text/characters.py if you changed it"
        )
    return [line for line in written.decode("ascii").splitlines() if not line.startswith("#")]


def _character_arrays(lines: list[str]) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    entries = np.arange(_CODE_POINTS, dtype=np.uint32) << np.uint32(3)
    for line in lines:
        span, kind, delta = line.split()
        first, last = (int(end, 16) for end in span.split("-"))
        lower = np.arange(first, last + 1, dtype=np.int64) + int(delta)
        entries[first : last + 1] = lower << 3 | _CLASSES[kind]
    rows = entries.reshape(-1, 1 << _LEAF_BITS)
    # Most leaves hold only separators. They share one leaf, because the lower case of a separator is never read.
    separators = (rows & np.uint32(7) == SEPARATOR).all(axis=1)
    others = np.flatnonzero(~separators)
    pages = np.zeros(len(rows), dtype=np.uint16)
    pages[others] = np.arange(1, len(others) + 1)
    leaves = np.vstack([np.zeros((1, 1 << _LEAF_BITS), dtype=np.uint32), rows[others]])
    return pages, np.ascontiguousarray(leaves.reshape(-1))


def _entity_arrays(lines: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    slots = 1 << ENTITY_SLOT_BITS
    keys, values = np.zeros(slots, dtype=np.uint64), np.zeros(slots, dtype=np.uint64)
    for line in lines:
        name, first, *second = line.split()
        key = hash_token(name.encode("ascii"))
        slot = key >> (64 - ENTITY_SLOT_BITS)
        while keys[slot]:
            slot = (slot + 1) % slots
        keys[slot] = key
        values[slot] = int(first, 16) | (int(second[0], 16) << 32 if second else 0)
    return keys, values


# UTF-8

REPLACEMENT = 0xFFFD
"""Code point for bytes that are not valid UTF-8."""


@part
def is_alphanumeric(character):  # uint8 -> bool
    """Whether a byte is an ASCII letter or digit."""
    lowered = np.int64(character) | 0x20
    return (97 <= lowered <= 122) or (48 <= np.int64(character) <= 57)


@part
def encode(address, code_point):  # int64, int64 -> int64
    """Write a code point as UTF-8 and return the number of bytes."""
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
    """(code point, bytes) of the character at `address`; (U+FFFD, 1) for invalid UTF-8 (Unicode 14, table 3-7)."""
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


# Character references

# Numeric references 128..159 mean windows-1252 (HTML standard, numeric character reference end state).
# fmt: off
_WINDOWS_1252 = np.array([
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D,
    0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A,
    0x0153, 0x009D, 0x017E, 0x0178,
], dtype=np.int64)
# fmt: on


@part
def reference(state, address, end):  # int64, int64, int64 -> (int64, int64, int64)
    """(code point, second code point or 0, bytes) of the character reference at '&'; (32, 0, 1) if there is none."""
    name = address + 1
    if name < end and byte_at(name) == 35:
        return numeric_reference(address, end)
    length = 0
    while length <= LONGEST_ENTITY and name + length < end and is_alphanumeric(byte_at(name + length)):
        length += 1
    if length < LONGEST_ENTITY and name + length < end and byte_at(name + length) == 59:
        value = entity_value(state, hash_bytes(name, length + 1))
        if value != np.uint64(0):
            return np.int64(value & np.uint64(0xFFFFFFFF)), np.int64(value >> np.uint64(32)), length + 2
    length = min(length, LONGEST_BARE_ENTITY)
    while length >= 2:
        value = entity_value(state, hash_bytes(name, length))
        if value != np.uint64(0):
            return np.int64(value & np.uint64(0xFFFFFFFF)), np.int64(value >> np.uint64(32)), length + 1
        length -= 1
    return np.int64(32), np.int64(0), np.int64(1)


@part
def entity_value(state, key):  # int64, uint64 -> uint64
    """The value in the entity table for the hash of an entity name, or 0."""
    slot = np.int64(key >> np.uint64(64 - ENTITY_SLOT_BITS))
    keys = load_int(state + scan_layout.ENTITY_KEYS)
    while True:
        found = load_word(keys + (slot << 3))
        if found == key:
            return load_word(load_int(state + scan_layout.ENTITY_VALUES) + (slot << 3))
        if found == np.uint64(0):
            return found
        slot = (slot + 1) & ((1 << ENTITY_SLOT_BITS) - 1)


@part
def numeric_reference(address, end):  # int64, int64 -> (int64, int64, int64)
    """The same as reference(), for `&#123;` and `&#x7B;`."""
    position = address + 2
    hexadecimal = position < end and (byte_at(position) | 0x20) == 120
    if hexadecimal:
        position += 1
    digits = position
    code_point = np.int64(0)
    while position < end:
        character = np.int64(byte_at(position))
        lowered = character | 0x20
        if 48 <= character <= 57:
            digit = character - 48
        elif hexadecimal and 97 <= lowered <= 102:
            digit = lowered - 87
        else:
            break
        code_point = min(code_point * (16 if hexadecimal else 10) + digit, np.int64(0x110000))
        position += 1
    if position == digits:
        return np.int64(32), np.int64(0), np.int64(1)
    if position < end and byte_at(position) == 59:
        position += 1
    if 128 <= code_point < 160:
        code_point = _WINDOWS_1252[code_point - 128]
    elif code_point == 0 or code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
        code_point = np.int64(REPLACEMENT)
    return code_point, np.int64(0), position - address
