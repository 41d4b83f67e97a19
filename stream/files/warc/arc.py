"""Reads ARC, the predecessor of WARC, with warcio, as WARC records of the same captures.

warcio splits the file. Its own conversion to WARC gives records random names, so the same file would get other page ids
in each run. Here the name of a record is a digest of its bytes.
"""

import io
import re
from collections.abc import Iterator
from typing import Any

from warcio.archiveiterator import ARCIterator
from warcio.exceptions import ArchiveLoadFailed
from warcio.statusandheaders import StatusAndHeadersParserException
from warcio.timeutils import timestamp_to_iso_date

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.files.compression import damaged_file
from spotsieve.stream.files.file_format import Record, too_large
from spotsieve.stream.files.warc.http import is_response
from spotsieve.stream.files.warc.records import build_record

_MAX_HEADER_BYTES = 64 * 2**10
_READ_AHEAD_BYTES = 2**20
"""Bytes that warcio may read beyond a header."""
_PIECE_BYTES = 2**16
_DATE = re.compile(r"[0-9]{8,14}")


def split_arc(chunks: Iterator[bytes], name: str, max_record_bytes: int) -> Iterator[Record]:
    """The captures of an ARC file as WARC records. The file's version block becomes a warcinfo record.

    name: the name of the file, for errors
    Faults: TOO_LARGE, TRUNCATED, BAD_WARC (no date of 14 digits in the header).
    Raises InputError for damage, after the records before it.
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
        raise damaged_file(name, "ARC", " ".join(str(error).split())[:200]) from None


class _Captures(ARCIterator):  # type: ignore[misc]  # warcio has no annotations
    """warcio's iterator without its message on standard error about a wrong length. _record_of detects such records."""

    INC_RECORD = ""


class _Chunks(io.RawIOBase):
    """The decompressed bytes of the file, for warcio. It limits headers, so that none can fill the memory."""

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks = chunks
        self._name = name
        self._rest = memoryview(b"")
        self._header_left: int | None = None

    def expect_header(self) -> None:
        """Limit the next reads, because warcio reads a header."""
        self._header_left = _MAX_HEADER_BYTES + _READ_AHEAD_BYTES

    def expect_content(self) -> None:
        """Remove the limit, because warcio reads content of known length."""
        self._header_left = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes into the buffer; return how many."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        if self._header_left is not None:
            self._header_left -= size
            if self._header_left < 0:
                rule = f"is damaged ARC: the header of a record is longer than {_MAX_HEADER_BYTES} bytes"
                raise InputError(self._name, rule, None, "check the tool that wrote the file")
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
    """The content of a record, up to `most` bytes of it, and its full length."""
    content, size = bytearray(), 0
    while piece := stream.read(_PIECE_BYTES):
        size += len(piece)
        if size <= most:
            content += piece
    return bytes(content), size


def _as_warc(is_head: bool, fields: dict[str, str], date: str, head: bytes, content: bytes) -> bytes:
    uri, kind = fields["uri"], "resource"
    content_type = fields["content-type"]
    if is_head:
        kind = "warcinfo"
    elif is_response(content):
        kind, content_type = "response", "application/http; msgtype=response"
    header = {"WARC-Type": kind, "WARC-Date": date, "Content-Type": content_type}
    if is_head:
        header["WARC-Filename"] = uri.removeprefix("filedesc://")
    else:
        header |= {"WARC-Target-URI": uri, "WARC-IP-Address": fields["ip-address"]}
    return build_record(header, content, head)
