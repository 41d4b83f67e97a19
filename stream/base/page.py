"""A page before it has a signature: its id, its bytes, and a columnar batch of pages.

Writes ranks as 64-bit words and reads them: what policy.keep = highest or lowest goes by.

    word = 0, no rank
         | the bits of a float64 whose sign is positive, with the highest bit set
         | the complement of the bits of a negative one

Words are in the order of their ranks, and a page without a rank comes before all others.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of

KERNEL_PADDING_BYTES = 128
"""Zero bytes after the last page of a batch: a kernel may load whole vectors without a bounds check."""

PageId = tuple[str, int, int]
"""(source, partition, offset) of a page."""


class FilterReason(enum.IntEnum):
    """Why the settings keep a page out of judging; the numbers are those of the page's Status and Reason."""

    NOT = 0
    HTTP_STATUS = 40
    """The server answered with a status that input.accepted_statuses does not name, such as 404."""
    REDIRECT = 41
    """The server answered with a redirect (3xx) that input.accepted_statuses does not name."""
    MEDIA_TYPE = 42
    """Its Content-Type is not among input.accepted_types."""
    EXEMPT = 43
    """A rule exempts pages of its address."""


class Page(NamedTuple):
    """One crawled document. A frozen dataclass with as many fields takes twice as long to make.

    The page id is (source, partition, offset): topic, partition, offset in Kafka; path, a number of the record's bytes
    (31 bits of a digest), record number in files.
    It must be the same whenever the same page is submitted again, and never the same for two pages.
    """

    source: str
    partition: int
    offset: int
    url: str
    body: bytes
    """UTF-8 (invalid bytes are tolerated and separate tokens)."""
    markup: bool
    """True for HTML, False for plain text."""
    event_time_ms: int
    """When the page was fetched, milliseconds since the epoch; never later than its message."""
    label: str = ""
    """The page's own name in its message, if it has one; only shown, never compared."""
    judgeable: bool = True
    """False: not text, or larger than the limit; only its digest is compared."""
    filtered: FilterReason = FilterReason.NOT
    """Anything else: it is passed on, meets no page and is never an original."""
    future_time: bool = False
    """True: its own time lay beyond its message's, and was set back to that; only counted."""
    rank: float | None = None
    """What policy.keep = highest or lowest goes by; None: it has none, and counts as the last of all."""


@dataclass(frozen=True, slots=True)
class BodyBatch:
    """The bodies of n pages, laid out for the kernels.

    buffer: uint8[N + KERNEL_PADDING_BYTES]  bounds: int64[n + 1]  markup: uint8[n] (1 = HTML)
    A page that cannot be judged has an empty range.
    """

    buffer: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    markup: NDArray[np.uint8]


def lay_out(pages: Sequence[Page]) -> BodyBatch:
    """Concatenate the bodies of pages into one padded buffer."""
    bodies = [page.body if page.judgeable else b"" for page in pages]
    bounds = bounds_of(np.fromiter(map(len, bodies), np.int64, len(bodies)))
    bodies.append(bytes(KERNEL_PADDING_BYTES))
    buffer = np.frombuffer(b"".join(bodies), np.uint8)
    markup = np.fromiter((page.markup for page in pages), np.uint8, len(pages))
    return BodyBatch(buffer, bounds, markup)


NO_RANK = 0
"""The word of a page without a rank: no finite number has it."""
_SIGN = np.uint64(1 << 63)


def rank_words(ranks: Sequence[float | None]) -> NDArray[np.uint64]:
    """Ranks, all finite -> uint64[n]; None stands for no rank, and -0.0 is 0.0."""
    if all(rank is None for rank in ranks):
        return np.zeros(len(ranks), np.uint64)
    bits = (np.array([0.0 if rank is None else rank for rank in ranks]) + 0.0).view(np.uint64)
    words = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    words[[rank is None for rank in ranks]] = NO_RANK
    return words


def ranks_of(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """uint64[n] -> float64[n]; nan where there is no rank."""
    bits = np.where(words & _SIGN != 0, words ^ _SIGN, ~words)
    return np.where(words == NO_RANK, np.nan, bits.view(np.float64))
