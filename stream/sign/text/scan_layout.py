"""Defines the layout of the scanner's state and of its block records, and converts the records into columns.

The state is one int64 array, so that rarely called functions need only one argument. The names below are byte offsets
into it. The addresses in it belong to the arrays that stream/sign/text/batch.py creates.

It also takes back what elements without an end tag would take of a page. Only the end of the page shows that an end tag
is missing, so the scanner counts every element as open first, and the records are corrected afterwards: once for each
link and once for all sections, so the time is linear.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text.machine import load_int32, load_word, put_int32, put_word

_U0, _FOUR, _SEVEN = np.uint64(0), np.uint64(4), np.uint64(7)
_NIBBLES, _HIGHEST = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x8080808080808080)
_SECTIONS = np.uint64(0x000F0F0F0F0F0F0F)
"""The odd sections: the last four bits of depths belong to no section."""

TOKEN_COUNT, WORD_LENGTH, TRACE_LENGTH = 0, 8, 16
BLOCK_COUNT, BLOCK_START = 24, 32
LINKS, IN_LINK, SECTIONS, LEAD = 40, 48, 56, 64
TITLE_START, TITLE_END = 72, 80
TOKENS, BLOCKS, SPELLED, TRACE = 88, 96, 104, 112
PAGES, LEAVES, ENTITY_KEYS, ENTITY_VALUES = 120, 128, 136, 144
NAMES, TRAITS, NAME_MULTIPLIER = 152, 160, 168
EXPANSIONS, COMPOSITION_KEYS, COMPOSITION_VALUES, POINTS, LAST_MARK = 176, 184, 192, 200, 208
ORDER_COUNTS = 216
STATE_SLOTS = 27 + 65
LAST_CLEARED = TITLE_END

OPEN_IDEOGRAPH, DISORDERED = 1 << 40, 1 << 41
LENGTH_MASK = (1 << 40) - 1
"""WORD_LENGTH is the number of bytes of the open word, with two flags: the word is an ideograph, and it is perhaps not
in NFC. LAST_MARK is the length of the word up to its last mark, shifted left by ORDER_BITS, and the order of the mark.
ORDER_COUNTS are 65 integers, scratch (stream/sign/text/normalisation.py)."""

BLOCK_SHIFT = 5
"""A block record takes 2^5 bytes: number of tokens before its end, int32; number of these tokens in links, int32;
depth of each open section, uint64 with 4 bits each (stream/sign/text/html/elements.py); its lead, int32; the offset in
the page of the tag or line that ends it, int32; the lowest depth of each section since the block before, in the form of
the depths."""
BLOCK_LINKS, BLOCK_SECTIONS, BLOCK_LEAD, BLOCK_END, BLOCK_LOWEST = 4, 8, 16, 20, 24

MARKUP, ESCAPABLE, RAW = 0, 1, 2
"""Kinds of text. '<' ends MARKUP text. In ESCAPABLE text '<' is text; in RAW text '<' and '&' are text. In
ESCAPABLE and RAW text, NUL separates tokens."""


class Blocks(NamedTuple):
    """Columns over a page's blocks; a column may be longer than the page needs.

    words: int32, number of tokens  links: int32, number of tokens that begin in a link
    sections: int32, bit i if SECTIONS[i] is open around the block (stream/sign/text/html/elements.py)
    leads: int32 (stream/sign/text/html/elements.py)
    reasons: uint8, why the block is kept or dropped (stream/sign/features/scorecard.py)
    places: int32, place among the packed blocks, negative without one (stream/sign/features/page_text.py)
    """

    words: NDArray[np.int32]
    links: NDArray[np.int32]
    sections: NDArray[np.int32]
    leads: NDArray[np.int32]
    reasons: NDArray[np.uint8]
    places: NDArray[np.int32]


def empty_blocks(most: int) -> Blocks:
    """Columns for up to `most` blocks."""
    words, links, sections, leads, places = (np.empty(most, dtype=np.int32) for _ in range(5))
    return Blocks(words, links, sections, leads, np.empty(most, dtype=np.uint8), places)


@part
def unpack_blocks(records, count, blocks):  # int64 address, int64, Blocks -> None
    """Fill words, links, sections and leads of `count` blocks from the scanner's records."""
    end, linked = np.int64(0), np.int64(0)
    for block in range(count):
        record = records + (block << BLOCK_SHIFT)
        next_end, next_linked = load_int32(record), load_int32(record + BLOCK_LINKS)
        blocks.words[block] = next_end - end
        blocks.links[block] = next_linked - linked
        blocks.sections[block] = open_sections(load_word(record + BLOCK_SECTIONS))
        blocks.leads[block] = load_int32(record + BLOCK_LEAD)
        end, linked = next_end, next_linked


@part
def open_sections(depths):  # uint64 -> int64
    """Mask of the non-zero groups among 15 groups of four bits: bit i for group i."""
    depths |= depths >> np.uint64(2)
    depths = (depths | depths >> np.uint64(1)) & np.uint64(0x0111111111111111)
    depths = (depths | depths >> np.uint64(3)) & np.uint64(0x0303030303030303)
    depths = (depths | depths >> np.uint64(6)) & np.uint64(0x000F000F000F000F)
    depths = (depths | depths >> np.uint64(12)) & np.uint64(0x000000FF000000FF)
    return np.int64((depths | depths >> np.uint64(24)) & np.uint64(0x7FFF))


@part
def cut_link(blocks, count, edge):  # int64 address, int64, int64 -> int64
    """Count no token after the first `edge` tokens as linked. Returns how many of these tokens are.

    A link without an end tag ends at the first block tag in it, at which a block ended with the first `edge` tokens.
    """
    block = count - 1
    while block >= 0 and load_int32(blocks + (block << BLOCK_SHIFT)) > edge:
        block -= 1
    linked = np.int64(load_int32(blocks + (block << BLOCK_SHIFT) + BLOCK_LINKS)) if block >= 0 else np.int64(0)
    for later in range(block + 1, count):
        put_int32(blocks + (later << BLOCK_SHIFT) + BLOCK_LINKS, linked)
    return linked


@part
def cut_sections(blocks, count, unclosed):  # int64 address, int64, uint64 -> None
    """Open no section without an end tag around any block. unclosed: the lowest depths since the last block

    The elements of a section that stay open from a place on are as many as its lowest depth from there on.
    """
    even, odd = unclosed & _NIBBLES, unclosed >> _FOUR & _NIBBLES & _SECTIONS
    for step in range(count):
        if even | odd == _U0:
            return
        record = blocks + ((count - 1 - step) << BLOCK_SHIFT)
        depths, lowest = load_word(record + BLOCK_SECTIONS), load_word(record + BLOCK_LOWEST)
        even = smaller(even, depths & _NIBBLES)
        odd = smaller(odd, depths >> _FOUR & _NIBBLES)
        put_word(record + BLOCK_SECTIONS, depths - (even | odd << _FOUR))
        even = smaller(even, lowest & _NIBBLES)
        odd = smaller(odd, lowest >> _FOUR & _NIBBLES)


@part
def lower_depths(first, second):  # uint64, uint64 -> uint64
    """The lower depth of each section."""
    even = smaller(first & _NIBBLES, second & _NIBBLES)
    return even | smaller(first >> _FOUR & _NIBBLES, second >> _FOUR & _NIBBLES) << _FOUR


@part
def smaller(first, second):  # uint64, uint64 -> uint64
    """The smaller number in each byte of two words; all numbers are below 128."""
    at_least = ((second | _HIGHEST) - first) & _HIGHEST
    mask = (at_least - (at_least >> _SEVEN)) | at_least
    return (first & mask) | (second & ~mask)
