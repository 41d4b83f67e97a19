"""Block fingerprints: one 32-bit word for the text, and one for the numbers, of each informative block of a page.

    fingerprint = hash << 6 | number << 5 | kept << 4 | class        uint32
    identity    = fingerprint >> 5, different within a page
    hash        = the 26 highest bits of a chain hash (stream/sign/text/hashing.py) over the block's tokens. For the
                  text every token with an ASCII digit is replaced by one constant; for the numbers the tokens are
                  unchanged.
    class       = the largest of CLASS_WEIGHTS that does not exceed the weight. The weight of a text is its number of
                  tokens without a digit, the weight of numbers that of tokens with one. Weight 0 has no fingerprint.
    kept        = whether the scorecards keep the block as main text

Blocks that differ only in prices and dates share their text; identical blocks share their numbers too. A text is weak
if its block is short, consists of links and is boilerplate. Weak texts are used only where a page has no others. A page
keeps its best fingerprints, and a short page more of them, because each block counts more there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.features.scorecard import KEPT_IN_NEED
from spotsieve.stream.sign.text.hashing import (
    HASH_BITS,
    SEED,
    WITH_DIGIT,
    chain_hash,
    finish_hash,
    hash_chain,
    hash_token,
)
from spotsieve.stream.sign.text.machine import load_word

CLASS_WEIGHTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256], dtype=np.float64)
"""The weight that a class stands for: float64[16], tokens."""
CLASS_MASK = np.uint32(15)
KEPT = np.uint32(16)
NUMBER = np.uint32(32)
"""The bits of a print that are its class, whether its block is kept, and whether it is of numbers."""
IDENTITY_SHIFT = 5
IDENTITY_BITS = 27
HASH_SHIFT = 64 - (IDENTITY_BITS - 1)

MOST_FINGERPRINTS = 44
SHORT_FEATURES, MIDDLE_FEATURES = 150, 300
MIDDLE_PRINTS, FEWEST_PRINTS = 24, 12
"""A page of fewer than SHORT_FEATURES features has up to MOST_FINGERPRINTS prints, below MIDDLE_FEATURES it has
MIDDLE_PRINTS, and else FEWEST_PRINTS."""
WEAK_WORDS = 5
"""Blocks of fewer tokens can be weak."""
ENOUGH_STRONG = 6
"""With so many prints that are not weak, weak ones are left out."""

NUMBER_TOKEN = np.uint64(0xA24BAED4963EE407) & HASH_BITS
"""Stands for every token with a digit in the hash of a text."""

_CLASSES = np.searchsorted(CLASS_WEIGHTS, np.arange(int(CLASS_WEIGHTS[-1]) + 1), side="right").astype(np.uint64) - 1
_HEAVIEST = len(_CLASSES) - 1
_U0, _U1 = np.uint64(0), np.uint64(1)
# An item, before equal ones are made one: identity << 6 | strong << 5 | kept << 4 | class
_ITEM_SHIFT, _STRONG, _KEPT, _CLASS = np.uint64(6), np.uint64(32), np.uint64(16), np.uint64(15)
_RADIX_BITS = 9
_RADIX = 1 << _RADIX_BITS
_LAST_DIGIT = np.uint64(_RADIX - 1)
_DIGITS = tuple(_ITEM_SHIFT + np.uint64(digit * _RADIX_BITS) for digit in range(3))
_MOVES = 8
"""Items are sorted by their highest digit and then by insertion, which gives up after so many moves an item."""
_RANKS = 11
_LOWEST_RANK = -2


class FingerprintBuffers(NamedTuple):
    """Room for the items of a page with up to m blocks, written over. items, others: uint64[2m]  starts: int64[513]"""

    items: NDArray[np.uint64]
    others: NDArray[np.uint64]
    starts: NDArray[np.int64]


def identity_of(prints: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The identities of prints, below 2^27: uint32[p] -> uint32[p]."""
    return prints >> np.uint32(IDENTITY_SHIFT)


def identities_of_block(words: Sequence[str]) -> list[int]:
    """The identities of a block's prints, of its text and of its numbers, each if there are any; words: its tokens.

    A page lists only the best of its blocks' prints.
    """
    hashes = [hash_token(word.encode()) for word in words]
    numbers = [any("0" <= letter <= "9" for letter in word) for word in words]
    bare = [int(NUMBER_TOKEN) if number else word for word, number in zip(hashes, numbers, strict=True)]
    text, exact = (hash_chain(tokens) >> HASH_SHIFT << 1 for tokens in (bare, hashes))
    return [text] * (not all(numbers)) + [exact | 1] * any(numbers)


def weight_of(prints: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The weights of prints, in tokens: uint32[p] -> float64[p]."""
    return np.asarray(CLASS_WEIGHTS[prints & CLASS_MASK])


@part
def make_fingerprint_buffers(most):  # int64 -> FingerprintBuffers
    """Room for the items of pages with up to `most` blocks."""
    items = np.empty(2 * most, dtype=np.uint64)
    return FingerprintBuffers(items, np.empty(2 * most, dtype=np.uint64), np.empty(_RADIX + 1, dtype=np.int64))


@part
def find_block_fingerprints(tokens, blocks, count, features, room, prints):
    """Write the prints of a page, ascending; how many: int64.

    tokens: address of uint64[], of all blocks  blocks: Blocks, with reasons  count, features: int64, of blocks and of
    features  room: FingerprintBuffers  prints: uint32[MOST_FINGERPRINTS + 1]

    The time is linear in tokens and blocks, whatever identities a page gives its blocks.
    """
    found = collect_items(tokens, blocks, count, room.items)
    items, others, starts = room
    count_digits(items, starts, found, _DIGITS[2])
    move_by_digit(items, others, starts, found, _DIGITS[2])
    if not sort_by_insertion(others, found):
        count_digits(items, starts, found, _DIGITS[0])
        move_by_digit(items, others, starts, found, _DIGITS[0])
        count_digits(others, starts, found, _DIGITS[1])
        move_by_digit(others, items, starts, found, _DIGITS[1])
        count_digits(items, starts, found, _DIGITS[2])
        move_by_digit(items, others, starts, found, _DIGITS[2])
    most = np.int64(FEWEST_PRINTS)
    if features < SHORT_FEATURES:
        most = np.int64(MOST_FINGERPRINTS)
    elif features < MIDDLE_FEATURES:
        most = np.int64(MIDDLE_PRINTS)
    return choose_items(others, unite_items(others, found), most, starts, prints)


@part
def collect_items(tokens, blocks, count, items):
    """Write the items of all blocks, in their order, to items: uint64[2 * count]; how many."""
    found, end = np.int64(0), np.int64(0)
    for block in range(count):
        words = np.int64(blocks.words[block])
        start, end = end, end + words
        text, digits = SEED, _U0
        for place in range(start, end):
            token = load_word(tokens + (place << 3))
            flag = (token & np.uint64(WITH_DIGIT)) >> _U1
            digits += flag
            bare = token & HASH_BITS
            # no branch: all bits or none of the difference
            text = chain_hash(text, bare ^ ((bare ^ NUMBER_TOKEN) & (_U0 - flag)))
        numbers = np.int64(digits)
        kept = blocks.reasons[block] <= KEPT_IN_NEED
        weak = not kept and words < WEAK_WORDS and 2 * np.int64(blocks.links[block]) > words
        noted = _KEPT if kept else _U0
        items[found] = item_of(text, _U0, words - numbers) | noted | (_U0 if weak else _STRONG)
        found += np.int64(words > numbers)
        if numbers > 0:
            exact = SEED
            for place in range(start, end):
                exact = chain_hash(exact, load_word(tokens + (place << 3)))
            items[found] = item_of(exact, _U1, numbers) | noted | _STRONG
            found += 1
    return found


@part
def item_of(state, number, weight):  # uint64, uint64, int64 -> uint64
    """Identity and class of a finished chain."""
    identity = finish_hash(state) >> np.uint64(HASH_SHIFT) << _U1 | number
    return identity << _ITEM_SHIFT | _CLASSES[np.uint64(min(weight, np.int64(_HEAVIEST)))]


@part
def sort_by_insertion(items, count):  # uint64[], int64 -> bool
    """Sort items that are nearly in order; whether it came to an end. A page can be made so that they are not."""
    most = _MOVES * count
    for behind in range(1, count):
        item = items[behind]
        place = behind
        while place > 0 and items[place - 1] > item:
            items[place] = items[place - 1]
            place -= 1
        items[place] = item
        most -= behind - place
        if most < 0:
            return False
    return True


@part
def count_digits(items, starts, count, shift):
    """Where the items of each nine-bit digit go in a radix sort.

    items: uint64[]  starts: int64[513], written over  shift: uint64
    """
    starts[:] = 0
    for place in range(count):
        starts[(items[place] >> shift & _LAST_DIGIT) + _U1] += 1
    before = np.int64(0)
    for digit in range(_RADIX):
        before += starts[digit + 1]
        starts[digit + 1] = before


@part
def move_by_digit(source, target, starts, count, shift):
    """One pass of a radix sort. source, target: uint64[]  starts: int64[513], as of count_digits  shift: uint64"""
    for place in range(count):
        item = source[place]
        digit = item >> shift & _LAST_DIGIT
        target[starts[digit]] = item
        starts[digit] += 1


@part
def unite_items(items, count):  # uint64[], int64 -> int64
    """Make equal items one, in items sorted by identity: kept and strong if any is, of the largest class; how many."""
    last = np.int64(-1)
    for place in range(count):
        item = items[place]
        if last >= 0 and (items[last] ^ item) >> _ITEM_SHIFT == _U0:
            one = items[last]
            heavier = max(one & _CLASS, item & _CLASS)
            items[last] = (one | item) & ~_CLASS | heavier
        else:
            last += 1
            items[last] = item
    return last + 1


@part
def choose_items(items, count, most, ranks, prints):
    """Write the best items, as prints and in their order: those of the highest ranks, of equals the first; how many.

    items: uint64[], by identity  ranks: int64[>= 11], written over  prints: uint32[>= most + 1]
    """
    strong = np.int64(0)
    for place in range(count):
        strong += np.int64(items[place] & _STRONG != _U0)
    with_weak = strong < ENOUGH_STRONG
    ranks[:_RANKS] = 0
    for place in range(count):
        item = items[place]
        ranks[rank_of(item)] += np.int64(with_weak or item & _STRONG != _U0)
    # all above `lowest` stay, and the first `room` of that rank
    lowest, room = np.int64(_RANKS - 1), most
    while lowest > 0 and room > ranks[lowest]:
        room -= ranks[lowest]
        lowest -= 1
    written = np.int64(0)
    for place in range(count):
        item = items[place]
        rank, stays = rank_of(item), with_weak or item & _STRONG != _U0
        # written in any case, since the CPU cannot foresee which ones stay
        prints[written] = np.uint32(item >> _ITEM_SHIFT << np.uint64(IDENTITY_SHIFT) | item & (_KEPT | _CLASS))
        written += np.int64(stays and (rank > lowest or (rank == lowest and room > 0)))
        room -= np.int64(stays and rank == lowest)
    return written


@part
def rank_of(item):  # uint64 -> int64
    """Half its class, one more if it is kept, two fewer if it is weak; from 0 on, not from _LOWEST_RANK."""
    rank = np.int64((item & _CLASS) >> _U1) + np.int64((item & _KEPT) >> np.uint64(4)) - _LOWEST_RANK
    return rank - 2 * np.int64(item & _STRONG == _U0)
