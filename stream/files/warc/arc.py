"""Reads ARC, the format before WARC, through warcio, as WARC records of the same captures.

warcio divides the file. Its own conversion gives records new random names, by which the same file would have other page
ids every time; here a record's name comes from its bytes.
"""

import io
import re
import uuid
from collections.abc import Iterator
from typing import Any

import xxhash
from warcio.archiveiterator import ARCIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeadersParserException
from warcio.timeutils import timestamp_to_iso_date

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.files.records import Record, too_large

_MAX_HEADER_BYTES = 64 * 2**10
_READ_AHEAD_BYTES = 2**20
"""warcio may read so much behind a header."""
_PIECE_BYTES = 2**16
_HTTP = b"HTTP/"
_DATE = re.compile(r"[0-9]{8,14}")


def split_arc(chunks: Iterator[bytes], name: str, max_record_bytes: int) -> Iterator[Record]:
    """The captures of an ARC file as WARC records; the head of the file is a warcinfo.

    Faults: TOO_LARGE, TRUNCATED, BAD_WARC (a header that does not say what it must).
    Raises InputError where the file is damaged, after the records before the damage.
    """
    source = _Chunks(chunks, name)
    iterator = _Captures(io.BufferedReader(source, _PIECE_BYTES), no_record_parse=True)
    number = 0
    try:
        while True:
            source.expect_header()
            capture = next(iterator, None)
            if capture is None:
                return
            source.expect_content()
            yield _record_of(capture, number, max_record_bytes)
            number += 1
    except (ArchiveLoadFailed, StatusAndHeadersParserException, EOFError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(
            name, f"must be whole ARC: {text}", None, "what came before was judged; get the file again"
        ) from None


class _Captures(ARCIterator):  # type: ignore[misc]  # warcio has no annotations
    """warcio tells of a record whose length is wrong on standard error; here it is found by its bytes."""

    INC_RECORD = ""


class _Chunks(io.RawIOBase):
    """The unfolded bytes of the file. It stops warcio from reading a header that never ends into memory."""

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks = chunks
        self._name = name
        self._rest = memoryview(b"")
        self._header_left: int | None = None

    def expect_header(self) -> None:
        """From here warcio reads a header."""
        self._header_left = _MAX_HEADER_BYTES + _READ_AHEAD_BYTES

    def expect_content(self) -> None:
        """From here warcio reads content, whose length is known."""
        self._header_left = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer with what comes next."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        if self._header_left is not None:
            self._header_left -= size
            if self._header_left < 0:
                rule = f"must be whole ARC, and a record's header is longer than {_MAX_HEADER_BYTES} bytes"
                raise InputError(self._name, rule, None, "look at the tool that wrote the file")
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _record_of(capture: Any, number: int, most: int) -> Record:
    fields = dict(capture.rec_headers.headers)
    head = " ".join(str(fields[name]) for name in ("uri", "ip-address", "archive-date", "content-type", "length"))
    content, size = _read(capture.raw_stream, most)
    shown = f"{head}\n".encode("utf-8", "replace") + content[:_PIECE_BYTES]
    if size > most:
        return too_large(number, shown, size, most)
    if size < (capture.length or 0):
        rule = f"must have {capture.length} bytes, and the file ends after {size}"
        return Record(number, shown, (RejectReason.TRUNCATED, rule))
    if not _DATE.fullmatch(fields["archive-date"]):
        return Record(number, shown, (RejectReason.BAD_WARC, "must have a date of 14 digits in its ARC header"))
    date = timestamp_to_iso_date(fields["archive-date"])
    raw = _as_warc(capture.rec_type == "arc_header", fields, date, head.encode("utf-8", "replace"), content)
    return Record(number, raw)


def _read(stream: Any, most: int) -> tuple[bytes, int]:
    """The content of a record, up to `most` bytes of it, and its whole length."""
    kept, size = bytearray(), 0
    while piece := stream.read(_PIECE_BYTES):
        size += len(piece)
        if size <= most:
            kept += piece
    return bytes(kept), size


def _as_warc(is_head: bool, fields: dict[str, str], date: str, head: bytes, content: bytes) -> bytes:
    uri, kind = fields["uri"], "resource"
    content_type = fields["content-type"]
    if is_head:
        kind = "warcinfo"
    elif content.startswith(_HTTP):
        kind, content_type = "response", "application/http; msgtype=response"
    name = uuid.UUID(bytes=xxhash.xxh3_128_digest(head + b"\n" + content))
    lines = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Record-ID: <urn:uuid:{name}>",
        f"WARC-Filename: {uri.removeprefix('filedesc://')}" if is_head else f"WARC-Target-URI: {uri}",
        f"WARC-Date: {date}",
        *([] if is_head else [f"WARC-IP-Address: {fields['ip-address']}"]),
        f"Content-Type: {content_type}",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + content + b"\r\n\r\n"
