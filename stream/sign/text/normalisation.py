"""Brings a word of folded characters into Normalization Form C, for the few words whose marks demand it.

The steps are those of Unicode 14, annex 15: decompose, sort each run of marks by their order, compose. Characters are
folded before (stream/sign/text/characters.py), so composites are those of folded characters only. Hangul syllables are
computed (Unicode 14, sec. 3.12). Long runs of marks are sorted by counting, so the time is linear in the word.

A character of the word is an int32 at POINTS: order << 21 | code point. The order is 0 except for marks.
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.characters import (
    CODE_POINT_BITS,
    CODE_POINT_MASK,
    COMPOSITION_MULTIPLIER,
    COMPOSITION_SLOT_BITS,
    ORDER_MASK,
    ORDER_SHIFT,
    character_entry,
    decode,
    encode,
    table_value,
)
from spotsieve.stream.sign.text.machine import byte_at, copy_bytes, load_int, load_int32, put_int, put_int32

_FIRST_SYLLABLE, _FIRST_LEAD, _FIRST_VOWEL, _BEFORE_TAILS = 0xAC00, 0x1100, 0x1161, 0x11A7
_LEADS, _VOWELS, _TAILS = 19, 21, 28
_LETTER_I, _DOT_ABOVE = 0x69, 0x307
_IOTA_SUBSCRIPT, _IOTA = 0x345, 0x3B9
_LONG_RUN = 16
"""Runs of up to this number of marks are sorted by insertion."""
_FIRST_COMPOSITE, _FIRST_MARK, _FIRST_JOINING = 0xC0, 0x300, 0x900
"""No character below these decomposes, is a mark, or composes with the one before it without being a mark in order."""


@part
def normalise_word(state, size):  # int64, int64 -> int64
    """Normalise the `size` bytes of the open word. Returns its new size."""
    count = compose(state, sort_marks(state, decompose(state, size)))
    spelled, points = load_int(state + scan_layout.SPELLED), load_int(state + scan_layout.POINTS)
    target = spelled
    for place in range(count):
        code_point = load_int32(points + (place << 2)) & CODE_POINT_MASK
        target += encode(target, _IOTA if code_point == _IOTA_SUBSCRIPT else code_point)
    return target - spelled


@part
def decompose(state, size):  # int64, int64 -> int64
    """Write the decomposed characters of the open word to POINTS. Returns their number."""
    address, count, base = load_int(state + scan_layout.SPELLED), np.int64(0), np.int64(0)
    end = address + size
    while address < end:
        code_point, length = np.int64(byte_at(address)), np.int64(1)
        if code_point >= 0x80:
            code_point, length = decode(address, end)
        address += length
        syllable = code_point - _FIRST_SYLLABLE
        if code_point < _FIRST_COMPOSITE:
            parts = code_point
        elif 0 <= syllable < _LEADS * _VOWELS * _TAILS:
            lead, vowel, tail = syllable // (_VOWELS * _TAILS), syllable // _TAILS % _VOWELS, syllable % _TAILS
            parts = (_FIRST_LEAD + lead) | (_FIRST_VOWEL + vowel) << CODE_POINT_BITS
            if tail != 0:
                parts |= (_BEFORE_TAILS + tail) << (2 * CODE_POINT_BITS)
        else:
            parts = np.int64(composition_value(state, np.uint64(code_point)))
            if parts == 0:
                parts = code_point
        while parts != 0:
            base, count = put_point(state, parts & CODE_POINT_MASK, base, count)
            parts >>= CODE_POINT_BITS
    return count


@part
def put_point(state, code_point, base, count):  # int64, int64, int64, int64 -> (int64, int64)
    """Append a character to the `count` others. base: the last one that is no mark. Returns base and count."""
    order = character_entry(state, code_point) >> ORDER_SHIFT & ORDER_MASK if code_point >= _FIRST_MARK else 0
    if code_point == _DOT_ABOVE and base == _LETTER_I:
        return base, count
    put_int32(load_int(state + scan_layout.POINTS) + (count << 2), order << CODE_POINT_BITS | code_point)
    return code_point if order == 0 else base, count + 1


@part
def sort_marks(state, count):  # int64, int64 -> int64
    """Sort each run of marks by ascending order; marks of one order keep theirs. Returns `count`."""
    points, start = load_int(state + scan_layout.POINTS), 0
    for place in range(count + 1):
        if place < count and load_int32(points + (place << 2)) > CODE_POINT_MASK:
            continue
        if place - start > _LONG_RUN:
            sort_long_run(state, points + (start << 2), place - start, points + (count << 2))
        else:
            sort_short_run(points + (start << 2), place - start)
        start = place + 1
    return count


@part
def sort_short_run(run, count):  # int64, int64 -> None
    """Sort `count` marks by insertion."""
    for place in range(1, count):
        mark = load_int32(run + (place << 2))
        free = place
        while free > 0 and load_int32(run + (free << 2) - 4) >> CODE_POINT_BITS > mark >> CODE_POINT_BITS:
            put_int32(run + (free << 2), load_int32(run + (free << 2) - 4))
            free -= 1
        put_int32(run + (free << 2), mark)


@part
def sort_long_run(state, run, count, scratch):  # int64, int64, int64, int64 -> None
    """Sort `count` marks by counting their orders. scratch: as much memory as the run"""
    counts = state + scan_layout.ORDER_COUNTS
    for order in range(ORDER_MASK + 2):
        put_int(counts + (order << 3), np.int64(0))
    for place in range(count):
        behind = counts + ((load_int32(run + (place << 2)) >> CODE_POINT_BITS) + 1 << 3)
        put_int(behind, load_int(behind) + 1)
    for order in range(ORDER_MASK + 1):
        behind = counts + (order + 1 << 3)
        put_int(behind, load_int(behind) + load_int(behind - 8))
    for place in range(count):
        mark = load_int32(run + (place << 2))
        first = counts + (mark >> CODE_POINT_BITS << 3)
        put_int32(scratch + (load_int(first) << 2), mark)
        put_int(first, load_int(first) + 1)
    copy_bytes(run, scratch, count << 2)


@part
def compose(state, count):  # int64, int64 -> int64
    """Compose each letter with the characters after it. Returns the number of characters."""
    points, starter, written, last = load_int(state + scan_layout.POINTS), np.int64(-1), np.int64(0), np.int64(0)
    for place in range(count):
        point = load_int32(points + (place << 2))
        order = point >> CODE_POINT_BITS
        joins = point >= _FIRST_JOINING
        if joins and starter >= 0 and (written == starter + 1 or last < order):
            first = load_int32(points + (starter << 2))
            composite = composed(state, first, point & CODE_POINT_MASK)
            if composite != 0:
                put_int32(points + (starter << 2), composite)
                continue
        put_int32(points + (written << 2), point)
        starter = written if order == 0 else starter
        last = order
        written += 1
    return written


@part
def composed(state, first, second):  # int64, int64, int64 -> int64
    """The composite of two characters, or 0."""
    lead, vowel = first - _FIRST_LEAD, second - _FIRST_VOWEL
    if 0 <= vowel < _VOWELS and 0 <= lead < _LEADS:
        return _FIRST_SYLLABLE + (lead * _VOWELS + vowel) * _TAILS
    syllable, tail = first - _FIRST_SYLLABLE, second - _BEFORE_TAILS
    if 0 < tail < _TAILS and 0 <= syllable < _LEADS * _VOWELS * _TAILS and syllable % _TAILS == 0:
        return first + tail
    return np.int64(composition_value(state, np.uint64(first << CODE_POINT_BITS | second)))


@part
def composition_value(state, key):  # int64, uint64 -> uint64
    """The value of a key in the composition table, or 0 (stream/sign/text/characters.py)."""
    keys, values = load_int(state + scan_layout.COMPOSITION_KEYS), load_int(state + scan_layout.COMPOSITION_VALUES)
    return table_value(keys, values, COMPOSITION_SLOT_BITS, key * COMPOSITION_MULTIPLIER, key)
