"""A page before it is signed: its id, its bytes, a batch of bodies for kernels, and the encoding of ranks.

A rank, which policy.keep = highest or lowest compares, is stored as a 64-bit word:

    word = 0                                          no rank
         | the bits of a float64, highest bit set     rank >= 0
         | the complement of the bits of a float64    rank < 0

Words sort like their ranks, and a page without a rank sorts first.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of

KERNEL_PADDING_BYTES = 128
"""Zero bytes after the last body of a batch, so that kernels can load whole vectors without bounds checks."""

PageId = tuple[str, int, int]
"""(source, partition, offset) of a page."""


class FilterReason(enum.IntEnum):
    """Why a page is exempt from judging; SignatureStatus and Reason have the same numbers."""

    NOT = 0
    HTTP_STATUS = 40
    """The HTTP status is not in input.accepted_statuses, such as 404."""
    REDIRECT = 41
    """The HTTP status is a redirect (3xx) that is not in input.accepted_statuses."""
    MEDIA_TYPE = 42
    """The Content-Type is not in input.accepted_types."""
    EXEMPT = 43
    """A rule exempts pages with this URL."""
    SCRIPT_ONLY = 44
    """The page is a shell: it has scripts and no text of its own."""


class Markup(enum.IntEnum):
    """The language of a page's body. False is plain text, and True is HTML."""

    NONE = 0
    HTML = 1
    XML = 2


class Page(NamedTuple):
    """One crawled document. A NamedTuple is created twice as fast as a frozen dataclass.

    The page id is (source, partition, offset). In Kafka: topic, partition, offset. In files: path, 31 bits of a digest
    of the record, record number. It is unique, and the same whenever the page is submitted again.
    """

    source: str
    partition: int
    offset: int
    url: str
    body: bytes
    """UTF-8. Invalid bytes are allowed, and separate tokens."""
    markup: Markup | bool
    """True for HTML, False for plain text, Markup.XML for XHTML, feeds and other XML."""
    event_time_ms: int
    """Fetch time, milliseconds since the epoch; never later than the time of the message."""
    label: str = ""
    """The page's own id in its message, if there is one; shown, never compared."""
    judgeable: bool = True
    """False for a page that is not text or exceeds the limit: only its digest is compared."""
    filtered: FilterReason = FilterReason.NOT
    """With any other value the page is emitted unchecked, is compared with no page and never becomes an original."""
    future_time: bool = False
    """True if the page's own time was later than its message's, and was replaced by it; counted only."""
    repaired: bool = False
    """True if invalid UTF-8 in the body was replaced by U+FFFD; counted only."""
    rank: float | None = None
    """The rank that policy.keep = highest or lowest compares; a page without a rank (None) loses to all others."""
    encoded: bytes | None = None
    """The payload as sent, if only a part of it could be decoded (body); None for a whole page. Such a page is compared
    with earlier pages, but is never the original of a page with other bytes."""
    text_source: str = ""
    """The kind of script whose text was put before the body (stream/sign/text/script_text.py); "" for none."""


@dataclass(frozen=True, slots=True)
class BodyBatch:
    """The bodies of n pages in one buffer, for kernels.

    buffer: uint8[N + KERNEL_PADDING_BYTES]  bounds: int64[n + 1]  markup: uint8[n], of Markup
    The body of a page that is not judgeable is empty.
    """

    buffer: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    markup: NDArray[np.uint8]


def lay_out(pages: Sequence[Page]) -> BodyBatch:
    """Concatenate the bodies of pages into one padded buffer."""
    bodies = [page.body if page.judgeable else b"" for page in pages]
    bounds = bounds_of(list(map(len, bodies)))
    bodies.append(bytes(KERNEL_PADDING_BYTES))
    buffer = np.frombuffer(b"".join(bodies), np.uint8)
    markup = np.array([page.markup for page in pages], np.uint8)
    return BodyBatch(buffer, bounds, markup)


NO_RANK = 0
"""The word of a page without a rank; no finite rank has it."""
_SIGN = np.uint64(1 << 63)


def rank_words(ranks: Sequence[float | None]) -> NDArray[np.uint64]:
    """The words of n ranks, uint64[n]. Ranks are finite or None, and -0.0 counts as 0.0."""
    if ranks.count(None) == len(ranks):
        return np.zeros(len(ranks), np.uint64)
    bits = (np.array([0.0 if rank is None else rank for rank in ranks]) + 0.0).view(np.uint64)
    words = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    words[[rank is None for rank in ranks]] = NO_RANK
    return words


def ranks_of(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """The ranks of n words: uint64[n] -> float64[n]; nan for a page without a rank."""
    bits = np.where(words & _SIGN != 0, words ^ _SIGN, ~words)
    return np.where(words == NO_RANK, np.nan, bits.view(np.float64))
