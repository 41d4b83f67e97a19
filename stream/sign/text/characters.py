"""Holds the frozen character and entity tables, and decodes UTF-8 and HTML character references.

The tables are files of this repository (characters.txt, compositions.txt, entities.txt), not data of the running
Python. So a page gives the same tokens, and the same verdict, with every Unicode version of the interpreter. The
digests below guard the files.

    leaves[pages[code point >> 7] << 7 | code point & 127] = joins << 30 | order << 24 | folded << 3 | class

`folded` is the code point that the character is read as, or the place of several in `expansions`. `order` and `joins`
are zero except for marks: marks are sorted by ascending order, and `joins` says with which characters a mark may
compose (JOINS_LETTERS, JOINS_MARKS).

UTF-8 is read and written one character at a time (Unicode 14, table 3-7). Character references such as `&amp;`,
`&#123;` and `&#x7B;` follow the HTML standard (13.2.5.72).
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.hashing import hash_bytes, hash_token
from spotsieve.stream.sign.text.machine import byte_at, load_int, load_short, load_word, put_byte

DIGESTS = {
    "characters.txt": "d00b872274dd63c30d0e4c6b5600c84d423dccb2991c5c6666032066f5a0d498",
    "compositions.txt": "56f52dfe8ac0093a8bbabcb943ac48cc1769edcd958e4567996589f8c891b61c",
    "entities.txt": "babbbc3f719300853aba95028b9456ab8d030759f875397b6be991f00ce8e2ad",
}

SEPARATOR, WORD, MARK, IDEOGRAPH, IGNORED, EXPANDED, JOINING, OPEN_IDEOGRAPH = range(8)
"""Classes of characters. SEPARATOR ends a token. WORD is part of a token. MARK is part of an open token, and
ignored elsewhere. IDEOGRAPH is a token by itself. IGNORED has no effect. EXPANDED is read as several characters.
JOINING is a WORD that may compose with the character before it. OPEN_IDEOGRAPH is an IDEOGRAPH that may compose with
marks after it."""
CLASS_MASK = 7
CODE_POINT_BITS = 21
CODE_POINT_MASK = (1 << CODE_POINT_BITS) - 1
ORDER_SHIFT, ORDER_BITS = 24, 6
ORDER_MASK = (1 << ORDER_BITS) - 1
JOINS_LETTERS, JOINS_MARKS = 1 << 30, 1 << 31

LONGEST_ENTITY = 32
"""Characters of the longest entity name, including its ';'."""
LONGEST_BARE_ENTITY = 6
"""Characters of the longest entity name that may omit its ';'."""

ENTITY_SLOT_BITS = 13
COMPOSITION_SLOT_BITS = 12
COMPOSITION_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LEAF_BITS = 7
_CODE_POINTS = 0x110000
_CLASSES = {
    "w": WORD,
    "m": MARK,
    "i": IDEOGRAPH,
    "x": IGNORED,
    "e": EXPANDED,
    "j": JOINING,
    "o": OPEN_IDEOGRAPH,
}
_JOINS = {"w": JOINS_LETTERS, "m": JOINS_MARKS}
_DOTTED_I = re.compile("i([\u0300-\u036f]*?)\u0307")


@dataclass(frozen=True, slots=True)
class TextTables:
    """The frozen tables as arrays.

    pages: uint16[8704]  leaves: uint32[m * 128]
    expansions: uint32[e], for each EXPANDED character the number of code points, and the code points
    composition_keys, composition_values: uint64[4096], a hash table with linear probing; key 0 is an empty slot. The
    key `first << 21 | second` has the composite. The key `composite` has the full decomposition: up to three code
    points of 21 bits, the first one lowest. Hangul syllables are not in the table.
    entity_keys, entity_values: uint64[8192], a hash table by entity name with linear probing; key 0 is an empty slot.
    A value is the first code point, and the second, if any, shifted left by 32.
    """

    pages: NDArray[np.uint16]
    leaves: NDArray[np.uint32]
    expansions: NDArray[np.uint32]
    composition_keys: NDArray[np.uint64]
    composition_values: NDArray[np.uint64]
    entity_keys: NDArray[np.uint64]
    entity_values: NDArray[np.uint64]


@cache
def text_tables() -> TextTables:
    """The tables, read once per process. Raises RuntimeError if a file does not have its digest."""
    return TextTables(
        *_character_arrays(frozen_lines("characters.txt")),
        *_composition_arrays(frozen_lines("compositions.txt")),
        *_entity_arrays(frozen_lines("entities.txt")),
    )


def class_and_folding(character: str) -> tuple[int, str]:
    """The class of a character, and the characters as which it is read; a separator, and an ignored one, as itself."""
    tables = text_tables()
    page, place = divmod(ord(character), 1 << _LEAF_BITS)
    entry = int(tables.leaves[int(tables.pages[page]) << _LEAF_BITS | place])
    kind, folded = entry & CLASS_MASK, entry >> 3 & CODE_POINT_MASK
    if kind == EXPANDED:
        count = int(tables.expansions[folded])
        return kind, "".join(map(chr, tables.expansions[folded + 1 : folded + 1 + count].tolist()))
    return kind, character if kind == SEPARATOR else chr(folded)


def normalised(text: str) -> str:
    """The text as the kernel reads it, with its separators: folded, without ignored characters, and in NFC."""
    folded = [folding for kind, folding in map(class_and_folding, text) if kind != IGNORED]
    decomposed = unicodedata.normalize("NFD", "".join(folded)).replace("\u0345", "\u03b9")
    return unicodedata.normalize("NFC", _DOTTED_I.sub(r"i\1", decomposed))


def is_token(word: str) -> bool:
    """Whether `word` is a token: normalised, and not cut by a separator."""
    if not word or normalised(word) != word:
        return False
    first, *others = (class_and_folding(character)[0] for character in word)
    if first in (IDEOGRAPH, OPEN_IDEOGRAPH):
        return not others
    return first in (WORD, JOINING) and all(kind in (WORD, JOINING, MARK) for kind in others)


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


def _character_arrays(lines: list[str]) -> tuple[NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint32]]:
    columns = [line.split() for line in lines]
    combining = sorted({0, *(int(line[3]) for line in columns if line[1] == "m")})
    entries = np.arange(_CODE_POINTS, dtype=np.uint32) << np.uint32(3)
    expansions: list[int] = []
    for span, kind, *values in columns:
        first, last = (int(end, 16) for end in span.split("-"))
        if kind == "e":
            entries[first : last + 1] = len(expansions) << 3 | EXPANDED
            expansions += [len(values), *(int(value, 16) for value in values)]
            continue
        folded = np.arange(first, last + 1, dtype=np.int64) + int(values[0])
        order, joins = 0, 0
        if kind == "m":
            order = combining.index(int(values[1]))
            joins = sum(_JOINS.get(other, 0) for other in values[2])
        entries[first : last + 1] = joins | order << ORDER_SHIFT | folded << 3 | _CLASSES[kind]
    rows = entries.reshape(-1, 1 << _LEAF_BITS)
    # Most leaves hold only separators. They share one leaf, because the folding of a separator is never read.
    separators = (rows & np.uint32(CLASS_MASK) == SEPARATOR).all(axis=1)
    others = np.flatnonzero(~separators)
    pages = np.zeros(len(rows), dtype=np.uint16)
    pages[others] = np.arange(1, len(others) + 1)
    leaves = np.vstack([np.zeros((1, 1 << _LEAF_BITS), dtype=np.uint32), rows[others]])
    return pages, np.ascontiguousarray(leaves.reshape(-1)), np.array(expansions, dtype=np.uint32)


def _composition_arrays(lines: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    parts = {composite: (first, second) for composite, first, second in (_code_points(line) for line in lines)}
    table: dict[int, int] = {}
    for composite, (first, second) in parts.items():
        table[first << CODE_POINT_BITS | second] = composite
        decomposed = [first, second]
        while decomposed[0] in parts:
            decomposed[:1] = parts[decomposed[0]]
        table[composite] = sum(one << CODE_POINT_BITS * place for place, one in enumerate(decomposed))
    return _hash_table(table, COMPOSITION_SLOT_BITS, int(COMPOSITION_MULTIPLIER))


def _code_points(line: str) -> list[int]:
    return [int(column, 16) for column in line.split()]


def _entity_arrays(lines: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    table: dict[int, int] = {}
    for line in lines:
        name, first, *second = line.split()
        table[hash_token(name.encode("ascii"))] = int(first, 16) | (int(second[0], 16) << 32 if second else 0)
    return _hash_table(table, ENTITY_SLOT_BITS, 1)


def _hash_table(
    table: Mapping[int, int], slot_bits: int, multiplier: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Keys and values in 2^slot_bits slots, for table_value. A key stands at or behind slot_of(key * multiplier)."""
    slots = 1 << slot_bits
    keys, values = np.zeros(slots, dtype=np.uint64), np.zeros(slots, dtype=np.uint64)
    for key, value in table.items():
        slot = (key * multiplier % 2**64) >> (64 - slot_bits)
        while keys[slot]:
            slot = (slot + 1) % slots
        keys[slot], values[slot] = key, value
    return keys, values


@part
def table_value(keys, values, slot_bits, mixed, key):  # int64, int64, int64, uint64, uint64 -> uint64
    """The value of a key in a hash table with linear probing, or 0.

    keys, values: addresses of uint64[2^slot_bits]; key 0 is an empty slot  mixed: its highest bits are the first slot
    """
    slot = np.int64(mixed >> np.uint64(64 - slot_bits))
    while True:
        found = load_word(keys + (slot << 3))
        if found == key:
            return load_word(values + (slot << 3))
        if found == np.uint64(0):
            return found
        slot = (slot + 1) & ((1 << slot_bits) - 1)


@part
def character_entry(state, code_point):  # int64, int64 -> int64
    """The entry of a code point in the character table."""
    return entry_in(load_int(state + scan_layout.PAGES), load_int(state + scan_layout.LEAVES), code_point)


@part
def entry_in(pages, leaves, code_point):  # int64, int64, int64 -> int64
    """The entry of a code point in the table at these addresses."""
    page = np.int64(load_short(pages + ((code_point >> 7) << 1)))
    return np.int64(load_word(leaves + (((page << 7) | (code_point & 127)) << 2)) & np.uint64(0xFFFFFFFF))


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
def character_length(address):  # int64 -> int64
    """Bytes of the valid UTF-8 character at `address`."""
    lead = byte_at(address)
    return np.int64(1) + np.int64(lead >= 0xC0) + np.int64(lead >= 0xE0) + np.int64(lead >= 0xF0)


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
    keys, values = load_int(state + scan_layout.ENTITY_KEYS), load_int(state + scan_layout.ENTITY_VALUES)
    return table_value(keys, values, ENTITY_SLOT_BITS, key, key)


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
