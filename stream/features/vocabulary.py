"""Which words of the lists a page has, the language that they choose, and the stop-words of each block."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.features.languages import (
    FEWEST_HITS,
    FIRST_GROUP,
    HITS_PER_TOKENS,
    LONE_CHARACTER,
    NO_WORD,
    PILOT_SHIFT,
    UNKNOWN,
    UNSPACED,
    WORD_INDEX_BITS,
    language_table,
)
from stream.text.hashing import LONE
from stream.text.sources import part
from stream.text.vectors import load_word, trailing_zeros

WORDY_BLOCK = 10
"""Tokens from which a block has a say in the language: a menu in another one must not decide."""
MOST_GROUPS = 64

_HASH_BITS = np.uint64((1 << 64) - (1 << WORD_INDEX_BITS))
_U1 = np.uint64(1)


class Vocabulary(NamedTuple):
    """The table of stream/features/languages.py, and counters of the kernel's own, which are zero between pages.

    entries: uint64[2^m]  pilots: uint16[2048]  slot_shift: uint64  stop_masks: uint64[words]  weights: uint32[words]
    scales: int64[64]
    occurrences: int32[words]  seen: uint16[words]  scores, hits: int64[64]
    """

    entries: NDArray[np.uint64]
    pilots: NDArray[np.uint16]
    slot_shift: np.uint64
    stop_masks: NDArray[np.uint64]
    weights: NDArray[np.uint32]
    scales: NDArray[np.int64]
    occurrences: NDArray[np.int32]
    seen: NDArray[np.uint16]
    scores: NDArray[np.int64]
    hits: NDArray[np.int64]


def vocabulary() -> Vocabulary:
    """All languages, with counters that no other thread uses."""
    table = language_table()
    words = len(table.weights)
    return Vocabulary(
        table.entries,
        table.pilots,
        table.slot_shift,
        table.stop_masks,
        table.weights,
        table.scales,
        np.zeros(words, np.int32),
        np.zeros(words + 1, np.uint16),
        np.zeros(MOST_GROUPS, np.int64),
        np.zeros(MOST_GROUPS, np.int64),
    )


@part
def index_words(tokens, count, vocabulary, indexes):  # type: ignore[no-untyped-def]
    """tokens: address of uint64[count]  ->  indexes: uint16[>= count], each token's place in the lists."""
    last = np.uint64(len(vocabulary.entries) - 1)
    for place in range(count):
        token = load_word(tokens + (place << 3))
        bare = token & _HASH_BITS
        pilot = np.uint64(vocabulary.pilots[bare >> np.uint64(PILOT_SHIFT)])
        found = vocabulary.entries[((bare >> vocabulary.slot_shift) ^ pilot) & last] ^ bare
        index = found if found < np.uint64(1 << WORD_INDEX_BITS) else np.uint64(NO_WORD)
        indexes[place] = np.uint64(LONE_CHARACTER) if token & np.uint64(LONE) != np.uint64(0) else index


@part
def choose_language(indexes, blocks, count, vocabulary):  # type: ignore[no-untyped-def]
    """The path that the tokens of a page's wordy blocks choose, or all tokens where no block is wordy.

    indexes: uint16[tokens]  blocks: Blocks, `count` of them  ->  int64, as stream.features.languages.choose_path

    Every word is counted first, and its languages are gone through once, however often it stands there.
    """
    wordy = np.int64(0)
    for block in range(count):
        wordy += np.int64(blocks.words[block] >= WORDY_BLOCK)
    distinct, tokens, end = np.int64(0), np.int64(0), np.int64(0)
    for block in range(count):
        start, end = end, end + blocks.words[block]
        if wordy > 0 and blocks.words[block] < WORDY_BLOCK:
            continue
        tokens += end - start
        for place in range(start, end):
            index = np.uint64(indexes[place])
            before = vocabulary.occurrences[index]
            vocabulary.occurrences[index] = before + 1
            vocabulary.seen[distinct] = index
            distinct += np.int64(before == 0)
    lone = np.int64(vocabulary.occurrences[LONE_CHARACTER])
    vocabulary.scores[:] = 0
    vocabulary.hits[:] = 0
    for place in range(distinct):
        index = np.uint64(vocabulary.seen[place])
        mask, times = vocabulary.stop_masks[index], np.int64(vocabulary.occurrences[index])
        weight = times * np.int64(vocabulary.weights[index])
        vocabulary.occurrences[index] = 0
        while mask != np.uint64(0):
            group = trailing_zeros(mask)
            vocabulary.scores[group] += weight * vocabulary.scales[group]
            vocabulary.hits[group] += times
            mask &= mask - _U1
    if 2 * lone > tokens:
        return np.int64(UNSPACED)
    best = np.int64(0)
    for group in range(1, MOST_GROUPS):
        if vocabulary.scores[group] > vocabulary.scores[best]:
            best = group
    if vocabulary.hits[best] < FEWEST_HITS or vocabulary.hits[best] * HITS_PER_TOKENS < tokens:
        return np.int64(UNKNOWN)
    return best + FIRST_GROUP


@part
def count_stop_words(indexes, path, vocabulary, blocks, count):  # type: ignore[no-untyped-def]
    """Fill blocks.stops: the tokens of each block that are stop-words of the page's path, 0 without a language."""
    if path < FIRST_GROUP:
        blocks.stops[:count] = 0
        return
    group = np.uint64(path - FIRST_GROUP)
    end = np.int64(0)
    for block in range(count):
        start, end = end, end + blocks.words[block]
        stops = np.int64(0)
        for place in range(start, end):
            stops += np.int64((vocabulary.stop_masks[np.uint64(indexes[place])] >> group) & _U1)
        blocks.stops[block] = stops
