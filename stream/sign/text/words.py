"""Scans text one character at a time: UTF-8, character references, and the normalisation of a word.

It is the slow path. The scanner (html/scan.py) takes plain ASCII words in strides, and calls these functions for all
other text. They also record tokens and blocks in the state (stream/sign/text/scan_layout.py).
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.characters import (
    IDEOGRAPH,
    IGNORED,
    MARK,
    WORD,
    decode,
    encode,
    is_alphanumeric,
    reference,
)
from spotsieve.stream.sign.text.hashing import LONE, digit_flag, hash_bytes, lone_flag
from spotsieve.stream.sign.text.machine import (
    byte_at,
    load_int,
    load_short,
    load_word,
    put_byte,
    put_int,
    put_int32,
    put_word,
)


@part
def add_token(state, token, address, length, lower):  # int64, uint64, int64, int64, uint8 -> None
    """Append a token. If tracing is on, also trace its `length` bytes at `address`, with the bits of `lower` set."""
    count = load_int(state + scan_layout.TOKEN_COUNT)
    put_word(load_int(state + scan_layout.TOKENS) + (count << 3), token)
    put_int(state + scan_layout.TOKEN_COUNT, count + 1)
    if load_int(state + scan_layout.TRACE) != 0:
        trace_token(state, address, length, lower)


@part
def trace_token(state, address, length, lower):  # int64, int64, int64, uint8 -> None
    """Append the bytes of a token, with the bits of `lower` set, and a line feed to the trace."""
    place = load_int(state + scan_layout.TRACE_LENGTH)
    target = load_int(state + scan_layout.TRACE) + place
    for index in range(length):
        put_byte(target + index, np.int64(byte_at(address + index) | lower))
    put_byte(target + length, np.int64(10))
    put_int(state + scan_layout.TRACE_LENGTH, place + length + 1)


@part
def close_word(state):  # int64 -> None
    """End the open word, if any."""
    length = load_int(state + scan_layout.WORD_LENGTH)
    if length > 0:
        address = load_int(state + scan_layout.SPELLED)
        token = hash_bytes(address, length) | digit_flag(address, length) | lone_flag(address, length)
        add_token(state, token, address, length, np.uint8(0))
        put_int(state + scan_layout.WORD_LENGTH, np.int64(0))


@part
def reopen_token(state, address, length):  # int64, int64, int64 -> None
    """Turn the last token back into an open word, because it continues. Its source is the ASCII bytes at `address`."""
    put_int(state + scan_layout.TOKEN_COUNT, load_int(state + scan_layout.TOKEN_COUNT) - 1)
    put_int(state + scan_layout.TRACE_LENGTH, load_int(state + scan_layout.TRACE_LENGTH) - length - 1)
    target = load_int(state + scan_layout.SPELLED)
    for index in range(length):
        put_byte(target + index, np.int64(byte_at(address + index)) | 0x20)
    put_int(state + scan_layout.WORD_LENGTH, length)


@part
def end_block(state):  # int64 -> None
    """End the current block. A block without tokens is dropped."""
    count, blocks = load_int(state + scan_layout.TOKEN_COUNT), load_int(state + scan_layout.BLOCK_COUNT)
    if count > load_int(state + scan_layout.BLOCK_START):
        record = load_int(state + scan_layout.BLOCKS) + (blocks << scan_layout.BLOCK_SHIFT)
        put_int32(record, count)
        put_int32(
            record + scan_layout.BLOCK_LINKS,
            load_int(state + scan_layout.LINKS) + load_int(state + scan_layout.IN_LINK) * count,
        )
        put_int(record + scan_layout.BLOCK_SECTIONS, load_int(state + scan_layout.SECTIONS))
        put_int32(record + scan_layout.BLOCK_LEAD, load_int(state + scan_layout.LEAD))
        put_int(state + scan_layout.BLOCK_COUNT, blocks + 1)
        put_int(state + scan_layout.BLOCK_START, count)


@part
def spell(state, address, end, kind):  # int64, int64, int64, int64 -> int64
    """Read text from `address` on, and continue the open word. Returns the address of the first unread byte.

    It stops at `end`, and in MARKUP before '<'; both leave the word open. In MARKUP it also stops after the end of a
    word, where the fast path of the scanner can continue.
    """
    spelled = load_int(state + scan_layout.SPELLED)
    while address < end:
        character = byte_at(address)
        if character >= 0x80:
            code_point, length = decode(address, end)
            spell_character(state, code_point)
            address += length
        elif is_alphanumeric(character):
            length = load_int(state + scan_layout.WORD_LENGTH)
            put_byte(spelled + length, np.int64(character) | 0x20)
            put_int(state + scan_layout.WORD_LENGTH, length + 1)
            address += 1
            continue
        elif character == 60 and kind == scan_layout.MARKUP:
            return address
        elif character == 0 and kind == scan_layout.MARKUP:
            address += 1
            continue
        else:
            first, second, length = np.int64(32), np.int64(0), np.int64(1)
            if character == 38 and kind != scan_layout.RAW:
                first, second, length = reference(state, address, end)
            spell_character(state, first)
            if second != 0:
                spell_character(state, second)
            address += length
        if kind == scan_layout.MARKUP and load_int(state + scan_layout.WORD_LENGTH) == 0 and byte_at(address) < 0x80:
            return address
    return address


@part
def spell_character(state, code_point):  # int64, int64 -> None
    """Add one character to the open word, or end the word. Classes of characters: stream/sign/text/characters.py"""
    page = np.int64(load_short(load_int(state + scan_layout.PAGES) + ((code_point >> 7) << 1)))
    leaf = load_int(state + scan_layout.LEAVES) + (((page << 7) | (code_point & 127)) << 2)
    entry = np.int64(load_word(leaf) & np.uint64(0xFFFFFFFF))
    kind = entry & 7
    length = load_int(state + scan_layout.WORD_LENGTH)
    if kind == WORD or (kind == MARK and length > 0):
        put_int(
            state + scan_layout.WORD_LENGTH, length + encode(load_int(state + scan_layout.SPELLED) + length, entry >> 3)
        )
    elif kind == IDEOGRAPH:
        close_word(state)
        address = load_int(state + scan_layout.SPELLED)
        length = encode(address, entry >> 3)
        add_token(state, hash_bytes(address, length) | np.uint64(LONE), address, length, np.uint8(0))
    elif kind != IGNORED and kind != MARK:
        close_word(state)
