"""Encodes and decodes entries: the stored data of indexed pages. state/FORMATS.md has the grammar.

An entry has no checksum of its own; RocksDB keeps one on every block and verifies it at each read. Decoding checks the
version, the length and the references. StoredEntries decodes the entries of one read on demand, column by column.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import read_word
from spotsieve.state.format.entry_bytes import (
    DISTINCTIVE_TEXT_BYTES,
    DISTINCTIVE_TEXT_RULE,
    ENTRY,
    FEATURES,
    RANK,
    EntryLayout,
    OwnParts,
    distinctive_text_bytes,
    distinctive_text_fault,
    pack_distinctive_text,
    read_distinctive_texts,
    unpack_distinctive_text,
    write_entries,
)
from spotsieve.state.format.meta import EntryShape
from spotsieve.state.index import IndexUpdate
from spotsieve.stream.base.arrays import ByteTexts, byte_texts
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import CandidateColumns, DistinctiveText, Entry, no_features

ENTRY_VERSION = 5
RANKED_VERSION = 6
"""Version of entries with a rank after the sketch: all entries of a state whose policy.keep compares ranks."""
ENTRY_VERSIONS = (ENTRY_VERSION, RANKED_VERSION)
FORGOTTEN = b"\x00"
"""The whole value of a forgotten entry: its number stays in use."""
FEATURED = 0x8000
"""The bit of the URL length that marks an entry with features. URLs are too short to need this bit."""
DISTINCTIVE_TEXT = 0x4000
"""The bit of the URL length that marks an entry with a distinctive text: every entry of a scheme with host memories."""
_SOURCE = struct.Struct("<I")
_SOURCE_AT = 2
_EVENT_TIME_AT, _URL_BYTES_AT, _HOST_AT, _FEATURE_COUNT_AT = 18, 26, 30, 38
_HEAD_BYTES = ENTRY.size
_SIZES = "must have the length and the source that it declares"
_EITHER = " or ".join(map(str, ENTRY_VERSIONS))
ENTRY_BYTES = ENTRY.size
"""The least size of an entry."""


class EntryParts(NamedTuple):
    """The fields of an entry.

    source: number of the source  url, label: UTF-8  sketch: words  features: empty in most schemes
    own: None in a scheme without host memories  rank: None in a state without ranks
    """

    source: int
    partition: int
    offset: int
    event_time_ms: int
    url: bytes
    label: bytes
    host: int
    feature_count: int
    sketch: tuple[int, ...]
    features: tuple[int, ...] = ()
    own: OwnParts | None = None
    rank: int | None = None


class EntryHead(NamedTuple):
    """The page and host of an entry. source: its number  host: 0 without one  has_own: has a distinctive text"""

    source: int
    partition: int
    offset: int
    host: int
    has_own: bool


def encode_entries(index_update: IndexUpdate, sources: NDArray[np.uint32]) -> list[bytes]:
    """Write the indexed pages of an update -> one value for each. sources: uint32[f], source numbers of the pages"""
    layout = EntryLayout(
        RANKED_VERSION if index_update.keeps_ranks else ENTRY_VERSION,
        int(index_update.keeps_ranks),
        FEATURED * index_update.keeps_features,
        DISTINCTIVE_TEXT * (index_update.learned is not None),
    )
    buffer, bounds = write_entries(index_update, sources, layout)
    return list(ByteTexts(buffer.tobytes(), bounds))


def decode_entry(key: bytes, value: bytes, sources: Sequence[str]) -> Entry:
    """Read the fields of an entry that verdicts name.

    Raises CorruptRecord if the value is cut, has another version or names an unknown source.
    """
    if len(value) < ENTRY.size or value[0] not in ENTRY_VERSIONS:
        raise CorruptRecord("entries", key, f"must be version {_EITHER} and at least {ENTRY.size} bytes")
    _, words, source, partition, offset, event_time_ms, url_bytes, label_bytes, *_ = ENTRY.unpack_from(value)
    places = _places_of(value, words, url_bytes)
    label_start = places.url + places.url_bytes
    if len(value) != label_start + label_bytes or source >= len(sources):
        raise CorruptRecord("entries", key, _SIZES)
    url = value[places.url : label_start].decode("utf-8", "replace")
    return Entry(sources[source], partition, offset, event_time_ms, url, value[label_start:].decode("utf-8", "replace"))


def unpack_entry(key: bytes, value: bytes) -> EntryParts:
    """Read every field of an entry that is not forgotten. Raises CorruptRecord."""
    rule = entry_fault(value, 2**32)
    if rule is not None:
        raise CorruptRecord("entries", key, rule)
    version, words, source, partition, offset, event_time_ms, url_bytes, _, host, feature_count = ENTRY.unpack_from(
        value
    )
    sketch = struct.unpack_from(f"<{words}Q", value, ENTRY.size)
    places = _places_of(value, words, url_bytes)
    features = struct.unpack_from(f"<{places.features}Q", value, places.own - 8 * places.features)
    own = unpack_distinctive_text(value, places.own) if url_bytes & DISTINCTIVE_TEXT else None
    url, label = value[places.url : places.url + places.url_bytes], value[places.url + places.url_bytes :]
    rank = RANK.unpack_from(value, ENTRY.size + 8 * words)[0] if version == RANKED_VERSION else None
    head = source, partition, offset, event_time_ms, url, label, host, feature_count
    return EntryParts(*head, sketch, features, own, rank)


def head_of_entry(key: bytes, value: bytes, sources: int = 2**32) -> EntryHead:
    """Read page and host of an entry that is not forgotten. sources: number of sources. Raises CorruptRecord."""
    if len(value) < ENTRY.size or value[0] not in ENTRY_VERSIONS:
        raise CorruptRecord("entries", key, f"must be version {_EITHER} and at least {ENTRY.size} bytes")
    _, _, source, partition, offset, _, url_bytes, _, host, _ = ENTRY.unpack_from(value)
    if source >= sources:
        raise CorruptRecord("entries", key, _SIZES)
    return EntryHead(source, partition, offset, host, bool(url_bytes & DISTINCTIVE_TEXT))


def with_source(value: bytes, source: int) -> bytes:
    """Return the entry with another source number. Raises struct.error if the number is out of range."""
    return value[:_SOURCE_AT] + _SOURCE.pack(source) + value[_SOURCE_AT + _SOURCE.size :]


def pack_entry(parts: EntryParts) -> bytes:
    """Write an entry from its fields. Raises struct.error if one is out of range."""
    source, partition, offset, event_time_ms, url, label, host, feature_count, sketch, features, own, rank = parts
    url_bytes = len(url) | FEATURED * bool(features) | DISTINCTIVE_TEXT * (own is not None)
    version = ENTRY_VERSION if rank is None else RANKED_VERSION
    head = ENTRY.pack(
        *(version, len(sketch), source, partition, offset, event_time_ms, url_bytes, len(label)),
        *(host, feature_count),
    )
    ragged = b"" if rank is None else RANK.pack(rank)
    if features:
        ragged += FEATURES.pack(len(features)) + struct.pack(f"<{len(features)}Q", *features)
    if own is not None:
        ragged += pack_distinctive_text(own)
    return head + struct.pack(f"<{len(sketch)}Q", *sketch) + ragged + url + label


def entry_fault(value: bytes, sources: int, shape: EntryShape | None = None) -> str | None:
    """Return the rule that an entry breaks, None for a valid one. sources: number of sources"""
    if value == FORGOTTEN:
        return None
    if len(value) < ENTRY.size or value[0] not in ENTRY_VERSIONS:
        return f"must be version {_EITHER} and at least {ENTRY.size} bytes"
    _, words, source, _, _, _, url_bytes, label_bytes, *_ = ENTRY.unpack_from(value)
    if shape is not None:
        version, own = RANKED_VERSION if shape.ranked else ENTRY_VERSION, "a" if shape.own else "no"
        fits = value[0] == version and shape.words in (words, None) and bool(url_bytes & DISTINCTIVE_TEXT) == shape.own
        if not fits:
            size = "" if shape.words is None else f", a sketch of {shape.words} words"
            return f"must be version {version} with {own} distinctive text{size}, by the settings of the state"
    places = _places_of(value, words, url_bytes)
    declared = places.features or not url_bytes & FEATURED
    if len(value) != places.url + places.url_bytes + label_bytes or source >= sources or not declared:
        return _SIZES
    features = np.frombuffer(value, "<u8", places.features, places.own - 8 * places.features)
    if (features[1:] <= features[:-1]).any():
        return "must have features that ascend"
    if url_bytes & DISTINCTIVE_TEXT:
        return distinctive_text_fault(value, places.own)
    return None


def decode_compared(keys: Sequence[bytes], values: Sequence[bytes], with_features: bool = False) -> CandidateColumns:
    """Read the columns that e candidates are compared by -> e rows. URLs are skipped; features too by default.

    Raises CorruptRecord, which names the first entry that is cut, or whose version or sketch size differs.
    """
    heads = _read_heads(keys, values)
    features, spans = no_features(len(values))
    if with_features:
        features, spans = _read_features(keys, values, heads.sketch.shape[1], heads.url_bytes.tolist())
    return CandidateColumns(heads.host, heads.feature_count, heads.sketch, features, spans)


def decode_event_times(keys: Sequence[bytes], values: Sequence[bytes]) -> NDArray[np.int64]:
    """Read the event times of e entries -> int64[e], milliseconds. Raises CorruptRecord as decode_compared does."""
    return _read_heads(keys, values).event_time_ms


def decode_ranks(keys: Sequence[bytes], values: Sequence[bytes]) -> NDArray[np.uint64]:
    """Read the ranks of e entries -> uint64[e]. Raises CorruptRecord, also for an entry without a rank."""
    heads = _read_heads(keys, values)
    if heads.version != RANKED_VERSION:
        raise CorruptRecord("entries", keys[0], f"must be version {RANKED_VERSION}, with the rank of its page")
    return heads.rank


def decode_distinctive_texts(keys: Sequence[bytes], values: Sequence[bytes]) -> DistinctiveText:
    """Read the distinctive texts of e entries -> e rows. An entry without a distinctive text has zeros and empty rows.

    Raises CorruptRecord, which names the first entry that is cut, of another version, out of order or out of bounds.
    """
    texts, count = byte_texts(values), len(values)
    raw, bounds = np.frombuffer(texts.raw, np.uint8), texts.bounds
    starts, sample = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    blocks, titles = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    wrong = _measure_distinctive_texts(raw, bounds, starts, sample, blocks, titles)
    if wrong >= 0:
        rule = f"must be version {_EITHER} and have the length that it declares"
        raise CorruptRecord("entries", keys[wrong], rule)
    own = DistinctiveText(
        np.zeros(count, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint32),
        np.empty(sample[-1], np.uint16),
        sample,
        np.empty(blocks[-1], np.uint64),
        blocks,
        np.empty(titles[-1], np.uint16),
        titles,
    )
    wrong = read_distinctive_texts(raw, starts, *own)
    if wrong >= 0:
        raise CorruptRecord("entries", keys[wrong], DISTINCTIVE_TEXT_RULE)
    return own


class _Places(NamedTuple):
    """The places of the variable parts of an entry. In a value that is cut they may lie beyond its end.

    features: number of features  own: end of the features, where a distinctive text begins  url: begin of the URL
    """

    features: int
    own: int
    url: int
    url_bytes: int


def _places_of(value: bytes, words: int, url_bytes: int) -> _Places:
    """Find the parts after the sketch. words: size of the sketch  url_bytes: the stored URL length, with its bits"""
    at, features = ENTRY.size + 8 * words + RANK.size * (value[0] == RANKED_VERSION), 0
    if url_bytes & FEATURED:
        at += FEATURES.size
        (features,) = FEATURES.unpack_from(value, at - FEATURES.size) if at <= len(value) else (0,)
        at += 8 * features
    url = at
    if url_bytes & DISTINCTIVE_TEXT:
        url += DISTINCTIVE_TEXT_BYTES
        if url <= len(value):
            url = at + int(distinctive_text_bytes(*value[url - 3 : url]))
    return _Places(features, at, url, url_bytes & ~(FEATURED | DISTINCTIVE_TEXT))


class _Heads(NamedTuple):
    """The fixed parts of e entries. version: of all of them  rank: 0 if entries have none"""

    version: int
    event_time_ms: NDArray[np.int64]
    url_bytes: NDArray[np.uint16]
    host: NDArray[np.uint64]
    feature_count: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    rank: NDArray[np.uint64]


def _read_heads(keys: Sequence[bytes], values: Sequence[bytes]) -> _Heads:
    """Read the fixed parts of e entries. Raises CorruptRecord if the layout of one differs from the first."""
    texts, count = byte_texts(values), len(values)
    first = int(texts.bounds[0])
    has_both = count and texts.bounds[1] - first > 1
    version, words = (texts.raw[first], texts.raw[first + 1]) if has_both else (ENTRY_VERSION, 0)
    heads = _Heads(
        version,
        np.empty(count, np.int64),
        np.empty(count, np.uint16),
        np.empty(count, np.uint64),
        np.empty(count, np.uint32),
        np.empty((count, words), np.uint64),
        np.zeros(count, np.uint64),
    )
    wrong = _fill_heads(np.frombuffer(texts.raw, np.uint8), texts.bounds, words, *heads)
    if wrong >= 0 or version not in ENTRY_VERSIONS:
        known = version if version in ENTRY_VERSIONS else _EITHER
        rule = f"must be version {known} with a sketch of {words} words, as another entry has"
        raise CorruptRecord("entries", keys[max(wrong, 0)], rule)
    return heads


def _read_features(
    keys: Sequence[bytes], values: Sequence[bytes], words: int, url_bytes: Sequence[int]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Read the last two columns of CandidateColumns. Raises CorruptRecord, which names the first entry that is cut."""
    parts, bounds = list[bytes](), [0]
    for key, value, declared in zip(keys, values, url_bytes, strict=True):
        places = _places_of(value, words, declared)
        if places.own > len(value):
            raise CorruptRecord("entries", key, _SIZES)
        parts.append(value[places.own - 8 * places.features : places.own])
        bounds.append(bounds[-1] + places.features)
    features = np.frombuffer(b"".join(parts), "<u8").astype(np.uint64, copy=False)
    return features, np.stack([np.array(bounds[:-1]), np.array(bounds[1:])], axis=1)


@kernel
def _fill_heads(raw, bounds, words, version, event_time_ms, url_bytes, host, feature_count, sketch, rank):
    # raw: uint8[...], the entries  bounds: int64[e + 1]  version, words: int64, of all entries
    # ->  the fields of _Heads after `version`
    # returns the first entry that is cut, or has another version or sketch size, or -1
    rank_at = _HEAD_BYTES + 8 * words
    size = rank_at + (8 if version == RANKED_VERSION else 0)
    for entry in range(len(host)):
        at = bounds[entry]
        if bounds[entry + 1] - at < size or raw[at] != version or raw[at + 1] != words:
            return entry
        event_time_ms[entry] = np.int64(read_word(raw, at + _EVENT_TIME_AT, 8))
        url_bytes[entry], host[entry] = read_word(raw, at + _URL_BYTES_AT, 2), read_word(raw, at + _HOST_AT, 8)
        feature_count[entry] = read_word(raw, at + _FEATURE_COUNT_AT, 4)
        for word in range(words):
            sketch[entry, word] = read_word(raw, at + _HEAD_BYTES + 8 * word, 8)
        if size > rank_at:
            rank[entry] = read_word(raw, at + rank_at, 8)
    return -1


@kernel
def _measure_distinctive_texts(raw, bounds, starts, sample, blocks, titles):
    # raw: uint8[...], the entries  bounds: int64[e + 1]  ->  starts: int64[e], of distinctive texts, -1 for an entry
    # without
    # sample, blocks, titles: int64[e + 1], bounds; returns the first entry that is cut or has another version, or -1
    for entry in range(len(starts)):
        at, end = bounds[entry], bounds[entry + 1]
        ranked = np.int64(raw[at] == RANKED_VERSION) if at < end else np.int64(0)
        if end - at < _HEAD_BYTES or (raw[at] != ENTRY_VERSION and not ranked):
            return entry
        url_bytes = np.int64(read_word(raw, at + _URL_BYTES_AT, 2))
        tail = np.int64(read_word(raw, at + _URL_BYTES_AT + 2, 2)) + (url_bytes & ~(FEATURED | DISTINCTIVE_TEXT))
        at += _HEAD_BYTES + 8 * (np.int64(raw[at + 1]) + ranked)
        if url_bytes & FEATURED:
            if at + 4 > end:
                return entry
            at += 4 + 8 * np.int64(read_word(raw, at, 4))
        starts[entry] = -1
        its_sample, its_blocks, its_titles = np.int64(0), np.int64(0), np.int64(0)
        if url_bytes & DISTINCTIVE_TEXT:
            starts[entry] = at
            counts = at + DISTINCTIVE_TEXT_BYTES
            if counts > end:
                return entry
            its_sample, its_blocks = np.int64(raw[counts - 3]), np.int64(raw[counts - 2])
            its_titles = np.int64(raw[counts - 1])
            at += distinctive_text_bytes(its_sample, its_blocks, its_titles)
        sample[entry + 1], blocks[entry + 1] = sample[entry] + its_sample, blocks[entry] + its_blocks
        titles[entry + 1] = titles[entry] + its_titles
        if at + tail != end:
            return entry
    return -1


def page_ids(keys: Sequence[bytes], values: Sequence[bytes | None], sources: Sequence[str]) -> list[PageId | None]:
    """Return the page id of each entry, None if it is removed or forgotten. Raises CorruptRecord."""
    found = list[PageId | None]()
    for key, value in zip(keys, values, strict=True):
        if value is None or value == FORGOTTEN:
            found.append(None)
        else:
            head = head_of_entry(key, value, len(sources))
            found.append((sources[head.source], head.partition, head.offset))
    return found


def all_found(keys: Sequence[bytes], values: Sequence[bytes | None]) -> Sequence[bytes]:
    """Return the values if all exist: buckets refer to these entries. Raises CorruptRecord if one is missing."""
    if None in values:
        raise CorruptRecord("entries", keys[values.index(None)], "is missing although a bucket refers to it")
    return cast("Sequence[bytes]", values)


class StoredEntries:
    """The values of e entries, decoded on demand. keys: for messages  sources: texts by number"""

    def __init__(self, keys: Sequence[bytes], values: Sequence[bytes], sources: Sequence[str]) -> None:
        self._keys = keys
        self._values = byte_texts(values)
        self._sources = sources

    def compared(self, with_features: bool) -> CandidateColumns:
        """Return the columns that a scheme compares candidates by: e rows. Raises CorruptRecord."""
        return decode_compared(self._keys, self._values, with_features)

    def entries(self, places: NDArray[np.int64]) -> list[Entry]:
        """Return the entries at these places: int64[a], each 0..e - 1. Raises CorruptRecord."""
        keys, values, sources = self._keys, self._values, self._sources
        return [decode_entry(keys[place], values[place], sources) for place in places.tolist()]

    def distinctive_texts(self) -> DistinctiveText:
        """Return the distinctive texts of the pages, which are compared within a host: e rows. Raises CorruptRecord."""
        return decode_distinctive_texts(self._keys, self._values)

    def event_times_ms(self) -> NDArray[np.int64]:
        """Return the event times of the pages: int64[e], milliseconds. Raises CorruptRecord."""
        return decode_event_times(self._keys, self._values)

    def ranks(self) -> NDArray[np.uint64]:
        """Return the ranks of the pages: uint64[e]. Raises CorruptRecord if entries have none."""
        return decode_ranks(self._keys, self._values)
