"""Scans one page of HTML or XML to token hashes and blocks, without a DOM.

It follows the HTML standard's tokenizer (13.2.5) and the few tree rules that change text: raw text elements, and CDATA
sections in foreign content. In XML an empty-element tag of any element opens nothing, every CDATA section is text, and
every <title> but the first is a block: it is the heading of an entry of a feed, or of a chapter.

An element without an end tag takes no text with it. Hidden raw text without an end tag would reach to the end of the
page: a tag that closes itself then hides nothing, nor does <noscript>, which a browser without scripting shows. Links
and sections without end tags are corrected at the end (stream/sign/text/scan_layout.py).

It turns 64 bytes at a time into bit masks and reads words and regular tags from the bits, because a mispredicted branch
costs as much as ten bytes of text.
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.hashing import HASH_BITS, K0, SEED, WITH_DIGIT, finish_hash, hash_lowered
from spotsieve.stream.sign.text.html import elements
from spotsieve.stream.sign.text.html.elements import (
    empty_traits,
    foreign_after,
    foreign_depth,
    has_cdata,
    is_foreign,
    left_foreign,
)
from spotsieve.stream.sign.text.html.skips import (
    NAME_ENDS,
    after_byte,
    after_cdata,
    after_comment,
    after_long_tag,
    after_tag,
    closes_itself,
    in_set,
    is_cdata,
    is_link,
    is_shadow_root,
    odd_bytes,
    quoted_bytes,
    raw_text_end,
    script_end,
)
from spotsieve.stream.sign.text.machine import (
    byte_at,
    folded_product,
    load_int,
    load_int32,
    load_word,
    lowered16,
    opaque,
    put_int,
    put_int32,
    put_word,
    tag_masks,
    text_masks,
    trailing_zeros,
)
from spotsieve.stream.sign.text.scan_layout import cut_link, cut_sections, lower_depths
from spotsieve.stream.sign.text.words import close_word, end_block, reopen_token, spell, trace_token

_U0, _U1 = np.uint64(0), np.uint64(1)
_LOWER_BITS = np.uint64(0x2020202020202020)
_NAME_SHIFT = np.uint64(64 - elements.SLOT_BITS)
_DIGIT_SHIFT = np.uint64(WITH_DIGIT.bit_length() - 1)
_TITLE = np.uint64(int.from_bytes(b"title", "little"))


@part
def scan_markup(state, start, end, xml):  # int64, int64, int64, bool -> None
    """Write tokens and blocks of the HTML or XML at the addresses start..end into the arrays of the state."""
    tokens, blocks = load_int(state + scan_layout.TOKENS), load_int(state + scan_layout.BLOCKS)
    block_count, block_start = np.int64(0), np.int64(0)
    names, traits_table = load_int(state + scan_layout.NAMES), load_int(state + scan_layout.TRAITS)
    name_multiplier = load_word(state + scan_layout.NAME_MULTIPLIER)
    tracing = load_int(state + scan_layout.TRACE) != 0
    count = np.int64(0)
    # Among the first `count` tokens, `links + in_link * count` begin in links. So a link's tag needs no branch.
    links, in_link = np.int64(0), np.int64(0)
    # Number of tokens before the first block tag in the open link, -1 before such a tag: a link without an end tag ends
    # there.
    link_edge = np.int64(-1)
    sections, lead = _U0, np.int64(elements.LEAD_BODY)
    # The lowest depth of each section since the last recorded block.
    lowest = _U0
    # If the last token ends at inline markup, it continues if the next text starts with a word.
    open_start, open_end = np.int64(0), np.int64(0)
    spelling = False
    # Open roots and integration points of svg and math, and links that were opened in them.
    foreign, foreign_links = _U0, np.int64(0)
    # State around the outermost root of foreign content: elements opened inside end with the root.
    outer_in_link, outer_sections, outer_lead = np.int64(0), _U0, np.int64(0)
    outer_templates, outer_edge = np.int64(0), np.int64(-1)
    # A foreign element that hides its text: its folded name, the depth of foreign content, and its own nesting depth.
    hidden, hidden_depth, hidden_times = _U0, np.int64(0), np.int64(0)
    templates = np.int64(0)
    # Elements that have no end tag from here on, a bit for each of HIDDEN_NAMES.
    unclosed = np.int64(0)
    saved_count, saved_trace = np.int64(0), np.int64(0)
    saved_blocks, saved_start = np.int64(0), np.int64(0)
    saved_links, saved_in_link = np.int64(0), np.int64(0)
    saved_sections, saved_lead, saved_edge, saved_lowest = _U0, np.int64(0), np.int64(-1), _U0
    position = start
    while True:
        # --- text up to the next '<'
        words, stops, digits = text_masks(position)
        room = end - position
        if room < 64:
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            stops = (stops & inside) | (inside + _U1)
        at_tag = byte_at(position) == 60 and room > 0
        touched = ((words | stops) & _U1) != _U0
        careful = not at_tag and (spelling or (touched and open_end != 0))
        if not careful:
            open_end = open_end if at_tag else np.int64(0)
            words &= (stops - _U1) & ~stops
            starts, ends = words & ~(words << _U1), ~words & (words << _U1)
            # The sum carries into the bit after a word if the word has digits, and otherwise does not.
            numbered = words + (words & digits)
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
                token |= ((numbered >> np.uint64(behind)) & _U1) << _DIGIT_SHIFT
                put_word(tokens + (count << 3), token | np.uint64(length == 1))
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
                # Words of 64 bytes and more are spelled character by character.
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
            put_int(state + scan_layout.TOKEN_COUNT, count)
            if open_end != 0:
                reopen_token(state, open_start, open_end - open_start)
                open_end = np.int64(0)
            position = spell(state, position, end, scan_layout.MARKUP)
            spelling = load_int(state + scan_layout.WORD_LENGTH) > 0
            count = load_int(state + scan_layout.TOKEN_COUNT)
            if position >= end:
                break
            if byte_at(position) != 60:
                continue
        # --- a tag, at '<'
        # The window begins after '<', for start tags and end tags alike: testing for '/' first would delay the next
        # window.
        tag = position + 1
        words, closes, doubles, equals, singles = tag_masks(tag)
        room = end - position
        closing = room > 1 and byte_at(opaque(tag)) == 47
        name = tag + np.int64(closing)
        initial = byte_at(name) | np.uint8(0x20)
        if name >= end or initial < 97 or initial > 122:
            following = byte_at(position + 1)
            if room > 1 and following == 33:
                if room > 3 and byte_at(position + 2) == 45 and byte_at(position + 3) == 45:
                    position = after_comment(position + 4, end)
                elif (xml or has_cdata(foreign)) and is_cdata(position, end):
                    inner_end = after_cdata(position + 9, end)
                    put_int(state + scan_layout.TOKEN_COUNT, count)
                    if open_end != 0:
                        reopen_token(state, open_start, open_end - open_start)
                        open_end = np.int64(0)
                    spell(state, position + 9, inner_end, scan_layout.RAW)
                    spelling = load_int(state + scan_layout.WORD_LENGTH) > 0
                    count = load_int(state + scan_layout.TOKEN_COUNT)
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
            # Not markup: '<' is a character, and a separator.
            if spelling:
                put_int(state + scan_layout.TOKEN_COUNT, count)
                close_word(state)
                spelling = False
                count = load_int(state + scan_layout.TOKEN_COUNT)
            open_end = np.int64(0)
            position += 1
            continue
        room -= 1
        if room < 64:
            inside = (_U1 << np.uint64(room)) - _U1
            words &= inside
            closes &= inside
        length = trailing_zeros(~(words >> np.uint64(closing)))
        regular = name + length < end and length <= 16 and in_set(byte_at(name + length), NAME_ENDS)
        traits = np.int64(elements.UNKNOWN_TRAITS)
        low, high, folded = _U0, _U0, _U0
        if regular:
            low, high = lowered_name(name, length)
            folded = low ^ (high * elements.LONG_NAME)
            slot = np.int64((folded * name_multiplier) >> _NAME_SHIFT)
            found = opaque(load_int32(traits_table + (slot << 2)))
            traits = found if load_word(names + (slot << 3)) == folded else traits
        kind = traits & elements.KIND_MASK
        if closes != _U0 and equals & (closes - _U1) & ~closes == _U0:
            # Without '=', quotes have no meaning: the first '>' is the end.
            position = tag + trailing_zeros(closes) + 1
        else:
            quoted = quoted_bytes(doubles)
            closes &= ~quoted
            odd = odd_bytes(words, equals, singles, doubles & quoted, quoted, _U0, _U0)
            if regular and closes != _U0 and odd & (closes ^ (closes - _U1)) == _U0:
                position = tag + trailing_zeros(closes) + 1
            elif regular and closes == _U0:
                position = after_long_tag(tag, name + length, end)
            else:
                position = after_tag(name + length, end, not regular)
            if position < 0:
                break
        if (
            xml
            and not closing
            and kind != elements.FOREIGN
            and not is_foreign(foreign)
            and closes_itself(name + length, position - 1)
        ):
            traits = empty_traits(kind)
            kind = traits & elements.KIND_MASK
        elif (
            xml
            and kind == elements.HIDDEN
            and low == _TITLE
            and foreign == _U0
            and (closing or load_int(state + scan_layout.TITLE_END) != 0)
        ):
            traits = np.int64(elements.LATER_TITLE_TRAITS)
            kind = traits & elements.KIND_MASK
        if spelling and kind != elements.INLINE and kind != elements.HIDDEN and kind != elements.SCRIPT:
            put_int(state + scan_layout.TOKEN_COUNT, count)
            close_word(state)
            spelling = False
            count = load_int(state + scan_layout.TOKEN_COUNT)
        if foreign != _U0 or kind == elements.FOREIGN:
            before, empty = foreign, not closing and closes_itself(name + length, position - 1)
            was_foreign = is_foreign(before)
            role = traits >> elements.ROLE_SHIFT & elements.ROLE_MASK
            foreign = foreign_after(before, role, kind, closing, empty)
            foreign_links = foreign_links if before != _U0 else np.int64(0)
            if was_foreign and traits >> elements.LINK_SHIFT != 0:
                if closing and foreign_links == 0:
                    foreign = left_foreign(foreign)
                foreign_links = max(foreign_links + (-1 if closing else 1 - np.int64(empty)), np.int64(0))
            if was_foreign and closing and kind == elements.TEMPLATE and templates > 0 and hidden != folded:
                foreign = _U0
            if hidden != _U0:
                depth = foreign_depth(foreign)
                if (
                    depth == hidden_depth
                    and folded == hidden
                    and was_foreign
                    and foreign == before
                    and (closing or not empty)
                ):
                    hidden_times += -1 if closing else 1
                if depth < hidden_depth or hidden_times == 0:
                    hidden = _U0
                    put_int(state + scan_layout.WORD_LENGTH, np.int64(0))
                    spelling = False
                    open_end = np.int64(0)
                    if templates == 0:
                        count, block_count, block_start = saved_count, saved_blocks, saved_start
                        links, in_link, sections, lead = saved_links, saved_in_link, saved_sections, saved_lead
                        link_edge, lowest = saved_edge, saved_lowest
                        put_int(state + scan_layout.TRACE_LENGTH, saved_trace)
                    if closing and kind > elements.BREAK and foreign == before:
                        continue
            if before == _U0:
                outer_in_link, outer_sections, outer_lead, outer_templates = in_link, sections, lead, templates
                outer_edge = link_edge
            elif foreign == _U0:
                links += (in_link - outer_in_link) * (count + np.int64(spelling))
                in_link, sections, lead, link_edge = outer_in_link, outer_sections, outer_lead, outer_edge
                lowest = lower_depths(lowest, sections)
                if templates > outer_templates == 0:
                    # A template was opened inside: after it, the page continues in the state around the root.
                    saved_links += (saved_in_link - outer_in_link) * saved_count
                    saved_in_link, saved_sections, saved_lead = outer_in_link, outer_sections, outer_lead
                    saved_edge, saved_lowest = outer_edge, lower_depths(saved_lowest, outer_sections)
            if kind == elements.FOREIGN:
                open_end = np.int64(0)
                continue
            if was_foreign and kind > elements.BREAK and (is_foreign(foreign) or role == elements.ICON_TITLE):
                # Foreign elements have no raw text.
                put_int(state + scan_layout.TOKEN_COUNT, count)
                close_word(state)
                spelling = False
                open_end = np.int64(0)
                count = load_int(state + scan_layout.TOKEN_COUNT)
                hides = kind <= elements.SCRIPT or kind == elements.TEMPLATE
                if hides and hidden == _U0 and not closing and not empty:
                    hidden, hidden_depth, hidden_times = folded, foreign_depth(foreign), np.int64(1)
                    if templates == 0:
                        saved_count, saved_blocks, saved_start = count, block_count, block_start
                        saved_links, saved_in_link, saved_sections, saved_lead = links, in_link, sections, lead
                        saved_edge, saved_lowest = link_edge, lowest
                        saved_trace = load_int(state + scan_layout.TRACE_LENGTH)
                continue
        if traits >> elements.LINK_SHIFT != 0:
            linked = np.int64(0)
            if not closing:
                if is_foreign(foreign) and closes_itself(name + length, position - 1):
                    continue
                if in_link != 0 and link_edge >= 0 and foreign == _U0 and hidden == _U0 and templates == 0:
                    links, in_link = cut_link(blocks, block_count, link_edge), np.int64(0)
                linked, link_edge = np.int64(is_link(name + length, position - 1)), np.int64(-1)
            # A token that is still being spelled began before this tag.
            links -= (linked - in_link) * (count + np.int64(spelling))
            in_link = linked
            continue
        if kind <= elements.BREAK:
            # Without branches, because the CPU can predict neither which of the three kinds this is nor whether it is
            # an end tag. Conditions are masks of all bits or no bits. A block without tokens is dropped.
            is_block, is_end = opaque(-(kind & elements.BLOCK)), opaque(-np.int64(closing))
            record = blocks + (block_count << scan_layout.BLOCK_SHIFT)
            put_int32(record, count)
            put_int32(record + scan_layout.BLOCK_LINKS, links + in_link * count)
            put_word(record + scan_layout.BLOCK_SECTIONS, sections)
            put_int32(record + scan_layout.BLOCK_LEAD, lead)
            put_int32(record + scan_layout.BLOCK_END, tag - 1 - start)
            put_word(record + scan_layout.BLOCK_LOWEST, lowest)
            ended = np.int64(count > block_start) & is_block
            block_count += ended
            block_start ^= (block_start ^ count) & is_block
            # elements.INLINE is 0
            open_end &= (kind - 1) >> 63
            # AFTER is 0
            lead ^= (lead ^ ((traits >> elements.LEAD_SHIFT) & elements.LEAD_MASK & ~is_end)) & is_block
            place = np.uint64((traits >> elements.SECTION_SHIFT & elements.SECTION_MASK) << 2)
            depth = np.int64(sections >> place & np.uint64(elements.DEEPEST_SECTION))
            deeper = (np.int64(depth < elements.DEEPEST_SECTION) & ~is_end) - (np.int64(depth > 0) & is_end)
            sections += np.uint64(deeper) << place
            below = np.int64(lowest >> place & np.uint64(elements.DEEPEST_SECTION)) - (depth + deeper)
            lowest -= np.uint64(max(below, np.int64(0))) << place
            lowest ^= (lowest ^ sections) & np.uint64(-ended)
            link_edge ^= (link_edge ^ count) & is_block & (link_edge >> 63)
            continue
        # --- elements with rules of their own
        if kind != elements.HIDDEN and kind != elements.SCRIPT:
            open_end = np.int64(0)
        if kind == elements.TEMPLATE:
            if closing and templates > 0:
                templates -= 1
                if templates == 0 and hidden == _U0:
                    count, block_count, block_start = saved_count, saved_blocks, saved_start
                    links, in_link, sections, lead = saved_links, saved_in_link, saved_sections, saved_lead
                    link_edge, lowest = saved_edge, saved_lowest
                    put_int(state + scan_layout.TRACE_LENGTH, saved_trace)
            elif not closing:
                if templates == 0 and is_shadow_root(name + length, position - 1):
                    continue
                if templates == 0 and hidden == _U0:
                    saved_count, saved_blocks, saved_start = count, block_count, block_start
                    saved_links, saved_in_link, saved_sections, saved_lead = links, in_link, sections, lead
                    saved_edge, saved_lowest = link_edge, lowest
                    saved_trace = load_int(state + scan_layout.TRACE_LENGTH)
                templates += 1
            continue
        if closing:
            continue
        own_bit = np.int64(1) << (traits >> elements.HIDDEN_SHIFT & elements.HIDDEN_MASK)
        # The slash counts even at the end of an unquoted value: <script src=x.js/>
        bare = own_bit == 1 << elements.NOSCRIPT or (own_bit != 1 and byte_at(position - 2) == 47)
        if bare and unclosed & own_bit != 0:
            continue
        inner_end = end
        if kind == elements.SCRIPT:
            inner_end = script_end(position, end)
        elif kind != elements.PLAINTEXT:
            inner_end = raw_text_end(position, end, low, high, length)
        if bare and inner_end == end:
            unclosed |= own_bit
            continue
        if low == _TITLE and foreign == _U0 and load_int(state + scan_layout.TITLE_END) == 0:
            put_int(state + scan_layout.TITLE_START, position)
            put_int(state + scan_layout.TITLE_END, inner_end)
        if kind >= elements.TEXTAREA:
            put_int(state + scan_layout.TOKEN_COUNT, count)
            spell(state, position, inner_end, scan_layout.ESCAPABLE if kind == elements.TEXTAREA else scan_layout.RAW)
            close_word(state)
            count = load_int(state + scan_layout.TOKEN_COUNT)
        position = inner_end
    # --- the end of the page
    put_int(state + scan_layout.TOKEN_COUNT, count)
    close_word(state)
    if templates > 0 or hidden != _U0:
        put_int(state + scan_layout.TOKEN_COUNT, saved_count)
        put_int(state + scan_layout.TRACE_LENGTH, saved_trace)
        block_count, block_start = saved_blocks, saved_start
        links, in_link, sections, lead = saved_links, saved_in_link, saved_sections, saved_lead
        link_edge, lowest = saved_edge, saved_lowest
    put_int(state + scan_layout.BLOCK_COUNT, block_count)
    put_int(state + scan_layout.BLOCK_START, block_start)
    put_int(state + scan_layout.LINKS, links)
    put_int(state + scan_layout.IN_LINK, in_link)
    put_word(state + scan_layout.SECTIONS, sections)
    put_int(state + scan_layout.LEAD, lead)
    end_block(state, end - start)
    if load_int(state + scan_layout.BLOCK_COUNT) > block_count:
        put_word(blocks + (block_count << scan_layout.BLOCK_SHIFT) + scan_layout.BLOCK_LOWEST, lowest)
        block_count += 1
        lowest = sections
    if in_link != 0 and link_edge >= 0:
        cut_link(blocks, block_count, link_edge)
    cut_sections(blocks, block_count, lowest)


@part
def lowered_name(address, length):  # int64, int64 -> (uint64, uint64)
    """The same as lowered16 for up to 16 ASCII letters and digits, but faster, because it uses no vector."""
    # Eight bytes are 63 bits, because the highest bit of ASCII is 0.
    short, long = min(8 * length, np.int64(63)), min(max(8 * length - 64, np.int64(0)), np.int64(63))
    low, high = load_word(address) | _LOWER_BITS, load_word(address + 8) | _LOWER_BITS
    return low & ((_U1 << np.uint64(short)) - _U1), high & ((_U1 << np.uint64(long)) - _U1)
