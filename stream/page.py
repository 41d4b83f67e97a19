"""A page before it has a signature: its id, its bytes, and a columnar batch of pages."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of

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
