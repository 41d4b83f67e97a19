"""Takes one long text out of a JSON object, unescaped and as UTF-8, straight from the bytes of the message.

A parser decodes a body to a string of Python, which is then encoded again. The kernel writes the UTF-8 at once, and
leaves an object with an empty text in its place, which is short. A parser of JSON reads that object, so it decides
whether the message is valid, what its other fields are, and what equal keys mean: replacing a valid text by another one
makes no valid message invalid, and no invalid message valid.

The kernel takes nothing from a message that a parser may read in another way: the key occurs twice at the top, a key is
escaped, the value is no text, or the text has a mistake, such as invalid UTF-8 or half a surrogate pair.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined, kernel, part
from spotsieve.stream.sign.text.machine import (
    PADDING,
    byte_at,
    copy_bytes,
    load_word,
    put_byte,
    put_word,
    string_masks,
    trailing_zeros,
    utf8_errors,
)

MIN_LONG_BYTES = 4096
"""A shorter message is parsed as fast as the kernel is called."""

_PAD = bytes(PADDING)
_NOTHING = np.int64(-1)
_QUOTE, _BACKSLASH, _SLASH, _COLON = (np.uint8(ord(character)) for character in '"\\/:')
_LANES = np.int64(64)
_ONE = np.uint64(1)


class TakenText(NamedTuple):
    """A text that was taken out of a JSON object. text: in UTF-8  rest: the object, with "" in the place of the text"""

    text: bytes
    rest: bytes


def take_text(message: bytes, key: NDArray[np.uint8]) -> TakenText | None:
    """The text of a key at the top of a JSON object; None if a parser must read the whole message.

    key: the bytes of the key, not empty, without characters that JSON escapes
    """
    padded = np.frombuffer(message + _PAD, np.uint8)
    text = np.empty(len(padded), np.uint8)
    start, end, size = find_text(padded, len(message), key, text)
    if start < 0:
        return None
    return TakenText(text[:size].tobytes(), message[:start] + message[end:])


def compile_take_text() -> None:
    """Compile the kernel, or load it from the cache, before the first page."""
    take_text(b"{}", np.frombuffer(b"body", np.uint8))


@kernel
def find_text(message, size, key, text):
    """Write the text of a key into `text`. Returns the places of its first byte and of its closing quotation mark in
    the message, and its size in UTF-8; (-1, -1, -1) if there is none to take.

    message: uint8[size + PADDING]  key: uint8[K]  text: uint8[size + PADDING]
    """
    first = np.int64(message.ctypes.data)
    end, place, depth = first + size, first, np.int64(0)
    start = closing = written = _NOTHING
    while place < end:
        byte = byte_at(place)
        if byte == _QUOTE:
            close, escaped = _close_text(place + 1, end)
            if close < 0:
                return _NOTHING, _NOTHING, _NOTHING
            following = _skip_blanks(close + 1, end)
            if depth == 1 and byte_at(following) == _COLON:
                if escaped:
                    return _NOTHING, _NOTHING, _NOTHING
                if _is_key(place + 1, close, key):
                    value = _skip_blanks(following + 1, end)
                    if start >= 0 or byte_at(value) != _QUOTE:
                        return _NOTHING, _NOTHING, _NOTHING
                    start = value + 1 - first
                    closing, written = _unescape(value + 1, np.int64(text.ctypes.data))
                    if closing < 0:
                        return _NOTHING, _NOTHING, _NOTHING
                    close = closing
                    closing -= first
            place = close
        elif byte == 123 or byte == 91:  # { [
            depth += 1
        elif byte == 125 or byte == 93:  # } ]
            depth -= 1
        place += 1
    return start, closing, written


@part
def _skip_blanks(place, end):  # int64, int64 -> int64
    """The place of the next byte that is not white space of JSON."""
    while place < end:
        byte = byte_at(place)
        if byte != 32 and byte != 10 and byte != 13 and byte != 9:
            break
        place += 1
    return place


@part
def _is_key(place, close, key):  # int64, int64, uint8[K] -> bool
    same = close - place == len(key)
    index = 0
    while same and index < len(key):
        same = byte_at(place + index) == key[index]
        index += 1
    return same


@part
def _close_text(place, end):  # int64, int64 -> (int64, bool)
    """The place of the closing quotation mark of a text, -1 without one; whether the text has escapes."""
    escaped = False
    while place < end:
        stops, _ = string_masks(place)
        if stops == 0:
            place += _LANES
            continue
        place += trailing_zeros(stops)
        if place >= end:
            break
        byte = byte_at(place)
        if byte == _QUOTE:
            return place, escaped
        if byte == _BACKSLASH:
            escaped = True
            place += 1
        place += 1
    return _NOTHING, escaped


@part
def _unescape(place, target):  # int64, int64 -> (int64, int64)
    """Write the text whose first byte is at `place` to `target` as UTF-8.

    Returns the place of its closing quotation mark and the bytes written; (-1, -1) for a text with a mistake. The 3
    bytes before `place` are ASCII, and zeros follow the message, which stop the text like any control character.
    """
    begin, unfinished = target, False
    while True:
        stops, high = string_masks(place)
        errors = utf8_errors(place) if high != 0 or unfinished else np.uint64(0)
        done = np.int64(0)  # Lanes that are written, or part of an escape.
        copy_bytes(target, place, _LANES)
        while stops != 0:
            lane = trailing_zeros(stops)
            target += lane - done
            byte = byte_at(place + lane)
            if byte == _QUOTE:
                # A sequence that ends too early is an error of this lane; the lanes after it are no part of the text.
                if errors & ((_ONE << np.uint64(lane) << _ONE) - _ONE) != 0:
                    return _NOTHING, _NOTHING
                return place + lane, target - begin
            if byte != _BACKSLASH:
                return _NOTHING, _NOTHING
            done = lane
            while byte == _BACKSLASH and done < _LANES:
                length, size = _put_escaped(place + done, target)
                if length == 0:
                    return _NOTHING, _NOTHING
                done += length
                target += size
                byte = byte_at(place + done)
            if done >= _LANES:
                break
            copy_bytes(target, place + done, _LANES)
            stops &= ~((_ONE << np.uint64(done)) - _ONE)
        if errors != 0:
            return _NOTHING, _NOTHING
        unfinished = high >> np.uint64(61) != 0
        if done < _LANES:
            target += _LANES - done
            done = _LANES
        place += done


@inlined
def _put_escaped(place, target):  # int64, int64 -> (int64, int64)
    """Write the character of the escape at `place` as UTF-8. Returns bytes read and written; (0, 0) for a mistake."""
    byte = byte_at(place + 1)
    if byte in (_QUOTE, _BACKSLASH, _SLASH):
        put_byte(target, np.int64(byte))
    elif byte == 110:  # n
        put_byte(target, np.int64(10))
    elif byte == 114:  # r
        put_byte(target, np.int64(13))
    elif byte == 116:  # t
        put_byte(target, np.int64(9))
    elif byte == 98:  # b
        put_byte(target, np.int64(8))
    elif byte == 102:  # f
        put_byte(target, np.int64(12))
    elif byte == 117:  # u
        return _put_numbered(place, target)
    else:
        return np.int64(0), np.int64(0)
    return np.int64(2), np.int64(1)


@inlined
def _put_numbered(place, target):  # int64, int64 -> (int64, int64)
    """_put_escaped for an escape of 4 digits, or a surrogate pair of two."""
    point, length = _point(place + 2), np.int64(6)
    if 0xD800 <= point < 0xDC00 and byte_at(place + 6) == _BACKSLASH and byte_at(place + 7) == 117:
        low = _point(place + 8)
        if low < 0xDC00 or low > 0xDFFF:
            return np.int64(0), np.int64(0)
        point, length = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00, np.int64(12)
    elif point < 0 or 0xD800 <= point <= 0xDFFF:
        return np.int64(0), np.int64(0)
    return length, _put_point(point, target)


@inlined
def _point(place):  # int64 -> int64
    """The number of the 4 hexadecimal digits at `place`; -1 for other bytes."""
    word = load_word(place) & np.uint64(0xFFFFFFFF)
    lower = word | np.uint64(0x20202020)
    # In each byte below 0x80, the sums have the highest bit from "0" on, after "9", from "a" on, after "f".
    digits = word + np.uint64(0x50505050) & ~(word + np.uint64(0x46464646))
    letters = lower + np.uint64(0x1F1F1F1F) & ~(lower + np.uint64(0x19191919))
    if (digits | letters) & ~word & np.uint64(0x80808080) != np.uint64(0x80808080):
        return _NOTHING
    values = (word & np.uint64(0x0F0F0F0F)) + np.uint64(9) * (word >> np.uint64(6) & np.uint64(0x01010101))
    pairs = (values << np.uint64(4) | values >> np.uint64(8)) & np.uint64(0x00FF00FF)
    return np.int64((pairs << np.uint64(8) | pairs >> np.uint64(16)) & np.uint64(0xFFFF))


@inlined
def _put_point(point, target):  # int64, int64 -> int64
    """Write a code point as UTF-8. Returns its length; up to 8 bytes are written."""
    first, last = np.uint64(point), np.uint64(0x80 | (point & 0x3F))
    if point < 0x80:
        put_word(target, first)
        return np.int64(1)
    second = np.uint64(0x80 | (point >> 6 & 0x3F))
    if point < 0x800:
        put_word(target, np.uint64(0xC0 | point >> 6) | last << np.uint64(8))
        return np.int64(2)
    if point < 0x10000:
        put_word(target, np.uint64(0xE0 | point >> 12) | second << np.uint64(8) | last << np.uint64(16))
        return np.int64(3)
    third = np.uint64(0x80 | (point >> 12 & 0x3F)) << np.uint64(8)
    put_word(target, np.uint64(0xF0 | point >> 18) | third | second << np.uint64(16) | last << np.uint64(24))
    return np.int64(4)
