"""The signature of a page, as columns over a micro-batch: everything that the log and the state store of a page."""

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, joined_texts, sizes_of
from spotsieve.stream.base.page import FilterReason, PageId

MAX_SKETCH_WORDS = 255
"""The most words of a sketch. The 1-bit minwise sketches of Yuan et al. 2012 have 64-1000 bits: 1-16 words."""
MAX_FEATURES = 65_535
"""Features of one page in a record: half a megabyte. A page with more is judged by its digest (TOO_MANY_FEATURES)."""
MAX_URL_BYTES = 2048
"""The log truncates longer URLs and labels: verdicts, rules and policies use the truncated ones."""
IN_NEED = 0x80
"""The bit of `language` for a main text of weak blocks, because the page has no better ones."""


class SignatureStatus(enum.IntEnum):
    """Whether a page has a fingerprint, or why not. The log stores the number: it is never reused."""

    FINGERPRINTED = 0
    TOO_FEW_FEATURES = 1
    EMPTY = 2
    NOT_TEXT = 3
    TOO_MANY_FEATURES = 4
    PARTIAL = 5
    """Judged by the part of its payload that could be decoded. It teaches nothing and is indexed by its digest only."""
    HTTP_STATUS = FilterReason.HTTP_STATUS
    REDIRECT = FilterReason.REDIRECT
    MEDIA_TYPE = FilterReason.MEDIA_TYPE
    EXEMPT = FilterReason.EXEMPT
    SCRIPT_ONLY = FilterReason.SCRIPT_ONLY
    INCOMPLETE = 45
    """The part of its payload that could be decoded has too little text to be judged."""


FINGERPRINTED = np.uint8(SignatureStatus.FINGERPRINTED)
"""The number as a numpy scalar: comparing a column with an enum member takes 3 us more."""
FILTERED = tuple(SignatureStatus(reason) for reason in FilterReason if reason)
"""The statuses of pages that are exempt from judging."""
MATCHING_NOTHING = (SignatureStatus.EMPTY, SignatureStatus.INCOMPLETE, *FILTERED)
"""Pages with these statuses have no keys: they are not indexed and match no page, not even one with equal bytes."""

_HAS_KEYS = np.ones(256, np.bool_)
_HAS_KEYS[list(MATCHING_NOTHING)] = False
_IS_JUDGED = np.zeros(256, np.bool_)
_IS_JUDGED[[SignatureStatus.FINGERPRINTED, SignatureStatus.PARTIAL]] = True


def has_keys(status: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether a page is indexed and found at least by its digest.  status: uint8[n] -> bool[n]"""
    return _HAS_KEYS.take(status)


def is_judged(status: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether a page is compared with earlier pages by its text.  status: uint8[n] -> bool[n]"""
    return _IS_JUDGED.take(status)


@dataclass(slots=True)
class Signatures:
    """Signatures of n pages, in the order of the micro-batch.

    Nobody sets a column later. Like other columns that each record makes, the class is not frozen, because setting 26
    frozen fields takes 3 us more.

    source: uint16[n], index into sources
    partition: int32[n]
    offset: int64[n]
    event_time_ms: int64[n]
    digest: uint64[n, 2], BLAKE2b-128 of the body
    fingerprint: uint64[n], valid if the page is judged
    status: uint8[n] (SignatureStatus). A page that is not judged matches by digest only, and one of MATCHING_NOTHING
    matches nothing
    feature_count: uint32[n], features of the whole page before any sampling; its length for policy.keep = longest
    urls, labels: n UTF-8 byte strings; a label may be b""
    text_digest: uint64[n, 2], digest of the tokens of the main text; 0, 0 without text
    host: uint64[n], hash of the host in lower case without "www."; 0 without a host
    language: uint8[n], the path of the text (stream/sign/features/languages.py, path_names), and IN_NEED if the main
    text consists of weak blocks; counted, never compared
    features: uint64[m], features_bounds: int64[n + 1], distinct and ascending within a page, at most MAX_FEATURES. The
    keys of a page, such as MinHash values of spotsieve, or all features if the scheme compares features; entries
    store these, too
    sketch: uint64[n, w], w is the same for all pages of a scheme and at most MAX_SKETCH_WORDS
    site: uint16[n], 16 bits of the hash of the host, which several authors may share; 0 without a host
    headline: uint16[n], hash of two words of the title without the name of the site; 0 without a title
    blocks: uint64[b], blocks_bounds: int64[n + 1], packed blocks (stream/base/page_text.py), in page order
    samples: uint64[s], samples_bounds: int64[n + 1], sampled shingle hashes (stream/base/page_text.py), in page order
    titles: uint16[t], titles_bounds: int64[n + 1], hashes of the title's words, ascending within a page
    rank: uint64[n], words of stream/base/page.py; 0 for a page without a rank, or without input.rank_from

    A scheme that does not use one of the last thirteen columns leaves it as `unused_columns` makes it.
    """

    sources: tuple[str, ...]
    source: NDArray[np.uint16]
    partition: NDArray[np.int32]
    offset: NDArray[np.int64]
    event_time_ms: NDArray[np.int64]
    digest: NDArray[np.uint64]
    fingerprint: NDArray[np.uint64]
    status: NDArray[np.uint8]
    feature_count: NDArray[np.uint32]
    urls: Sequence[bytes]
    labels: Sequence[bytes]
    text_digest: NDArray[np.uint64]
    host: NDArray[np.uint64]
    language: NDArray[np.uint8]
    features: NDArray[np.uint64]
    features_bounds: NDArray[np.int64]
    sketch: NDArray[np.uint64]
    site: NDArray[np.uint16]
    headline: NDArray[np.uint16]
    blocks: NDArray[np.uint64]
    blocks_bounds: NDArray[np.int64]
    samples: NDArray[np.uint64]
    samples_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    titles_bounds: NDArray[np.int64]
    rank: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.offset)

    def url_texts(self) -> list[str]:
        """The URLs as text, truncated as in the log."""
        return list(map(_as_logged, self.urls))

    def part(self, start: int, end: int) -> "Signatures":
        """The signatures of pages start..end - 1."""
        rows, cuts = slice(start, end), slice(start, end + 1)
        bounds, titles = self.features_bounds[cuts], self.titles_bounds[cuts]
        blocks, samples = self.blocks_bounds[cuts], self.samples_bounds[cuts]
        return Signatures(
            self.sources,
            self.source[rows],
            self.partition[rows],
            self.offset[rows],
            self.event_time_ms[rows],
            self.digest[rows],
            self.fingerprint[rows],
            self.status[rows],
            self.feature_count[rows],
            self.urls[rows],
            self.labels[rows],
            self.text_digest[rows],
            self.host[rows],
            self.language[rows],
            self.features[bounds[0] : bounds[-1]],
            bounds - bounds[0],
            self.sketch[rows],
            self.site[rows],
            self.headline[rows],
            self.blocks[blocks[0] : blocks[-1]],
            blocks - blocks[0],
            self.samples[samples[0] : samples[-1]],
            samples - samples[0],
            self.titles[titles[0] : titles[-1]],
            titles - titles[0],
            self.rank[rows],
        )

    def take(self, rows: NDArray[np.int64]) -> "Signatures":
        """The signatures of some pages. rows: int64[r], ascending"""
        if len(rows) == len(self):
            return self
        kept, columns = np.zeros(len(self), np.bool_), dict[str, Any]()
        kept[rows] = True
        for name in _RAGGED:
            sizes = sizes_of(getattr(self, f"{name}_bounds"))
            columns[name] = getattr(self, name)[np.repeat(kept, sizes)]
            columns[f"{name}_bounds"] = bounds_of(sizes[kept])
        for name in _PLAIN:
            columns[name] = getattr(self, name)[kept]
        for name in _TEXTS:
            columns[name] = tuple(compress(getattr(self, name), kept.tolist()))
        return Signatures(sources=self.sources, source=self.source[kept], **columns)


_RAGGED = ("features", "blocks", "samples", "titles")
"""Columns of Signatures with bounds."""
_TEXTS = ("urls", "labels")
_PLAIN = tuple(
    field.name
    for field in fields(Signatures)
    if field.name not in ("sources", "source", *_RAGGED, *_TEXTS) and not field.name.endswith("_bounds")
)
"""Columns of Signatures with a number, or a row of numbers, for each page."""


def logged_url(url: str) -> str:
    """A URL, truncated as in the log."""
    return url if 4 * len(url) <= MAX_URL_BYTES else _as_logged(url.encode("utf-8", "replace"))


def _as_logged(url: bytes) -> str:
    if len(url) > MAX_URL_BYTES:
        return url[:MAX_URL_BYTES].decode("utf-8", "ignore")
    return url.decode("utf-8", "replace")


def join_signatures(parts: Sequence[Signatures]) -> Signatures:
    """The pages of all parts, in order. There is at least one part, and all sketches have the same width."""
    if len(parts) == 1:
        return parts[0]
    sources = tuple(dict.fromkeys(source for part in parts for source in part.sources))
    number = {source: row for row, source in enumerate(sources)}
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in _PLAIN + _RAGGED
    }
    for name in _RAGGED:
        sizes = [sizes_of(getattr(part, f"{name}_bounds")) for part in parts]
        columns[f"{name}_bounds"] = bounds_of(np.concatenate(sizes))
    for name in _TEXTS:
        columns[name] = joined_texts([getattr(part, name) for part in parts])
    renumbered = [np.array([number[source] for source in part.sources], np.uint16)[part.source] for part in parts]
    return Signatures(sources=sources, source=np.concatenate(renumbered), **columns)


def unused_columns(count: int, filled: Collection[str] = ()) -> dict[str, Any]:
    """The columns that only some schemes fill, empty or zero for `count` pages, except for the filled ones."""
    return {name: np.zeros(shape(count), dtype) for name, shape, dtype in _UNUSED if name not in filled}


def empty_rows(
    column: NDArray[Any], bounds: NDArray[np.int64], which: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A ragged column and its bounds, with the rows emptied where `which`, bool[n], is False."""
    if which.all():
        return column, bounds
    sizes = sizes_of(bounds)
    return column[np.repeat(which, sizes)], bounds_of(sizes * which)


def _no_numbers(_: int) -> int:
    return 0


def _one_more(count: int) -> int:
    return count + 1


_UNUSED: tuple[tuple[str, Callable[[int], Any], Any], ...] = (
    ("text_digest", lambda count: (count, 2), np.uint64),
    ("host", int, np.uint64),
    ("language", int, np.uint8),
    ("features", _no_numbers, np.uint64),
    ("features_bounds", _one_more, np.int64),
    ("sketch", lambda count: (count, 0), np.uint64),
    ("rank", int, np.uint64),
    ("site", int, np.uint16),
    ("headline", int, np.uint16),
    ("blocks", _no_numbers, np.uint64),
    ("blocks_bounds", _one_more, np.int64),
    ("samples", _no_numbers, np.uint64),
    ("samples_bounds", _one_more, np.int64),
    ("titles", _no_numbers, np.uint16),
    ("titles_bounds", _one_more, np.int64),
)
"""The columns that only some schemes fill: name, shape by the number of pages, dtype."""


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """The columns that a scheme compares to confirm candidates: c rows, of a record's pages or of indexed pages.

    host: uint64[c]  feature_count: uint32[c]  sketch: uint64[c, w]
    features: uint64[m], spans: int64[c, 2]. The features of row i are features[spans[i, 0] : spans[i, 1]], as in
    Signatures; none if the scheme does not compare features, or does not compare this page by features
    """

    host: NDArray[np.uint64]
    feature_count: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    features: NDArray[np.uint64]
    spans: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.host)

    def take(self, rows: NDArray[np.int64]) -> "CandidateColumns":
        """These rows in this order, int64[r]. Features are not copied: repeated rows share them."""
        spans = self.spans[rows] if len(self.features) else np.zeros((len(rows), 2), np.int64)
        return CandidateColumns(self.host[rows], self.feature_count[rows], self.sketch[rows], self.features, spans)


def candidate_columns(signatures: Signatures, with_features: bool) -> CandidateColumns:
    """The candidate columns of a record's pages.  with_features: whether the scheme compares features"""
    features, spans = no_features(len(signatures))
    if with_features:
        bounds = signatures.features_bounds
        features, spans = signatures.features, np.stack([bounds[:-1], bounds[1:]], axis=1)
    return CandidateColumns(signatures.host, signatures.feature_count, signatures.sketch, features, spans)


def no_features(count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The last two columns of CandidateColumns, for `count` rows that are not compared by features."""
    return np.empty(0, np.uint64), np.zeros((count, 2), np.int64)


class DistinctiveText(NamedTuple):
    """The distinctive text of c indexed pages, by which later pages are compared with them (stream/judge/by_host).

    site: uint16[c]
    main, whole, every: uint8[c], size codes (stream/base/page_text.py): words of the distinctive main text, of the main
    text without template text of the host, and of all distinctive text
    limit: uint32[c], the hashes up to which the sample holds all shingles (pack_limits in stream/base/page_text.py)
    sample: uint16[s], sample_bounds: int64[c + 1], hashes of shingles relative to the limit, ascending
    blocks: uint64[b], block_bounds: int64[c + 1], the heaviest blocks, ascending
    titles: uint16[t], title_bounds: int64[c + 1], hashes of the title's words, ascending
    """

    site: NDArray[np.uint16]
    main: NDArray[np.uint8]
    whole: NDArray[np.uint8]
    every: NDArray[np.uint8]
    limit: NDArray[np.uint32]
    sample: NDArray[np.uint16]
    sample_bounds: NDArray[np.int64]
    blocks: NDArray[np.uint64]
    block_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_bounds: NDArray[np.int64]


@cache
def no_distinctive_texts() -> DistinctiveText:
    """The distinctive texts of no pages."""
    none, sizes, bounds = np.empty(0, np.uint16), np.empty(0, np.uint8), np.zeros(1, np.int64)
    limits, blocks = np.empty(0, np.uint32), np.empty(0, np.uint64)
    return DistinctiveText(none, sizes, sizes, sizes, limits, none, bounds, blocks, bounds, none, bounds)


@dataclass(frozen=True, slots=True)
class Entry:
    """An original in a verdict: the id, URL and time of an indexed page."""

    source: str
    partition: int
    offset: int
    event_time_ms: int
    url: str
    label: str

    @property
    def id(self) -> str:
        """The page's own label, or its page id as text."""
        return self.label or self.page_id

    @property
    def page_id(self) -> str:
        """The page id as text, whether the page has a label or not."""
        return page_id_text(self.source, self.partition, self.offset)


def page_id_text(source: str, partition: int, offset: int) -> str:
    """A page id as text: source/partition/offset."""
    return f"{source}/{partition}/{offset}"


def page_of_id(text: str) -> PageId | None:
    """The page id in a text (source/partition/offset); None if it is none."""
    source, *numbers = text.rsplit("/", 2)
    if not source or len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    partition, offset = map(int, numbers)
    return (source, partition, offset) if partition < 2**31 and offset < 2**63 else None


def page_ids_of(signatures: Signatures) -> list[PageId]:
    """The page ids of a record."""
    return _page_ids(signatures.sources, signatures.source, signatures.partition, signatures.offset)


def page_ids_at(signatures: Signatures, rows: NDArray[np.int64]) -> list[PageId]:
    """The page ids of some rows of a record, int64[r]."""
    columns = signatures.source[rows], signatures.partition[rows], signatures.offset[rows]
    return _page_ids(signatures.sources, *columns)


def _page_ids(
    sources: Sequence[str], source: NDArray[np.uint16], partition: NDArray[np.int32], offset: NDArray[np.int64]
) -> list[PageId]:
    named = [sources[number] for number in source.tolist()]
    return list(zip(named, partition.tolist(), offset.tolist(), strict=True))
