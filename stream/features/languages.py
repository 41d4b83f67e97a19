"""Languages: the function words of each, as arrays for a kernel, and how a page's own words choose its language.

    wordlists.txt = header lines "# ...", then three lines a group: "NAME LANGUAGE [LANGUAGE]", the antecedents, the
                    other stop-words, parted by blanks (stream/features/generate_wordlists.py)

A path is what a page's text is read by: NAMES[0] no language that we know, NAMES[1] a script without spaces, the others
a group of languages. The group NAMES[i] has the bit i - 2 of a mask.

A token keeps its word index in its WORD_INDEX_BITS low bits: 0 a word of no list, 1 a character that stands alone
(class i of stream/text/characters.txt), from 2 on the words of the lists. A table is looked up so:

    slot  = (token >> slot_shift  xor  pilots[token >> PILOT_SHIFT]) & (len(entries) - 1)
    index = entries[slot] xor token, if that is < 2^WORD_INDEX_BITS; else 0

Each bucket of tokens has a pilot that leads its words to slots of their own (hash and displace: Pagh 1999; Belazzougui,
Botelho, Dietzfelbinger, ESA 2009). So 7,600 words of 64 groups take 128 KiB and one comparison; two entries a slot
without pilots would need 1 MiB.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.errors import SettingError
from spotsieve.stream.text.hashing import hash_token

DIGEST = "6ead9be8e5b354d16eaf97d49d00262f5211a6e60b71864afe98280a5a868840"

WORD_INDEX_BITS = 14
NO_WORD, LONE_CHARACTER, FIRST_WORD = 0, 1, 2
MOST_WORDS = (1 << WORD_INDEX_BITS) - FIRST_WORD
PILOT_BITS = 11
PILOT_SHIFT = 64 - PILOT_BITS

MOST_GROUPS = 64
UNKNOWN, UNSPACED, FIRST_GROUP = 0, 1, 2
"""Paths that are no group of languages, and the first that is one."""

FEWEST_HITS = 3
HITS_PER_TOKENS = 20
"""A page is of a group if at least FEWEST_HITS tokens, and one of HITS_PER_TOKENS, are its stop-words."""
WEIGHT = 64

# fmt: off
MEASURED = {
    "en": (47, 16), "de": (44, 16), "lb": (46, 19), "nl": (49, 22), "af": (49, 22), "sv": (40, 19),
    "scandinavian": (46, 23), "icelandic": (43, 16), "fr": (45, 27), "es": (49, 28), "portuguese": (46, 30),
    "it": (45, 20), "ca": (49, 21), "ro": (39, 17), "eo": (44, 19), "eu": (26, 20), "gaelic": (46, 19),
    "cy": (45, 20), "mt": (48, 17), "sq": (50, 13), "el": (48, 11), "pl": (33, 27), "czechoslovak": (35, 25),
    "southslavic": (35, 30), "bulgarian": (46, 21), "ru": (30, 30), "uk": (32, 25), "be": (24, 26), "lt": (26, 19),
    "lv": (26, 22), "et": (31, 24), "fi": (27, 28), "hu": (34, 22), "turkish": (25, 25), "kk": (23, 22),
    "ky": (28, 17), "uz": (28, 21), "mn": (16, 26), "hy": (33, 15), "ka": (28, 16), "ar": (25, 19), "he": (22, 21),
    "fa": (35, 16), "ur": (45, 12), "kurdish": (42, 18), "hi": (45, 14), "mr": (25, 21), "ne": (30, 17),
    "bn": (27, 17), "gu": (31, 15), "pa": (47, 11), "ta": (10, 40), "te": (12, 24), "kn": (17, 24), "ml": (15, 28),
    "si": (20, 21), "malay": (37, 15), "vi": (38, 13), "tl": (49, 15), "sw": (45, 18), "so": (41, 16), "ha": (54, 18),
    "bo": (49, 11), "ko": (18, 19),
}
# fmt: on
"""Per group: stop-words in a hundred tokens of running text; the scale of its score, in sixteenths.

A bar on a block's density that is meant for English, b percent, is b * share / 47 for another language. The scale is
the score of English text over that of the language's, to the power .8: without it, an English menu of a third of the
page's tokens decides for 219 of 3,120 pages of 90 tokens, with it for 23. Both measured on the Universal Declaration of
Human Rights, the same text in all of them, the shares also on manuals and by wordfreq; Telugu is guessed."""
SCALE = 16

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_HASH_BITS = ((1 << 64) - 1) ^ ((1 << WORD_INDEX_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Languages that share a path: antecedents and the other stop-words are tokens; no word is in both."""

    name: str
    languages: tuple[str, ...]
    antecedents: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WordTable:
    """entries: uint64[2^m], hash and word index, all ones for none  pilots: uint16[2048]  slot_shift: uint64
    stop_masks, antecedent_masks: uint64[words], bit i for group i; 0 for the indexes NO_WORD and LONE_CHARACTER
    weights: uint32[words], what a word counts in the choice of a language  scales: int64[64], by group

    An antecedent is a stop-word too: its stop mask has the bit of its antecedent mask, unless a caller's own lists
    (SpotSettings) part them.
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
    """Read the frozen lists once a process; RuntimeError where the file is not the one this release was tested with."""
    written = files(__package__).joinpath("wordlists.txt").read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGEST:
        raise RuntimeError(
            f"stream/features/wordlists.txt must have the digest {DIGEST}, got {digest}; "
            "install the package again, or put the new digest into stream/features/languages.py if the change is meant"
        )
    lines = [line for line in written.decode("utf-8").splitlines() if not line.startswith("#")]
    found = []
    for heading, antecedents, others in zip(lines[0::3], lines[1::3], lines[2::3], strict=True):
        name, *languages = heading.split()
        found.append(Group(name, tuple(languages), tuple(antecedents.split()), tuple(others.split())))
    return tuple(found)


@cache
def path_names() -> tuple[str, ...]:
    """The names of all paths, in the order of the numbers that signatures keep."""
    return ("und", "unspaced", *(group.name for group in groups()))


def stop_shares() -> NDArray[np.uint8]:
    """uint8[paths]: the shares of MEASURED in the order of path_names(), 0 for the paths that are no group."""
    return np.array([MEASURED[name][0] if name in MEASURED else 0 for name in path_names()], dtype=np.uint8)


@cache
def language_table() -> WordTable:
    """The table of all groups."""
    stop_words: dict[str, int] = {}
    antecedents: dict[str, int] = {}
    for place, group in enumerate(groups()):
        for word in group.antecedents:
            antecedents[word] = antecedents.get(word, 0) | 1 << place
        for word in group.antecedents + group.others:
            stop_words[word] = stop_words.get(word, 0) | 1 << place
    return word_table(stop_words, antecedents, [MEASURED[group.name][1] for group in groups()])


def word_table(stop_words: Mapping[str, int], antecedents: Mapping[str, int], scales: Sequence[int] = ()) -> WordTable:
    """The table of words with the mask of the groups they serve; word indexes follow the order of the words.

    The words are tokens (stream.text.tables.is_token). Raises SettingError for more than MOST_WORDS distinct ones.
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


def word_index(table: WordTable, token: int) -> int:
    """The index of a token's hash (its low bits do not matter), as the kernel looks it up."""
    bare = token & _HASH_BITS
    slot = ((bare >> int(table.slot_shift)) ^ int(table.pilots[bare >> PILOT_SHIFT])) & (len(table.entries) - 1)
    difference = int(table.entries[slot]) ^ bare
    return difference if difference < 1 << WORD_INDEX_BITS else NO_WORD


def choose_path(indexes: Iterable[int], table: WordTable) -> int:
    """The path of a page from the word indexes of its tokens; what the kernel's choice must equal.

    More than half the tokens lone characters: UNSPACED. Else the group with the greatest sum of weights over the
    tokens that are its stop-words, the first of equals, if it has hits enough; a word that n groups share weighs
    64 // n, so that "de" hardly tells Spanish from Dutch while "los" does, and the sum of a group is scaled by what its
    own texts reach. Else UNKNOWN. All sums are whole numbers, so the order of the tokens never matters.
    """
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


def _place(entries: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint16], np.uint64]:
    """Slots of their own for all entries: the largest bucket first, each with the first pilot that is free for it."""
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
        # Two words of a bucket have the same slot bits: others are tried, then a larger table
        slot_shift += 1
        if slot_shift + slot_bits > PILOT_SHIFT:
            slot_shift = WORD_INDEX_BITS
            slot_bits += 1
    pilots = np.zeros(1 << PILOT_BITS, dtype=np.uint16)
    pilots[order] = placed
    table = np.full(1 << slot_bits, _EMPTY, dtype=np.uint64)
    table[slots ^ pilots[buckets].astype(np.int64)] = entries
    return table, pilots, np.uint64(slot_shift)


def _displace(buckets: list[NDArray[np.int64]], slot_bits: int) -> NDArray[np.uint16] | None:
    free = np.ones(1 << slot_bits, dtype=np.bool_)
    pilots = np.zeros(len(buckets), dtype=np.uint16)
    every = np.arange(1 << slot_bits)
    for place, slots in enumerate(buckets):
        if len(slots) == 0:
            break
        fitting = np.flatnonzero(free[slots[:, None] ^ every].all(axis=0))
        if len(fitting) == 0 or len(np.unique(slots)) < len(slots):
            return None
        pilots[place] = fitting[0]
        free[slots ^ fitting[0]] = False
    return pilots
