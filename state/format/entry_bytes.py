"""Writes the entries of many pages into one buffer, and encodes and decodes the own text of an entry.

The entries come from the columns of a record. The own text holds the block fingerprints and title words that pages of a
host are compared by; it lies between the features and the URL. state/FORMATS.md has the grammar. pack_entry in
state/format/entries.py writes a single entry by the same grammar.
"""

import struct
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import read_word, write_word
from spotsieve.state.index import IndexUpdate
from spotsieve.stream.base.arrays import byte_texts
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import OwnText, no_own_text

OUT_OF_ORDER = "must have an own text whose prints and title words ascend"
_OWN_TEXT = struct.Struct("<HBHBB")
_KIND_BITS = 5
OWN_TEXT_BYTES = _OWN_TEXT.size
"""Size of an own text without its fingerprints and title words; its last two bytes are the counts of these."""


class OwnParts(NamedTuple):
    """The own text of one entry. OwnText describes the fields."""

    site: int
    share: int
    listed: int
    prints: tuple[int, ...]
    titles: tuple[int, ...]


def pack_own_text(own: OwnParts) -> bytes:
    """Write an own text from its fields. Raises struct.error if one is out of range."""
    head = _OWN_TEXT.pack(own.site, own.share, own.listed, len(own.prints), len(own.titles))
    return head + struct.pack(f"<{len(own.prints)}I{len(own.titles)}H", *own.prints, *own.titles)


def own_text_fault(own: OwnParts) -> str | None:
    """Return the rule that an own text breaks, None for a valid one."""
    identities = [word >> _KIND_BITS for word in own.prints]
    if any(one >= other for row in (identities, own.titles) for one, other in pairwise(row)):
        return OUT_OF_ORDER
    return None


def unpack_own_text(value: bytes, at: int) -> OwnParts:
    """Read a complete own text that begins at `at`."""
    site, share, listed, prints, titles = _OWN_TEXT.unpack_from(value, at)
    words = struct.unpack_from(f"<{prints}I{titles}H", value, at + OWN_TEXT_BYTES)
    return OwnParts(site, share, listed, words[:prints], words[prints:])


@kernel
def read_own_texts(raw, starts, site, share, listed, prints, print_bounds, titles, title_bounds):
    """Fill the columns of OwnText by the given bounds. Return the first entry that is out of order, or -1.

    raw: uint8[...], all entries  starts: int64[e], begin of each own text, -1 for an entry without one
    """
    for entry in range(len(starts)):
        at = starts[entry]
        if at < 0:
            continue
        site[entry], share[entry], listed[entry] = read_word(raw, at, 2), raw[at + 2], read_word(raw, at + 3, 2)
        at += OWN_TEXT_BYTES
        first = print_bounds[entry]
        for place in range(first, print_bounds[entry + 1]):
            prints[place] = read_word(raw, at, 4)
            at += 4
            if place > first and prints[place] >> _KIND_BITS <= prints[place - 1] >> _KIND_BITS:
                return entry
        first = title_bounds[entry]
        for place in range(first, title_bounds[entry + 1]):
            titles[place] = read_word(raw, at, 2)
            at += 2
            if place > first and titles[place] <= titles[place - 1]:
                return entry
    return -1


ENTRY = struct.Struct("<BBIiqqHHQI")
RANK = struct.Struct("<Q")
FEATURES = struct.Struct("<I")
"""The parts of fixed size: a head without its sketch, a rank, and the number of features."""
_HEAD_BYTES, _RANK_BYTES, _COUNT_BYTES = ENTRY.size, RANK.size, FEATURES.size


class EntryLayout(NamedTuple):
    """The layout of all entries of an update. version: of the entries

    rank: 1 if entries have a rank, else 0
    featured, own_text: bits of the URL length that mark an entry with features, and one with an own text; 0: no entry
    has any
    """

    version: int
    rank: int
    featured: int
    own_text: int


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
    Raises ValueError if a page has more fingerprints or title words than an entry has room for.
    """
    signatures, pages = index_update.signatures, index_update.pages
    urls, labels = byte_texts(signatures.urls), byte_texts(signatures.labels)
    columns = _Pages(
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
    own = _NO_OWN if index_update.learned is None else index_update.learned.own
    bounds = np.zeros(len(pages) + 1, np.int64)
    most = _measure(columns, own, pages, layout, bounds)
    if most > np.iinfo(np.uint8).max:
        raise ValueError(f"an own text has {most} block fingerprints or title words, an entry has room for 255")
    buffer = np.empty(bounds[-1], np.uint8)
    _write(columns, own, pages, sources, layout, bounds, buffer)
    return buffer, bounds


def _no_own_texts() -> OwnText:
    """Return the own texts of 0 pages."""
    none = no_own_text(0)
    return OwnText(
        none["site"],
        np.empty(0, np.uint8),
        np.empty(0, np.uint16),
        none["prints"],
        none["prints_bounds"],
        none["titles"],
        none["titles_bounds"],
    )


_NO_OWN = _no_own_texts()


@kernel
def _measure(columns, own, pages, layout, bounds):
    # columns: _Pages  own: OwnText, of the f indexed pages  pages: int64[f]  layout: EntryLayout
    # ->  bounds: int64[f + 1]; returns the greatest number of fingerprints or title words of a page
    most = np.int64(0)
    for row in range(len(pages)):
        page = pages[row]
        size = _HEAD_BYTES + 8 * columns.sketch.shape[1] + _RANK_BYTES * layout.rank
        features = columns.features_bounds[page + 1] - columns.features_bounds[page]
        if layout.featured and features:
            size += _COUNT_BYTES + 8 * features
        if layout.own_text:
            prints = own.print_bounds[row + 1] - own.print_bounds[row]
            titles = own.title_bounds[row + 1] - own.title_bounds[row]
            size += OWN_TEXT_BYTES + 4 * prints + 2 * titles
            most = max(most, prints, titles)
        size += columns.url_bounds[page + 1] - columns.url_bounds[page]
        size += columns.label_bounds[page + 1] - columns.label_bounds[page]
        bounds[row + 1] = bounds[row] + size
    return most


@kernel
def _write(columns, own, pages, sources, layout, bounds, buffer):
    # columns: _Pages  own: OwnText, of the f indexed pages  pages: int64[f]  sources: uint32[f]  layout: EntryLayout
    # bounds: int64[f + 1]  ->  buffer: uint8[bounds[f]]
    for row in range(len(pages)):
        page, at = pages[row], bounds[row]
        url, url_end = columns.url_bounds[page], columns.url_bounds[page + 1]
        label, label_end = columns.label_bounds[page], columns.label_bounds[page + 1]
        feature, features_end = columns.features_bounds[page], columns.features_bounds[page + 1]
        has_features = layout.featured != 0 and features_end > feature
        url_bytes = (url_end - url) | layout.own_text | (layout.featured if has_features else 0)
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
        if layout.own_text:
            at = _write_own_text(own, row, buffer, at)
        for place in range(url, url_end):
            buffer[at] = columns.url_raw[place]
            at += 1
        for place in range(label, label_end):
            buffer[at] = columns.label_raw[place]
            at += 1


@kernel
def _write_own_text(own, row, buffer, at):
    # own: OwnText  row: int64  at: int64, place in the buffer  ->  buffer: uint8[...]; returns the next place
    print_first, print_end = own.print_bounds[row], own.print_bounds[row + 1]
    title_first, title_end = own.title_bounds[row], own.title_bounds[row + 1]
    write_word(buffer, at, 2, np.uint64(own.site[row]))
    buffer[at + 2] = own.share[row]
    write_word(buffer, at + 3, 2, np.uint64(own.listed[row]))
    buffer[at + 5], buffer[at + 6] = print_end - print_first, title_end - title_first
    at += OWN_TEXT_BYTES
    for place in range(print_first, print_end):
        write_word(buffer, at, 4, np.uint64(own.prints[place]))
        at += 4
    for place in range(title_first, title_end):
        write_word(buffer, at, 2, np.uint64(own.titles[place]))
        at += 2
    return at
