"""The scanner: HTML or plain text of one page to token hashes, block bounds and antecedent places, without a DOM.

It follows the HTML standard's tokenizer (13.2.5) and the few tree rules that change text (what is raw text, where CDATA
counts). 64 bytes are classified at once into bit masks, and words and regular tags are read off the bits: a branch that
the CPU cannot foresee costs as much as ten bytes of text.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"
# numba compiles these from their argument types; see the comment of each for them.

import numpy as np

from stream.text.elements import (
    BLOCK,
    BREAK,
    FOREIGN,
    HIDDEN,
    INLINE,
    LONG_NAME,
    PLAINTEXT,
    SCRIPT,
    SLOT_BITS,
    TEMPLATE,
    TEXTAREA,
)
from stream.text.hashing import ANTECEDENT, HASH_BITS, K0, SEED, finish_hash, hash_lowered
from stream.text.skips import (
    NAME_ENDS,
    after_byte,
    after_cdata,
    after_comment,
    after_long_tag,
    after_tag,
    find_byte,
    in_set,
    odd_bytes,
    quoted_bytes,
    raw_text_end,
    script_end,
)
from stream.text.sources import part
from stream.text.vectors import (
    byte_at,
    folded_product,
    load_int,
    load_word,
    lowered16,
    put_int,
    put_int32,
    put_word,
    tag_masks,
    text_masks,
    trailing_zeros,
)
from stream.text.words import (
    ANTECEDENT_COUNT,
    ANTECEDENTS,
    BLOCK_COUNT,
    BLOCK_START,
    BLOCKS,
    ESCAPABLE,
    FLAG_MULTIPLIER,
    FLAG_SHIFT,
    FLAGS,
    KINDS,
    MARKUP,
    NAME_MULTIPLIER,
    NAMES,
    RAW,
    TOKEN_COUNT,
    TOKENS,
    TRACE,
    TRACE_LENGTH,
    WORD_LENGTH,
    close_word,
    end_block,
    reopen_token,
    spell,
    trace_token,
)

_U0, _U1 = np.uint64(0), np.uint64(1)
_NAME_SHIFT = np.uint64(64 - SLOT_BITS)


@part
def scan_plain(state, start, end):  # int64, int64, int64 -> None
    """Plain text: a blank line (nothing but blanks and control characters) parts blocks."""
    line = start
    while line < end:
        line_end = find_byte(line, end, np.uint8(10))
        blank = True
        for position in range(line, line_end):
            if byte_at(position) > 32:
                blank = False
                break
        if blank:
            end_block(state)
        else:
            spell(state, line, line_end, RAW)
            close_word(state)
        line = line_end + 1
    end_block(state)


@part
def scan_markup(state, start, end):  # int64, int64, int64 -> None
    """HTML."""
    tokens, antecedents = load_int(state + TOKENS), load_int(state + ANTECEDENTS)
    blocks, block_count, block_start = load_int(state + BLOCKS), np.int64(0), np.int64(0)
    flags_table = load_int(state + FLAGS)
    flag_multiplier, flag_shift = load_word(state + FLAG_MULTIPLIER), load_word(state + FLAG_SHIFT)
    names, kinds = load_int(state + NAMES), load_int(state + KINDS)
    name_multiplier = load_word(state + NAME_MULTIPLIER)
    tracing = load_int(state + TRACE) != 0
    count, marked = np.int64(0), np.int64(0)
    # The last token touches the inline markup that follows it: it goes on if the next text starts with a word.
    open_start, open_end = np.int64(0), np.int64(0)
    spelling = False
    foreign = np.int64(0)
    templates = np.int64(0)
    saved_count, saved_marked, saved_trace = np.int64(0), np.int64(0), np.int64(0)
    saved_blocks, saved_start = np.int64(0), np.int64(0)
    position = start
    while True:
        # --- text up to the next '<'
        words, stops = text_masks(position)
        room = end - position
        if room < 64:
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            stops = (stops & inside) | (inside + _U1)
        careful = False
        if spelling or open_end != 0:
            if position < end and byte_at(position) == 60:
                pass
            elif spelling or ((words | stops) & _U1) != _U0:
                careful = True
            else:
                open_end = np.int64(0)
        if not careful:
            words &= (stops - _U1) & ~stops
            starts, ends = words & ~(words << _U1), ~words & (words << _U1)
            first = np.int64(0)
            while ends != _U0:
                first, behind = trailing_zeros(starts), trailing_zeros(ends)
                starts &= starts - _U1
                ends &= ends - _U1
                length = behind - first
                if length <= 16:
                    low, high = lowered16(position + first, length)
                    token = finish_hash(folded_product(low ^ K0, high ^ SEED)) & HASH_BITS
                else:
                    token = hash_lowered(position + first, length)
                slot = np.int64((token * flag_multiplier) >> flag_shift)
                entry = flags_table + (slot << 4)
                flags, other = load_word(entry) ^ token, load_word(entry + 8) ^ token
                flags = flags if flags < np.uint64(4) else (other if other < np.uint64(4) else _U0)
                put_word(tokens + (count << 3), token | flags)
                put_int32(antecedents + (marked << 2), count)
                marked += np.int64(flags & np.uint64(ANTECEDENT))
                count += 1
                if tracing:
                    trace_token(state, position + first, length, np.uint8(0x20))
            if stops == _U0:
                if starts == _U0:
                    position += 64
                    continue
                first = trailing_zeros(starts)
                position += first
                if first != 0:
                    continue
                # a word of 64 bytes and more is spelled out
                careful = True
            else:
                stop = trailing_zeros(stops)
                if (words << _U1) & stops & (~stops + _U1) != _U0:
                    open_start, open_end = position + first, position + stop
                position += stop
                if position >= end:
                    break
                careful = byte_at(position) != 60
        if careful:
            put_int(state + TOKEN_COUNT, count)
            put_int(state + ANTECEDENT_COUNT, marked)
            if open_end != 0:
                reopen_token(state, open_start, open_end - open_start)
                open_end = np.int64(0)
            position = spell(state, position, end, MARKUP)
            spelling = load_int(state + WORD_LENGTH) > 0
            count, marked = load_int(state + TOKEN_COUNT), load_int(state + ANTECEDENT_COUNT)
            if position >= end:
                break
            if byte_at(position) != 60:
                continue
        # --- a tag, at '<'
        room = end - position
        closing = room > 1 and byte_at(position + 1) == 47
        name = position + (2 if closing else 1)
        initial = byte_at(name) | np.uint8(0x20)
        if name >= end or initial < 97 or initial > 122:
            following = byte_at(position + 1)
            if room > 1 and following == 33:
                if room > 3 and byte_at(position + 2) == 45 and byte_at(position + 3) == 45:
                    position = after_comment(position + 4, end)
                elif foreign > 0 and is_cdata(position, end):
                    inner_end = after_cdata(position + 9, end)
                    put_int(state + TOKEN_COUNT, count)
                    put_int(state + ANTECEDENT_COUNT, marked)
                    if open_end != 0:
                        reopen_token(state, open_start, open_end - open_start)
                        open_end = np.int64(0)
                    spell(state, position + 9, inner_end, RAW)
                    spelling = load_int(state + WORD_LENGTH) > 0
                    count, marked = load_int(state + TOKEN_COUNT), load_int(state + ANTECEDENT_COUNT)
                    position = min(inner_end + 3, end)
                else:
                    position = after_byte(position + 2, end, np.uint8(62))
                continue
            if room > 1 and following == 63:
                position = after_byte(position + 2, end, np.uint8(62))
                continue
            if closing and room > 2:
                position = after_byte(position + 2, end, np.uint8(62))
                continue
            # not markup: '<' is a character, and a separator
            if spelling:
                put_int(state + TOKEN_COUNT, count)
                put_int(state + ANTECEDENT_COUNT, marked)
                close_word(state)
                spelling = False
                count, marked = load_int(state + TOKEN_COUNT), load_int(state + ANTECEDENT_COUNT)
            open_end = np.int64(0)
            position += 1
            continue
        words, closes, doubles, equals, singles = tag_masks(name)
        room = end - name
        if room < 64:
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            closes &= inside
        length = trailing_zeros(~words)
        regular = length < room and length <= 16 and in_set(byte_at(name + length), NAME_ENDS)
        kind = np.int64(0)
        low, high = _U0, _U0
        if regular:
            low, high = lowered16(name, length)
            folded = low ^ (high * LONG_NAME)
            slot = np.int64((folded * name_multiplier) >> _NAME_SHIFT)
            kind = np.int64(byte_at(kinds + slot)) if load_word(names + (slot << 3)) == folded else np.int64(0)
        if closes != _U0 and equals & (closes - _U1) & ~closes == _U0:
            # without '=' no quote counts: the first '>' is the end
            position = name + trailing_zeros(closes) + 1
        else:
            quoted = quoted_bytes(doubles)
            closes &= ~quoted
            odd = odd_bytes(words, doubles, equals, singles, quoted)
            if regular and closes != _U0 and odd & (closes - _U1) & ~closes == _U0:
                position = name + trailing_zeros(closes) + 1
            elif regular and closes == _U0:
                position = after_long_tag(name, name + length, end)
            else:
                position = after_tag(name + length, end, not regular)
            if position < 0:
                break
        if spelling and kind != INLINE and kind != HIDDEN and kind != SCRIPT:
            put_int(state + TOKEN_COUNT, count)
            put_int(state + ANTECEDENT_COUNT, marked)
            close_word(state)
            spelling = False
            count, marked = load_int(state + TOKEN_COUNT), load_int(state + ANTECEDENT_COUNT)
        if kind <= BREAK:
            # No branches here: which of the three it is cannot be foreseen. A block without tokens is none.
            block = kind == BLOCK
            put_int32(blocks + (block_count << 2), count)
            block_count += np.int64(block and count > block_start)
            block_start = count if block else block_start
            foreign = np.int64(0) if block else foreign
            open_end = open_end if kind == INLINE else np.int64(0)
            continue
        # --- elements with rules of their own
        if kind != HIDDEN and kind != SCRIPT:
            open_end = np.int64(0)
        if kind == FOREIGN:
            if closing:
                foreign = max(foreign - 1, np.int64(0))
            elif byte_at(position - 2) != 47:
                foreign += 1
            continue
        if kind == TEMPLATE:
            if closing and templates > 0:
                templates -= 1
                if templates == 0:
                    count, marked = saved_count, saved_marked
                    block_count, block_start = saved_blocks, saved_start
                    put_int(state + TRACE_LENGTH, saved_trace)
            elif not closing:
                if templates == 0:
                    saved_count, saved_marked = count, marked
                    saved_blocks, saved_start = block_count, block_start
                    saved_trace = load_int(state + TRACE_LENGTH)
                templates += 1
            continue
        if closing or (foreign > 0 and byte_at(position - 2) == 47):
            continue
        if kind == SCRIPT:
            position = script_end(position, end)
            continue
        inner_end = end if kind == PLAINTEXT else raw_text_end(position, end, low, high, length)
        if kind >= TEXTAREA:
            put_int(state + TOKEN_COUNT, count)
            put_int(state + ANTECEDENT_COUNT, marked)
            spell(state, position, inner_end, ESCAPABLE if kind == TEXTAREA else RAW)
            close_word(state)
            count, marked = load_int(state + TOKEN_COUNT), load_int(state + ANTECEDENT_COUNT)
        position = inner_end
    # --- the end of the page
    put_int(state + TOKEN_COUNT, count)
    put_int(state + ANTECEDENT_COUNT, marked)
    close_word(state)
    if templates > 0:
        put_int(state + TOKEN_COUNT, saved_count)
        put_int(state + ANTECEDENT_COUNT, saved_marked)
        put_int(state + TRACE_LENGTH, saved_trace)
        block_count, block_start = saved_blocks, saved_start
    put_int(state + BLOCK_COUNT, block_count)
    put_int(state + BLOCK_START, block_start)
    end_block(state)


@part
def is_cdata(position, end):  # int64, int64 -> bool
    """Whether '<![CDATA[' is at `position`."""
    if end - position < 9:
        return False
    for offset, character in enumerate((91, 67, 68, 65, 84, 65, 91)):
        if byte_at(position + 2 + offset) != character:
            return False
    return True
