"""The language of a page, by function words of many languages in a hash table for the kernel.

    wordlists.txt = header lines "# ...", then three lines per group: "NAME LANGUAGE [LANGUAGE]", the antecedents, the
                    other stop-words, separated by blanks (stream/sign/features/generate_wordlists.py)

The path of a page is how its text is read: path 0 is an unknown language, path 1 a script without spaces, every other
path a group of languages (path_names). The group of path i has the bit i - 2 of a mask.

A word index has WORD_INDEX_BITS bits: 0 for a word on no list, 1 for a character that is a token by itself (class i of
stream/sign/text/characters.txt), and from 2 on the words of the lists. The look-up in a table is:

    slot  = (token >> slot_shift  xor  pilots[token >> PILOT_SHIFT]) & (len(entries) - 1)
    index = entries[slot] xor token, if that is < 2^WORD_INDEX_BITS; else 0

Each bucket of tokens has a pilot that leads its words to slots of their own (hash and displace: Pagh 1999; Belazzougui,
Botelho, Dietzfelbinger, ESA 2009). So 7,600 words of 64 groups take 128 KiB and one comparison; two entries per slot
without pilots would need 1 MiB.

The path of a page is UNSPACED if more than half of its tokens are single characters that are neither ASCII digits nor
words of a list. Otherwise it is the group with the greatest sum of weights over the tokens that are its stop-words, if
enough tokens are; the first of equal groups wins. A word that n groups share weighs 64 // n, so "de" hardly tells
Spanish from Dutch while "los" does. The sum of a group is scaled by the score that its own texts reach (SCALES).
Otherwise the path is UNKNOWN. All sums are integers, so the order of the tokens never matters.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text.hashing import LONE, WITH_DIGIT, hash_token
from spotsieve.stream.sign.text.machine import load_word, trailing_zeros

DIGEST = "b0cc855fe0d8aad3098d6b5ce467961f3e8e48b1bed4a93c4d2f43fdccd9d981"

WORD_INDEX_BITS = 14
NO_WORD, LONE_CHARACTER, FIRST_WORD = 0, 1, 2
MOST_WORDS = (1 << WORD_INDEX_BITS) - FIRST_WORD
PILOT_BITS = 11
PILOT_SHIFT = 64 - PILOT_BITS

MOST_GROUPS = 64
UNKNOWN, UNSPACED, FIRST_GROUP = 0, 1, 2
"""The two paths without a group of languages, and the path of the first group."""

FEWEST_HITS = 3
HITS_PER_TOKENS = 20
"""A group is chosen only if its stop-words are at least FEWEST_HITS tokens, and one of HITS_PER_TOKENS."""
WEIGHT = 64

# fmt: off
SCALES = {
    "en": 16, "de": 16, "lb": 19, "nl": 22, "af": 22, "sv": 19, "scandinavian": 23, "icelandic": 16, "fr": 27,
    "es": 28, "portuguese": 30, "it": 20, "ca": 21, "ro": 17, "eo": 19, "eu": 20, "gaelic": 19, "cy": 20, "mt": 17,
    "sq": 13, "el": 11, "pl": 27, "czechoslovak": 25, "southslavic": 30, "bulgarian": 21, "ru": 30, "uk": 25,
    "be": 26, "lt": 19, "lv": 22, "et": 24, "fi": 28, "hu": 22, "turkish": 25, "kk": 22, "ky": 17, "uz": 21, "mn": 26,
    "hy": 15, "ka": 16, "ar": 19, "he": 21, "fa": 16, "ur": 12, "kurdish": 18, "hi": 14, "mr": 21, "ne": 17, "bn": 17,
    "gu": 15, "pa": 11, "ta": 40, "te": 24, "kn": 24, "ml": 28, "si": 21, "malay": 15, "vi": 13, "tl": 15, "sw": 18,
    "so": 16, "ha": 18, "bo": 11, "ko": 19,
}
# fmt: on
"""Factor of each group's score, in sixteenths.

It is the score of English text divided by the score of the language's own text, to the power 0.8, measured on the
Universal Declaration of Human Rights, which has the same text in all of these languages. Telugu's factor is an
estimate. Without the factors, an English menu of a third of the page's tokens decides the language of 219 of 3,120
pages of 90 tokens; with them, of 23."""
SCALE = 16

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_HASH_BITS = ((1 << 64) - 1) ^ ((1 << WORD_INDEX_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Languages that share a path. antecedents, others: the stop-words as tokens; no word is in both"""

    name: str
    languages: tuple[str, ...]
    antecedents: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WordTable:
    """Hash-and-displace table of words, with the groups of each word.

    entries: uint64[2^m], hash and word index, all ones for an empty slot  pilots: uint16[2048]  slot_shift: uint64
    stop_masks, antecedent_masks: uint64[words], bit i for group i; 0 for the indexes NO_WORD and LONE_CHARACTER
    weights: uint32[words], weight of a word in the choice of a language  scales: int64[64], factor of each group

    An antecedent is a stop-word too: its stop mask includes its antecedent mask, unless a caller's own lists
    (SpotSettings) differ.
    """

    entries: NDArray[np.uint64]
    pilots: NDArray[np.uint16]
    slot_shift: np.uint64
    stop_masks: NDArray[np.uint64]
    antecedent_masks: NDArray[np.uint64]
    weights: NDArray[np.uint32]
    scales: NDArray[np.int64]


@cache
def groups() -> tuple[Group, ...]:
    """Groups of the frozen word lists, read once per process. Raises RuntimeError if the file has another digest."""
    written = files(__package__).joinpath("wordlists.txt").read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGEST:
        raise RuntimeError(
            f"stream/sign/features/wordlists.txt must have the digest {DIGEST}, got {digest}; "
            "install the package again, or put the new digest into stream/sign/features/languages.py if you changed it"
        )
    lines = [line for line in written.decode("utf-8").splitlines() if not line.startswith("#")]
    read = []
    for heading, antecedents, others in zip(lines[0::3], lines[1::3], lines[2::3], strict=True):
        name, *languages = heading.split()
        read.append(Group(name, tuple(languages), tuple(antecedents.split()), tuple(others.split())))
    return tuple(read)


@cache
def path_names() -> tuple[str, ...]:
    """Names of all paths, in the order of the path numbers that signatures store."""
    return ("und", "unspaced", *(group.name for group in groups()))


@cache
def language_table() -> WordTable:
    """Word table of all groups, built once per process."""
    stop_words: dict[str, int] = {}
    antecedents: dict[str, int] = {}
    for place, group in enumerate(groups()):
        for word in group.antecedents:
            antecedents[word] = antecedents.get(word, 0) | 1 << place
        for word in group.antecedents + group.others:
            stop_words[word] = stop_words.get(word, 0) | 1 << place
    return word_table(stop_words, antecedents, [SCALES[group.name] for group in groups()])


def word_table(stop_words: Mapping[str, int], antecedents: Mapping[str, int], scales: Sequence[int] = ()) -> WordTable:
    """Table of words by group masks. Word indexes follow the order of the words.

    stop_words, antecedents: mask of groups by word; the words are tokens (characters.is_token)
    scales: factor of each group, SCALE for the others
    Raises SettingError for more than MOST_WORDS distinct words.
    """
    words = list(dict.fromkeys([*stop_words, *antecedents]))
    if len(words) > MOST_WORDS:
        rule = f"and antecedents must be at most {MOST_WORDS} distinct words together"
        raise SettingError("stop_words", rule, len(words), "keep the most frequent ones")
    stop_masks = np.array([0] * FIRST_WORD + [stop_words.get(word, 0) for word in words], dtype=np.uint64)
    antecedent_masks = np.array([0] * FIRST_WORD + [antecedents.get(word, 0) for word in words], dtype=np.uint64)
    weights = np.array([WEIGHT // max(1, int(mask).bit_count()) for mask in stop_masks], dtype=np.uint32)
    hashes = [hash_token(word.encode()) & _HASH_BITS for word in words]
    entries = np.array([key | index for index, key in enumerate(hashes, FIRST_WORD)], dtype=np.uint64)
    padded = np.array([*scales, *[SCALE] * (MOST_GROUPS - len(scales))], dtype=np.int64)
    return WordTable(*_place(entries), stop_masks, antecedent_masks, weights, padded)


def _place(entries: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint16], np.uint64]:
    """Table, pilots and slot shift that give each entry a slot of its own.

    The largest bucket is placed first. Each bucket takes the first pilot whose slots are free.
    """
    slot_bits = max(4, int(2 * len(entries)).bit_length())
    buckets = (entries >> np.uint64(PILOT_SHIFT)).astype(np.int64)
    members = [np.flatnonzero(buckets == bucket) for bucket in range(1 << PILOT_BITS)]
    order = sorted(range(1 << PILOT_BITS), key=lambda bucket: (-len(members[bucket]), bucket))
    slot_shift = WORD_INDEX_BITS
    while True:
        slots = (entries >> np.uint64(slot_shift)).astype(np.int64) & ((1 << slot_bits) - 1)
        placed = _displace([slots[members[bucket]] for bucket in order], slot_bits)
        if placed is not None:
            break
        # Two words of a bucket have the same slot bits. Try other bits, then a larger table.
        slot_shift += 1
        if slot_shift + slot_bits > PILOT_SHIFT:
            slot_shift = WORD_INDEX_BITS
            slot_bits += 1
    pilots = np.zeros(1 << PILOT_BITS, dtype=np.uint16)
    pilots[order] = placed
    table = np.full(1 << slot_bits, _EMPTY, dtype=np.uint64)
    table[slots ^ pilots[buckets].astype(np.int64)] = entries
    return table, pilots, np.uint64(slot_shift)


_FIRST_TRIED = 16


def _displace(buckets: list[NDArray[np.int64]], slot_bits: int) -> NDArray[np.uint16] | None:
    """Pilot of each bucket, or None if a bucket fits nowhere. buckets: slots of their entries without a pilot"""
    free = np.ones(1 << slot_bits, dtype=np.bool_)
    pilots = np.zeros(len(buckets), dtype=np.uint16)
    every = np.arange(1 << slot_bits)
    for place, slots in enumerate(buckets):
        if len(slots) == 0:
            break
        pilot = _first_fitting(free, slots, every)
        if pilot is None or len(set(slots.tolist())) < len(slots):
            return None
        pilots[place] = pilot
        free[slots ^ pilot] = False
    return pilots


def _first_fitting(free: NDArray[np.bool_], slots: NDArray[np.int64], every: NDArray[np.int64]) -> int | None:
    """The lowest pilot with which all slots are free. Most buckets take one of the first, so few are tried at first."""
    start, end = 0, _FIRST_TRIED
    while start < len(every):
        fits = free[slots[:, None] ^ every[start:end]].all(axis=0)
        first = int(fits.argmax())
        if fits[first]:
            return start + first
        start, end = end, 4 * end
    return None


MOST_TOKENS = 128
"""Tokens of a text that are looked up: 60 identify nearly every language, and a look-up costs as much as 7 bytes of
HTML."""

_HASH_MASK = np.uint64(_HASH_BITS)
_FLAGS = np.uint64(LONE | WITH_DIGIT)
_U1 = np.uint64(1)


class Vocabulary(NamedTuple):
    """Fields of the WordTable that the kernel reads, and its counters.

    entries: uint64[2^m]  pilots: uint16[2048]  slot_shift: uint64  stop_masks: uint64[words]  weights: uint32[words]
    scales: int64[64]
    occurrences: int32[words], zero between pages  seen: uint16[words + 1], scratch  scores, hits: int64[64], scratch
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
    """The table of all languages with new counters. Each thread needs its own."""
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
    """Path of the language of a text, by its first MOST_TOKENS tokens.

    tokens: address of uint64[count]  words: Vocabulary  ->  int64
    Words are counted first, so that the groups of each word are visited only once.
    """
    last = np.uint64(len(words.entries) - 1)
    count = min(count, MOST_TOKENS)
    distinct = np.int64(0)
    for place in range(count):
        token = load_word(tokens + (place << 3))
        bare = token & _HASH_MASK
        pilot = np.uint64(words.pilots[bare >> np.uint64(PILOT_SHIFT)])
        entry = words.entries[((bare >> words.slot_shift) ^ pilot) & last] ^ bare
        index = entry if entry < np.uint64(1 << WORD_INDEX_BITS) else np.uint64(NO_WORD)
        lone = index == np.uint64(NO_WORD) and token & _FLAGS == np.uint64(LONE)
        index = np.uint64(LONE_CHARACTER) if lone else index
        before = words.occurrences[index]
        words.occurrences[index] = before + 1
        # No branch here, because the CPU cannot predict whether a word is new.
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
