"""Encodes and decodes the body of a record that forgets pages (kind 2).

    body = pages u32, page*
    page = entry number u64, partition i32, offset i64, source length u16, keys u32 (k; its highest bit says that the
           memory of the page's host goes too), source (UTF-8), key u64[k]

All integers are little endian. state/log/record.py has the record around the body.
"""

import struct
import sys
from collections.abc import Iterable, Iterator, Sequence

from spotsieve.state.forgetting import ForgottenPage
from spotsieve.stream.batches import batches

_COUNT = struct.Struct("<I")
_PAGE = struct.Struct("<QiqHI")
_WITH_HOST = 1 << 31


def split_pages(pages: Iterable[ForgottenPage], max_bytes: int) -> Iterator[list[ForgottenPage]]:
    """Cut the pages into parts. The body of each stays within max_bytes, or holds one page."""
    return batches(pages, sys.maxsize, max_bytes - _COUNT.size, _body_bytes)


def _body_bytes(page: ForgottenPage) -> int:
    return _PAGE.size + len(page.source.encode()) + 8 * len(page.keys)


def encode_body(pages: Sequence[ForgottenPage]) -> bytes:
    """Write the body of a record of kind 2."""
    parts = [_COUNT.pack(len(pages))]
    for page in pages:
        source = page.source.encode()
        keys = len(page.keys) | _WITH_HOST * page.with_host
        head = _PAGE.pack(page.number, page.partition, page.offset, len(source), keys)
        parts += (head, source, struct.pack(f"<{len(page.keys)}Q", *page.keys))
    return b"".join(parts)


def decode_body(body: bytes) -> tuple[ForgottenPage, ...]:
    """Read the body of a record of kind 2.

    Raises ValueError or struct.error where its length is not the declared one, or it names no page.
    """
    (count,) = _COUNT.unpack_from(body)
    pages, at = list[ForgottenPage](), _COUNT.size
    for _ in range(count):
        number, partition, offset, length, keys = _PAGE.unpack_from(body, at)
        source, at = body[at + _PAGE.size : at + _PAGE.size + length], at + _PAGE.size + length
        with_host, keys = bool(keys & _WITH_HOST), keys & ~_WITH_HOST
        words = struct.unpack_from(f"<{keys}Q", body, at)
        pages.append(ForgottenPage(number, source.decode(), partition, offset, words, with_host))
        at += 8 * keys
    if at != len(body) or not pages:
        raise ValueError
    return tuple(pages)
