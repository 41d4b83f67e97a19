"""Reads the title of a page: the words of the first <title> outside svg and math, which is no part of any block.

The scanner only notes where the title is (stream/text/html/scan.py), so a page pays for its title once.
"""

import numpy as np

from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import hash_lowered
from spotsieve.stream.text.machine import slots
from spotsieve.stream.text.machine.memory import load_int, load_word, put_int, put_word
from spotsieve.stream.text.machine.vectors import text_masks, trailing_zeros
from spotsieve.stream.text.words import close_word, spell

MOST_TITLE_WORDS = 10
"""How many different words of a title are kept, its first ones."""
TITLE_WORD_BITS = 16
"""A title's word is so many of the highest bits of its token's hash."""

_SHIFT = np.uint64(64 - TITLE_WORD_BITS)
_U0, _U1 = np.uint64(0), np.uint64(1)


@part
def title_words(state, titles, first):  # int64 address, uint16[>= first + MOST_TITLE_WORDS], int64 -> int64
    """Write the words of a scanned page's title to titles[first:], ascending and all different; how many.

    The title's tokens are written behind those of the page for a moment. There is room, as no byte is in both.
    """
    start, end = load_int(state + slots.TITLE_START), load_int(state + slots.TITLE_END)
    if start >= end:
        return np.int64(0)
    count, traced = load_int(state + slots.TOKEN_COUNT), load_int(state + slots.TRACE_LENGTH)
    spell(state, stride(state, start, end), end, slots.ESCAPABLE)
    close_word(state)
    tokens, behind = load_int(state + slots.TOKENS), load_int(state + slots.TOKEN_COUNT)
    put_int(state + slots.TOKEN_COUNT, count)
    put_int(state + slots.TRACE_LENGTH, traced)
    last = first
    for token in range(count, behind):
        word = np.uint16(load_word(tokens + (token << 3)) >> _SHIFT)
        place = last
        while place > first and titles[place - 1] >= word:
            place -= 1
        if place < last and titles[place] == word:
            continue
        for moved in range(last, place, -1):
            titles[moved] = titles[moved - 1]
        titles[place] = word
        last += 1
        if last - first == MOST_TITLE_WORDS:
            break
    return last - first


@part
def stride(state, start, end):  # int64, int64, int64 -> int64
    """Append the tokens up to the first character that needs care; where a word begins that is not read.

    Most titles are plain ASCII, and spelling one takes as long as a fortieth of its page.
    """
    tokens, count, position = load_int(state + slots.TOKENS), load_int(state + slots.TOKEN_COUNT), start
    while position < end:
        words, stops, _ = text_masks(position)
        room = end - position
        if room < 64:
            # the end stops as well, but it parts words
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            stops &= inside
        before = (stops - _U1) & ~stops
        starts, ends = words & ~(words << _U1), ~words & (words << _U1) & before
        first, behind = np.int64(0), np.int64(0)
        while ends != _U0:
            first, behind = trailing_zeros(starts), trailing_zeros(ends)
            starts &= starts - _U1
            ends &= ends - _U1
            put_word(tokens + (count << 3), hash_lowered(position + first, behind - first))
            count += 1
        starts &= before
        step = min(trailing_zeros(starts), trailing_zeros(stops), room)
        position += step
        if stops != _U0 or step == 0:
            break
    put_int(state + slots.TOKEN_COUNT, count)
    return position
