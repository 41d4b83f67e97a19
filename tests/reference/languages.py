"""The language of a page in plain Python: the reference implementation of stream/sign/features/languages.py."""

from collections.abc import Iterable

from spotsieve.stream.sign.features.languages import (
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
    WordTable,
)

HASH_BITS = ((1 << 64) - 1) ^ ((1 << WORD_INDEX_BITS) - 1)


def word_index(table: WordTable, token: int) -> int:
    """The word index of a token's hash. The low bits of the hash do not matter."""
    bare = token & HASH_BITS
    slot = ((bare >> int(table.slot_shift)) ^ int(table.pilots[bare >> PILOT_SHIFT])) & (len(table.entries) - 1)
    difference = int(table.entries[slot]) ^ bare
    return difference if difference < 1 << WORD_INDEX_BITS else NO_WORD


def choose_path(indexes: Iterable[int], table: WordTable) -> int:
    """The path of a page from the word indexes of its tokens, by the rules of stream/sign/features/languages.py."""
    tokens = lone = 0
    scores = [0] * MOST_GROUPS
    hits = [0] * MOST_GROUPS
    for index in indexes:
        tokens += 1
        lone += index == LONE_CHARACTER
        mask = int(table.stop_masks[index])
        while mask:
            group = (mask & -mask).bit_length() - 1
            scores[group] += int(table.weights[index]) * int(table.scales[group])
            hits[group] += 1
            mask &= mask - 1
    if 2 * lone > tokens:
        return UNSPACED
    best = scores.index(max(scores))
    if hits[best] < FEWEST_HITS or hits[best] * HITS_PER_TOKENS < tokens:
        return UNKNOWN
    return FIRST_GROUP + best
