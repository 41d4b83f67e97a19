"""Encodes and decodes the body of a record that holds the signatures of pages (kind 1), column by column.

    body      = pages u32 (n), sources u16, sources of marks alone u16, marks u16, sketch words u8 (w), columns u32,
                source*, mark*, offset i64[n], column*, features, sketch, blocks, samples, titles, addresses
    source    = length u16, UTF-8
    mark      = source u16, partition i32, offset i64
    column*   = the columns with a set bit in `columns`, lowest bit first; a column of zeros only is left out:
                source u16[n], partition i32[n], event_time_ms i64[n], digest u64[n][2], text_digest u64[n][2],
                host u64[n], fingerprint u64[n], status u8[n], language u8[n], feature_count u32[n], site u16[n],
                features u16[n], blocks u16[n], titles u8[n], url length u16[n], label length u16[n], rank u64[n],
                headline u16[n]
    features  = u64*, page after page
    sketch    = u64[n][w]
    blocks    = u64[b], page after page, in page order: b in all
    samples   = samples u8[b], hash u32[s], position u16[s], block after block: s in all
    titles    = u16*, page after page
    addresses = all URLs, then all labels

All integers are little endian. Offsets are never left out, so a record of few bytes cannot declare many pages.
`sources of marks alone` are sources that only commit marks name. stream/base/page_text.py has the layout of blocks and
samples. Samples are stored by block: the place of the block follows from the counts, and the width from the block.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numba import literal_unroll
from numpy.typing import NDArray

from spotsieve.state.format.buckets import write_word
from spotsieve.state.index import CommitMark
from spotsieve.state.log.bodies import LENGTH, read_sources, source_bytes, sources_of
from spotsieve.stream.base.arrays import ByteTexts, ascending_in_rows, bounds_of, sizes_of, text_lengths
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page import PageId
from spotsieve.stream.base.page_text import (
    HASH_SHIFT,
    MAIN_SAMPLES,
    MOST_BLOCKS,
    PLACE_SHIFT,
    POSITION_SHIFT,
    REST_SAMPLES,
    SHINGLE,
    WIDE,
    WIDE_SHINGLE,
    is_kept,
    place_of,
    position_of,
    width_of,
    words_of,
)
from spotsieve.stream.base.signature import MAX_FEATURES, MAX_SKETCH_WORDS, MAX_URL_BYTES, Signatures, SignatureStatus
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS

MAX_MARKS = 4096
"""Greatest number of commit marks in a record: 56 KiB without the sources."""

_COUNTS = struct.Struct("<IHHHBI")
_MARK = struct.Struct("<Hiq")
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
    _Column("blocks", "<u2"),
    _Column("titles", "u1"),
    _Column("urls", "<u2"),
    _Column("labels", "<u2"),
    _Column("rank", "<u8"),
    _Column("headline", "<u2"),
)
"""The columns in the order of their bits."""
_COLUMN_BYTES = sum(column.bytes for column in _COLUMNS)
"""Size of a page in all columns."""
_BYTES = tuple(np.dtype(column.dtype).itemsize for column in _COLUMNS)
"""The size of a number in each column."""
_UNCOUNTED = attrgetter(*[column.name for column in _COLUMNS[:11]])  # the columns before the sizes of ragged ones
_BOUNDS = attrgetter("features_bounds", "blocks_bounds", "titles_bounds")
_RAGGED = {"features": ("<u8", MAX_FEATURES), "blocks": ("<u8", MOST_BLOCKS), "titles": ("<u2", MOST_TITLE_WORDS)}
"""The ragged columns, with a varying count of numbers for each page: dtype, and the greatest count."""
_TEXT_COLUMNS = ("blocks", "blocks_bounds", "samples", "samples_bounds", "titles", "titles_bounds")
_TEXTS = attrgetter(*_TEXT_COLUMNS)
_COUNT_BYTES, _SAMPLE_BYTES = 1, 6
"""Sizes of the number of samples of a block, and of a sample: hash and position."""


def encode_pages(signatures: Signatures, committed: Sequence[CommitMark]) -> bytes:
    """Write the body of a record of signatures. Raises ValueError for a page or marks that no record can hold."""
    words, sources = signatures.sketch.shape[1], sources_of(signatures, committed)
    _check_sizes(signatures, words, len(committed))
    number = {source: row for row, source in enumerate(sources)}
    marks = [_MARK.pack(number[mark.source], mark.partition, mark.offset) for mark in committed]
    named = [source.encode() for source in sources]
    buffer = np.empty(_most_bytes(signatures), np.uint8)
    columns, sketch = _columns(signatures), signatures.sketch.reshape(-1)
    mask, size = _write_columns(
        columns, signatures.offset, signatures.features, sketch, *_TEXTS(signatures)[:-1], buffer
    )
    of_marks = len(sources) - len(signatures.sources)
    return b"".join(
        (
            _COUNTS.pack(len(signatures), len(signatures.sources), of_marks, len(marks), words, mask),
            *(part for source in named for part in (LENGTH.pack(len(source)), source)),
            *marks,
            buffer[:size].tobytes(),
            *signatures.urls,
            *signatures.labels,
        )
    )


def decode_pages(body: bytes) -> tuple[Signatures, tuple[CommitMark, ...]]:
    """Read the body of a record of signatures, and its marks.

    Raises ValueError, struct.error or IndexError if the columns differ from the declared ones, or are invalid.
    """
    pages, source_count, of_marks, mark_count, words, mask = _COUNTS.unpack_from(body)
    sources, at = read_sources(body, source_count + of_marks, _COUNTS.size)
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
    columns["blocks"], columns["blocks_bounds"], at = _ragged(raw, "blocks", counts, at)
    columns["samples"], columns["samples_bounds"], at = _read_samples(
        raw, columns["blocks"], columns["blocks_bounds"], at
    )
    columns["titles"], columns["titles_bounds"], at = _ragged(raw, "titles", counts, at)
    # URLs and labels share a buffer of their own, so that a reference to one does not keep the whole record.
    lengths = np.concatenate([url_lengths, label_lengths])
    bounds = bounds_of(lengths)
    texts = ByteTexts(body[at:], bounds)
    sound = _sound(columns["source"], source_count, columns["status"], _KNOWN_STATUS, *map(columns.get, _TEXT_COLUMNS))
    if bounds[-1] != len(texts.raw) or not sound or mark_count > MAX_MARKS:
        raise ValueError
    if int(lengths.max(initial=0)) > MAX_URL_BYTES or int(offset.min(initial=0)) < 0:
        raise ValueError
    if not ascending_in_rows(columns["features"], columns["features_bounds"]):
        raise ValueError
    named = tuple(sources[:source_count])
    return Signatures(sources=named, offset=offset, urls=texts[:pages], labels=texts[pages:], **columns), committed


def may_name(body: memoryview, name: bytes, page_id: PageId | None) -> bool:
    """Whether a page of a body may have this URL, label or page id.

    It reads only the columns that it needs, a sixth of the bytes, and checks nothing. Decode the body for certainty.
    Raises ValueError, struct.error or IndexError if these columns differ from the declared ones.
    """
    pages, source_count, of_marks, mark_count, _, mask = _COUNTS.unpack_from(body)
    _, at = read_sources(body, source_count + of_marks, _COUNTS.size)
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
    room = max_bytes - frame_bytes - _COUNTS.size - source_bytes(signatures.sources) - of_marks
    if _surely_fits(signatures, room):
        yield signatures
        return
    urls, labels = tuple(map(cut_url, signatures.urls)), tuple(map(cut_url, signatures.labels))
    cut, start = replace(signatures, urls=urls, labels=labels), 0
    extra = _OFFSET_BYTES + 8 * signatures.sketch.shape[1] + text_lengths(urls) + text_lengths(labels)
    for name, (dtype, _) in _RAGGED.items():
        extra = extra + np.dtype(dtype).itemsize * sizes_of(getattr(signatures, f"{name}_bounds"))
    extra = extra + _COUNT_BYTES * sizes_of(signatures.blocks_bounds)
    extra = extra + _SAMPLE_BYTES * sizes_of(signatures.samples_bounds)
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
    texts = [*map(len, signatures.urls), *map(len, signatures.labels)]
    return len(texts) > 0 and _most_bytes(signatures) + sum(texts) <= room and max(texts) <= MAX_URL_BYTES


def _most_bytes(signatures: Signatures) -> int:
    """Return the size of the columns of a record without its URLs and labels, if no column is left out."""
    ragged = signatures.features, signatures.sketch, signatures.blocks, signatures.titles
    of_samples = _COUNT_BYTES * len(signatures.blocks) + _SAMPLE_BYTES * len(signatures.samples)
    return (_OFFSET_BYTES + _COLUMN_BYTES) * len(signatures) + sum([one.nbytes for one in ragged]) + of_samples


def marks_bytes(signatures: Signatures, committed: Sequence[CommitMark]) -> int:
    """Return the number of bytes that these marks add to the record of the pages."""
    if not committed:
        return 0
    of_marks = sources_of(signatures, committed)[len(signatures.sources) :]
    return _MARK.size * len(committed) + source_bytes(of_marks)


def cut_url(text: bytes) -> bytes:
    """Return a URL or label in UTF-8, cut as in the log: at most MAX_URL_BYTES, at a whole character."""
    if len(text) <= MAX_URL_BYTES:
        return text
    return text[:MAX_URL_BYTES].decode("utf-8", "ignore").encode()


def _check_sizes(signatures: Signatures, words: int, marks: int) -> None:
    text = signatures.source, len(signatures.sources), signatures.status, _KNOWN_STATUS, *_TEXTS(signatures)
    fault = _fault(signatures.offset, signatures.features, *_BOUNDS(signatures), *text)
    if words > MAX_SKETCH_WORDS or fault == _FEATURES:
        raise ValueError(f"a page has at most {MAX_SKETCH_WORDS} sketch words and {MAX_FEATURES} features")
    if fault == _BLOCKS:
        raise ValueError(f"a page has at most {MOST_BLOCKS} blocks and {MOST_TITLE_WORDS} title words")
    if fault == _OFFSET:
        raise ValueError("a page has an offset from 0 on, and features that ascend")
    if marks > MAX_MARKS:
        raise ValueError(f"a record has at most {MAX_MARKS} marks, got {marks}")
    if fault == _TEXT:
        raise ValueError(
            f"a page has a known source and status, title words that ascend, and samples of its blocks in page order: "
            f"at most {MAIN_SAMPLES} of main text and {REST_SAMPLES} of other text"
        )


_FEATURES, _BLOCKS, _OFFSET, _TEXT = range(1, 5)
"""The rules that a page can break: most features, most blocks and title words, least offset and ascending features, and
the text."""


@kernel
def _fault(offset, features, feature_bounds, block_bounds, title_bounds, *text):
    # offset: int64[n]  features: uint64[m]  *_bounds: int64[n + 1]  text: the parameters of _sound
    # ->  int64, the rule that a page breaks, or 0
    for page in range(len(offset)):
        if feature_bounds[page + 1] - feature_bounds[page] > MAX_FEATURES:
            return _FEATURES
        listed, words = block_bounds[page + 1] - block_bounds[page], title_bounds[page + 1] - title_bounds[page]
        if listed > MOST_BLOCKS or words > MOST_TITLE_WORDS:
            return _BLOCKS
        if offset[page] < 0:
            return _OFFSET
        for place in range(feature_bounds[page] + 1, feature_bounds[page + 1]):
            if features[place] <= features[place - 1]:
                return _OFFSET
    return 0 if _sound(*text) else _TEXT


def _columns(signatures: Signatures) -> tuple[NDArray[Any], ...]:
    """Return the columns that may be left out, in the order of their bits, without the rows of their pages."""
    return (
        *[column if column.ndim == 1 else column.reshape(-1) for column in _UNCOUNTED(signatures)],
        *(sizes_of(bounds) for bounds in _BOUNDS(signatures)),
        text_lengths(signatures.urls),
        text_lengths(signatures.labels),
        signatures.rank,
        signatures.headline,
    )


def _mark(body: bytes, at: int, sources: Sequence[str]) -> CommitMark:
    source, partition, offset = _MARK.unpack_from(body, at)
    if partition < -1 or offset < 0:
        raise ValueError
    return CommitMark(sources[source], partition, offset)


def _read_columns(raw: bytearray | memoryview, pages: int, mask: int, at: int) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the columns that may be left out, and the next place in the body. Raises ValueError for missing bytes."""
    if mask >> len(_COLUMNS):
        raise ValueError
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


def _read_samples(
    raw: bytearray, blocks: NDArray[np.uint64], block_bounds: NDArray[np.int64], at: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    """Return the samples, their bounds by page, and the next place in the body. Raises ValueError for missing bytes."""
    counts = np.frombuffer(raw, np.uint8, len(blocks), at)
    count = int(counts.sum(dtype=np.int64))
    hashes = np.frombuffer(raw, "<u4", count, at + counts.nbytes)
    positions = np.frombuffer(raw, "<u2", count, at + counts.nbytes + hashes.nbytes)
    samples, bounds = np.empty(count, np.uint64), np.zeros(len(block_bounds), np.int64)
    _join_samples(blocks, block_bounds, counts, hashes, positions, samples, bounds)
    return samples, bounds, at + counts.nbytes + hashes.nbytes + positions.nbytes


@inlined
def _shingle_width(block):  # uint64 -> int64
    # the number of words of each shingle of a block
    return min(words_of(block), WIDE_SHINGLE if block & WIDE else SHINGLE)


@kernel
def _write_columns(columns, offset, features, sketch, blocks, block_bounds, samples, sample_bounds, titles, buffer):
    # columns: of _columns  sketch: uint64[n * w]  the others: columns of Signatures
    # ->  buffer: uint8[...], a body from the offsets on, without its texts; returns the bits of columns, and its size
    at, mask, column_at = _put(offset, 8, buffer, 0), 0, 0
    for column in literal_unroll(columns):
        end = _put(column, _BYTES[column_at], buffer, at)
        if buffer[at:end].any():
            mask, at = mask | 1 << column_at, end
        column_at += 1  # noqa: SIM113 - numba unrolls only a loop over the columns themselves.
    for words in (features, sketch, blocks):
        at = _put(words, 8, buffer, at)
    hashes = at + len(blocks)
    positions = hashes + 4 * len(samples)
    buffer[at:hashes] = 0
    for page in range(len(offset)):
        for place in range(sample_bounds[page], sample_bounds[page + 1]):
            buffer[at + block_bounds[page] + place_of(samples[place])] += np.uint8(1)
            write_word(buffer, hashes + 4 * place, 4, samples[place] >> np.uint64(HASH_SHIFT))
            write_word(buffer, positions + 2 * place, 2, samples[place] >> np.uint64(POSITION_SHIFT))
    return mask, _put(titles, 2, buffer, positions + 2 * len(samples))


@inlined
def _put(column, size, buffer, at):
    # column: [m], whole numbers  size: int64, bytes of each  ->  buffer: uint8[...]; returns the next place
    for row in range(len(column)):
        write_word(buffer, at, size, np.uint64(column[row]))
        at += size
    return at


@kernel
def _join_samples(blocks, block_bounds, counts, hashes, positions, samples, sample_bounds):
    # blocks: uint64[b]  block_bounds: int64[n + 1]  counts: uint8[b]  hashes: uint32[s]  positions: uint16[s]
    # ->  samples: uint64[s]  sample_bounds: int64[n + 1]
    at = 0
    for page in range(len(block_bounds) - 1):
        for row in range(block_bounds[page], block_bounds[page + 1]):
            of_block = np.uint64((row - block_bounds[page]) << PLACE_SHIFT | _shingle_width(blocks[row]))
            for _ in range(counts[row]):
                position = np.uint64(positions[at]) << np.uint64(POSITION_SHIFT)
                samples[at] = np.uint64(hashes[at]) << np.uint64(HASH_SHIFT) | position | of_block
                at += 1
        sample_bounds[page + 1] = at


@kernel
def _sound(source, sources, status, known, blocks, block_bounds, samples, sample_bounds, titles, title_bounds):
    """Whether sources and statuses are known, title words ascend strictly, and samples follow the blocks of each page.

    source: uint16[n], each below `sources`  status: uint8[n]  known: bool[256], by status
    blocks, samples: uint64[...]  titles: uint16[...]  *_bounds: int64[n + 1]
    """
    for page in range(len(source)):
        if source[page] >= sources or not known[status[page]]:
            return False
        if not _samples_sound(blocks, block_bounds[page : page + 2], samples, sample_bounds[page : page + 2]):
            return False
        for place in range(title_bounds[page] + 1, title_bounds[page + 1]):
            if titles[place] <= titles[place - 1]:
                return False
    return True


@kernel
def _samples_sound(blocks, block_bounds, samples, sample_bounds):
    # blocks, samples: uint64[...]  block_bounds, sample_bounds: int64[2], of one page  ->  whether places and positions
    # do not descend, places are those of blocks with words, widths follow from them, and counts are within bounds
    main, rest, last_place, last_position = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for at in range(sample_bounds[0], sample_bounds[1]):
        place, position = place_of(samples[at]), position_of(samples[at])
        if place < last_place or place >= block_bounds[1] - block_bounds[0] or position < last_position:
            return False
        block = blocks[block_bounds[0] + place]
        if width_of(samples[at]) != _shingle_width(block) or words_of(block) == 0:
            return False
        main, rest = main + np.int64(is_kept(block)), rest + np.int64(not is_kept(block))
        last_place, last_position = place, position
    return main <= MAIN_SAMPLES and rest <= REST_SAMPLES
