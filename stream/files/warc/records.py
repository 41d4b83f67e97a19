"""Splits WARC into records, and extracts the page of a record (ISO 28500:2017, WARC 1.0 and 1.1).

FastWARC does not split the records, for two reasons. An emitted record is written byte-identically, which needs its
bytes. And FastWARC 2.0.1 with auto_decode lost the record after a chunked gzip payload.
"""

import fnmatch
import re
import uuid
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import xxhash

from spotsieve.stream.base.errors import InputError, PageError, RejectReason
from spotsieve.stream.files.compression import GzipMembers
from spotsieve.stream.files.file_format import MAX_RECORD_BYTES, SHOWN_BYTES, Capture, Record, too_large
from spotsieve.stream.files.warc.http import find_header, header_end, is_response, read_fields, read_http
from spotsieve.stream.sign.intake.fields import read_time

_VERSION = b"WARC/"
_NEXT_VERSION = re.compile(rb"\nWARC/", re.IGNORECASE)
_MAX_HEADER_BYTES = 64 * 2**10
_CLOSING = b"\r\n\r\n"
_PAGE_TYPES = frozenset({"response", "resource", "conversion"})
_COMPANION_TYPES = frozenset({"resource", "conversion", "metadata"})
_PART_FIELDS = ("warc-truncated", "warc-segment-number")
"""Fields of a record that holds only the beginning of a payload."""
_HTTP_TYPES = ("application/http", "message/http")


def split_warc(
    chunks: Iterator[bytes],
    max_record_bytes: int = MAX_RECORD_BYTES,
    number: int = 0,
    members: GzipMembers | None = None,
) -> Iterator[Record]:
    """WARC records with all their bytes, each up to the beginning of the next.

    number: of the first record  members: of the file, from its beginning, as chunks are taken

    Faults: BAD_WARC (no header or no Content-Length; the reader skips to the next record), TRUNCATED (the file ends
    within the record), TOO_LARGE. The InputError of a damaged file is raised after the last record.
    """
    window = _Window(chunks)
    while window.skip_line_ends():
        start = window.taken
        record = _next_record(window, number, max_record_bytes)
        yield record if members is None else _with_member(record, start, window, members)
        number += 1
    if window.fault is not None:
        raise window.fault


def capture_of(
    raw: bytes, max_body_bytes: int, missing_time_ms: int, companion_uris: Sequence[str] = ()
) -> Capture | None:
    """The page in a record, or None for a record without a page (warcinfo, request, metadata, revisit, DNS).

    A record that a crawler writes about a page is no page. companion_uris: patterns of the URIs of such records

    A response is HTTP by its Content-Type, or by its first bytes if it has another one or none. Payloads are decoded
    (chunks, Content-Encoding) up to max_body_bytes + 1, which is enough to see that one is too long. The payload of a
    record that is truncated, or is the first of several segments, is not whole.
    Raises PageError BAD_WARC or BAD_TIME.
    """
    end, fields = header_end(raw), read_record_fields(raw)
    kind = fields.get("warc-type", "").lower()
    if kind not in _PAGE_TYPES or is_about_page(fields, companion_uris):
        return None
    content_type = fields.get("content-type", "")
    block = raw[end : end + int(fields["content-length"])]
    is_http, url = holds_http(fields, block), uri_of(fields)
    if kind == "response" and not is_http:
        if content_type or not url.lower().startswith(("http:", "https:")):
            return None
        is_http = True  # A response without a Content-Type has an HTTP header, or is rejected.
    if not url:
        raise PageError(
            RejectReason.BAD_WARC,
            "WARC-Target-URI",
            "must be in the header of a response",
            None,
            "look at the tool that wrote the file",
        )
    time_ms = read_time(fields.get("warc-date"), missing_time_ms, "WARC-Date", years=True)
    is_part = any(fields.get(name) for name in _PART_FIELDS)
    if not is_http:
        return Capture(url, content_type or None, block, time_ms, None, fields, block if is_part else None)
    http = read_http(block, max_body_bytes)
    headers = {**http.fields, **fields}
    encoded = None if http.whole and not is_part else block[find_header(block)[1] :]
    return Capture(url, http.content_type, http.body, time_ms, http.status, headers, encoded)


def holds_http(fields: Mapping[str, str], block: bytes) -> bool:
    """Whether the block of a record is an HTTP message: by its Content-Type, or a response by its first bytes.

    fields: of the record's header, by their names in lower case
    """
    if fields.get("content-type", "").lower().startswith(_HTTP_TYPES):
        return True
    return fields.get("warc-type", "").lower() == "response" and is_response(block)


def uri_of(fields: Mapping[str, str]) -> str:
    """The WARC-Target-URI in the fields of a header, without angle brackets; "" for a header without a URI."""
    return fields.get("warc-target-uri", "").strip("<>")


def is_about_page(fields: Mapping[str, str], companion_uris: Sequence[str]) -> bool:
    """Whether a crawler wrote the record about a page, such as the page's text or a screenshot.

    fields: of the record's header, by their names in lower case
    companion_uris: patterns of the URIs of such records; * matches any text
    """
    if fields.get("warc-type", "").lower() not in _COMPANION_TYPES:
        return False
    return _uri_pattern(tuple(companion_uris)).match(uri_of(fields)) is not None


@lru_cache(maxsize=8)
def _uri_pattern(companion_uris: tuple[str, ...]) -> re.Pattern[str]:
    patterns = (fnmatch.translate(pattern.replace("[", "[[]").replace("?", "[?]")) for pattern in companion_uris)
    return re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)


def is_revisit(fields: Mapping[str, str]) -> bool:
    """Whether a record says that a page was fetched again and had not changed; it has no body to judge.

    fields: of the record's header, by their names in lower case
    """
    return fields.get("warc-type", "").lower() == "revisit"


def read_record_fields(raw: bytes) -> dict[str, str]:
    """The fields of a record's header by their names in lower case; the first of equals counts."""
    return read_fields(raw[: header_end(raw)])


def build_record(fields: Mapping[str, str], content: bytes, origin: bytes = b"") -> bytes:
    """A record of WARC/1.0, whose name is a digest of its content and its origin, so that it is the same in each run.

    fields: of its header, beside WARC-Record-ID and Content-Length  origin: the header in the source of the record
    """
    name = uuid.UUID(bytes=xxhash.xxh3_128_digest(origin + b"\n" + content))
    own = {"WARC-Record-ID": f"<urn:uuid:{name}>", **fields, "Content-Length": str(len(content))}
    lines = ["WARC/1.0", *(f"{field}: {value}" for field, value in own.items())]
    return "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + content + _CLOSING


def closed(raw: bytes) -> bytes:
    """A record with the line ends that close it: the last one of a file may lack them, and then no other may follow."""
    end = header_end(raw)
    length = read_fields(raw[:end]).get("content-length", "") if end >= 0 else ""
    closing = raw[end + int(length) :] if length.isascii() and length.isdigit() else _CLOSING
    return raw + _CLOSING[len(closing) :] if _CLOSING.startswith(closing) else raw


def _next_record(window: "_Window", number: int, most: int) -> Record:
    end = window.find_header_end()
    if not window.starts_with_version() or end < 0:
        cut = window.ended and window.starts_with_version()
        shown = window.skip_to_next_record()
        if cut:
            return Record(number, shown, (RejectReason.TRUNCATED, "must have a whole header, and the file ends in it"))
        rule = f"must begin with WARC/ and have a header of at most {_MAX_HEADER_BYTES} bytes"
        return Record(number, shown, (RejectReason.BAD_WARC, rule))
    length = read_fields(window.peek(end)).get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        shown = window.skip_to_next_record()
        return Record(number, shown, (RejectReason.BAD_WARC, "must have a Content-Length"))
    size = end + int(length)
    if size > most:
        return too_large(number, window.skip(size), size, most)
    raw = window.take(size)
    if len(raw) < size:
        return Record(
            number, raw, (RejectReason.TRUNCATED, f"must have {size} bytes, and the file ends after {len(raw)}")
        )
    return Record(number, raw + window.take_line_ends())


def _with_member(record: Record, start: int, window: "_Window", members: GzipMembers) -> Record:
    """The record with the member that it is. start: where it begins in the file; the window has just taken it"""
    end = window.taken
    if members.may_end(start, end):
        window.more()  # The checksum that ends the member is still to come.
    packed = None if record.fault is not None else members.of(start, end)
    return record if packed is None else replace(record, packed=packed)


class _Window:
    """The part of the file in memory. It grows as far as a record needs, and remembers the fault of a damaged file.

    taken: how many bytes of the file lie before it
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._data = bytearray()
        self.taken = 0
        self.fault: InputError | None = None
        self.ended = False

    def starts_with_version(self) -> bool:
        return self._data[: len(_VERSION)].upper() == _VERSION

    def peek(self, size: int) -> bytes:
        return bytes(self._data[:size])

    def skip_line_ends(self) -> bool:
        """Skip stray line ends and byte order marks; False at the end of the file."""
        while True:
            if self.take_line_ends():
                continue
            self._fill(len(_VERSION))
            if not self._data.startswith(BOM_UTF8):
                return bool(self._data)
            self._drop(len(BOM_UTF8))

    def find_header_end(self) -> int:
        """Length of the header with its empty line, or -1 if none ends within _MAX_HEADER_BYTES."""
        while True:
            # With no limit a file of line feeds alone would be searched to its end for every record.
            end = header_end(self._data, _MAX_HEADER_BYTES)
            if end >= 0:
                return end
            if len(self._data) >= _MAX_HEADER_BYTES or not self.more():
                return -1

    def take(self, size: int) -> bytes:
        self._fill(size)
        raw = bytes(self._data[:size])
        self._drop(len(raw))
        return raw

    def take_line_ends(self) -> bytes:
        """Remove and return the line ends that close a record, two at most."""
        self._fill(len(_CLOSING))
        head = self.peek(len(_CLOSING))
        raw = head[: len(head) - len(head.lstrip(b"\r\n"))]
        self._drop(len(raw))
        return raw

    def skip(self, size: int) -> bytes:
        """Skip so many bytes without holding them; returns the first ones."""
        shown = self.peek(min(size, SHOWN_BYTES))
        while size:
            step = min(size, len(self._data))
            self._drop(step)
            size -= step
            if size and not self.more():
                break
        return shown

    def skip_to_next_record(self) -> bytes:
        """Skip to the next line that begins with WARC/; returns the first bytes skipped."""
        shown = self.peek(SHOWN_BYTES)
        start = 1
        while True:
            found = _NEXT_VERSION.search(self._data, start)
            if found is not None:
                self._drop(found.start() + 1)
                return shown
            self._drop(max(len(self._data) - len(_VERSION), 0))
            start = 0
            if not self.more():
                self._drop(len(self._data))
                return shown

    def _drop(self, size: int) -> None:
        del self._data[:size]
        self.taken += size

    def _fill(self, size: int) -> None:
        while len(self._data) < size and self.more():
            pass

    def more(self) -> bool:
        """Read on; False where the file has ended."""
        if self.ended:
            return False
        try:
            chunk = next(self._chunks, None)
        except InputError as error:
            self.fault, chunk = error, None
        if chunk is None:
            self.ended = True
            return False
        self._data += chunk
        return True
