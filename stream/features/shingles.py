"""Hashes the shingles of the kept text, and numbers repeats so that they are a set (Broder 1997's occurrences).

shingle hash = the hash of its tokens in order, as a spot's (stream/text/hashing.py)
feature      = folded((shingle hash + occurrence * GOLDEN) ^ K1, K2), occurrence 0 for the first of equal ones
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import SEED, chain_hash, finish_hash
from spotsieve.stream.text.machine.memory import load_word

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MOST_STEPS = 512
"""At most so many slots are tried for a shingle. Honest ones need fewer than 40. One that finds none counts as a first
one, so a page made of colliding hashes takes linear time too."""


class RepeatBuffers(NamedTuple):
    """Room for numbering the repeats on pages of up to m shingles. All columns are written over.

    firsts: int32[8m], 1 + the place of the first shingle of each slot, 0 for none  others: int32[m], places of those
    that are not the first of their slot, and before: int32[m], how many equal ones stand before each
    keys: uint64[4m], counts: int32[4m], a table of the others
    """

    firsts: NDArray[np.int32]
    others: NDArray[np.int32]
    before: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.int32]


@part
def shingle_hashes(tokens, count, width, features):
    """tokens: address of uint64[count]  ->  features: uint64[>= count], one a place; how many: int64

    A text with fewer tokens than `width` is one shingle by itself; one without tokens has none.
    """
    width = min(width, count)
    if width == 0:
        return np.int64(0)
    shingles = count - width + 1
    if width == 3:
        # the usual width, without the loop over a shingle's words: half the time
        for first in range(shingles):
            place = tokens + (first << 3)
            state = chain_hash(chain_hash(SEED, load_word(place)), load_word(place + 8))
            features[first] = finish_hash(chain_hash(state, load_word(place + 16)))
        return shingles
    for first in range(shingles):
        state = SEED
        for place in range(first, first + width):
            state = chain_hash(state, load_word(tokens + (place << 3)))
        features[first] = finish_hash(state)
    return shingles


@part
def make_repeat_buffers(most):  # int64 -> RepeatBuffers
    """Arrays for pages of up to `most` >= 16 shingles."""
    return RepeatBuffers(
        np.empty(8 * most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(most, dtype=np.int32),
        np.empty(4 * most, dtype=np.uint64),
        np.empty(4 * most, dtype=np.int32),
    )


@part
def number_repeats(features, count, room):
    """Replace shingle hashes by features, all different: (shingle, how many equal ones stand before it).

    features: uint64[>= count]  room: Repeats for at least `count`

    Nearly all shingles are the first ones of their slot. The rest is put aside without a branch, and counted later.
    """
    firsts, others, before, _, _ = room
    bits = slot_bits(4 * count)
    shift = np.uint64(64 - bits)
    firsts[: np.int64(1) << bits] = 0
    later = np.int64(0)
    for place in range(count):
        slot = features[place] >> shift
        first = firsts[slot]
        firsts[slot] = first if first != 0 else place + 1
        others[later] = place
        later += np.int64(first != 0)
    count_others(features, later, shift, room)
    for other in range(later):
        features[others[other]] += np.uint64(before[other]) * GOLDEN
    for place in range(count):
        features[place] = finish_hash(features[place])


@part
def count_others(features, later, shift, room):
    """Fill room.before: how many equal shingles stand before each of the first `later` of room.others."""
    firsts, others, before, keys, counts = room
    bits = slot_bits(2 * later)
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    counts[: np.int64(1) << bits] = 0
    for other in range(later):
        shingle = features[others[other]]
        first = firsts[shingle >> shift] - 1
        # the first one of the slot is none of the others
        equal = np.int64(features[first] == shingle)
        slot = shingle & last
        for _ in range(MOST_STEPS):
            found = counts[slot]
            if found == 0 or keys[slot] == shingle:
                keys[slot] = shingle
                counts[slot] = found + 1
                equal += np.int64(found)
                break
            slot = (slot + np.uint64(1)) & last
        before[other] = equal


@part
def slot_bits(least):  # int64 -> int64
    """The bits of the number of a slot among `least` or a few more, at least 4."""
    bits = np.int64(4)
    while (np.int64(1) << bits) < least:
        bits += 1
    return bits
