"""Writes the text of a page into its signature: packed blocks and sampled shingles (stream/base/page_text.py).

Blocks stand in page order, and blocks of equal tokens once. A block is main text if the scorecards keep it, or a repeat
of it. Shingles have SHINGLE tokens. In a block whose tokens are mostly single characters they have WIDE_SHINGLE tokens:
three characters recur on every long page of a script without spaces.

    shingle  = chain hash (stream/sign/text/hashing.py) over the tokens of one block; a block that is too short for one
               shingle is a shingle of all its tokens
    text     = chain hash over the tokens of a block, from SEED ^ salt; NUMBER_TOKEN replaces every token with a digit
    exact    = the same over the tokens themselves
    identity = the IDENTITY_BITS highest bits of text, or of exact in a block of which a third of the tokens have digits
    numbers  = 1 + the high half of exact without the salt, scaled to 0..254; 0 without tokens that have digits. By
               chance one in 255 pairs of such blocks has equal numbers, and verdicts must not depend on the salt.

The sample of the main text has its MAIN_SAMPLES smallest different hashes. That of the other text has the REST_SAMPLES
smallest different hashes that do not occur in the main text.

A page of more than MOST_BLOCKS different blocks lists its MOST_BLOCKS - 1 longest ones. The last block then stands for
all others: identity REMAINDER, not kept, the number of their words, no shingles.

The time is linear in tokens and blocks, whatever the hashes are: few hashes are sorted, and a radix sort takes over
where a page was built to be slow. Repeats of a shingle are dropped before the sort: one character that fills a page
would otherwise be sorted a million times.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part
from spotsieve.stream.base.page_text import (
    HASH_SHIFT,
    IDENTITY_BITS,
    IDENTITY_SHIFT,
    KEPT,
    MAIN_SAMPLES,
    MOST_BLOCKS,
    NUMBERS_SHIFT,
    NUMERIC,
    OUTSIDE_SHIFT,
    PLACE_SHIFT,
    POSITION_SHIFT,
    REST_SAMPLES,
    SHINGLE,
    WIDE,
    WIDE_SHINGLE,
    WORDS_SHIFT,
    size_code,
)
from spotsieve.stream.sign.features.scorecard import KEPT_IN_NEED
from spotsieve.stream.sign.features.shingles import shingle_hashes
from spotsieve.stream.sign.features.sorting import RADIX, sort_items
from spotsieve.stream.sign.text.hashing import HASH_BITS, LONE, SEED, WITH_DIGIT, chain_hash, finish_hash
from spotsieve.stream.sign.text.machine import load_word

MOST_SAMPLES = MAIN_SAMPLES + REST_SAMPLES
NUMBER_TOKEN = np.uint64(0xA24BAED4963EE407) & HASH_BITS
"""Replaces every token with a digit in the hash of a text."""
REMAINDER = np.uint64(0)
"""The identity of the block that stands for all unlisted ones."""
UNLISTED = -1
"""The place of a block that is a repeat, or is not listed."""
LAST_POSITION = 65_535

_U0, _U1 = np.uint64(0), np.uint64(1)
_LONE, _WITH_DIGIT = np.uint64(LONE), np.uint64(WITH_DIGIT)
_LOW, _HIGH, _HALF = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000), np.uint64(32)
_EVERY = np.uint64(1) << np.uint64(32)
"""A bound that all hashes of 32 bits are below."""
_MARKS = 4096
_ENOUGH = 8
"""A page repeats itself if fewer than one in _ENOUGH of the wanted hashes are below a bound: all are taken then."""


class TextBuffers(NamedTuple):
    """Scratch space for pages of up to b blocks and t tokens.

    keys, packed: uint64[b], hashes of blocks, and packed blocks with repeats
    items, others, chosen, shared, spare: uint64[t]  picked: uint64[MOST_SAMPLES]
    starts: uint64[257]  marks: uint8[_MARKS]
    """

    keys: NDArray[np.uint64]
    packed: NDArray[np.uint64]
    items: NDArray[np.uint64]
    others: NDArray[np.uint64]
    chosen: NDArray[np.uint64]
    shared: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    marks: NDArray[np.uint8]
    picked: NDArray[np.uint64]


@part
def make_text_buffers(blocks, tokens):  # int64, int64 -> TextBuffers
    """Scratch space for pages of up to `blocks` blocks and `tokens` >= `blocks` tokens."""
    return TextBuffers(
        np.empty(blocks, dtype=np.uint64),
        np.empty(blocks, dtype=np.uint64),
        np.empty(tokens, dtype=np.uint64),
        np.empty(tokens, dtype=np.uint64),
        np.empty(tokens, dtype=np.uint64),
        np.empty(tokens, dtype=np.uint64),
        np.empty(tokens, dtype=np.uint64),
        np.empty(RADIX + 1, dtype=np.uint64),
        np.empty(_MARKS, dtype=np.uint8),
        np.empty(MOST_SAMPLES, dtype=np.uint64),
    )


# Blocks


@part
def pack_blocks(tokens, blocks, count, salt, room, packed):
    """Write the packed blocks of a page, and fill blocks.places. Returns their number: int64.

    tokens: address of uint64[], of all blocks  blocks: Blocks, with reasons  count: int64, number of blocks
    salt: uint64  room: TextBuffers  packed: uint64[>= min(count, MOST_BLOCKS)]
    """
    hash_blocks(tokens, blocks, count, salt, room)
    different = merge_repeats(blocks, count, room)
    if different > MOST_BLOCKS:
        choose_longest(blocks, count, room)
    written, words, links = np.int64(0), np.int64(0), np.int64(0)
    for block in range(count):
        if blocks.places[block] == 0:
            packed[written] = room.packed[block]
            blocks.places[block] = written
            written += 1
        elif different > MOST_BLOCKS and blocks.places[block] < UNLISTED:
            words += np.int64(blocks.words[block])
            links += np.int64(blocks.links[block])
            blocks.places[block] = UNLISTED
    if different > MOST_BLOCKS:
        packed[written] = packed_size(words, links)
        written += 1
    return written


@part
def hash_blocks(tokens, blocks, count, salt, room):
    """Fill room.keys with a hash of each block's tokens, and room.packed. The arguments are those of pack_blocks."""
    seed, end = SEED ^ salt, np.int64(0)
    for block in range(count):
        words = np.int64(blocks.words[block])
        start, end = end, end + words
        text, digits, lone = seed, _U0, _U0
        for place in range(start, end):
            token = load_word(tokens + (place << 3))
            flag = (token & _WITH_DIGIT) >> _U1
            digits += flag
            lone += token & _LONE
            bare = token & HASH_BITS
            # Without a branch: xor with all bits of the difference, or with no bit.
            text = chain_hash(text, bare ^ ((bare ^ NUMBER_TOKEN) & (_U0 - flag)))
        key, numbers = finish_hash(text), _U0
        word = key >> np.uint64(64 - IDENTITY_BITS) << np.uint64(IDENTITY_SHIFT)
        if digits != _U0:
            exact, plain = seed, SEED
            for place in range(start, end):
                token = load_word(tokens + (place << 3))
                exact, plain = chain_hash(exact, token), chain_hash(plain, token)
            key = finish_hash(exact)
            if np.int64(digits) * 3 >= words:
                word = key >> np.uint64(64 - IDENTITY_BITS) << np.uint64(IDENTITY_SHIFT) | NUMERIC
            numbers = _U1 + ((finish_hash(plain) >> _HALF) * np.uint64(255) >> _HALF)
        wide = WIDE if np.int64(lone) * 2 > words else _U0
        kept = KEPT if blocks.reasons[block] <= KEPT_IN_NEED else _U0
        size = packed_size(words, np.int64(blocks.links[block]))
        room.keys[block] = key
        room.packed[block] = word | numbers << np.uint64(NUMBERS_SHIFT) | size | wide | kept


@part
def packed_size(words, links):  # int64, int64 -> uint64
    """The fields `words` and `outside` of a packed block; the share is rounded half up."""
    outside = np.uint64(30 * (words - links) + words) // np.uint64(2 * words)
    return np.uint64(size_code(words)) << np.uint64(WORDS_SHIFT) | outside << np.uint64(OUTSIDE_SHIFT)


@part
def merge_repeats(blocks, count, room):  # Blocks, int64, TextBuffers -> int64
    """Fill blocks.places with 0 for the first of equal blocks and UNLISTED for its repeats.

    The first one is kept if any of them is. Returns the number of different blocks.
    """
    items, keys = room.items, room.keys
    found = merge_recent(blocks, count, room)
    sort_items(items, room.spare, room.starts, found, _EVERY)
    different, first, last = np.int64(0), np.int64(0), np.int64(0)
    for place in range(found):
        item = items[place]
        current = np.int64(item & _LOW)
        if (item ^ items[first]) >> _HALF != _U0:
            first = last = different
        # items[first:last] are the different blocks that begin with the same 32 bits.
        same = first
        while same < last and keys[np.int64(items[same] & _LOW)] != keys[current]:
            same += 1
        if same < last:
            room.packed[np.int64(items[same] & _LOW)] |= room.packed[current] & KEPT
            blocks.places[current] = UNLISTED
        else:
            items[last] = item
            last += 1
            different += 1
            blocks.places[current] = 0
    return different


@part
def merge_recent(blocks, count, room):  # Blocks, int64, TextBuffers -> int64
    """Write room.items of the blocks to sort, without most repeats if there are many blocks. Returns their number.

    A block is a repeat here if it equals the last one whose key has the same low bits.
    """
    items, keys, recent = room.items, room.keys, room.spare
    found, last, are_many = np.int64(0), np.uint64(_MARKS - 1), count > _MARKS
    if are_many:
        recent[:_MARKS] = _U0
    for block in range(count):
        key = keys[block]
        if are_many and block > 0:
            earlier = np.int64(recent[key & last])
            if keys[earlier] == key:
                room.packed[earlier] |= room.packed[block] & KEPT
                blocks.places[block] = UNLISTED
                continue
            recent[key & last] = np.uint64(block)
        items[found] = (key & _HIGH) | np.uint64(block)
        found += 1
    return found


@part
def choose_longest(blocks, count, room):
    """Set blocks.places of different blocks to UNLISTED - 1, except for the MOST_BLOCKS - 1 longest ones.

    Of equally long ones the first are listed. The arguments are those of merge_repeats.
    """
    items, found = room.items, np.int64(0)
    for block in range(count):
        items[found] = (_LOW - np.uint64(blocks.words[block])) << _HALF | np.uint64(block)
        found += np.int64(blocks.places[block] == 0)
    sort_items(items, room.spare, room.starts, found, _EVERY)
    for place in range(MOST_BLOCKS - 1, found):
        blocks.places[np.int64(items[place] & _LOW)] = UNLISTED - 1


# Samples


@part
def sample_shingles(tokens, blocks, count, kept, width, room, packed, samples):
    """Write the sampled shingles of a page in page order.

    Returns their number, and the number of all shingles of listed main text, with those that occur in several blocks:
    (int64, int64).

    tokens: address of uint64[], of all blocks  blocks: Blocks, with places  count: int64, number of blocks
    kept: uint64[], hashes of the shingles of `width` tokens of all kept blocks, as one text  width: int64
    room: TextBuffers  packed: uint64[], from pack_blocks  samples: uint64[>= min(tokens of the page, MOST_SAMPLES)]
    """
    main, rest, end = collect_shingles(tokens, blocks, count, kept, width, room, packed)
    written = pick_smallest(room.items, main, np.int64(0), MAIN_SAMPLES, room, np.int64(0))
    written = pick_smallest(room.others, rest, main, REST_SAMPLES, room, written)
    sort_items(room.picked, room.spare, room.starts, written, np.uint64(end))
    pack_samples(blocks, count, room.picked, written, packed, samples)
    return written, main


@part
def collect_shingles(tokens, blocks, count, kept, width, room, packed):
    """Write items of all shingles of listed blocks: of main text to room.items, of other text to room.others.

    An item is hash << 32 | number of listed tokens before the shingle. Returns the numbers of items in main text and in
    other text, and of listed tokens. The arguments are those of sample_shingles.
    """
    main, rest = np.int64(0), np.int64(0)
    start, position, kept_start = np.int64(0), np.int64(0), np.int64(0)
    for block in range(count):
        words, place = np.int64(blocks.words[block]), blocks.places[block]
        is_kept = blocks.reasons[block] <= KEPT_IN_NEED
        if place >= 0:
            word = packed[place]
            own_width = width_in(word, words)
            shingles = words - own_width + 1
            in_main = word & KEPT != _U0
            items, target = (room.items, main) if in_main else (room.others, rest)
            if is_kept and own_width == width:
                for shingle in range(shingles):
                    hashed = kept[kept_start + shingle]
                    items[target + shingle] = (hashed & _HIGH) | np.uint64(position + shingle)
            elif own_width == 3:
                # The default width without a second loop.
                for shingle in range(shingles):
                    at_token = tokens + ((start + shingle) << 3)
                    state = chain_hash(chain_hash(SEED, load_word(at_token)), load_word(at_token + 8))
                    hashed = finish_hash(chain_hash(state, load_word(at_token + 16)))
                    items[target + shingle] = (hashed & _HIGH) | np.uint64(position + shingle)
            else:
                shingle_hashes(tokens + (start << 3), words, own_width, items[target:])
                for shingle in range(shingles):
                    hashed = items[target + shingle]
                    items[target + shingle] = (hashed & _HIGH) | np.uint64(position + shingle)
            if in_main:
                main += shingles
            else:
                rest += shingles
            position += words
        start += words
        if is_kept:
            kept_start += words
    return main, rest, position


@part
def width_in(word, words):  # uint64, int64 -> int64
    """The number of tokens of a shingle in a packed block of `words` tokens."""
    return min(np.int64(WIDE_SHINGLE if word & WIDE != _U0 else SHINGLE), words)


@part
def pick_smallest(items, count, main, most, room, written):
    """Append the `most` smallest different hashes of items[:count] to room.picked, as position << 32 | hash.

    Hashes that occur in room.items[:main] are left out. Of equal hashes, the first item is taken. Returns the new
    number of picked items.

    items: uint64[], room.items or room.others  count, main, most: int64  room: TextBuffers  written: int64
    """
    bound = _EVERY
    if 2 * count > 3 * most:
        bound = (np.uint64(3 * most) << np.uint64(31)) // np.uint64(count)
    while True:
        found = choose_below(items, count, bound, room.chosen)
        found = drop_recent(room.chosen, found, room.spare)
        sort_items(room.chosen, room.spare, room.starts, found, bound)
        found = drop_repeats(room.chosen, found)
        different = found
        if main > 0 and found > 0:
            found = drop_shared(main, found, bound, room)
        if found >= most or bound == _EVERY:
            break
        bound = _EVERY if different * _ENOUGH < most else min(bound << np.uint64(2), _EVERY)
    found = min(found, most)
    for place in range(found):
        item = room.chosen[place]
        room.picked[written + place] = item << _HALF | item >> _HALF
    return written + found


@part
def choose_below(items, count, bound, chosen):
    """Copy the items whose hash is below the bound, in order. Returns their number.

    items, chosen: uint64[]  count: int64  bound: uint64
    """
    found = _U0
    for place in range(count):
        # Always write: the CPU cannot predict which items stay.
        chosen[found] = items[place]
        found += np.uint64(items[place] >> _HALF < bound)
    return np.int64(found)


@part
def drop_recent(items, count, recent):
    """Drop most repeats from many items: those of the last hash with the same low bits. Returns the number left.

    items: uint64[], in page order; the first item of a hash stays  count: int64
    recent: uint64[>= count], overwritten
    """
    if count <= _MARKS:
        return count
    found, last = _U0, np.uint64(_MARKS - 1)
    recent[:_MARKS] = _EVERY
    for place in range(count):
        item = items[place]
        hashed = item >> _HALF
        items[found] = item
        found += np.uint64(recent[hashed & last] != hashed)
        recent[hashed & last] = hashed
    return np.int64(found)


@part
def drop_repeats(items, count):  # uint64[], int64 -> int64
    """Keep the first of equal hashes among sorted items. Returns the number of different hashes."""
    found, last = _U0, _EVERY
    for place in range(count):
        item = items[place]
        items[found] = item
        found += np.uint64(item >> _HALF != last)
        last = item >> _HALF
    return np.int64(found)


@part
def drop_shared(main, count, bound, room):
    """Remove the items from room.chosen[:count] whose hash occurs in room.items[:main]. Returns the number left.

    main, count: int64  bound: uint64, above all hashes  room: TextBuffers
    """
    marks, chosen, shared = room.marks, room.chosen, room.shared
    marks[:] = 0
    last = np.uint64(_MARKS - 1)
    for place in range(count):
        marks[chosen[place] >> _HALF & last] = 1
    passed = _U0
    for place in range(main):
        item = room.items[place]
        shared[passed] = item
        passed += np.uint64(item >> _HALF < bound) & np.uint64(marks[item >> _HALF & last])
    found = drop_recent(shared, np.int64(passed), room.spare)
    sort_items(shared, room.spare, room.starts, found, bound)
    left, other = np.int64(0), np.int64(0)
    for place in range(count):
        item = chosen[place]
        while other < found and shared[other] >> _HALF < item >> _HALF:
            other += 1
        chosen[left] = item
        left += np.int64(other == found or shared[other] >> _HALF != item >> _HALF)
    return left


@part
def pack_samples(blocks, count, picked, written, packed, samples):
    """Write picked items as samples. picked: uint64[], in page order  written: int64, their number

    The other arguments are those of sample_shingles.
    """
    done, position = np.int64(0), np.int64(0)
    for block in range(count):
        place = np.int64(blocks.places[block])
        if place >= 0:
            words = np.int64(blocks.words[block])
            position += words
            own_width = width_in(packed[place], words)
            low = np.uint64(place) << np.uint64(PLACE_SHIFT) | np.uint64(own_width)
            while done < written and np.int64(picked[done] >> _HALF) < position:
                item = picked[done]
                at = min(item >> _HALF, np.uint64(LAST_POSITION))
                samples[done] = (item & _LOW) << np.uint64(HASH_SHIFT) | at << np.uint64(POSITION_SHIFT) | low
                done += 1
