"""Owns the byte layouts of buckets, entries, sources and the two meta values; state/FORMATS.md has the grammar.

Every value begins with a version byte. The checksum of buckets, entries and sources is RocksDB's own: every block of a
table file and every write-ahead record carries one, and it is verified whenever the block is read. Here the length, the
version and the order of entry numbers are checked on top. The meta values, which everything hangs on, carry xxh3-64.
"""

import json
import struct
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
import xxhash
from numpy.typing import NDArray

from spotsieve.state.horizon import NO_TIME, Clock, Mark
from spotsieve.state.index import Buckets, Filing
from spotsieve.state.sweep import Sweep
from spotsieve.stream.errors import CorruptRecord
from spotsieve.stream.fingerprints.tables import HOST_TAG, KEY_BITS, MINIMA_TAG
from spotsieve.stream.signature import Compared, Entry, Signatures, no_features

BUCKET_VERSION = 2
ENTRY_VERSION = 2
FORGOTTEN = b"\x00"
"""The whole value of an entry that was forgotten: its number stays in use."""
SOURCE_VERSION = 1
PROGRESS_VERSION = 2
MARKS_VERSION = 1
IDENTITY_VERSION = 1
STATE_FORMAT = 2
"""Raised whenever a state of before can no longer be read."""

NUMBER_BYTES = 5
"""Of an entry number in a posting: enough for a million million pages."""
INLINE_BYTES = {HOST_TAG: 0, MINIMA_TAG: 0}
"""Of an inline word in a posting, by the key's tag; 8 for all others."""
_POSTING_BYTES = np.array([NUMBER_BYTES + INLINE_BYTES.get(tag, 8) for tag in range(256)])
_ENTRY = struct.Struct("<BBIiqqHHQII")
_PROGRESS = struct.Struct("<BQQQIqQQ")
_MARKS = struct.Struct("<BH")
_MARK = struct.Struct("<qQ")
FEATURED = 0x8000
"""The bit of an entry's url length that says that the page's features follow its sketch: addresses are shorter."""
_FEATURES = struct.Struct("<I")
ENTRY_BYTES = _ENTRY.size
"""Of an entry, at least."""
_CHECKSUM = struct.Struct("<Q")


# ---- keys -----------------------------------------------------------------------------------------------------------


def number_keys(numbers: NDArray[np.uint64]) -> list[bytes]:
    """uint64[n] -> n keys of 8 bytes, big endian, so that RocksDB keeps them in numeric order."""
    keys: list[bytes] = numbers.astype(">u8").view("V8").tolist()
    return keys


def keys_of(names: Sequence[bytes]) -> NDArray[np.uint64]:
    """Keys of 8 bytes -> uint64[n]: what number_keys was given."""
    return np.frombuffer(b"".join(names), ">u8").astype(np.uint64)


# ---- buckets --------------------------------------------------------------------------------------------------------


def encode_buckets(keys: NDArray[np.uint64], buckets: Buckets) -> list[bytes]:
    """keys: uint64[u] -> one value a bucket: version byte, then its postings, little endian.

    A posting is its entry number in 5 bytes and as much of its inline word as the key's tag keeps (INLINE_BYTES).
    """
    sizes = _posting_bytes(keys)
    ends = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(np.diff(buckets.bounds) * sizes + 1, out=ends[1:])
    buffer = np.empty(int(ends[-1]), np.uint8)
    _write_buckets(sizes, buckets.bounds, buckets.numbers, buckets.inlines, buffer)
    raw, cuts = buffer.tobytes(), ends.tolist()
    return [raw[start:end] for start, end in pairwise(cuts)]


def decode_buckets(keys: NDArray[np.uint64], values: Sequence[bytes | None]) -> Buckets:
    """keys: uint64[u], values: u, None meaning an empty bucket -> their postings; inline bits not stored are 0.

    Raises CorruptRecord naming the key.
    """
    sizes = _posting_bytes(keys)
    found = [value for value in values if value is not None]
    lengths = np.full(len(keys), -1)
    lengths[[index for index, value in enumerate(values) if value is not None]] = list(map(len, found))
    bounds = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(np.maximum(lengths - 1, 0) // sizes, out=bounds[1:])
    numbers, inlines = np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64)
    wrong = _read_buckets(sizes, np.frombuffer(b"".join(found), np.uint8), lengths, numbers, inlines)
    if wrong >= 0:
        raise CorruptRecord(
            "buckets",
            number_keys(keys[wrong : wrong + 1])[0],
            f"must be version {BUCKET_VERSION} and whole postings in ascending order of entry number",
        )
    return Buckets(bounds, numbers, inlines)


def _posting_bytes(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    return _POSTING_BYTES[(keys >> np.uint64(KEY_BITS)).astype(np.uint8)]


@numba.njit(nogil=True, cache=True)
def _write_buckets(sizes, bounds, numbers, inlines, buffer):  # type: ignore[no-untyped-def]
    # sizes: int64[u], bytes of a posting  bounds: int64[u + 1]  numbers, inlines: uint64[p]  ->  buffer: uint8[...]
    at = 0
    for bucket in range(len(sizes)):
        buffer[at] = BUCKET_VERSION
        at += 1
        for posting in range(bounds[bucket], bounds[bucket + 1]):
            _write_word(buffer, at, NUMBER_BYTES, numbers[posting])
            _write_word(buffer, at + NUMBER_BYTES, sizes[bucket] - NUMBER_BYTES, inlines[posting])
            at += sizes[bucket]


@numba.njit(nogil=True, cache=True)
def _read_buckets(sizes, buffer, lengths, numbers, inlines):  # type: ignore[no-untyped-def]
    # sizes: int64[u], bytes of a posting  buffer: uint8[...]  lengths: int64[u], -1 where there is no value
    # ->  numbers, inlines: uint64[p]; returns the first bad value, or -1
    at, posting = 0, 0
    for bucket in range(len(lengths)):
        length, size = lengths[bucket], sizes[bucket]
        if length < 0:
            continue
        if length < 1 + size or (length - 1) % size or buffer[at] != BUCKET_VERSION:
            return bucket
        at += 1
        for place in range((length - 1) // size):
            numbers[posting] = _read_word(buffer, at, NUMBER_BYTES)
            inlines[posting] = _read_word(buffer, at + NUMBER_BYTES, size - NUMBER_BYTES)
            if place > 0 and numbers[posting] <= numbers[posting - 1]:
                return bucket
            posting += 1
            at += size
    return -1


@numba.njit(nogil=True, cache=True)
def _write_word(buffer, at, size, word):  # type: ignore[no-untyped-def]
    # The low `size` bytes of word: uint64  ->  buffer: uint8[at:at + size]
    for byte in range(size):
        buffer[at + byte] = np.uint8(word >> np.uint64(8 * byte) & np.uint64(255))


@numba.njit(nogil=True, cache=True)
def _read_word(buffer, at, size):  # type: ignore[no-untyped-def]
    # buffer: uint8[at:at + size]  ->  uint64
    word = np.uint64(0)
    for byte in range(size):
        word |= np.uint64(buffer[at + byte]) << np.uint64(8 * byte)
    return word


# ---- entries and sources --------------------------------------------------------------------------------------------


def encode_entries(filing: Filing, sources: NDArray[np.uint32]) -> list[bytes]:
    """Filed pages, and what is remembered of each.

    sources: uint32[f], the number of each one's source
    """
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


def _pack_features(signatures: Signatures, page: int) -> bytes:
    """What stands between sketch and address: nothing for a page without features."""
    first, last = signatures.features_bounds[page : page + 2].tolist()
    features = signatures.features[first:last].astype("<u8")
    return _FEATURES.pack(len(features)) + features.tobytes() if len(features) else b""


def _features_of(value: bytes, words: int, url_bytes: int) -> tuple[int, int, int]:
    """Where an entry's features begin and end, and how long its address is. words: of the sketch  url_bytes: as stored

    The end may lie behind the value's, where that is cut.
    """
    start = _ENTRY.size + 8 * words
    if not url_bytes & FEATURED:
        return start, start, url_bytes
    start += _FEATURES.size
    (count,) = _FEATURES.unpack_from(value, start - _FEATURES.size) if start <= len(value) else (0,)
    return start, start + 8 * count, url_bytes ^ FEATURED


def decode_entry(key: bytes, value: bytes, sources: Sequence[str]) -> Entry:
    """Raises CorruptRecord where the value is cut, of another version or names an unknown source."""
    if len(value) < _ENTRY.size or value[0] != ENTRY_VERSION:
        raise CorruptRecord("entries", key, f"must be version {ENTRY_VERSION} and at least {_ENTRY.size} bytes")
    _, words, source, partition, offset, event_time_ms, url_bytes, label_bytes, *_ = _ENTRY.unpack_from(value)
    _, url_start, url_bytes = _features_of(value, words, url_bytes)
    label_start = url_start + url_bytes
    if len(value) != label_start + label_bytes or source >= len(sources):
        raise CorruptRecord("entries", key, "must have the length and the source that it declares")
    url = value[url_start:label_start].decode("utf-8", "replace")
    return Entry(sources[source], partition, offset, event_time_ms, url, value[label_start:].decode("utf-8", "replace"))


class EntryParts(NamedTuple):
    """An entry field by field. source: its number  url, label: UTF-8  sketch: words  features: none in most schemes"""

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


def unpack_entry(key: bytes, value: bytes) -> EntryParts:
    """Every field of an entry that was not forgotten. Raises CorruptRecord."""
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
    """The value of these fields. Raises struct.error where one is out of its range."""
    source, partition, offset, event_time_ms, url, label, host, feature_count, template, sketch, features = parts
    url_bytes = len(url) | FEATURED * bool(features)
    head = _ENTRY.pack(
        ENTRY_VERSION, len(sketch), source, partition, offset, event_time_ms, url_bytes, len(label), host,
        feature_count, template,
    )  # fmt: skip
    ragged = _FEATURES.pack(len(features)) + struct.pack(f"<{len(features)}Q", *features) if features else b""
    return head + struct.pack(f"<{len(sketch)}Q", *sketch) + ragged + url + label


def entry_fault(value: bytes, words: int, sources: int) -> str | None:
    """The rule that an entry breaks, None where it is whole. words: of its sketch  sources: how many there are."""
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
    """What a scheme confirms candidates by: e rows; addresses are left alone, and features unless they are asked for.

    Raises CorruptRecord naming the first entry that is cut, of another version or of another sketch than the first.
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


def _read_features(
    keys: Sequence[bytes], values: Sequence[bytes], words: int, url_bytes: Sequence[int]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The last two columns of Compared. Raises CorruptRecord naming the first entry that is cut."""
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


def encode_source(text: str) -> bytes:
    """A topic or path, named once."""
    return bytes([SOURCE_VERSION]) + text.encode()


def decode_source(key: bytes, value: bytes) -> str:
    """Raises CorruptRecord."""
    if not value or value[0] != SOURCE_VERSION:
        raise CorruptRecord("sources", key, f"must be version {SOURCE_VERSION}")
    try:
        return value[1:].decode()
    except UnicodeDecodeError:
        raise CorruptRecord("sources", key, "must be UTF-8") from None


# ---- meta -----------------------------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """The value that moves with every record: how far the log is applied, and what follows from that.

    last_record: checksum of the last record applied  pages_applied: of the record at the position  watermark_ms: the
    greatest event time (state.horizon)  sweep: how far dead postings are removed (state.sweep)
    """

    position: int
    entry_count: int
    last_record: int
    pages_applied: int = 0
    watermark_ms: int = NO_TIME
    sweep: Sweep = Sweep()


def encode_progress(progress: Progress) -> bytes:
    """The meta value `progress`."""
    return seal(_PROGRESS.pack(PROGRESS_VERSION, *progress[:5], *progress.sweep))


def decode_progress(value: bytes) -> Progress:
    """Raises CorruptRecord."""
    body = unseal("meta", b"progress", value)
    if len(body) != _PROGRESS.size or body[0] != PROGRESS_VERSION:
        raise CorruptRecord("meta", b"progress", f"must be version {PROGRESS_VERSION} and {_PROGRESS.size + 8} bytes")
    _, position, entry_count, last_record, pages_applied, watermark_ms, next_key, floor = _PROGRESS.unpack(body)
    return Progress(position, entry_count, last_record, pages_applied, watermark_ms, Sweep(next_key, floor))


def encode_marks(marks: Sequence[Mark]) -> bytes:
    """The meta value `marks`, there where the state has a horizon."""
    return seal(_MARKS.pack(MARKS_VERSION, len(marks)) + b"".join(_MARK.pack(*mark) for mark in marks))


def decode_marks(value: bytes) -> tuple[Mark, ...]:
    """Raises CorruptRecord, also where steps or entry numbers do not ascend."""
    body = unseal("meta", b"marks", value)
    marked = (len(body) - _MARKS.size) // _MARK.size
    if len(body) != _MARKS.size + marked * _MARK.size or _MARKS.unpack_from(body) != (MARKS_VERSION, marked):
        raise CorruptRecord("meta", b"marks", f"must be version {MARKS_VERSION} and have the marks that it declares")
    marks = tuple(Mark(*fields) for fields in _MARK.iter_unpack(body[_MARKS.size :]))
    if any(one.step >= other.step or one.number >= other.number for one, other in pairwise(marks)):
        raise CorruptRecord("meta", b"marks", "must have steps and entry numbers that ascend")
    return marks


def decode_clock(progress: Progress, marks: bytes | None) -> Clock:
    """Of the two meta values that it is spread over. Raises CorruptRecord."""
    clock = Clock(progress.watermark_ms, decode_marks(marks) if marks is not None else ())
    if bool(clock.marks) != (clock.watermark_ms != NO_TIME) or clock.floor > progress.entry_count:
        raise CorruptRecord(
            "meta", b"marks", f"must be there where the progress has a watermark, and begin at one of its "
            f"{progress.entry_count} entries",
        )  # fmt: skip
    return clock


def encode_identity(settings_text: str, log_name: str) -> bytes:
    """What the state belongs to, written once: format, settings that change verdicts, log."""
    text = json.dumps({"format": STATE_FORMAT, "log": log_name, "settings": settings_text}, sort_keys=True)
    return seal(bytes([IDENTITY_VERSION]) + text.encode())


def decode_identity(value: bytes) -> tuple[int, str, str]:
    """(state format, settings text, log name). Raises CorruptRecord."""
    body = unseal("meta", b"identity", value)
    if not body or body[0] != IDENTITY_VERSION:
        raise CorruptRecord("meta", b"identity", f"must be version {IDENTITY_VERSION}")
    try:
        fields = json.loads(body[1:])
        format_, settings, log = fields["format"], fields["settings"], fields["log"]
    except (ValueError, LookupError, TypeError, RecursionError):
        format_ = settings = log = None
    if not (isinstance(format_, int) and isinstance(settings, str) and isinstance(log, str)):
        raise CorruptRecord("meta", b"identity", "must be JSON that names format, settings and log")
    return format_, settings, log


def seal(body: bytes) -> bytes:
    """body, then its xxh3-64, little endian."""
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def unseal(store: str, key: bytes, value: bytes) -> bytes:
    """The body of a sealed value. Raises CorruptRecord where the checksum is another."""
    body = value[: -_CHECKSUM.size]
    if len(value) <= _CHECKSUM.size or _CHECKSUM.unpack(value[-_CHECKSUM.size :])[0] != xxhash.xxh3_64_intdigest(body):
        raise CorruptRecord(store, key, "must end in its xxh3-64 checksum")
    return body
