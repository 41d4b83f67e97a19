"""Finds the language of a page by its words that are on the lists."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features.languages import (
    FEWEST_HITS,
    FIRST_GROUP,
    HITS_PER_TOKENS,
    LONE_CHARACTER,
    MOST_GROUPS,
    NO_WORD,
    PILOT_SHIFT,
    UNKNOWN,
    UNSPACED,
    WORD_INDEX_BITS,
    language_table,
)
from spotsieve.stream.jit import part
from spotsieve.stream.text.hashing import LONE
from spotsieve.stream.text.machine.memory import load_word
from spotsieve.stream.text.machine.vectors import trailing_zeros

MOST_TOKENS = 128
"""So many tokens of a text count: 60 tell nearly every language, and a look-up costs as much as 7 bytes of HTML."""

_HASH_BITS = np.uint64((1 << 64) - (1 << WORD_INDEX_BITS))
_U1 = np.uint64(1)


class Vocabulary(NamedTuple):
    """The table of stream/features/languages.py, and the kernel's counters.

    entries: uint64[2^m]  pilots: uint16[2048]  slot_shift: uint64  stop_masks: uint64[words]  weights: uint32[words]
    scales: int64[64]
    occurrences: int32[words], zero between pages  seen: uint16[MOST_TOKENS]  scores, hits: int64[64], written over
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
def choose_language(tokens, count, words):
    """tokens: address of uint64[count]  words: Vocabulary  ->  int64, the path that the first MOST_TOKENS tokens choose

    The rules are those of stream/features/languages.py. Every word is counted first, so that its languages are gone
    through only once.
    """
    last = np.uint64(len(words.entries) - 1)
    count = min(count, MOST_TOKENS)
    distinct = np.int64(0)
    for place in range(count):
        token = load_word(tokens + (place << 3))
        bare = token & _HASH_BITS
        pilot = np.uint64(words.pilots[bare >> np.uint64(PILOT_SHIFT)])
        found = words.entries[((bare >> words.slot_shift) ^ pilot) & last] ^ bare
        index = found if found < np.uint64(1 << WORD_INDEX_BITS) else np.uint64(NO_WORD)
        index = np.uint64(LONE_CHARACTER) if token & np.uint64(LONE) != np.uint64(0) else index
        before = words.occurrences[index]
        words.occurrences[index] = before + 1
        # No branch here: the CPU cannot foresee whether a word is new.
        words.seen[distinct] = index
        distinct += np.int64(before == 0)
    lone = np.int64(words.occurrences[LONE_CHARACTER])
    words.scores[:] = 0
    words.hits[:] = 0
    for place in range(distinct):
        index = np.uint64(words.seen[place])
        mask, times = words.stop_masks[index], np.int64(words.occurrences[index])
        weight = times * np.int64(words.weights[index])
        words.occurrences[index] = 0
        while mask != np.uint64(0):
            group = trailing_zeros(mask)
            words.scores[group] += weight
            words.hits[group] += times
            mask &= mask - _U1
    if 2 * lone > count:
        return np.int64(UNSPACED)
    best = np.int64(0)
    for group in range(1, MOST_GROUPS):
        if words.scores[group] * words.scales[group] > words.scores[best] * words.scales[best]:
            best = np.int64(group)
    if words.hits[best] < FEWEST_HITS or words.hits[best] * HITS_PER_TOKENS < count:
        return np.int64(UNKNOWN)
    return best + FIRST_GROUP
