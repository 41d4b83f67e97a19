"""Computes block fingerprints: one 32-bit word for the text, and one for the numbers, of each informative block.

    fingerprint = hash << 6 | number << 5 | kept << 4 | class        uint32
    identity    = fingerprint >> 5, different within a page
    hash        = the 26 highest bits of a chain hash (stream/sign/text/hashing.py) over the block's tokens. For the
                  text every token with an ASCII digit is replaced by one constant; for the numbers the tokens are
                  unchanged.
    class       = the largest of CLASS_WEIGHTS that does not exceed the weight. The weight of a text is its number of
                  tokens without a digit; the weight of numbers is the number of tokens with one. Weight 0 gives no
                  fingerprint.
    kept        = whether the scorecards keep the block as main text

Blocks that differ only in prices and dates share their text; identical blocks share their numbers too. A text is weak
if its block is short, consists mostly of links, and is boilerplate. Weak texts are used only on pages with few others.
A page keeps its best fingerprints, and a short page more of them, because each block counts more there.
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
"""The bits of a fingerprint for its class, for a block in the main text, and for numbers."""
IDENTITY_SHIFT = 5
IDENTITY_BITS = 27
HASH_SHIFT = 64 - (IDENTITY_BITS - 1)

MOST_FINGERPRINTS = 44
SHORT_FEATURES, MIDDLE_FEATURES = 150, 300
MIDDLE_PRINTS, FEWEST_PRINTS = 24, 12
"""Most fingerprints of a page: MOST_FINGERPRINTS if it has fewer than SHORT_FEATURES features, MIDDLE_PRINTS below
MIDDLE_FEATURES, otherwise FEWEST_PRINTS."""
WEAK_WORDS = 5
"""Only blocks of fewer tokens can be weak."""
ENOUGH_STRONG = 6
"""With this number of fingerprints that are not weak, weak ones are dropped."""

NUMBER_TOKEN = np.uint64(0xA24BAED4963EE407) & HASH_BITS
"""Replaces every token with a digit in the hash of a text."""

_CLASSES = np.searchsorted(CLASS_WEIGHTS, np.arange(int(CLASS_WEIGHTS[-1]) + 1), side="right").astype(np.uint64) - 1
_HEAVIEST = len(_CLASSES) - 1
_U0, _U1 = np.uint64(0), np.uint64(1)
# An item, a fingerprint before duplicates are merged: identity << 6 | strong << 5 | kept << 4 | class
_ITEM_SHIFT, _STRONG, _KEPT, _CLASS = np.uint64(6), np.uint64(32), np.uint64(16), np.uint64(15)
_RADIX_BITS = 9
_RADIX = 1 << _RADIX_BITS
_LAST_DIGIT = np.uint64(_RADIX - 1)
_DIGITS = tuple(_ITEM_SHIFT + np.uint64(digit * _RADIX_BITS) for digit in range(3))
_MOVES = 8
"""Items are sorted by their highest digit and then by insertion, which stops after this number of moves per item."""
_RANKS = 11
_LOWEST_RANK = -2


class FingerprintBuffers(NamedTuple):
    """Scratch space for the items of a page with up to m blocks. items, others: uint64[2m]  starts: int64[513]"""

    items: NDArray[np.uint64]
    others: NDArray[np.uint64]
    starts: NDArray[np.int64]


def identity_of(prints: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The identities of fingerprints, below 2^27: uint32[p] -> uint32[p]."""
    return prints >> np.uint32(IDENTITY_SHIFT)


def identities_of_block(words: Sequence[str]) -> list[int]:
    """The identities of a block's fingerprints, of its text and of its numbers if it has any. words: its tokens

    The fingerprints of a page are only the best of its blocks' fingerprints.
    """
    hashes = [hash_token(word.encode()) for word in words]
    numbers = [any("0" <= letter <= "9" for letter in word) for word in words]
    bare = [int(NUMBER_TOKEN) if number else word for word, number in zip(hashes, numbers, strict=True)]
    text, exact = (hash_chain(tokens) >> HASH_SHIFT << 1 for tokens in (bare, hashes))
    return [text] * (not all(numbers)) + [exact | 1] * any(numbers)


def weight_of(prints: NDArray[np.uint32]) -> NDArray[np.float64]:
    """The weights of fingerprints, in tokens: uint32[p] -> float64[p]."""
    return np.asarray(CLASS_WEIGHTS[prints & CLASS_MASK])


@part
def make_fingerprint_buffers(most):  # int64 -> FingerprintBuffers
    """Scratch space for pages with up to `most` blocks."""
    items = np.empty(2 * most, dtype=np.uint64)
    return FingerprintBuffers(items, np.empty(2 * most, dtype=np.uint64), np.empty(_RADIX + 1, dtype=np.int64))


@part
def find_block_fingerprints(tokens, blocks, count, features, room, prints):
    """Write the fingerprints of a page in ascending order. Returns their number: int64.

    tokens: address of uint64[], of all blocks  blocks: Blocks, with reasons  count: int64, number of blocks
    features: int64, number of features  room: FingerprintBuffers  prints: uint32[MOST_FINGERPRINTS + 1]

    The time is linear in tokens and blocks, whatever the identities of the blocks are.
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
    """Write the items of all blocks, in order. Returns their number. items: uint64[2 * count]"""
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
            # Without a branch: xor with all bits of the difference, or with no bit.
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
    """The item of a finished chain: its identity and class, without flags."""
    identity = finish_hash(state) >> np.uint64(HASH_SHIFT) << _U1 | number
    return identity << _ITEM_SHIFT | _CLASSES[np.uint64(min(weight, np.int64(_HEAVIEST)))]


@part
def sort_by_insertion(items, count):  # uint64[], int64 -> bool
    """Sort items that are nearly in order. Returns whether they are sorted.

    It stops after _MOVES moves per item, because a page can be built to need many.
    """
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
    """Count where the items of each nine-bit digit begin, for a radix sort.

    items: uint64[]  starts: int64[513], overwritten  shift: uint64
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
    """Run one pass of a radix sort. source, target: uint64[]  starts: int64[513], from count_digits  shift: uint64"""
    for place in range(count):
        item = source[place]
        digit = item >> shift & _LAST_DIGIT
        target[starts[digit]] = item
        starts[digit] += 1


@part
def unite_items(items, count):  # uint64[], int64 -> int64
    """Merge equal items, in items sorted by identity. Returns the number of different items.

    A merged item is kept, and strong, if any of its items is; it has their largest class.
    """
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
    """Write the best items as fingerprints, in order. Returns their number.

    The items of the highest ranks are written; of equal ranks, the first ones.

    items: uint64[], by identity  ranks: int64[>= 11], overwritten  prints: uint32[>= most + 1]
    """
    strong = np.int64(0)
    for place in range(count):
        strong += np.int64(items[place] & _STRONG != _U0)
    with_weak = strong < ENOUGH_STRONG
    ranks[:_RANKS] = 0
    for place in range(count):
        item = items[place]
        ranks[rank_of(item)] += np.int64(with_weak or item & _STRONG != _U0)
    # All items above rank `lowest` are written, and the first `room` items of that rank.
    lowest, room = np.int64(_RANKS - 1), most
    while lowest > 0 and room > ranks[lowest]:
        room -= ranks[lowest]
        lowest -= 1
    written = np.int64(0)
    for place in range(count):
        item = items[place]
        rank, stays = rank_of(item), with_weak or item & _STRONG != _U0
        # Always write: the CPU cannot predict which items stay.
        prints[written] = np.uint32(item >> _ITEM_SHIFT << np.uint64(IDENTITY_SHIFT) | item & (_KEPT | _CLASS))
        written += np.int64(stays and (rank > lowest or (rank == lowest and room > 0)))
        room -= np.int64(stays and rank == lowest)
    return written


@part
def rank_of(item):  # uint64 -> int64
    """Half of its class, plus 1 if it is kept, minus 2 if it is weak; shifted by _LOWEST_RANK, so that it begins at
    0.
    """
    rank = np.int64((item & _CLASS) >> _U1) + np.int64((item & _KEPT) >> np.uint64(4)) - _LOWEST_RANK
    return rank - 2 * np.int64(item & _STRONG == _U0)
