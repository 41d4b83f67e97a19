"""Writes the entries of many pages into one buffer, and encodes and decodes the distinctive text of an entry.

The entries come from the columns of a record. The stored distinctive text of a page is a sample of its shingle hashes,
its heaviest blocks and its title words, by which later pages are compared with it. It lies between the features and the
URL. state/FORMATS.md has the grammar. pack_entry in state/format/entries.py writes a single entry by it.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import read_word, write_word
from spotsieve.state.index import IndexUpdate
from spotsieve.stream.base.arrays import byte_texts
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page_text import ENTRY_BLOCKS, ENTRY_SAMPLES
from spotsieve.stream.base.signature import DistinctiveText, no_distinctive_texts
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS

MOST_NUMBERS = ENTRY_SAMPLES, ENTRY_BLOCKS, MOST_TITLE_WORDS
"""The greatest counts of sampled hashes, blocks and title words in a distinctive text."""
DISTINCTIVE_TEXT_RULE = (
    f"must have a distinctive text with at most {ENTRY_SAMPLES} sampled hashes, {ENTRY_BLOCKS} blocks and "
    f"{MOST_TITLE_WORDS} title words, which ascend"
)
_DISTINCTIVE_TEXT = struct.Struct("<HBBBIBBB")
DISTINCTIVE_TEXT_BYTES = _DISTINCTIVE_TEXT.size
"""Size of a distinctive text without its hashes, blocks and title words; its last three bytes are the counts of these.
"""
BLOCK_BYTES, TITLE_BYTES = 8, 2
HASH_BITS = 16


class OwnParts(NamedTuple):
    """The distinctive text of one entry. DistinctiveText describes the fields."""

    site: int
    main: int
    whole: int
    every: int
    limit: int
    sample: tuple[int, ...]
    blocks: tuple[int, ...]
    titles: tuple[int, ...]


def pack_distinctive_text(own: OwnParts) -> bytes:
    """Write a distinctive text from its fields. Raises struct.error if one is out of range."""
    *sizes, sample, blocks, titles = own
    head = _DISTINCTIVE_TEXT.pack(*sizes, len(sample), len(blocks), len(titles))
    return head + _pack_sample(sample) + struct.pack(f"<{len(blocks)}Q{len(titles)}H", *blocks, *titles)


def distinctive_text_fault(value: bytes, at: int) -> str | None:
    """Return the rule that a complete distinctive text breaks, None for a valid one. Hashes may be equal."""
    try:
        own = unpack_distinctive_text(value, at)
    except ValueError:
        return DISTINCTIVE_TEXT_RULE
    rows = own.sample, own.blocks, own.titles
    many = any(len(row) > most for row, most in zip(rows, MOST_NUMBERS, strict=True))
    falls = any(one > other for one, other in pairwise(own.sample))
    if many or falls or any(one >= other for row in rows[1:] for one, other in pairwise(row)):
        return DISTINCTIVE_TEXT_RULE
    return None


def unpack_distinctive_text(value: bytes, at: int) -> OwnParts:
    """Read a complete distinctive text that begins at `at`. Raises ValueError if its hashes do not ascend."""
    site, main, whole, every, limit, count, blocks, titles = _DISTINCTIVE_TEXT.unpack_from(value, at)
    at += DISTINCTIVE_TEXT_BYTES
    end = at + int(sample_bytes(count))
    words = struct.unpack_from(f"<{blocks}Q{titles}H", value, end)
    sample = _unpack_sample(value[at:end], count)
    return OwnParts(site, main, whole, every, limit, sample, words[:blocks], words[blocks:])


def _pack_sample(sample: Sequence[int]) -> bytes:
    """Write hashes of 16 bits, ascending, in the code of Elias and Fano. Raises struct.error if one is out of range."""
    if any(not 0 <= one < 1 << HASH_BITS for one in sample):
        raise struct.error("a sampled hash must have 16 bits")
    low, word = int(low_bits(len(sample))), 0
    for place, one in enumerate(sample):
        word |= (one & (1 << low) - 1) << place * low | 1 << len(sample) * low + (one >> low) + place
    return word.to_bytes(int(sample_bytes(len(sample))), "little")


def _unpack_sample(code: bytes, count: int) -> tuple[int, ...]:
    """Read _pack_sample's code of `count` hashes. Raises ValueError if it does not hold that many."""
    low, word = int(low_bits(count)), int.from_bytes(code, "little")
    lows = [word >> place * low & (1 << low) - 1 for place in range(count)]
    places = [place for place, bit in enumerate(reversed(f"{word >> count * low:b}")) if bit == "1"]
    highs = [at - place for place, at in enumerate(places)]
    if len(places) != count or any(high >> HASH_BITS - low for high in highs):
        raise ValueError
    return tuple(high << low | bits for high, bits in zip(highs, lows, strict=True))


@kernel
def low_bits(sample):
    """Return the number of low bits of each hash, by the number of hashes: the high bits have about as many values."""
    low = HASH_BITS
    while 1 << (HASH_BITS - low) < sample:
        low -= 1
    return low


@kernel
def sample_bytes(sample):
    """Return the size of a sample by its number of hashes: low bits, and a bit for each hash and each high value."""
    low = low_bits(sample)
    return (sample * (low + 1) + (1 << (HASH_BITS - low)) - 1 + 7) >> 3 if sample else 0


@kernel
def distinctive_text_bytes(sample, blocks, titles):
    """Return the size of a distinctive text by its counts of hashes, blocks and title words."""
    return DISTINCTIVE_TEXT_BYTES + sample_bytes(sample) + BLOCK_BYTES * blocks + TITLE_BYTES * titles


@kernel
def read_distinctive_texts(
    raw, starts, site, main, whole, every, limit, sample, sample_bounds, blocks, block_bounds, titles, title_bounds
):
    """Fill the columns of DistinctiveText by the given bounds. Return the first entry with too many or falling numbers,
    or -1.

    raw: uint8[...], all entries  starts: int64[e], begin of each distinctive text, -1 for an entry without one
    """
    for entry in range(len(starts)):
        at = starts[entry]
        if at < 0:
            continue
        site[entry], limit[entry] = read_word(raw, at, 2), read_word(raw, at + 5, 4)
        main[entry], whole[entry], every[entry] = raw[at + 2], raw[at + 3], raw[at + 4]
        at += DISTINCTIVE_TEXT_BYTES
        first, end = sample_bounds[entry], sample_bounds[entry + 1]
        if end - first > ENTRY_SAMPLES or not _read_sample(raw, at, sample, first, end):
            return entry
        at += sample_bytes(end - first)
        first, end = block_bounds[entry], block_bounds[entry + 1]
        if not _read_numbers(raw, at, BLOCK_BYTES, blocks, first, end, ENTRY_BLOCKS):
            return entry
        at += BLOCK_BYTES * (end - first)
        first, end = title_bounds[entry], title_bounds[entry + 1]
        if not _read_numbers(raw, at, TITLE_BYTES, titles, first, end, MOST_TITLE_WORDS):
            return entry
    return -1


@inlined
def _read_numbers(raw, at, size, column, first, end, most):
    # raw: uint8[...]  size: int64, bytes of a number
    # ->  column[first:end]; returns whether there are at most `most` numbers, and they ascend strictly
    for place in range(first, end):
        word = np.uint64(0)
        for byte in range(size):
            word |= np.uint64(raw[at + byte]) << np.uint64(8 * byte)
        at += size
        column[place] = word
        if place > first and column[place] <= column[place - 1]:
            return False
    return end - first <= most


_DE_BRUIJN = 0x03F79D71B4CB0A89
"""A sequence of 64 bits in which each run of 6 bits occurs once (Leiserson, Prokop, Randall 1998)."""
_LOWEST_BIT = np.zeros(64, np.int64)
"""The place of the only bit of a word, by the highest 6 bits of its product with the sequence."""
_LOWEST_BIT[[(_DE_BRUIJN << place & 2**64 - 1) >> 58 for place in range(64)]] = np.arange(64)


@kernel
def _read_sample(raw, at, sample, first, end):
    # raw: uint8[...]  at: int64, begin of the code  first, end: int64, rows of the hashes
    # ->  sample: uint16[first:end]; returns whether the code holds so many hashes, and they do not descend
    count = end - first
    if count == 0:
        return True
    low, bit = low_bits(count), np.int64(0)
    mask = (np.int64(1) << low) - 1
    for row in range(first, end):
        # The high bits follow, so that all three bytes lie in the code.
        byte = at + (bit >> 3)
        three = np.int64(raw[byte]) | np.int64(raw[byte + 1]) << 8 | np.int64(raw[byte + 2]) << 16
        sample[row] = three >> (bit & 7) & mask
        bit += low
    byte, base, row, last, falls = at + (bit >> 3), first - (bit & 7), first, np.int64(0), False
    after, skipped = at + sample_bytes(count), np.uint64((1 << (bit & 7)) - 1)
    while byte < after:
        word = np.uint64(0)
        for place in range(min(8, after - byte)):
            word |= np.uint64(raw[byte + place]) << np.uint64(8 * place)
        word, skipped = word & ~skipped, np.uint64(0)
        while word:
            if row == end:
                return False
            lowest = word & (~word + np.uint64(1))
            place = base + _LOWEST_BIT[lowest * np.uint64(_DE_BRUIJN) >> np.uint64(58)]
            hashed = (place - row) << low | np.int64(sample[row])
            falls |= hashed < last
            sample[row] = last = hashed
            row, word = row + 1, word ^ lowest
        byte, base = byte + 8, base + 64
    return row == end and not falls and last < 1 << HASH_BITS


@kernel
def _write_sample(sample, first, end, buffer, at):
    # sample: uint16[first:end], ascending  at: int64, place of the code  ->  buffer: uint8[...]; returns the next place
    count = end - first
    low, after = low_bits(count), at + sample_bytes(count)
    mask, word, bits = np.uint64((1 << low) - 1), np.uint64(0), 0
    for place in range(first, end):
        word |= (np.uint64(sample[place]) & mask) << np.uint64(bits)
        bits += low
        while bits >= 8:
            buffer[at] = word & np.uint64(255)
            word, at, bits = word >> np.uint64(8), at + 1, bits - 8
    buffer[at:after] = 0
    if count:
        buffer[at] = word
    for place in range(first, end):
        bit = bits + (np.int64(sample[place]) >> low) + place - first
        buffer[at + (bit >> 3)] |= np.uint8(1 << (bit & 7))
    return after


ENTRY = struct.Struct("<BBIiqqHHQI")
RANK = struct.Struct("<Q")
FEATURES = struct.Struct("<I")
"""The parts of fixed size: a head without its sketch, a rank, and the number of features."""
_HEAD_BYTES, _RANK_BYTES, _COUNT_BYTES = ENTRY.size, RANK.size, FEATURES.size


class EntryLayout(NamedTuple):
    """The layout of all entries of an update. version: of the entries

    rank: 1 if entries have a rank, else 0
    featured, distinctive_text: bits of the URL length that mark an entry with features, and one with a distinctive
    text; 0: no entry has any
    """

    version: int
    rank: int
    featured: int
    distinctive_text: int


class _Pages(NamedTuple):
    """Columns of the n pages of a record, named like those of Signatures.

    url_raw, label_raw: uint8[...], all texts  url_bounds, label_bounds: int64[n + 1]
    """

    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    event_time_ms: NDArray[np.int64]
    host: NDArray[np.uint64]
    feature_count: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    rank: NDArray[np.uint64]
    features: NDArray[np.uint64]
    features_bounds: NDArray[np.int64]
    url_raw: NDArray[np.uint8]
    url_bounds: NDArray[np.int64]
    label_raw: NDArray[np.uint8]
    label_bounds: NDArray[np.int64]


def write_entries(
    index_update: IndexUpdate, sources: NDArray[np.uint32], layout: EntryLayout
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Write the indexed pages of an update -> the concatenated entries: uint8[...], and their bounds: int64[f + 1].

    sources: uint32[f], source numbers
    Raises ValueError if a page has more hashes, blocks or title words than an entry may have.
    """
    signatures, pages = index_update.signatures, index_update.pages
    urls, labels = byte_texts(signatures.urls), byte_texts(signatures.labels)
    columns = (
        signatures.partition,
        signatures.offset,
        signatures.event_time_ms,
        signatures.host,
        signatures.feature_count,
        signatures.sketch,
        signatures.rank,
        signatures.features,
        signatures.features_bounds,
        np.frombuffer(urls.raw, np.uint8),
        urls.bounds,
        np.frombuffer(labels.raw, np.uint8),
        labels.bounds,
    )
    own = no_distinctive_texts() if index_update.learned is None else index_update.learned.own
    buffer, bounds, most = _encode(columns, (*own,), pages, sources, (*layout,))
    if not len(buffer) and len(pages):
        what = "sampled hashes, blocks and title words"
        raise ValueError(f"a distinctive text has {most} {what}, of at most {MOST_NUMBERS}")
    return buffer, bounds


@kernel
def _encode(columns, own, pages, sources, layout):
    # columns, own, layout: the fields of _Pages, of the DistinctiveText of the f indexed pages, and of EntryLayout
    # pages: int64[f]  sources: uint32[f]
    # ->  the entries: uint8[...], none if a page has too many numbers; their bounds: int64[f + 1], and the greatest
    # numbers of hashes, blocks and title words of a page
    columns, own, layout = _Pages(*columns), DistinctiveText(*own), EntryLayout(*layout)
    bounds = np.zeros(len(pages) + 1, np.int64)
    samples, blocks, titles = _measure(columns, own, pages, layout, bounds)
    sound = samples <= MOST_NUMBERS[0] and blocks <= MOST_NUMBERS[1] and titles <= MOST_NUMBERS[2]
    buffer = np.empty(bounds[-1] if sound else 0, np.uint8)
    if sound:
        _write(columns, own, pages, sources, layout, bounds, buffer)
    return buffer, bounds, (samples, blocks, titles)


@kernel
def _measure(columns, own, pages, layout, bounds):
    # columns: _Pages  own: DistinctiveText, of the f indexed pages  pages: int64[f]  layout: EntryLayout
    # ->  bounds: int64[f + 1]; returns the greatest numbers of hashes, blocks and title words of a page
    samples, blocks, titles = np.int64(0), np.int64(0), np.int64(0)
    for row in range(len(pages)):
        page = pages[row]
        size = _HEAD_BYTES + 8 * columns.sketch.shape[1] + _RANK_BYTES * layout.rank
        features = columns.features_bounds[page + 1] - columns.features_bounds[page]
        if layout.featured and features:
            size += _COUNT_BYTES + 8 * features
        if layout.distinctive_text:
            its_samples = own.sample_bounds[row + 1] - own.sample_bounds[row]
            its_blocks = own.block_bounds[row + 1] - own.block_bounds[row]
            its_titles = own.title_bounds[row + 1] - own.title_bounds[row]
            size += distinctive_text_bytes(its_samples, its_blocks, its_titles)
            samples, blocks, titles = max(samples, its_samples), max(blocks, its_blocks), max(titles, its_titles)
        size += columns.url_bounds[page + 1] - columns.url_bounds[page]
        size += columns.label_bounds[page + 1] - columns.label_bounds[page]
        bounds[row + 1] = bounds[row] + size
    return samples, blocks, titles


@kernel
def _write(columns, own, pages, sources, layout, bounds, buffer):
    # columns: _Pages  own: DistinctiveText, of the f indexed pages  pages: int64[f]  sources: uint32[f]
    # layout: EntryLayout  bounds: int64[f + 1]  ->  buffer: uint8[bounds[f]]
    for row in range(len(pages)):
        page, at = pages[row], bounds[row]
        url, url_end = columns.url_bounds[page], columns.url_bounds[page + 1]
        label, label_end = columns.label_bounds[page], columns.label_bounds[page + 1]
        feature, features_end = columns.features_bounds[page], columns.features_bounds[page + 1]
        has_features = layout.featured != 0 and features_end > feature
        url_bytes = (url_end - url) | layout.distinctive_text | (layout.featured if has_features else 0)
        buffer[at], buffer[at + 1] = layout.version, columns.sketch.shape[1]
        write_word(buffer, at + 2, 4, np.uint64(sources[row]))
        write_word(buffer, at + 6, 4, np.uint64(columns.partition[page]))
        write_word(buffer, at + 10, 8, np.uint64(columns.offset[page]))
        write_word(buffer, at + 18, 8, np.uint64(columns.event_time_ms[page]))
        write_word(buffer, at + 26, 2, np.uint64(url_bytes))
        write_word(buffer, at + 28, 2, np.uint64(label_end - label))
        write_word(buffer, at + 30, 8, columns.host[page])
        write_word(buffer, at + 38, 4, np.uint64(columns.feature_count[page]))
        at += _HEAD_BYTES
        for word in range(columns.sketch.shape[1]):
            write_word(buffer, at, 8, columns.sketch[page, word])
            at += 8
        if layout.rank:
            write_word(buffer, at, _RANK_BYTES, columns.rank[page])
            at += _RANK_BYTES
        if has_features:
            write_word(buffer, at, _COUNT_BYTES, np.uint64(features_end - feature))
            at += _COUNT_BYTES
            for place in range(feature, features_end):
                write_word(buffer, at, 8, columns.features[place])
                at += 8
        if layout.distinctive_text:
            at = _write_distinctive_text(own, row, buffer, at)
        for place in range(url, url_end):
            buffer[at] = columns.url_raw[place]
            at += 1
        for place in range(label, label_end):
            buffer[at] = columns.label_raw[place]
            at += 1


@kernel
def _write_distinctive_text(own, row, buffer, at):
    # own: DistinctiveText  row: int64  at: int64, place in the buffer  ->  buffer: uint8[...]; returns the next place
    write_word(buffer, at, 2, np.uint64(own.site[row]))
    buffer[at + 2], buffer[at + 3], buffer[at + 4] = own.main[row], own.whole[row], own.every[row]
    write_word(buffer, at + 5, 4, np.uint64(own.limit[row]))
    sample, sample_end = own.sample_bounds[row], own.sample_bounds[row + 1]
    block, blocks_end = own.block_bounds[row], own.block_bounds[row + 1]
    title, titles_end = own.title_bounds[row], own.title_bounds[row + 1]
    buffer[at + 9], buffer[at + 10], buffer[at + 11] = sample_end - sample, blocks_end - block, titles_end - title
    at += DISTINCTIVE_TEXT_BYTES
    at = _write_sample(own.sample, sample, sample_end, buffer, at)
    for place in range(block, blocks_end):
        write_word(buffer, at, BLOCK_BYTES, own.blocks[place])
        at += BLOCK_BYTES
    for place in range(title, titles_end):
        write_word(buffer, at, TITLE_BYTES, np.uint64(own.titles[place]))
        at += TITLE_BYTES
    return at
