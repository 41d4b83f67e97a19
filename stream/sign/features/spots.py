"""Spots: an antecedent and the chain of non-stop-words that follows it (Theobald et al., SIGIR 2008, sec. 3).

SpotSettings defines a spot, SpotModel adds the hash table of its words, and extract_spots turns a batch of pages into
spots in one kernel call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.batch import batch_at, check_batch, in_padded_parts, scan_page, scan_state
from spotsieve.stream.sign.text.characters import is_token, normalised
from spotsieve.stream.sign.text.hashing import (
    ANTECEDENT,
    HASH_BITS,
    SEED,
    STOP_WORD,
    chain_hash,
    finish_hash,
    hash_token,
)
from spotsieve.stream.sign.text.machine import byte_at, load_int32, load_word, put_int32, put_word
from spotsieve.stream.sign.text.scan_layout import BLOCK_SHIFT

DEFAULT_ANTECEDENTS: tuple[str, ...] = tuple(
    "a an the am are be been being is was were can could will would had has have having did do does doing done".split()
)
"""Articles and the forms of be, can, will, have and do, which have the best F1 in the paper's figure 6 (sec. 5.2)."""

DEFAULT_STOP_WORDS: tuple[str, ...] = tuple(
    # Snowball's English list, cut at apostrophes as the tokenizer cuts (don't -> don, t), with the antecedents above.
    "a about above after again against ain all am an and any are aren as at be because been before being below "
    "between both but by can cannot could couldn d did didn do does doesn doing don done down during each few "
    "for from further had hadn has hasn have haven having he her here hers herself him himself his how i if in "
    "into is isn it its itself let ll m ma me might mightn more most must mustn my myself needn no nor not now "
    "o of off on once only or other ought our ours ourselves out over own re s same shan she should shouldn so "
    "some such t than that the their theirs them themselves then there these they this those through to too "
    "under until up ve very was wasn we were weren what when where which while who whom why will with won "
    "would wouldn y you your yours yourself yourselves".split()
)

MAX_DISTANCE = 100
MAX_CHAIN_LENGTH = 100
MAX_WORDS = 8_000
"""Limit per list, so that two full lists fit into one table (languages.MOST_WORDS)."""


@dataclass(frozen=True, slots=True)
class SpotSettings:
    """The definition of a spot. Every field changes verdicts.

    antecedents, stop_words: tokens, that is one word each in lower case. An apostrophe ends a word: "don't" is don and
    t. An antecedent that is not a stop-word may be part of a chain. "the:3" is an antecedent with a distance of its
    own, the paper's d_j (sec. 3).
    distance, chain_length: the paper's d and c (sec. 5.2: d = 2, c = 3 are best)
    Raises SettingError for a word that is no token, no antecedents, or a number out of range.
    """

    antecedents: tuple[str, ...] = DEFAULT_ANTECEDENTS
    stop_words: tuple[str, ...] = DEFAULT_STOP_WORDS
    distance: int = 2
    chain_length: int = 3

    def __post_init__(self) -> None:
        check_words("stop_words", self.stop_words)
        if not self.antecedents:
            raise SettingError(
                "antecedents", "must name at least one word", self.antecedents, "without one no page has a spot"
            )
        for name, highest in (("distance", MAX_DISTANCE), ("chain_length", MAX_CHAIN_LENGTH)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
                rule = f"must be a whole number in 1..{highest}"
                raise SettingError(name, rule, value, "the paper chose distance 2 and chain_length 3")
        self.distances()

    def distances(self) -> dict[str, int]:
        """Spot distance by antecedent. Raises SettingError for a bad distance, or two distances of one word."""
        check_words("antecedents", self.antecedents, lambda word: word.partition(":")[0])
        distances: dict[str, int] = {}
        for named in self.antecedents:
            word, colon, own = named.partition(":")
            distance = int(own) if own.isascii() and own.isdigit() and len(own) <= 3 else 0
            if colon and not 1 <= distance <= MAX_DISTANCE:
                rule = f"must have spot distances that are whole numbers in 1..{MAX_DISTANCE}"
                raise SettingError("antecedents", rule, named, f"write for example {word}:3, or {word} alone")
            distance = distance if colon else self.distance
            if distances.setdefault(word, distance) != distance:
                rule = "must have one spot distance for each word"
                raise SettingError("antecedents", rule, named, f"leave out {word}:{distances[word]} or this")
        return distances


class SpotTable(NamedTuple):
    """Hash table of antecedents and stop-words for the kernel.

    flags: uint64[2 * slots], two entries per slot: a token hash with its ANTECEDENT and STOP_WORD bits. The slot of a
    token is `hash * multiplier >> shift`.
    distances: uint8[2 * slots], the spot distance of each entry, 0 for a word that is no antecedent
    steps: int64[k], the different distances, ascending
    """

    flags: NDArray[np.uint64]
    multiplier: np.uint64
    shift: np.uint64
    distances: NDArray[np.uint8]
    steps: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SpotModel:
    """Spot settings with their hash table of words."""

    settings: SpotSettings
    table: SpotTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = {hash_token(word.encode()): distance for word, distance in self.settings.distances().items()}
        flags = dict.fromkeys(own, ANTECEDENT)
        for word in self.settings.stop_words:
            key = hash_token(word.encode())
            flags[key] = flags.get(key, 0) | STOP_WORD
        entries, multiplier, shift = _place(np.array([key | bits for key, bits in flags.items()], dtype=np.uint64))
        distances = np.array([own.get(entry, 0) for entry in (entries & HASH_BITS).tolist()], np.uint8)
        steps = np.unique(list(own.values())).astype(np.int64)
        object.__setattr__(self, "table", SpotTable(entries, multiplier, shift, distances, steps))


def check_words(name: str, words: object, token_of: Callable[[str], str] = str) -> None:
    """Raise SettingError if `words` is not a tuple of tokens, or has more than MAX_WORDS.

    name: the setting, for the error  token_of: returns the part of a word that must be a token
    """
    if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
        raise SettingError(name, "must be a tuple of words", words, 'write for example ("a", "the", "is")')
    if len(words) > MAX_WORDS:
        raise SettingError(name, f"must be at most {MAX_WORDS} words", len(words), "keep the most frequent ones")
    for word in words:
        if not is_token(token_of(word)):
            folded = normalised(token_of(word))
            hint = "write the parts as words of their own, for example don and t for don't"
            raise SettingError(
                name,
                "must be single tokens in lower case, without blanks, apostrophes or other signs",
                word,
                f"write {folded}, as the filter reads the word" if is_token(folded) else hint,
            )


def _place(entries: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], np.uint64, np.uint64]:
    """Table with at most two entries per slot, its multiplier and its shift.

    Multipliers are tried in a fixed order. After every 256 the number of slots doubles.
    """
    hashes = entries & HASH_BITS
    bits = max(4, int(2 * len(entries)).bit_length())
    trial = 0
    while True:
        multiplier = np.uint64((0x9E3779B97F4A7C15 * (2 * trial + 1)) & 0xFFFFFFFFFFFFFFFF)
        shift = np.uint64(64 - bits)
        slots = (hashes * multiplier >> shift).astype(np.int64)
        order = np.argsort(slots, kind="stable")
        ordered = slots[order]
        if len(ordered) < 3 or not (ordered[2:] == ordered[:-2]).any():
            break
        trial += 1
        bits += trial % 256 == 0
    # An empty entry has all bits set, which no token hash has.
    table = np.full(2 << bits, np.uint64(0xFFFFFFFFFFFFFFFF), dtype=np.uint64)
    for position, index in enumerate(order):
        second = position > 0 and ordered[position - 1] == ordered[position]
        table[2 * ordered[position] + second] = entries[index]
    return table, multiplier, shift


@part
def mark_words(tokens, count, table, antecedents):
    """Set the flags of a page's tokens, write the indexes of its antecedents, and return their number.

    tokens: address of uint64[count]  table: SpotTable  antecedents: address of int32[count + 1]
    """
    marked = np.int64(0)
    entries, multiplier, shift = np.int64(table.flags.ctypes.data), table.multiplier, table.shift
    for index in range(count):
        token = load_word(tokens + (index << 3)) & HASH_BITS
        entry = entries + (np.int64((token * multiplier) >> shift) << 4)
        flags, other = load_word(entry) ^ token, load_word(entry + 8) ^ token
        flags = flags if flags < np.uint64(4) else (other if other < np.uint64(4) else np.uint64(0))
        put_word(tokens + (index << 3), token | flags)
        put_int32(antecedents + (marked << 2), index)
        marked += np.int64(flags & np.uint64(ANTECEDENT))
    return marked


@part
def choose_antecedents(tokens, antecedents, count, table, distance, chosen):
    """Copy the antecedents of a page that have this spot distance, in order, and return their number.

    tokens: address of uint64[...], flagged by mark_words  table: SpotTable
    antecedents: address of int32[count]  chosen: address of int32[count + 1]
    """
    copied = np.int64(0)
    entries, distances = np.int64(table.flags.ctypes.data), np.int64(table.distances.ctypes.data)
    for index in range(count):
        place = load_int32(antecedents + (index << 2))
        token = load_word(tokens + (place << 3)) & HASH_BITS
        entry = np.int64((token * table.multiplier) >> table.shift) << 1
        entry += np.int64((load_word(entries + (entry << 3)) ^ token) >= np.uint64(4))
        put_int32(chosen + (copied << 2), place)
        copied += np.int64(byte_at(distances + entry) == distance)
    return copied


@part
def chain_spots(tokens, antecedents, count, blocks, block_count, distance, runs, spots, place):
    """Write the spot hashes of one page to spots[place:] and return their number.

    tokens: address of uint64[m], hash and flags
    antecedents: address of int32[count], indexes of tokens, ascending
    blocks: address of the page's block_count blocks (stream/sign/text/scan_layout.py)  spots: uint64[>= place + count]
    runs: int64[c, 2], scratch; c is the chain length

    For d = 2 and c = 3 a chain has the second, fourth and sixth word after the antecedent. The next non-stop-word
    replaces a stop-word, and the distance counts on from there. A chain ends with its block, and needs at least one
    word. In the paper it ends with the document. Here a spot belongs to the block of its antecedent, so text beside an
    article cannot change its last spots, and whole blocks can be kept or dropped. On the listed pairs of
    shared/data/news both give the same quality (best F1 of the spots' Jaccard 0.908 by block, 0.907 by document).

    The position of the k-th link never moves back from one antecedent to the next. So runs[k], the stop-words that were
    last skipped for that link, keeps the time linear on a page of stop-words only.
    """
    runs[:] = 0
    chain_length = len(runs)
    written = place
    block = np.int64(0)
    block_end = np.int64(0)
    for index in range(count):
        antecedent = load_int32(antecedents + (index << 2))
        while antecedent >= block_end and block < block_count:
            block_end = load_int32(blocks + (block << BLOCK_SHIFT))
            block += 1
        state = chain_hash(SEED, load_word(tokens + (antecedent << 3)))
        position = antecedent
        links = 0
        while links < chain_length:
            position += distance
            skipped = position
            if runs[links, 0] <= position < runs[links, 1]:
                position = runs[links, 1]
            while position < block_end and load_word(tokens + (position << 3)) & np.uint64(STOP_WORD) != np.uint64(0):
                position += 1
            if position > skipped:
                runs[links, 0], runs[links, 1] = skipped, position
            if position >= block_end:
                break
            state = chain_hash(state, load_word(tokens + (position << 3)))
            links += 1
        if links > 0:
            spots[written] = finish_hash(state)
            written += 1
    return written - place


@dataclass(frozen=True, slots=True)
class PageFeatures:
    """Spots of n pages, and their numbers of tokens and blocks.

    spots: uint64[m], page i has spots[spot_bounds[i]:spot_bounds[i + 1]]; with repeats, ordered by spot distance, then
    by place in the page
    spot_bounds: int64[n + 1]  token_counts: int32[n]  block_counts: int32[n], blocks with at least one token
    """

    spots: NDArray[np.uint64]
    spot_bounds: NDArray[np.int64]
    token_counts: NDArray[np.int32]
    block_counts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.token_counts)


def extract_spots(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8] | int, model: SpotModel
) -> PageFeatures:
    """Spots of n pages (Theobald et al. 2008, sec. 3), in one kernel call without the GIL.

    buffer: uint8[N], the pages' UTF-8, concatenated; invalid bytes separate tokens
    bounds: int64[n + 1], page i is buffer[bounds[i]:bounds[i + 1]]; ascending, within the buffer
    markup: uint8[n], or one for all pages, of Markup (stream/base/page.py)

    The kernel reads up to PADDING bytes beyond a page. If the buffer has PADDING spare bytes after bounds[n], nothing
    is copied; otherwise the last pages are. Raises TypeError for wrong dtypes and ValueError for bad bounds.
    """
    parts = in_padded_parts(
        *check_batch(buffer, bounds, markup), lambda buffer, bounds, flags: _run(buffer, bounds, flags, model)
    )
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[PageFeatures]) -> PageFeatures:
    if not parts:
        none = np.zeros(0, dtype=np.int32)
        return PageFeatures(np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.int64), none, none)
    first, second = parts
    return PageFeatures(
        np.concatenate([first.spots, second.spots]),
        np.concatenate([first.spot_bounds, second.spot_bounds[1:] + first.spot_bounds[-1]]),
        np.concatenate([first.token_counts, second.token_counts]),
        np.concatenate([first.block_counts, second.block_counts]),
    )


def _run(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8], model: SpotModel
) -> PageFeatures:
    # The state holds addresses of these arrays, so they must outlive the call.
    state, arrays = scan_state(int(sizes_of(bounds).max()))
    batch = batch_at(buffer, bounds, markup)
    features = PageFeatures(*_extract_batch(batch, state, model.table, model.settings.chain_length))
    arrays.clear()
    return features


@kernel
def _extract_batch(batch, state, table, chain_length):
    # batch: TextBatch of n pages  state: int64[92]  table: SpotTable  chain_length: int64
    # ->  spots: uint64[m]  spot_bounds: int64[n + 1]  token_counts: int32[n]  block_counts: int32[n]
    pages = batch.pages
    spot_bounds = np.zeros(pages + 1, dtype=np.int64)
    token_counts = np.zeros(pages, dtype=np.int32)
    block_counts = np.zeros(pages, dtype=np.int32)
    spots = np.empty(256 * pages + 64, dtype=np.uint64)
    antecedents, chosen = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int32)
    runs = np.empty((chain_length, 2), dtype=np.int64)
    for page in range(pages):
        scan_page(state, batch, page)
        token_counts[page] = count = state[scan_layout.TOKEN_COUNT // 8]
        block_counts[page] = state[scan_layout.BLOCK_COUNT // 8]
        if count >= len(antecedents):
            antecedents, chosen = np.empty(2 * count, dtype=np.int32), np.empty(2 * count, dtype=np.int32)
        tokens, places = state[scan_layout.TOKENS // 8], np.int64(antecedents.ctypes.data)
        marked = mark_words(tokens, count, table, places)
        written = spot_bounds[page]
        if written + marked > len(spots):
            grown = np.empty(max(2 * len(spots), written + marked), dtype=np.uint64)
            grown[:written] = spots[:written]
            spots = grown
        # One pass per distance, because chain_spots takes linear time only for chains of one distance.
        for distance in table.steps:
            if len(table.steps) > 1:
                places = np.int64(chosen.ctypes.data)
                used = choose_antecedents(tokens, np.int64(antecedents.ctypes.data), marked, table, distance, places)
            else:
                used = marked
            written += chain_spots(
                tokens,
                places,
                used,
                state[scan_layout.BLOCKS // 8],
                block_counts[page],
                distance,
                runs,
                spots,
                written,
            )
        spot_bounds[page + 1] = written
    return spots[: spot_bounds[pages]].copy(), spot_bounds, token_counts, block_counts
