"""Encodes and decodes the own text of an entry: what its page is compared by on its host, beside features and address.

state/FORMATS.md has the grammar.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

from spotsieve.state.format.little_endian import read_word
from spotsieve.stream.jit import kernel

OUT_OF_ORDER = "must have an own text whose prints and title words ascend"
_OWN_TEXT = struct.Struct("<HBHBB")
_KIND_BITS = 5
OWN_TEXT_BYTES = _OWN_TEXT.size
"""Of an own text before its prints and title words; the last two say how many there are of each."""


class OwnParts(NamedTuple):
    """The own text of one entry; OwnText says what each field means."""

    site: int
    share: int
    listed: int
    prints: tuple[int, ...]
    titles: tuple[int, ...]


def pack_own_text(own: OwnParts) -> bytes:
    """Write an own text from its fields. Raises struct.error where one is out of its range."""
    head = _OWN_TEXT.pack(own.site, own.share, own.listed, len(own.prints), len(own.titles))
    return head + struct.pack(f"<{len(own.prints)}I{len(own.titles)}H", *own.prints, *own.titles)


def own_text_fault(own: OwnParts) -> str | None:
    """Return the rule that an own text breaks, None if it is whole."""
    identities = [word >> _KIND_BITS for word in own.prints]
    if any(one >= other for row in (identities, own.titles) for one, other in pairwise(row)):
        return OUT_OF_ORDER
    return None


def unpack_own_text(value: bytes, at: int) -> OwnParts:
    """Read an own text that is not cut."""
    site, share, listed, prints, titles = _OWN_TEXT.unpack_from(value, at)
    words = struct.unpack_from(f"<{prints}I{titles}H", value, at + OWN_TEXT_BYTES)
    return OwnParts(site, share, listed, words[:prints], words[prints:])


@kernel
def read_own_texts(raw, starts, site, share, listed, prints, print_bounds, titles, title_bounds):
    """Fill the columns of OwnText, whose bounds are given, and return the first entry out of order, or -1.

    raw: uint8[...], of all entries  starts: int64[e], -1 where an entry has no own text
    """
    for entry in range(len(starts)):
        at = starts[entry]
        if at < 0:
            continue
        site[entry], share[entry], listed[entry] = read_word(raw, at, 2), raw[at + 2], read_word(raw, at + 3, 2)
        at += OWN_TEXT_BYTES
        first = print_bounds[entry]
        for place in range(first, print_bounds[entry + 1]):
            prints[place] = read_word(raw, at, 4)
            at += 4
            if place > first and prints[place] >> _KIND_BITS <= prints[place - 1] >> _KIND_BITS:
                return entry
        first = title_bounds[entry]
        for place in range(first, title_bounds[entry + 1]):
            titles[place] = read_word(raw, at, 2)
            at += 2
            if place > first and titles[place] <= titles[place - 1]:
                return entry
    return -1
