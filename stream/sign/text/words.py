"""Scans text one character at a time: UTF-8, character references, and the normalisation of a word.

A word is spelled as NFKC_Casefold spells it (stream/sign/text/generate_tables.py has the exceptions), so canonically
and compatibly equivalent texts have the same tokens. Each character is folded by a table. A word that is perhaps not
composed, or not in order, is normalised when it ends (stream/sign/text/normalisation.py).

It is the slow path. The scanner of markup (html/scan.py) and `read_ascii` take plain ASCII words in strides, and leave
all other text to these functions. They also record tokens and blocks in the state (stream/sign/text/scan_layout.py).

The title of a page consists of the words of the first <title> outside svg and math, which is not part of any block. The
scanner of markup only records its place, so its words are read once per page.
"""

import numpy as np

from spotsieve.stream.base.jit import inlined, part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.characters import (
    CLASS_MASK,
    CODE_POINT_MASK,
    EXPANDED,
    IDEOGRAPH,
    JOINING,
    JOINS_LETTERS,
    JOINS_MARKS,
    MARK,
    OPEN_IDEOGRAPH,
    ORDER_BITS,
    ORDER_MASK,
    ORDER_SHIFT,
    SEPARATOR,
    WORD,
    character_entry,
    character_length,
    decode,
    encode,
    entry_in,
    is_alphanumeric,
    reference,
)
from spotsieve.stream.sign.text.hashing import LONE, WITH_DIGIT, digit_flag, hash_bytes, hash_lowered, lone_flag
from spotsieve.stream.sign.text.machine import (
    byte_at,
    load_int,
    load_int32,
    load_word,
    put_byte,
    put_int,
    put_int32,
    put_word,
    text_masks,
    trailing_zeros,
)
from spotsieve.stream.sign.text.normalisation import normalise_word

_FIRST_IDEOGRAPHS, _LAST_IDEOGRAPHS = 0xE3, 0xE9
"""The first bytes of characters that are mostly ideographs and kana: they are no letters of a word."""
_U0, _U1 = np.uint64(0), np.uint64(1)
_DIGIT_SHIFT = np.uint64(WITH_DIGIT.bit_length() - 1)


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
        if length > scan_layout.LENGTH_MASK:
            length = settled_length(state, address, length)
        token = hash_bytes(address, length) | digit_flag(address, length) | lone_flag(address, length)
        add_token(state, token, address, length, np.uint8(0))
        put_int(state + scan_layout.WORD_LENGTH, np.int64(0))


@part
def settled_length(state, address, length):  # int64, int64, int64 -> int64
    """Normalise the open word at `address`, as the flags of its length demand. Returns its bytes."""
    ideograph = length & scan_layout.OPEN_IDEOGRAPH != 0
    if length & scan_layout.DISORDERED != 0:
        length = normalise_word(state, length & scan_layout.LENGTH_MASK)
    # Marks that do not compose with an ideograph are dropped.
    return character_length(address) if ideograph else length & scan_layout.LENGTH_MASK


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
def end_block(state, place):  # int64, int64 -> None
    """End the current block. A block without tokens is dropped. place: where it ends, in bytes from the page's start"""
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
        put_int32(record + scan_layout.BLOCK_END, place)
        put_int(state + scan_layout.BLOCK_COUNT, blocks + 1)
        put_int(state + scan_layout.BLOCK_START, count)


@part
def read_ascii(state, start, end):  # int64, int64, int64 -> int64
    """Append the tokens before the first character that needs the slow path, of text without markup.

    Returns the address of the first unread word. Most titles and lines are plain ASCII, and spelling a title takes as
    long as a fortieth of its page.
    """
    tokens, count, position = load_int(state + scan_layout.TOKENS), load_int(state + scan_layout.TOKEN_COUNT), start
    tracing = load_int(state + scan_layout.TRACE) != 0
    while position < end:
        words, stops, digits = text_masks(position)
        room = end - position
        if room < 64:
            # The end is a stop too, but it separates words.
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            stops &= inside
        before = (stops - _U1) & ~stops
        starts, ends = words & ~(words << _U1), ~words & (words << _U1) & before
        # The sum carries into the bit after a word if the word has digits, and otherwise does not.
        numbered = words + (words & digits)
        first, behind = np.int64(0), np.int64(0)
        while ends != _U0:
            first, behind = trailing_zeros(starts), trailing_zeros(ends)
            starts &= starts - _U1
            ends &= ends - _U1
            token = hash_lowered(position + first, behind - first) | np.uint64(behind - first == 1)
            put_word(tokens + (count << 3), token | (numbered >> np.uint64(behind) & _U1) << _DIGIT_SHIFT)
            count += 1
            if tracing:
                trace_token(state, position + first, behind - first, np.uint8(0x20))
        starts &= before
        step = min(trailing_zeros(starts), trailing_zeros(stops), room)
        position += step
        if stops != _U0 or step == 0:
            break
    put_int(state + scan_layout.TOKEN_COUNT, count)
    return position


@part
def spell(state, address, end, kind):  # int64, int64, int64, int64 -> int64
    """Read text from `address` on, and continue the open word. Returns the address of the first unread byte.

    It stops at `end`, and in MARKUP before '<'; both leave the word open. In MARKUP it also stops after the end of a
    word, where the fast path of the scanner can continue.
    """
    while address < end:
        character = byte_at(address)
        if character < _FIRST_IDEOGRAPHS or character > _LAST_IDEOGRAPHS:
            behind = _spell_letters(state, address, end)
            if behind != address:
                address = behind
                continue
        first, second, length = np.int64(32), np.int64(0), np.int64(1)
        if character >= 0x80:
            first, length = decode(address, end)
        elif is_alphanumeric(character):
            close_word(state)  # The open word is an ideograph, and no letter belongs to it.
            continue
        elif character == 60 and kind == scan_layout.MARKUP:
            return address
        elif character == 0 and kind == scan_layout.MARKUP:
            address += 1
            continue
        elif character == 38 and kind != scan_layout.RAW:
            first, second, length = reference(state, address, end)
        spell_character(state, first)
        if second != 0:
            # Only the first character of an entity can be EXPANDED.
            spell_folded(state, character_entry(state, second))
        address += length
        if kind == scan_layout.MARKUP and load_int(state + scan_layout.WORD_LENGTH) == 0 and byte_at(address) < 0x80:
            return address
    return address


@part
def _spell_letters(state, address, end):  # int64, int64, int64 -> int64
    """Add the letters and digits from `address` on to the open word. Returns the address of the first other character.

    The length of the word stays in a register, and most letters beyond ASCII are two bytes that become two bytes.
    """
    length = load_int(state + scan_layout.WORD_LENGTH)
    if length & scan_layout.OPEN_IDEOGRAPH != 0:
        return address
    pages, leaves = load_int(state + scan_layout.PAGES), load_int(state + scan_layout.LEAVES)
    begin = target = load_int(state + scan_layout.SPELLED) + (length & scan_layout.LENGTH_MASK)
    while address < end:
        character = byte_at(address)
        if character < 0x80:
            if not is_alphanumeric(character):
                break
            put_byte(target, np.int64(character) | 0x20)
            address, target = address + 1, target + 1
            continue
        code_point, size = decode(address, end)
        entry = entry_in(pages, leaves, code_point)
        if entry & CLASS_MASK != WORD:
            break
        target += encode(target, entry >> 3)
        address += size
    put_int(state + scan_layout.WORD_LENGTH, length + target - begin)
    return address


@inlined
def spell_character(state, code_point):  # int64, int64 -> None
    """Add one character to the open word, or end the word. Classes of characters: stream/sign/text/characters.py"""
    entry = character_entry(state, code_point)
    kind = entry & CLASS_MASK
    length = load_int(state + scan_layout.WORD_LENGTH)
    if kind == WORD and length & scan_layout.OPEN_IDEOGRAPH == 0:
        target = load_int(state + scan_layout.SPELLED) + (length & scan_layout.LENGTH_MASK)
        put_int(state + scan_layout.WORD_LENGTH, length + encode(target, entry >> 3))
    elif kind == IDEOGRAPH:
        spell_ideograph(state, entry >> 3)
    elif kind == SEPARATOR:
        close_word(state)
    elif kind == MARK:
        if length > 0:
            spell_mark(state, entry, length)
    elif kind != EXPANDED:
        spell_folded(state, entry)
    else:
        place = load_int(state + scan_layout.EXPANSIONS) + ((entry >> 3 & CODE_POINT_MASK) << 2)
        for _ in range(load_int32(place)):
            place += 4
            spell_folded(state, character_entry(state, load_int32(place)))


@part
def spell_ideograph(state, code_point):  # int64, int64 -> None
    """End the open word, and append a token of one character."""
    close_word(state)
    address = load_int(state + scan_layout.SPELLED)
    length = encode(address, code_point)
    add_token(state, hash_bytes(address, length) | np.uint64(LONE), address, length, np.uint8(0))


@part
def spell_folded(state, entry):  # int64, int64 -> None
    """The same for an entry of the character table that is not EXPANDED."""
    kind, folded = entry & CLASS_MASK, entry >> 3 & CODE_POINT_MASK
    length, spelled = load_int(state + scan_layout.WORD_LENGTH), load_int(state + scan_layout.SPELLED)
    if kind == IDEOGRAPH:
        spell_ideograph(state, folded)
    elif kind == OPEN_IDEOGRAPH:
        close_word(state)
        put_int(state + scan_layout.WORD_LENGTH, encode(spelled, folded) | scan_layout.OPEN_IDEOGRAPH)
    elif kind == MARK:
        if length > 0:
            spell_mark(state, entry, length)
    elif kind in (WORD, JOINING):
        if length & scan_layout.OPEN_IDEOGRAPH != 0:
            close_word(state)
            length = np.int64(0)
        length += encode(spelled + (length & scan_layout.LENGTH_MASK), folded)
        put_int(state + scan_layout.WORD_LENGTH, length | (scan_layout.DISORDERED if kind == JOINING else 0))
    elif kind == SEPARATOR:
        close_word(state)


@part
def spell_mark(state, entry, length):  # int64, int64, int64 -> None
    """Add a mark to the open word, whose length is not 0, and note whether the word must be normalised.

    It need not be if the mark has its place behind the last one and composes with nothing, as most marks of Arabic and
    Indic scripts (the quick check of Unicode 14, annex 15, sec. 9).
    """
    size = length & scan_layout.LENGTH_MASK
    order, last = entry >> ORDER_SHIFT & ORDER_MASK, load_int(state + scan_layout.LAST_MARK)
    after_mark = last >> ORDER_BITS == size
    disordered = (
        length & scan_layout.OPEN_IDEOGRAPH != 0
        or entry & JOINS_LETTERS != 0
        or (after_mark and (entry & JOINS_MARKS != 0 or 0 < order < last & ORDER_MASK))
    )
    added = encode(load_int(state + scan_layout.SPELLED) + size, entry >> 3 & CODE_POINT_MASK)
    put_int(state + scan_layout.LAST_MARK, (size + added) << ORDER_BITS | order)
    put_int(state + scan_layout.WORD_LENGTH, (length + added) | (scan_layout.DISORDERED if disordered else 0))


MOST_TITLE_WORDS = 10
"""Only the first 10 different words of a title are kept."""
TITLE_WORD_BITS = 16
"""A word of a title is this number of the highest bits of its token's hash."""

LEAST_HEADLINE = 4
"""The least words of a part of a title that is a headline. If no part has as many, the whole title is the headline."""

_SHIFT = np.uint64(64 - TITLE_WORD_BITS)
_NO_WORD = 1 << TITLE_WORD_BITS


@part
def read_title(state, titles, first):  # int64 address, uint16[>= first + MOST_TITLE_WORDS], int64 -> int64, uint16
    """Write the words of a scanned page's title to titles[first:], ascending and all different.

    Returns their number, and the headline: a hash of two words of the title without the name of the site; 0 without a
    title.

    The tokens of the title are written temporarily after those of the page. There is room, because no byte is in both.
    """
    start, end = load_int(state + scan_layout.TITLE_START), load_int(state + scan_layout.TITLE_END)
    if start >= end:
        return np.int64(0), np.uint16(0)
    count, traced = load_int(state + scan_layout.TOKEN_COUNT), load_int(state + scan_layout.TRACE_LENGTH)
    longest, longest_end, parts = count, count, 0
    while start < end:
        before = load_int(state + scan_layout.TOKEN_COUNT)
        part_end, following = _title_part(state, start, end)
        spell(state, read_ascii(state, start, part_end), part_end, scan_layout.ESCAPABLE)
        close_word(state)
        behind = load_int(state + scan_layout.TOKEN_COUNT)
        if behind - before > longest_end - longest:
            longest, longest_end = before, behind
        parts += behind > before
        start = following
    tokens, behind = load_int(state + scan_layout.TOKENS), load_int(state + scan_layout.TOKEN_COUNT)
    put_int(state + scan_layout.TOKEN_COUNT, count)
    put_int(state + scan_layout.TRACE_LENGTH, traced)
    if parts > 1 and longest_end - longest < LEAST_HEADLINE:
        longest, longest_end = count, behind
    last = first
    for token in range(count, behind):
        if last - first == MOST_TITLE_WORDS:
            break
        last = _add_word(titles, first, last, tokens, token)
    return last - first, _headline(tokens, longest, min(longest_end, longest + MOST_TITLE_WORDS))


@part
def _title_part(state, address, end):  # int64, int64, int64 -> int64, int64
    """The end of the part of a title that begins at `address`, and the address of the next part.

    Parts are divided by '|', or by other signs that stand alone between blanks, except '&' and '+'.
    """
    sign, after_blank = np.int64(0), False
    while address < end:
        character, length = np.int64(byte_at(address)), np.int64(1)
        if character >= 0x80:
            character, length = decode(address, end)
        elif character == 38:
            referred, _, length = reference(state, address, end)
            character = referred if length > 1 else character
        if character == 124:
            return address, address + length
        if character <= 32 or character == 0xA0:
            if sign > 0:
                return sign, address
            after_blank = True
        elif character_entry(state, character) & CLASS_MASK == SEPARATOR and character != 38 and character != 43:
            if after_blank:
                sign = address
            after_blank = False
        else:
            sign, after_blank = np.int64(0), False
        address += length
    return end, end


@part
def _add_word(titles, first, last, tokens, token):  # uint16[...], int64, int64, int64 address, int64 -> int64
    """Add the word of a token to the ascending words titles[first:last], unless it is there. Returns their end."""
    word = np.uint16(load_word(tokens + (token << 3)) >> _SHIFT)
    place = last
    while place > first and titles[place - 1] >= word:
        place -= 1
    if place < last and titles[place] == word:
        return last
    for moved in range(last, place, -1):
        titles[moved] = titles[moved - 1]
    titles[place] = word
    return last + 1


@part
def _headline(tokens, first, end):  # int64 address, int64, int64 -> uint16
    """A hash of the two smallest words of a part of a title; 0 without a word.

    Two words, because sites shorten a headline, or begin it with a rubric.
    """
    low, high = np.uint64(_NO_WORD), np.uint64(_NO_WORD)
    for token in range(first, end):
        word = load_word(tokens + (token << 3)) >> _SHIFT
        if word < low:
            low, high = word, low
        elif low < word < high:
            high = word
    if first >= end:
        return np.uint16(0)
    mixed = (low << np.uint64(TITLE_WORD_BITS + 1) | high) * np.uint64(0x9E3779B97F4A7C15)
    return np.uint16(mixed >> _SHIFT | _U1)
