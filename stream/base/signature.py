"""The signature: all that is remembered of a page, as columns over a micro-batch."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, joined_texts, sizes_of
from spotsieve.stream.base.page import FilterReason, PageId

MAX_SKETCH_WORDS = 255
"""1-bit minwise sketches of Yuan et al. 2012 have 64-1000 bits: 1-16 words."""
MAX_FEATURES = 65_535
"""Of one page in a record: half a megabyte. A page with more is judged by its digest alone (TOO_MANY_FEATURES)."""
MAX_URL_BYTES = 2048
"""The log cuts longer URLs and labels: verdicts show them cut, and rules and policies go by what is left."""
IN_NEED = 0x80
"""The bit of `language` that says that blocks were kept for want of better ones."""


class SignatureStatus(enum.IntEnum):
    """Whether a page has a fingerprint, and if not, why. Stored in the log: numbers are never reused."""

    FINGERPRINTED = 0
    TOO_FEW_FEATURES = 1
    EMPTY = 2
    NOT_TEXT = 3
    TOO_MANY_FEATURES = 4
    HTTP_STATUS = FilterReason.HTTP_STATUS
    REDIRECT = FilterReason.REDIRECT
    MEDIA_TYPE = FilterReason.MEDIA_TYPE
    EXEMPT = FilterReason.EXEMPT


FINGERPRINTED = np.uint8(SignatureStatus.FINGERPRINTED)
"""As columns have it: to compare a column with a member of an enum takes numpy 3 us more."""
FILTERED = (SignatureStatus.HTTP_STATUS, SignatureStatus.REDIRECT, SignatureStatus.MEDIA_TYPE, SignatureStatus.EXEMPT)
"""Of pages that the settings keep out of judging."""
MATCHING_NOTHING = (SignatureStatus.EMPTY, *FILTERED)
"""Pages of these are filed under no key and meet no page, not even one of the same bytes."""

_HAS_KEYS = np.ones(256, np.bool_)
_HAS_KEYS[list(MATCHING_NOTHING)] = False


def has_keys(status: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """status: uint8[n] -> bool[n], whether a page is filed and found by its digest at least."""
    return _HAS_KEYS[status]


@dataclass(frozen=True, slots=True)
class Signatures:
    """Signatures of n pages, in the order of the micro-batch.

    source: uint16[n] (index into sources)  partition: int32[n]  offset: int64[n]  event_time_ms: int64[n]
    digest: uint64[n, 2] (BLAKE2b-128 of the body)
    fingerprint: uint64[n] (means something only where status is FINGERPRINTED)
    status: uint8[n] (Status; a page without fingerprint matches by digest alone, an EMPTY or filtered one
    matches nothing)
    feature_count: uint32[n] (of the whole page, before any sampling: how long it is where the longest page is kept)
    urls, labels: n UTF-8 byte strings (label may be b"")
    text_digest: uint64[n, 2] (of the kept text's tokens; 0, 0 where there is none)
    host: uint64[n] (hash of the host in lower case without "www."; 0 where the address has none)
    language: uint8[n] (the path that the text took, stream.features.languages.path_names, and IN_NEED where blocks were
    kept for want of better ones; counted, never compared)
    features: uint64[m], features_bounds: int64[n + 1] (those of page i lie between bounds i and i + 1, all different,
    ascending, at most MAX_FEATURES: what a page is filed under, as spotsieve's smallest hashes, or all that it is
    compared by, where the scheme compares features; entries keep these too)
    sketch: uint64[n, w], w the same for all pages of a scheme and at most MAX_SKETCH_WORDS
    site: uint16[n] (hash of the host's registered name; 0 where there is no host)
    prints: uint32[p], prints_bounds: int64[n + 1] (of its blocks, stream/sign/features/block_fingerprints.py; those
    of page i between
    bounds i and i + 1, ascending)
    titles: uint16[t], titles_bounds: int64[n + 1] (hashes of the title's words, ascending within a page)
    rank: uint64[n] (stream/base/page.py; 0 where the page has none, or the settings ask for none)

    A scheme that has no use for one of the last twelve leaves it as `unused_columns` makes it.
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
    prints: NDArray[np.uint32]
    prints_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    titles_bounds: NDArray[np.int64]
    rank: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.offset)

    def addresses(self) -> list[str]:
        """The URLs as text, as the log holds them."""
        return list(map(_as_logged, self.urls))

    def part(self, start: int, end: int) -> "Signatures":
        """Pages start..end - 1."""
        whole, cuts = slice(start, end), slice(start, end + 1)
        bounds, prints, titles = self.features_bounds[cuts], self.prints_bounds[cuts], self.titles_bounds[cuts]
        return Signatures(
            self.sources,
            self.source[whole],
            self.partition[whole],
            self.offset[whole],
            self.event_time_ms[whole],
            self.digest[whole],
            self.fingerprint[whole],
            self.status[whole],
            self.feature_count[whole],
            self.urls[whole],
            self.labels[whole],
            self.text_digest[whole],
            self.host[whole],
            self.language[whole],
            self.features[bounds[0] : bounds[-1]],
            bounds - bounds[0],
            self.sketch[whole],
            self.site[whole],
            self.prints[prints[0] : prints[-1]],
            prints - prints[0],
            self.titles[titles[0] : titles[-1]],
            titles - titles[0],
            self.rank[whole],
        )


def logged_url(url: str) -> str:
    """A URL as the log holds it."""
    return url if 4 * len(url) <= MAX_URL_BYTES else _as_logged(url.encode("utf-8", "replace"))


def _as_logged(url: bytes) -> str:
    if len(url) > MAX_URL_BYTES:
        return url[:MAX_URL_BYTES].decode("utf-8", "ignore")
    return url.decode("utf-8", "replace")


def join_signatures(parts: Sequence[Signatures]) -> Signatures:
    """The pages of at least one part, in order. All have sketches of one width."""
    if len(parts) == 1:
        return parts[0]
    sources = tuple(dict.fromkeys(source for part in parts for source in part.sources))
    number = {source: row for row, source in enumerate(sources)}
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (
            *("partition", "offset", "event_time_ms", "digest", "fingerprint", "status", "feature_count"),
            *("text_digest", "host", "language", "features", "sketch", "site", "prints", "titles", "rank"),
        )
    }
    for name in ("features_bounds", "prints_bounds", "titles_bounds"):
        sizes = [sizes_of(getattr(part, name)) for part in parts]
        columns[name] = bounds_of(np.concatenate(sizes))
    return Signatures(
        sources=sources,
        source=np.concatenate(
            [np.array([number[source] for source in part.sources], np.uint16)[part.source] for part in parts]
        ),
        urls=joined_texts([part.urls for part in parts]),
        labels=joined_texts([part.labels for part in parts]),
        **columns,
    )


def unused_columns(count: int) -> dict[str, Any]:
    """The columns that only some schemes fill, empty or zero for this many pages."""
    return {
        "text_digest": np.zeros((count, 2), np.uint64),
        "host": np.zeros(count, np.uint64),
        "language": np.zeros(count, np.uint8),
        "features": np.empty(0, np.uint64),
        "features_bounds": np.zeros(count + 1, np.int64),
        "sketch": np.empty((count, 0), np.uint64),
        "rank": np.zeros(count, np.uint64),
        **no_own_text(count),
    }


def empty_rows(
    column: NDArray[Any], bounds: NDArray[np.int64], which: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A ragged column of n rows with nothing left in those that are False, and its new bounds. which: bool[n]"""
    sizes = sizes_of(bounds)
    return column[np.repeat(which, sizes)], bounds_of(sizes * which)


def no_own_text(count: int) -> dict[str, Any]:
    """The columns that only a scheme with a memory of hosts fills, for this many pages."""
    return {
        "site": np.zeros(count, np.uint16),
        "prints": np.empty(0, np.uint32),
        "prints_bounds": np.zeros(count + 1, np.int64),
        "titles": np.empty(0, np.uint16),
        "titles_bounds": np.zeros(count + 1, np.int64),
    }


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """What a scheme confirms a candidate by: c rows, of a record's pages or of filed ones.

    host: uint64[c]  feature_count: uint32[c]  sketch: uint64[c, w]
    features: uint64[m], spans: int64[c, 2] (row i's are features[spans[i, 0]:spans[i, 1]], as in Signatures; none where
    the scheme does not compare features, or the page is not compared by them)
    """

    host: NDArray[np.uint64]
    feature_count: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    features: NDArray[np.uint64]
    spans: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.host)

    def take(self, rows: NDArray[np.int64]) -> "CandidateColumns":
        """These rows, in this order: int64[r] -> r rows. The features are not copied: rows that repeat share them."""
        spans = self.spans[rows] if len(self.features) else np.zeros((len(rows), 2), np.int64)
        return CandidateColumns(self.host[rows], self.feature_count[rows], self.sketch[rows], self.features, spans)


def candidate_columns(signatures: Signatures, with_features: bool) -> CandidateColumns:
    """What the scheme confirms the pages of a record by. with_features: whether the scheme compares features"""
    features, spans = no_features(len(signatures))
    if with_features:
        bounds = signatures.features_bounds
        features, spans = signatures.features, np.stack([bounds[:-1], bounds[1:]], axis=1)
    return CandidateColumns(signatures.host, signatures.feature_count, signatures.sketch, features, spans)


def no_features(count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The last two columns of CandidateColumns, for this many rows that are not compared by features."""
    return np.empty(0, np.uint64), np.zeros((count, 2), np.int64)


class OwnText(NamedTuple):
    """What c pages, of a record or filed, are compared by on their host (stream/judge/by_host/pairs.py).

    site: uint16[c]  share: uint8[c], of the listed kept text, what was template when the page was filed, in 255ths
    listed: uint16[c], weight of all its listed kept text
    prints: uint32[p], print_bounds: int64[c + 1], those that were no template when the page was filed, ascending
    titles: uint16[t], title_bounds: int64[c + 1]
    """

    site: NDArray[np.uint16]
    share: NDArray[np.uint8]
    listed: NDArray[np.uint16]
    prints: NDArray[np.uint32]
    print_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_bounds: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a verdict tells of an original: the filed page's id, address and time."""

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
    """A page id as people and JSON see it: source/partition/offset."""
    return f"{source}/{partition}/{offset}"


def page_of_id(text: str) -> PageId | None:
    """The page id that a text stands for; None where it stands for none."""
    source, *numbers = text.rsplit("/", 2)
    if not source or len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    partition, offset = map(int, numbers)
    return (source, partition, offset) if partition < 2**31 and offset < 2**63 else None


def page_ids_of(signatures: Signatures) -> list[PageId]:
    """The ids of a record's pages."""
    return page_ids_at(signatures, slice(None))


def page_ids_at(signatures: Signatures, rows: NDArray[np.int64] | slice) -> list[PageId]:
    """The ids of some pages of a record: int64[r]."""
    sources = [signatures.sources[source] for source in signatures.source[rows].tolist()]
    return list(zip(sources, signatures.partition[rows].tolist(), signatures.offset[rows].tolist(), strict=True))
