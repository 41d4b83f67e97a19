"""Shingles of the kept text at every place, as a set: a shingle's repeats are numbered (Broder 1997's occurrences).

shingle hash = the hash of its tokens in order, as a spot's (stream/text/hashing.py)
feature      = folded((shingle hash + occurrence * GOLDEN) ^ K1, K2), occurrence 0 for the first of equal ones
"""

import numpy as np

from stream.text.hashing import SEED, chain_hash, finish_hash
from stream.text.sources import part
from stream.text.vectors import load_word

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MOST_STEPS = 512
"""Slots that are looked at for a shingle. Honest ones need fewer than 40; one that finds no place counts as a first
one, so that a page made of hashes that collide takes linear time too."""


@part
def shingle_hashes(tokens, count, width, features):  # type: ignore[no-untyped-def]
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
def number_repeats(features, count, keys, occurrences):  # type: ignore[no-untyped-def]
    """Replace shingle hashes by features, all different: (shingle, how many equal ones stand before it).

    features: uint64[>= count]  keys: uint64[2^m], occurrences: int32[2^m], written over, at least 2 * count slots
    """
    bits = np.int64(4)
    while (np.int64(1) << bits) < 2 * count:
        bits += 1
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    shift = np.uint64(64 - bits)
    occurrences[: np.int64(1) << bits] = 0
    for place in range(count):
        shingle = features[place]
        slot = shingle >> shift
        before = np.int64(0)
        for _ in range(MOST_STEPS):
            found = occurrences[slot]
            if found == 0 or keys[slot] == shingle:
                keys[slot] = shingle
                occurrences[slot] = found + 1
                before = np.int64(found)
                break
            slot = (slot + np.uint64(1)) & last
        features[place] = finish_hash(shingle + np.uint64(before) * GOLDEN)
