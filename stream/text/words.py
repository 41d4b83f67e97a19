"""The careful way through text, character by character: UTF-8, character references, normalisation of one word.

The scanner (stream/text/scan.py) takes plain ASCII words in strides and comes here for everything else.

A kernel run keeps its state in one int64 array, so that functions that are called now and then need one argument.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# numba compiles these from their argument types; see the comment of each for them.

import numpy as np

from spotsieve.stream.text.hashing import LONE, hash_bytes
from spotsieve.stream.text.sources import part
from spotsieve.stream.text.tables import (
    ENTITY_SLOT_BITS,
    IDEOGRAPH,
    IGNORED,
    LONGEST_BARE_ENTITY,
    LONGEST_ENTITY,
    MARK,
    WORD,
)
from spotsieve.stream.text.vectors import (
    byte_at,
    load_int,
    load_short,
    load_word,
    put_byte,
    put_int,
    put_int32,
    put_word,
)

# Slots of the run's state: byte offsets into int64[32]. Addresses are of the arrays named in stream/text/batch.py.
TOKEN_COUNT, WORD_LENGTH, TRACE_LENGTH = 0, 8, 16
BLOCK_COUNT, BLOCK_START = 24, 32
LINKS, IN_LINK, SECTIONS, LEAD = 40, 48, 56, 64
TOKENS, BLOCKS, SPELLED, TRACE = 72, 80, 88, 96
PAGES, LEAVES, ENTITY_KEYS, ENTITY_VALUES = 104, 112, 120, 128
NAMES, TRAITS, NAME_MULTIPLIER = 136, 144, 152
SOURCES = 160
STATE_SLOTS = 24
LAST_CLEARED = LEAD

BLOCK_SHIFT = 5
"""A block is noted in 2^5 bytes: the tokens before its end: int32, those of them in links: int32, the depths of the
sections open around it: uint64 (4 bits each, stream/text/elements.py), its lead: int32."""
BLOCK_LINKS, BLOCK_SECTIONS, BLOCK_LEAD = 4, 8, 16

MARKUP, ESCAPABLE, RAW = 0, 1, 2
"""Kinds of text: '<' ends it; '<' is text; '<' and '&' are text. In the last two, NUL separates tokens."""

_U1 = np.uint64(1)
_REPLACEMENT = 0xFFFD
# What numeric references 128..159 mean: windows-1252 (HTML standard, numeric character reference end state)
# fmt: off
_WINDOWS_1252 = np.array([
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008D,
    0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A,
    0x0153, 0x009D, 0x017E, 0x0178,
], dtype=np.int64)
# fmt: on


@part
def is_alphanumeric(character):  # uint8 -> bool
    """Whether a byte is an ASCII letter or digit."""
    lowered = np.int64(character) | 0x20
    return (97 <= lowered <= 122) or (48 <= np.int64(character) <= 57)


@part
def add_token(state, token, address, length, lower):  # int64, uint64, int64, int64, uint8 -> None
    """Append a token; with tracing on also its `length` bytes at `address`, with the bits of `lower` set."""
    count = load_int(state + TOKEN_COUNT)
    put_word(load_int(state + TOKENS) + (count << 3), token)
    put_int(state + TOKEN_COUNT, count + 1)
    if load_int(state + TRACE) != 0:
        trace_token(state, address, length, lower)


@part
def trace_token(state, address, length, lower):  # int64, int64, int64, uint8 -> None
    """Append the token's bytes, with the bits of `lower` set, and a line feed to the trace."""
    place = load_int(state + TRACE_LENGTH)
    target = load_int(state + TRACE) + place
    for index in range(length):
        put_byte(target + index, np.int64(byte_at(address + index) | lower))
    put_byte(target + length, np.int64(10))
    put_int(state + TRACE_LENGTH, place + length + 1)


@part
def close_word(state):  # int64 -> None
    """End the word that is being spelled, if any."""
    length = load_int(state + WORD_LENGTH)
    if length > 0:
        address = load_int(state + SPELLED)
        add_token(state, hash_bytes(address, length), address, length, np.uint8(0))
        put_int(state + WORD_LENGTH, np.int64(0))


@part
def reopen_token(state, address, length):  # int64, int64, int64 -> None
    """Take the last token back, it goes on: its source, ASCII bytes at `address`, becomes the beginning of a word."""
    put_int(state + TOKEN_COUNT, load_int(state + TOKEN_COUNT) - 1)
    put_int(state + TRACE_LENGTH, load_int(state + TRACE_LENGTH) - length - 1)
    target = load_int(state + SPELLED)
    for index in range(length):
        put_byte(target + index, np.int64(byte_at(address + index)) | 0x20)
    put_int(state + WORD_LENGTH, length)


@part
def end_block(state):  # int64 -> None
    """End the current block; one without tokens is none."""
    count, blocks = load_int(state + TOKEN_COUNT), load_int(state + BLOCK_COUNT)
    if count > load_int(state + BLOCK_START):
        record = load_int(state + BLOCKS) + (blocks << BLOCK_SHIFT)
        put_int32(record, count)
        put_int32(record + BLOCK_LINKS, load_int(state + LINKS) + load_int(state + IN_LINK) * count)
        put_int(record + BLOCK_SECTIONS, load_int(state + SECTIONS))
        put_int32(record + BLOCK_LEAD, load_int(state + LEAD))
        put_int(state + BLOCK_COUNT, blocks + 1)
        put_int(state + BLOCK_START, count)


@part
def spell(state, address, end, kind):  # int64, int64, int64, int64 -> int64
    """Read text from `address`, going on with the open word.

    Stops at `end`, and in MARKUP before '<' (both leave the word open) and after what ended a word, where the scanner's
    stride can take over. Returns the address of the first byte not read.
    """
    spelled = load_int(state + SPELLED)
    while address < end:
        character = byte_at(address)
        if character >= 0x80:
            code_point, length = decode(address, end)
            spell_character(state, code_point)
            address += length
        elif is_alphanumeric(character):
            length = load_int(state + WORD_LENGTH)
            put_byte(spelled + length, np.int64(character) | 0x20)
            put_int(state + WORD_LENGTH, length + 1)
            address += 1
            continue
        elif character == 60 and kind == MARKUP:
            return address
        elif character == 0 and kind == MARKUP:
            address += 1
            continue
        else:
            first, second, length = np.int64(32), np.int64(0), np.int64(1)
            if character == 38 and kind != RAW:
                first, second, length = reference(state, address, end)
            spell_character(state, first)
            if second != 0:
                spell_character(state, second)
            address += length
        if kind == MARKUP and load_int(state + WORD_LENGTH) == 0 and byte_at(address) < 0x80:
            return address
    return address


@part
def spell_character(state, code_point):  # int64, int64 -> None
    """Add one character to the open word, or end it (stream/text/tables.py has the classes)."""
    page = np.int64(load_short(load_int(state + PAGES) + ((code_point >> 7) << 1)))
    leaf = load_int(state + LEAVES) + (((page << 7) | (code_point & 127)) << 2)
    entry = np.int64(load_word(leaf) & np.uint64(0xFFFFFFFF))
    kind = entry & 7
    length = load_int(state + WORD_LENGTH)
    if kind == WORD or (kind == MARK and length > 0):
        put_int(state + WORD_LENGTH, length + encode(load_int(state + SPELLED) + length, entry >> 3))
    elif kind == IDEOGRAPH:
        close_word(state)
        address = load_int(state + SPELLED)
        length = encode(address, entry >> 3)
        add_token(state, hash_bytes(address, length) | np.uint64(LONE), address, length, np.uint8(0))
    elif kind != IGNORED and kind != MARK:
        close_word(state)


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
        return _REPLACEMENT, 1
    needed = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
    if address + needed > end:
        return _REPLACEMENT, 1
    second = np.int64(byte_at(address + 1))
    if second & 0xC0 != 0x80:
        return _REPLACEMENT, 1
    if needed == 2:
        return (first & 31) << 6 | second & 63, 2
    third = np.int64(byte_at(address + 2))
    if third & 0xC0 != 0x80:
        return _REPLACEMENT, 1
    if needed == 3:
        code_point = (first & 15) << 12 | (second & 63) << 6 | third & 63
        valid = code_point >= 0x800 and not 0xD800 <= code_point <= 0xDFFF
    else:
        fourth = np.int64(byte_at(address + 3))
        code_point = (first & 7) << 18 | (second & 63) << 12 | (third & 63) << 6 | fourth & 63
        valid = fourth & 0xC0 == 0x80 and 0x10000 <= code_point <= 0x10FFFF
    if valid:
        return code_point, needed
    return _REPLACEMENT, 1


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
    keys = load_int(state + ENTITY_KEYS)
    while True:
        found = load_word(keys + (slot << 3))
        if found == key:
            return load_word(load_int(state + ENTITY_VALUES) + (slot << 3))
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
        code_point = np.int64(_REPLACEMENT)
    return code_point, np.int64(0), position - address
