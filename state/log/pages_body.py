"""Encodes and decodes the body of a record that holds the signatures of pages (kind 1), column by column.

    body      = pages u32 (n), sources u16, sources of marks alone u16, marks u16, sketch words u8 (w), columns u32,
                source*, mark*, offset i64[n], column*, features, sketch, prints, titles, addresses
    source    = length u16, UTF-8
    mark      = source u16, partition i32, offset i64
    column*   = the columns with a set bit in `columns`, lowest bit first; a column of zeros only is left out:
                source u16[n], partition i32[n], event_time_ms i64[n], digest u64[n][2], text_digest u64[n][2],
                host u64[n], fingerprint u64[n], status u8[n], language u8[n], feature_count u32[n], site u16[n],
                features u16[n], prints u8[n], titles u8[n], url length u16[n], label length u16[n], rank u64[n]
    features  = u64*, page after page
    sketch    = u64[n][w]
    prints    = u32*, page after page
    titles    = u16*, page after page
    addresses = all URLs, then all labels

All integers are little endian. Offsets are never left out, so a record of few bytes cannot declare many
pages. `prints` are block fingerprints. `sources of marks alone` are sources that only commit marks name.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import CommitMark
from spotsieve.stream.base.arrays import ByteTexts, bounds_of, sizes_of, text_lengths
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.signature import MAX_FEATURES, MAX_SKETCH_WORDS, MAX_URL_BYTES, Signatures, SignatureStatus
from spotsieve.stream.sign.features.block_fingerprints import IDENTITY_SHIFT, MOST_FINGERPRINTS
from spotsieve.stream.sign.text.html.skips import MOST_TITLE_WORDS

MAX_MARKS = 4096
"""Greatest number of commit marks in a record: 56 KiB without the sources."""

_COUNTS = struct.Struct("<IHHHBI")
_MARK = struct.Struct("<Hiq")
_LENGTH = struct.Struct("<H")
_KNOWN_STATUS = np.isin(np.arange(256), tuple(SignatureStatus))
_OFFSET_BYTES = 8


class _Column(NamedTuple):
    """A column of the body.

    name: column of Signatures, or the ragged column that it counts  words: numbers for each page
    """

    name: str
    dtype: str
    words: int = 1

    @property
    def bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * self.words


_COLUMNS = (
    _Column("source", "<u2"),
    _Column("partition", "<i4"),
    _Column("event_time_ms", "<i8"),
    _Column("digest", "<u8", 2),
    _Column("text_digest", "<u8", 2),
    _Column("host", "<u8"),
    _Column("fingerprint", "<u8"),
    _Column("status", "u1"),
    _Column("language", "u1"),
    _Column("feature_count", "<u4"),
    _Column("site", "<u2"),
    _Column("features", "<u2"),
    _Column("prints", "u1"),
    _Column("titles", "u1"),
    _Column("urls", "<u2"),
    _Column("labels", "<u2"),
    _Column("rank", "<u8"),
)
"""The columns in the order of their bits."""
_COLUMN_BYTES = sum(column.bytes for column in _COLUMNS)
"""Size of a page in all columns."""
_DTYPES = tuple(column.dtype for column in _COLUMNS)
_RAGGED = {"features": ("<u8", MAX_FEATURES), "prints": ("<u4", MOST_FINGERPRINTS), "titles": ("<u2", MOST_TITLE_WORDS)}
"""The ragged columns, with a varying count of numbers for each page: dtype, and the greatest count."""


def encode_pages(signatures: Signatures, committed: Sequence[CommitMark]) -> bytes:
    """Write the body of a record of signatures. Raises ValueError for a page or marks that no record can hold."""
    words = signatures.sketch.shape[1]
    _check_sizes(signatures, words, len(committed))
    sources = _sources(signatures, committed)
    number = {source: row for row, source in enumerate(sources)}
    marks = [_MARK.pack(number[mark.source], mark.partition, mark.offset) for mark in committed]
    named = [source.encode() for source in sources]
    columns = [np.ascontiguousarray(*made).tobytes() for made in zip(_columns(signatures), _DTYPES, strict=True)]
    present = [raw != bytes(len(raw)) for raw in columns]
    mask = sum(bit << place for place, bit in enumerate(present))
    of_marks = len(sources) - len(signatures.sources)
    return b"".join(
        (
            _COUNTS.pack(len(signatures), len(signatures.sources), of_marks, len(marks), words, mask),
            *(part for source in named for part in (_LENGTH.pack(len(source)), source)),
            *marks,
            np.ascontiguousarray(signatures.offset, "<i8").tobytes(),
            *(raw for raw, there in zip(columns, present, strict=True) if there),
            np.ascontiguousarray(signatures.features, "<u8").tobytes(),
            np.ascontiguousarray(signatures.sketch, "<u8").tobytes(),
            np.ascontiguousarray(signatures.prints, "<u4").tobytes(),
            np.ascontiguousarray(signatures.titles, "<u2").tobytes(),
            *signatures.urls,
            *signatures.labels,
        )
    )


def decode_pages(body: bytes) -> tuple[Signatures, tuple[CommitMark, ...]]:
    """Read the body of a record of signatures, and its marks.

    Raises ValueError, struct.error or IndexError if the columns differ from the declared ones, or are invalid.
    """
    pages, source_count, of_marks, mark_count, words, mask = _COUNTS.unpack_from(body)
    sources, at = _read_sources(body, source_count + of_marks, mask)
    committed = tuple(_mark(body, at + number * _MARK.size, sources) for number in range(mark_count))
    at += mark_count * _MARK.size
    raw = bytearray(body)  # Writable columns, like the columns of sign(): kernels are compiled for one type.
    offset = np.frombuffer(raw, "<i8", pages, at)
    columns, at = _read_columns(raw, pages, mask, at + offset.nbytes)
    url_lengths, label_lengths = columns.pop("urls"), columns.pop("labels")
    counts = {name: columns.pop(name) for name in _RAGGED}
    columns["features"], columns["features_bounds"], at = _ragged(raw, "features", counts, at)
    columns["sketch"] = np.frombuffer(raw, "<u8", pages * words, at).reshape(pages, words)
    at += columns["sketch"].nbytes
    for name in ("prints", "titles"):
        columns[name], columns[f"{name}_bounds"], at = _ragged(raw, name, counts, at)
    # URLs and labels share a buffer of their own, so that a reference to one does not keep the whole record.
    lengths = np.concatenate([url_lengths, label_lengths])
    bounds = bounds_of(lengths)
    texts = ByteTexts(body[at:], bounds)
    own = tuple(columns[name] for name in ("prints", "prints_bounds", "titles", "titles_bounds"))
    sound = _sound(columns["source"], source_count, columns["status"], _KNOWN_STATUS, *own)
    if bounds[-1] != len(texts.raw) or not sound:
        raise ValueError
    named = tuple(sources[:source_count])
    return Signatures(sources=named, offset=offset, urls=texts[:pages], labels=texts[pages:], **columns), committed


def may_name(body: memoryview, name: bytes, page_id: PageId | None) -> bool:
    """Whether a page of a body may have this URL, label or page id.

    It reads only the columns that it needs, a sixth of the bytes, and checks nothing. Decode the body for certainty.
    Raises ValueError, struct.error or IndexError if these columns differ from the declared ones.
    """
    pages, source_count, of_marks, mark_count, _, mask = _COUNTS.unpack_from(body)
    _, at = _read_sources(body, source_count + of_marks, mask)
    at += mark_count * _MARK.size
    offset = np.frombuffer(body, "<i8", pages, at)
    columns, at = _read_columns(body, pages, mask, at + offset.nbytes)
    texts_at = len(body) - int(columns["urls"].sum(dtype=np.int64)) - int(columns["labels"].sum(dtype=np.int64))
    if texts_at < at:
        raise ValueError
    if name in bytes(body[texts_at:]):
        return True
    return page_id is not None and bool(((offset == page_id[2]) & (columns["partition"] == page_id[1])).any())


def split(
    signatures: Signatures, max_bytes: int, frame_bytes: int, committed: Sequence[CommitMark] = ()
) -> Iterator[Signatures]:
    """Split a micro-batch into parts whose records stay within max_bytes. Verdicts do not depend on the split.

    frame_bytes: size of a record without its body  committed: commit marks in the record of the first part
    URLs and labels are cut to MAX_URL_BYTES here, at a whole UTF-8 character. A part holds at least one page.
    """
    of_marks = marks_bytes(signatures, committed)
    room = max_bytes - frame_bytes - _COUNTS.size - _source_bytes(signatures.sources) - of_marks
    if _surely_fits(signatures, room):
        yield signatures
        return
    urls, labels = tuple(map(cut_url, signatures.urls)), tuple(map(cut_url, signatures.labels))
    cut, start = replace(signatures, urls=urls, labels=labels), 0
    extra = _OFFSET_BYTES + 8 * signatures.sketch.shape[1] + text_lengths(urls) + text_lengths(labels)
    for name, (dtype, _) in _RAGGED.items():
        extra = extra + np.dtype(dtype).itemsize * sizes_of(getattr(signatures, f"{name}_bounds"))
    made = zip(_COLUMNS, _columns(cut), strict=True)
    filled = np.stack([column.reshape(len(cut), of.words).any(axis=1) for of, column in made])
    widths = np.array([column.bytes for column in _COLUMNS])
    while start < len(signatures):
        # No part has more pages than this, because a page takes at least the bytes of its offset.
        stop = min(len(signatures), start + max(room // _OFFSET_BYTES, 0) + 1)
        present = np.logical_or.accumulate(filled[:, start:stop], axis=1)
        sizes = np.cumsum(extra[start:stop]) + widths @ present * np.arange(1, stop - start + 1)
        taken = int(np.searchsorted(sizes, room, side="right"))
        end = start + max(taken, 1)
        yield cut.part(start, end)
        if not start:
            room += of_marks
        start = end


def _surely_fits(signatures: Signatures, room: int) -> bool:
    """Whether a record of all pages fits in `room` bytes even with every column, and no URL is cut."""
    pages, rest = len(signatures), (signatures.features, signatures.sketch, signatures.prints, signatures.titles)
    texts = [len(text) for texts in (signatures.urls, signatures.labels) for text in texts]
    most = pages * (_OFFSET_BYTES + _COLUMN_BYTES) + sum(texts) + sum(column.nbytes for column in rest)
    return pages > 0 and most <= room and max(texts) <= MAX_URL_BYTES


def marks_bytes(signatures: Signatures, committed: Sequence[CommitMark]) -> int:
    """Return the number of bytes that these marks add to the record of the pages."""
    of_marks = _sources(signatures, committed)[len(signatures.sources) :]
    return _MARK.size * len(committed) + _source_bytes(of_marks)


def cut_url(text: bytes) -> bytes:
    """Return a URL or label in UTF-8, cut as in the log: at most MAX_URL_BYTES, at a whole character."""
    if len(text) <= MAX_URL_BYTES:
        return text
    return text[:MAX_URL_BYTES].decode("utf-8", "ignore").encode()


def _check_sizes(signatures: Signatures, words: int, marks: int) -> None:
    most = {name: int(sizes_of(getattr(signatures, f"{name}_bounds")).max(initial=0)) for name in _RAGGED}
    if words > MAX_SKETCH_WORDS or most["features"] > MAX_FEATURES:
        raise ValueError(f"a page has at most {MAX_SKETCH_WORDS} sketch words and {MAX_FEATURES} features")
    if most["prints"] > MOST_FINGERPRINTS or most["titles"] > MOST_TITLE_WORDS:
        raise ValueError(
            f"a page has at most {MOST_FINGERPRINTS} block fingerprints and {MOST_TITLE_WORDS} title words"
        )
    if marks > MAX_MARKS:
        raise ValueError(f"a record has at most {MAX_MARKS} marks, got {marks}")
    own = signatures.prints, signatures.prints_bounds, signatures.titles, signatures.titles_bounds
    if not _sound(signatures.source, len(signatures.sources), signatures.status, _KNOWN_STATUS, *own):
        raise ValueError("a page has a known source and status, and block fingerprints and title words that ascend")


def _sources(signatures: Signatures, committed: Sequence[CommitMark]) -> list[str]:
    """Return the sources of the pages, then the sources that only marks name."""
    named = dict.fromkeys(mark.source for mark in committed)
    return [*signatures.sources, *(source for source in named if source not in signatures.sources)]


def _source_bytes(sources: Sequence[str]) -> int:
    return sum(_LENGTH.size + len(source.encode()) for source in sources)


def _columns(signatures: Signatures) -> Iterator[NDArray[Any]]:
    """Yield the columns that may be left out, in the order of their bits."""
    texts = {"urls": signatures.urls, "labels": signatures.labels}
    for column in _COLUMNS:
        if column.name in _RAGGED:
            yield sizes_of(getattr(signatures, f"{column.name}_bounds"))
        elif column.name in texts:
            yield text_lengths(texts[column.name])
        else:
            yield getattr(signatures, column.name)


def _mark(body: bytes, at: int, sources: Sequence[str]) -> CommitMark:
    source, partition, offset = _MARK.unpack_from(body, at)
    if partition < -1 or offset < 0:
        raise ValueError
    return CommitMark(sources[source], partition, offset)


def _read_sources(body: bytes | memoryview, count: int, mask: int) -> tuple[list[str], int]:
    """Return all sources of a body, and the next place in the body. Raises ValueError, struct.error."""
    if mask >> len(_COLUMNS):
        raise ValueError
    at, sources = _COUNTS.size, list[str]()
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(body, at)
        sources.append(str(body[at + _LENGTH.size : at + _LENGTH.size + length], "utf-8"))
        at += _LENGTH.size + length
    return sources, at


def _read_columns(raw: bytearray | memoryview, pages: int, mask: int, at: int) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the columns that may be left out, and the next place in the body. Raises ValueError for missing bytes."""
    columns: dict[str, NDArray[Any]] = {}
    for place, column in enumerate(_COLUMNS):
        if mask >> place & 1:
            columns[column.name] = np.frombuffer(raw, column.dtype, pages * column.words, at)
            at += columns[column.name].nbytes
        else:
            columns[column.name] = np.zeros(pages * column.words, column.dtype)
        if column.words > 1:
            columns[column.name] = columns[column.name].reshape(pages, column.words)
    return columns, at


def _ragged(
    raw: bytearray, name: str, counts: dict[str, NDArray[Any]], at: int
) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return a ragged column: its numbers, their bounds, and the next place in the body."""
    dtype, most = _RAGGED[name]
    if int(counts[name].max(initial=0)) > most:
        raise ValueError
    bounds = bounds_of(counts[name])
    numbers = np.frombuffer(raw, dtype, int(bounds[-1]), at)
    return numbers, bounds, at + numbers.nbytes


@kernel
def _sound(
    source: NDArray[np.uint16],
    sources: int,
    status: NDArray[np.uint8],
    known: NDArray[np.bool_],
    prints: NDArray[np.uint32],
    print_bounds: NDArray[np.int64],
    titles: NDArray[np.uint16],
    title_bounds: NDArray[np.int64],
) -> bool:
    """Whether sources and statuses are known, and fingerprints and title words ascend strictly within a page.

    source: uint16[n], each below `sources`  status: uint8[n]  known: bool[256], by status
    """
    for page in range(len(source)):
        if source[page] >= sources or not known[status[page]]:
            return False
        for place in range(print_bounds[page] + 1, print_bounds[page + 1]):
            if prints[place] >> IDENTITY_SHIFT <= prints[place - 1] >> IDENTITY_SHIFT:
                return False
        for place in range(title_bounds[page] + 1, title_bounds[page + 1]):
            if titles[place] <= titles[place - 1]:
                return False
    return True
