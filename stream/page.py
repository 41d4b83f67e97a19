"""Owns what a page is before it has a signature: its id, its bytes, and a columnar batch of pages."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KERNEL_PADDING_BYTES = 128
"""Zero bytes after the last page of a batch: a kernel may load whole vectors without a bounds check."""
MOST_KEPT_BYTES = 64 * 2**20
"""Of the buffer that a thread keeps for its next batch; larger batches get one of their own."""


@dataclass(frozen=True, slots=True)
class Page:
    """One crawled document.

    The page id is (source, partition, offset): topic, partition, offset in Kafka; path, 0, record number in files.
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
    """When the page was fetched, milliseconds since the epoch."""
    label: str = ""
    """The page's own name in its message, if it has one; only shown, never compared."""
    judgeable: bool = True
    """False: not text, or larger than the limit; only its digest is compared."""


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
    """Copy the bodies of pages into one padded buffer.

    The buffer is the thread's own and is written over by its next batch: fresh memory for every batch costs twice the
    copying, in page faults.
    """
    bodies = [page.body if page.judgeable else b"" for page in pages]
    bounds = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, bodies), np.int64, len(bodies)), out=bounds[1:])
    buffer = _room(int(bounds[-1]) + KERNEL_PADDING_BYTES)
    into = buffer.data
    for body, start, end in zip(bodies, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        into[start:end] = body
    buffer[bounds[-1] :] = 0
    markup = np.fromiter((page.markup for page in pages), np.uint8, len(pages))
    return BodyBatch(buffer, bounds, markup)


_kept = threading.local()


def _room(size: int) -> NDArray[np.uint8]:
    """uint8[size], contents undefined; the same memory as at this thread's call before, where it is large enough."""
    if size > MOST_KEPT_BYTES:
        return np.empty(size, np.uint8)
    room: NDArray[np.uint8] | None = getattr(_kept, "room", None)
    if room is None or len(room) < size:
        room = _kept.room = np.empty(min(max(2 * size, 2**20), MOST_KEPT_BYTES), np.uint8)
    return room[:size]
