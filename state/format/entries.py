"""Encodes and decodes entries: what is remembered of a filed page. state/FORMATS.md has the grammar.

An entry has no checksum of its own; RocksDB keeps one on every block and verifies it at each read. Decoding checks the
version, the length and the references.
"""

import struct
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Filing
from spotsieve.stream.errors import CorruptRecord
from spotsieve.stream.signature import Compared, Entry, Signatures, no_features

ENTRY_VERSION = 2
FORGOTTEN = b"\x00"
"""The whole value of a forgotten entry: its number stays in use."""
FEATURED = 0x8000
"""The bit of an entry's URL length that says that features follow the sketch; addresses are too short to need it."""
_ENTRY = struct.Struct("<BBIiqqHHQII")
_FEATURES = struct.Struct("<I")
ENTRY_BYTES = _ENTRY.size
"""The least size of an entry."""


class EntryParts(NamedTuple):
    """The fields of an entry. source: its number  url, label: UTF-8  sketch: words  features: most schemes keep none"""

    source: int
    partition: int
    offset: int
    event_time_ms: int
    url: bytes
    label: bytes
    host: int
    feature_count: int
    template: int
    sketch: tuple[int, ...]
    features: tuple[int, ...] = ()


def encode_entries(filing: Filing, sources: NDArray[np.uint32]) -> list[bytes]:
    """Write the filed pages of a filing -> one value for each. sources: uint32[f], the number of each page's source."""
    signatures, pages = filing.signatures, filing.pages
    urls = [signatures.urls[page] for page in pages.tolist()]
    labels = [signatures.labels[page] for page in pages.tolist()]
    words = signatures.sketch.shape[1]
    heads = np.empty(len(pages), _entry_head(words))
    heads["version"], heads["words"], heads["source"] = ENTRY_VERSION, words, sources
    heads["url_bytes"], heads["label_bytes"] = list(map(len, urls)), list(map(len, labels))
    if filing.keeps_features:
        features = [_pack_features(signatures, page) for page in pages.tolist()]
        heads["url_bytes"] |= np.array([FEATURED * bool(packed) for packed in features], np.uint16)
        urls = [packed + url for packed, url in zip(features, urls, strict=True)]
    for name in ("partition", "offset", "event_time_ms", "host", "feature_count", "sketch"):
        heads[name] = getattr(signatures, name)[pages]
    heads["template"] = filing.template
    raw, size = heads.tobytes(), heads.itemsize
    rows = zip(range(0, len(raw), size), urls, labels, strict=True)
    return [raw[start : start + size] + url + label for start, url, label in rows]


def decode_entry(key: bytes, value: bytes, sources: Sequence[str]) -> Entry:
    """Read what a verdict tells of a filed page.

    Raises CorruptRecord where the value is cut, has another version or names an unknown source.
    """
    if len(value) < _ENTRY.size or value[0] != ENTRY_VERSION:
        raise CorruptRecord("entries", key, f"must be version {ENTRY_VERSION} and at least {_ENTRY.size} bytes")
    _, words, source, partition, offset, event_time_ms, url_bytes, label_bytes, *_ = _ENTRY.unpack_from(value)
    _, url_start, url_bytes = _features_of(value, words, url_bytes)
    label_start = url_start + url_bytes
    if len(value) != label_start + label_bytes or source >= len(sources):
        raise CorruptRecord("entries", key, "must have the length and the source that it declares")
    url = value[url_start:label_start].decode("utf-8", "replace")
    return Entry(sources[source], partition, offset, event_time_ms, url, value[label_start:].decode("utf-8", "replace"))


def unpack_entry(key: bytes, value: bytes) -> EntryParts:
    """Read every field of an entry that is not forgotten. Raises CorruptRecord."""
    rule = entry_fault(value, value[1] if len(value) > 1 else 0, 2**32)
    if rule is not None:
        raise CorruptRecord("entries", key, rule)
    _, words, source, partition, offset, event_time_ms, url_bytes, _, *compared = _ENTRY.unpack_from(value)
    host, feature_count, template = compared
    sketch = struct.unpack_from(f"<{words}Q", value, _ENTRY.size)
    start, end, url_bytes = _features_of(value, words, url_bytes)
    features = struct.unpack_from(f"<{(end - start) // 8}Q", value, start)
    url, label = value[end : end + url_bytes], value[end + url_bytes :]
    return EntryParts(
        source, partition, offset, event_time_ms, url, label, host, feature_count, template, sketch, features
    )


def pack_entry(parts: EntryParts) -> bytes:
    """Write an entry from its fields. Raises struct.error where one is out of its range."""
    source, partition, offset, event_time_ms, url, label, host, feature_count, template, sketch, features = parts
    url_bytes = len(url) | FEATURED * bool(features)
    head = _ENTRY.pack(
        *(ENTRY_VERSION, len(sketch), source, partition, offset, event_time_ms, url_bytes, len(label)),
        *(host, feature_count, template),
    )
    ragged = _FEATURES.pack(len(features)) + struct.pack(f"<{len(features)}Q", *features) if features else b""
    return head + struct.pack(f"<{len(sketch)}Q", *sketch) + ragged + url + label


def entry_fault(value: bytes, words: int, sources: int) -> str | None:
    """Return the rule that an entry breaks, None if it is whole. words: size of its sketch  sources: how many exist"""
    if value == FORGOTTEN:
        return None
    if len(value) < _ENTRY.size or value[0] != ENTRY_VERSION or value[1] != words:
        return f"must be version {ENTRY_VERSION} with a sketch of {words} words, as another entry has"
    _, _, source, _, _, _, url_bytes, label_bytes, _, feature_count, template = _ENTRY.unpack_from(value)
    start, end, length = _features_of(value, words, url_bytes)
    declared = end > start or not url_bytes & FEATURED
    if len(value) != end + length + label_bytes or source >= sources or not declared:
        return "must have the length and the source that it declares"
    if template > feature_count:
        return f"must have at most its {feature_count} features taken for its host's template, has {template}"
    features = np.frombuffer(value, "<u8", (end - start) // 8, start)
    if (features[1:] <= features[:-1]).any():
        return "must have features that ascend"
    return None


def decode_compared(keys: Sequence[bytes], values: Sequence[bytes], with_features: bool = False) -> Compared:
    """Read what a scheme confirms e candidates by -> e rows. Addresses are skipped, features too unless asked for.

    Raises CorruptRecord, which names the first entry that is cut, or whose version or sketch size differs.
    """
    words = values[0][1] if values and len(values[0]) > 1 else 0
    layout = _entry_head(words)
    size = layout.itemsize
    wrong = [len(value) < size or value[0] != ENTRY_VERSION or value[1] != words for value in values]
    if any(wrong):
        raise CorruptRecord(
            "entries",
            keys[wrong.index(True)],
            f"must be version {ENTRY_VERSION} with a sketch of {words} words, as another entry has",
        )
    heads = np.frombuffer(b"".join([value[:size] for value in values]), layout)
    features, spans = no_features(len(heads))
    if with_features:
        features, spans = _read_features(keys, values, words, heads["url_bytes"].tolist())
    host, feature_count, sketch, template = (
        heads[name].copy() for name in ("host", "feature_count", "sketch", "template")
    )
    return Compared(host, feature_count, sketch, template, features, spans)


def _pack_features(signatures: Signatures, page: int) -> bytes:
    """Write what stands between sketch and address: nothing for a page without features."""
    first, last = signatures.features_bounds[page : page + 2].tolist()
    features = signatures.features[first:last].astype("<u8")
    return _FEATURES.pack(len(features)) + features.tobytes() if len(features) else b""


def _features_of(value: bytes, words: int, url_bytes: int) -> tuple[int, int, int]:
    """Find where the features of an entry begin and end, and how long its address is.

    words: size of the sketch  url_bytes: as stored. If the value is cut, the features may end beyond it.
    """
    start = _ENTRY.size + 8 * words
    if not url_bytes & FEATURED:
        return start, start, url_bytes
    start += _FEATURES.size
    (count,) = _FEATURES.unpack_from(value, start - _FEATURES.size) if start <= len(value) else (0,)
    return start, start + 8 * count, url_bytes ^ FEATURED


def _read_features(
    keys: Sequence[bytes], values: Sequence[bytes], words: int, url_bytes: Sequence[int]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Read the last two columns of Compared. Raises CorruptRecord, which names the first entry that is cut."""
    parts, bounds = list[bytes](), [0]
    for key, value, declared in zip(keys, values, url_bytes, strict=True):
        start, end, _ = _features_of(value, words, declared)
        if end > len(value):
            raise CorruptRecord("entries", key, "must have the length and the source that it declares")
        parts.append(value[start:end])
        bounds.append(bounds[-1] + (end - start) // 8)
    features = np.frombuffer(b"".join(parts), "<u8").astype(np.uint64, copy=False)
    return features, np.stack([np.array(bounds[:-1]), np.array(bounds[1:])], axis=1)


@cache
def _entry_head(words: int) -> np.dtype[np.void]:
    return np.dtype(
        [
            ("version", "u1"),
            ("words", "u1"),
            ("source", "<u4"),
            ("partition", "<i4"),
            ("offset", "<i8"),
            ("event_time_ms", "<i8"),
            ("url_bytes", "<u2"),
            ("label_bytes", "<u2"),
            ("host", "<u8"),
            ("feature_count", "<u4"),
            ("template", "<u4"),
            ("sketch", "<u8", (words,)),
        ]
    )
