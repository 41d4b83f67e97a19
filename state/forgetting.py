"""Owns forgetting: the pages that a log record of kind 2 names, and what taking them out changes in a state.

    body = pages u32, page*
    page = entry number u64, partition i32, offset i64, source length u16, keys u32 (k), source (UTF-8), key u64[k]

All integers little endian; state/log/record.py has the record around the body.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spotsieve.state.index import Buckets, Removal, State

_COUNT = struct.Struct("<I")
_PAGE = struct.Struct("<QiqHI")

PageId = tuple[str, int, int]
"""(source, partition, offset)."""


class ForgottenPage(NamedTuple):
    """A filed page to be forgotten. number: of its entry  keys: of the buckets that hold its postings"""

    number: int
    source: str
    partition: int
    offset: int
    keys: tuple[int, ...]

    @property
    def page_id(self) -> PageId:
        """The page's id: an entry of that number that is another page's is left alone."""
        return self.source, self.partition, self.offset


def removal_of(pages: Sequence[ForgottenPage], state: State) -> Removal:
    """What the state still holds of these pages.

    Where an entry is gone already, or is another page's, the page is passed over: a record that came into the log twice
    changes nothing the second time. Raises CorruptRecord, StateError.
    """
    found = state.page_ids(np.array([page.number for page in pages], np.uint64))
    there = {page.number: page for page, page_id in zip(pages, found, strict=True) if page_id == page.page_id}
    numbers = np.array(list(there), np.uint64)
    keys = np.unique(np.array([key for page in there.values() for key in page.keys], np.uint64))
    held = state.buckets(keys)
    taken = np.isin(held.numbers, numbers)
    bucket = np.repeat(np.arange(len(keys)), np.diff(held.bounds))
    shrunk = np.unique(bucket[taken])
    kept = ~taken & np.isin(bucket, shrunk)
    sizes = np.bincount(np.searchsorted(shrunk, bucket[kept]), minlength=len(shrunk))
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ids = tuple(page.page_id for page in there.values())
    return Removal(ids, numbers, keys[shrunk], Buckets(bounds, held.numbers[kept], held.inlines[kept]))


def split_pages(pages: Iterable[ForgottenPage], max_bytes: int) -> Iterator[list[ForgottenPage]]:
    """Parts whose bodies stay within max_bytes, or hold one page."""
    part, size = list[ForgottenPage](), _COUNT.size
    for page in pages:
        more = _PAGE.size + len(page.source.encode()) + 8 * len(page.keys)
        if part and size + more > max_bytes:
            yield part
            part, size = [], _COUNT.size
        part.append(page)
        size += more
    if part:
        yield part


def encode_body(pages: Sequence[ForgottenPage]) -> bytes:
    """The body of a record of kind 2."""
    parts = [_COUNT.pack(len(pages))]
    for page in pages:
        source = page.source.encode()
        head = _PAGE.pack(page.number, page.partition, page.offset, len(source), len(page.keys))
        parts += (head, source, struct.pack(f"<{len(page.keys)}Q", *page.keys))
    return b"".join(parts)


def decode_body(body: bytes) -> tuple[ForgottenPage, ...]:
    """Raises ValueError or struct.error where the body is not as long as it declares, or names no page."""
    (count,) = _COUNT.unpack_from(body)
    pages, at = list[ForgottenPage](), _COUNT.size
    for _ in range(count):
        number, partition, offset, length, keys = _PAGE.unpack_from(body, at)
        source, at = body[at + _PAGE.size : at + _PAGE.size + length], at + _PAGE.size + length
        page = ForgottenPage(number, source.decode(), partition, offset, struct.unpack_from(f"<{keys}Q", body, at))
        pages.append(page)
        at += 8 * keys
    if at != len(body) or not pages:
        raise ValueError
    return tuple(pages)
