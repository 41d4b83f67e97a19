"""Reads HTML character references such as `&amp;`, `&#123;` and `&#x7B;`, by the HTML standard's rules (13.2.5.72)."""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import hash_bytes
from spotsieve.stream.text.machine import slots
from spotsieve.stream.text.machine.memory import byte_at, load_int, load_word
from spotsieve.stream.text.tables import ENTITY_SLOT_BITS, LONGEST_BARE_ENTITY, LONGEST_ENTITY
from spotsieve.stream.text.utf8 import REPLACEMENT, is_alphanumeric

# What numeric references 128..159 mean: windows-1252 (HTML standard, numeric character reference end state)
# fmt: off
_WINDOWS_1252 = np.array([
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D,
    0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A,
    0x0153, 0x009D, 0x017E, 0x0178,
], dtype=np.int64)
# fmt: on


@part
def reference(state, address, end):  # int64, int64, int64 -> (int64, int64, int64)
    """(code point, second code point or 0, bytes) of the character reference at '&'; (32, 0, 1) where it is none."""
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
    """The entry of stream/text/tables.py for the hash of an entity name, 0 for none."""
    slot = np.int64(key >> np.uint64(64 - ENTITY_SLOT_BITS))
    keys = load_int(state + slots.ENTITY_KEYS)
    while True:
        found = load_word(keys + (slot << 3))
        if found == key:
            return load_word(load_int(state + slots.ENTITY_VALUES) + (slot << 3))
        if found == np.uint64(0):
            return found
        slot = (slot + 1) & ((1 << ENTITY_SLOT_BITS) - 1)


@part
def numeric_reference(address, end):  # int64, int64 -> (int64, int64, int64)
    """The same for `&#123;` and `&#x7B;`, by the rules of the HTML standard."""
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
