"""Finds the ends of markup without text (comments, scripts, raw text, irregular tags), and attributes.

The rules are from the HTML standard. Every function returns an address not beyond `end`. Unclosed markup reaches to
the end of the page, so no byte is searched twice and the time is linear in the page.

Attributes decide whether a tag closes itself, whether an <a> is a link, and whether a <template> is a declarative
shadow root. Functions that read them take the address after the tag's name, and as `end` the address of its '>'.
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text.machine import (
    byte_at,
    dashes_mask,
    equal_mask,
    lowered16,
    raw_end_mask,
    tag_masks,
    trailing_zeros,
)

_U1 = np.uint64(1)
BLANKS = np.uint64(1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 32)
"""Bit set of the characters between attributes: tab, line feed, form feed, carriage return, space."""
NAME_ENDS = np.uint64(int(BLANKS) | 1 << 47 | 1 << 62)
"""Bit set of the characters below 64 that end a tag name: blanks, '/', '>'."""
_SCRIPT = np.uint64(int.from_bytes(b"script", "little"))


@part
def in_set(character, members):  # uint8, uint64 -> bool
    """Whether the bit of a character below 64 is set in `members`."""
    return character < 64 and (members >> np.uint64(character)) & _U1 != np.uint64(0)


@part
def find_byte(address, end, character):  # int64, int64, uint8 -> int64
    """Address of the first `character`, or `end`."""
    while address < end:
        mask = equal_mask(address, character)
        if mask != np.uint64(0):
            return min(address + trailing_zeros(mask), end)
        address += 64
    return end


@part
def after_byte(address, end, character):  # int64, int64, uint8 -> int64
    """The address after the first `character`, or `end`."""
    return min(find_byte(address, end, character) + 1, end)


@part
def after_comment(address, end):  # int64, int64 -> int64
    """The address after the comment whose '<!--' ends at `address`."""
    if address < end and byte_at(address) == 62:
        return address + 1
    if address + 1 < end and byte_at(address) == 45 and byte_at(address + 1) == 62:
        return address + 2
    while address < end:
        mask = dashes_mask(address)
        while mask != np.uint64(0):
            third = address + trailing_zeros(mask) + 2
            if third >= end:
                return end
            if byte_at(third) == 62:
                return third + 1
            if byte_at(third) == 33 and third + 1 < end and byte_at(third + 1) == 62:
                return third + 2
            mask &= mask - _U1
        address += 64
    return end


@part
def is_cdata(position, end):  # int64, int64 -> bool
    """Whether '<![CDATA[' is at `position`."""
    if end - position < 9:
        return False
    for offset, character in enumerate((91, 67, 68, 65, 84, 65, 91)):
        if byte_at(position + 2 + offset) != character:
            return False
    return True


@part
def after_cdata(address, end):  # int64, int64 -> int64
    """The address of the ']]>' that ends a CDATA section, or `end`."""
    while address < end:
        address = find_byte(address, end, np.uint8(93))
        if address + 2 < end and byte_at(address + 1) == 93 and byte_at(address + 2) == 62:
            return address
        address += 1
    return end


@part
def raw_text_end(address, end, first, second, length):  # int64, int64, uint64, uint64, int64 -> int64
    """The '<' of the end tag that closes raw text. first, second: the name of the element, from lowered16"""
    while address < end:
        mask = raw_end_mask(address)
        while mask != np.uint64(0):
            place = address + trailing_zeros(mask)
            if place >= end:
                return end
            if is_end_tag(place, end, first, second, length):
                return place
            mask &= mask - _U1
        address += 64
    return end


@part
def is_end_tag(place, end, first, second, length):  # int64, int64, uint64, uint64, int64 -> bool
    """Whether '</' + name + blank, '/' or '>' is at `place`."""
    behind = place + 2 + length
    if behind >= end or byte_at(place + 1) != 47 or not in_set(byte_at(behind), NAME_ENDS):
        return False
    found_first, found_second = lowered16(place + 2, length)
    return found_first == first and found_second == second


@part
def script_end(address, end):  # int64, int64 -> int64
    """The '<' of the end tag that closes a script, with the escaped and double escaped states of the HTML standard."""
    while address < end:
        mask = raw_end_mask(address)
        advanced = address + 64
        while mask != np.uint64(0):
            place = address + trailing_zeros(mask)
            if place >= end:
                return end
            if byte_at(place + 1) == 33:
                if place + 3 < end and byte_at(place + 2) == 45 and byte_at(place + 3) == 45:
                    place, closed = escaped_script_end(place + 2, end)
                    if closed:
                        return place
                    advanced = place
                    break
            elif is_end_tag(place, end, _SCRIPT, np.uint64(0), np.int64(6)):
                return place
            mask &= mask - _U1
        address = advanced
    return end


@part
def escaped_script_end(address, end):  # int64, int64 -> (int64, bool)
    """From the '--' of a '<!--' in a script: (the closing '<', True), or (the address after its '-->', False)."""
    doubly = False
    dashes = 0
    while address < end:
        character = byte_at(address)
        if character == 45:
            dashes += 1
            address += 1
            continue
        if character == 62 and dashes >= 2:
            return address + 1, False
        dashes = 0
        if character == 60:
            if is_end_tag(address, end, _SCRIPT, np.uint64(0), np.int64(6)):
                if not doubly:
                    return address, True
                doubly = False
            elif not doubly and address + 7 < end and in_set(byte_at(address + 7), NAME_ENDS):
                first, _ = lowered16(address + 1, np.int64(6))
                doubly = first == _SCRIPT
        address += 1
    return end, True


@part
def quoted_bytes(doubles):  # uint64 -> uint64
    """The bytes from each opening double quote up to its closing one, excluded: the running xor of the quotes."""
    doubles ^= doubles << _U1
    doubles ^= doubles << np.uint64(2)
    doubles ^= doubles << np.uint64(4)
    doubles ^= doubles << np.uint64(8)
    doubles ^= doubles << np.uint64(16)
    doubles ^= doubles << np.uint64(32)
    return doubles


@part
def odd_bytes(words, equals, singles, opening, quoted, word_before, equal_before):  # 7 x uint64 -> uint64
    """Bytes of a tag that break the form `name name="value"`, in which the fast path would be wrong.

    They are a single quote outside of double ones, an opening double quote that does not follow '=', a '=' that does
    not follow a letter or digit, and a byte after '=' that is no opening quote. word_before, equal_before: whether the
    byte before the first one is a letter or digit, or a '='.
    """
    outside = equals & ~quoted
    odd = (singles & ~quoted) | (outside & ~(words << _U1 | word_before))
    return odd | (opening ^ (outside << _U1 | equal_before))


@part
def after_long_tag(window, resume, end):  # int64, int64, int64 -> int64
    """The same as after_tag, for a tag longer than the 64 bytes at `window`. resume: the address after its name

    It reads window by window while the tag has no odd bytes, and otherwise starts again after the name.
    """
    none = np.uint64(0)
    inside, word_before, equal_before = none, none, none
    while end - window >= 64:
        words, closes, doubles, equals, singles = tag_masks(window)
        quoted = quoted_bytes(doubles) ^ inside
        odd = odd_bytes(words, equals, singles, doubles & quoted, quoted, word_before, equal_before)
        closes &= ~quoted
        if odd & (closes ^ (closes - _U1)) != none:
            break
        if closes != none:
            return window + trailing_zeros(closes) + 1
        word_before, equal_before = words >> np.uint64(63), (equals & ~quoted) >> np.uint64(63)
        # All bits or no bits.
        inside = none - (quoted >> np.uint64(63))
        window += 64
    return after_tag(resume, end, False)


@part
def after_tag(address, end, in_name):  # int64, int64, bool -> int64
    """The address after the '>' of a tag, from inside its name or before an attribute; -1 if the page ends in the
    tag.
    """
    if in_name:
        while address < end and not in_set(byte_at(address), NAME_ENDS):
            address += 1
    while address < end:
        character = byte_at(address)
        if character == 62:
            return address + 1
        if in_set(character, NAME_ENDS):
            address += 1
            continue
        # The attribute name; an '=' as its first character belongs to it.
        address += 1
        while address < end and byte_at(address) != 61 and not in_set(byte_at(address), NAME_ENDS):
            address += 1
        while address < end and in_set(byte_at(address), BLANKS):
            address += 1
        if address >= end or byte_at(address) != 61:
            continue
        address += 1
        while address < end and in_set(byte_at(address), BLANKS):
            address += 1
        if address >= end:
            break
        character = byte_at(address)
        if character == 34 or character == 39:
            address = after_byte(address + 1, end, character)
            if address == end:
                # A closing quote as the last byte ends the page inside the tag as well.
                return np.int64(-1)
        else:
            while address < end and byte_at(address) != 62 and not in_set(byte_at(address), BLANKS):
                address += 1
    return np.int64(-1)


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_HREF, _XLINK, _XLINK_REST = _word(b"href"), _word(b"xlink:hr"), _word(b"ef")
_SHADOW, _SHADOW_REST = _word(b"shadowro"), _word(b"otmode")
_OPEN, _CLOSED = _word(b"open"), _word(b"closed")


@part
def read_attribute(address, end):  # int64, int64 -> (int64, int64, int64, int64)
    """The end of the name of the attribute at `address`, the start and end of its value, and the address after it."""
    # A '=' as the first character belongs to the name.
    address += 1
    while address < end and byte_at(address) != 61 and not in_set(byte_at(address), NAME_ENDS):
        address += 1
    name_end = address
    while address < end and in_set(byte_at(address), BLANKS):
        address += 1
    if address >= end or byte_at(address) != 61:
        return name_end, name_end, name_end, address
    address += 1
    while address < end and in_set(byte_at(address), BLANKS):
        address += 1
    if address >= end:
        return name_end, end, end, end
    quote = byte_at(address)
    if quote == 34 or quote == 39:
        value_end = find_byte(address + 1, end, quote)
        return name_end, address + 1, value_end, value_end + 1
    value = address
    while address < end and not in_set(byte_at(address), BLANKS):
        address += 1
    return name_end, value, address, address


@part
def find_value(address, end, first, second, length):  # int64, int64, uint64, uint64, int64 -> (int64, int64)
    """Start and end of the value of an attribute; (0, 0) without it. first, second: its name, from lowered16"""
    while address < end:
        if in_set(byte_at(address), NAME_ENDS):
            address += 1
            continue
        name = address
        name_end, value, value_end, address = read_attribute(address, end)
        if name_end - name == length:
            found_first, found_second = lowered16(name, length)
            if found_first == first and found_second == second:
                return value, value_end
    return np.int64(0), np.int64(0)


@part
def closes_itself(address, end):  # int64, int64 -> bool
    """Whether the tag ends with '/>', and the slash is not the end of an attribute's value."""
    if byte_at(end - 1) != 47:
        return False
    while address < end and not in_set(byte_at(address), NAME_ENDS):
        address += 1
    last = address
    while address < end:
        last = address
        if in_set(byte_at(address), NAME_ENDS):
            address += 1
        else:
            _, _, _, address = read_attribute(address, end)
    return last == end - 1 and in_set(byte_at(last), NAME_ENDS)


@part
def is_link(address, end):  # int64, int64 -> bool
    """Whether an <a> has an address: href, or xlink:href in svg."""
    if end - address > 5 and byte_at(address + 5) == 61:
        first, _ = lowered16(address + 1, np.int64(4))
        if first == _HREF:
            return True
    found, _ = find_value(address, end, _HREF, np.uint64(0), np.int64(4))
    if found == 0:
        found, _ = find_value(address, end, _XLINK, _XLINK_REST, np.int64(10))
    return found != 0


@part
def is_shadow_root(address, end):  # int64, int64 -> bool
    """Whether a <template> has a shadowrootmode of "open" or "closed"."""
    value, value_end = find_value(address, end, _SHADOW, _SHADOW_REST, np.int64(14))
    length = value_end - value
    if length != 4 and length != 6:
        return False
    first, _ = lowered16(value, length)
    return first == (_OPEN if length == 4 else _CLOSED)
