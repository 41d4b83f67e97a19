"""Decodes the payload of an HTTP response: header, chunks, Content-Encoding."""

import contextlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import zstandard
from fastwarc.stream_io import BrotliReader

from spotsieve.stream.base.errors import PageError, RejectReason

MAX_HEADER_BYTES = 256 * 2**10
"""The limit of browsers. A header of 60 MB would take gigabytes as fields."""
MAX_CODINGS = 5
"""A body may be encoded so many times over, as in curl. Each of thousands of codings that hardly shrink it would be
unfolded to a whole page."""
_BROTLI_STEP = 64
"""A reader of Brotli that comes to the end of a cut body gives nothing of the bytes that it was asked for last."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Content-Type and status as sent, and the body as a browser would see it. status: None where it is no number

    fields: of the header, by their names in lower case
    """

    content_type: str | None
    body: bytes
    status: int | None
    fields: Mapping[str, str]


def read_http(block: bytes, max_body_bytes: int) -> HttpResponse:
    """The response in a block of bytes, with at most max_body_bytes + 1 bytes of the unfolded body.

    Crawlers store bodies as sent, or unfolded under the old headers. So a body that is not what the headers say is
    taken as it is, and a body that is cut gives as much as can be unfolded. Raises PageError BAD_WARC.
    """
    end = header_end(block, MAX_HEADER_BYTES)
    head, body = (block[:end], block[end:]) if end >= 0 else (block, b"")
    if not head.startswith(b"HTTP/") or len(head) > MAX_HEADER_BYTES:
        raise PageError(
            RejectReason.BAD_WARC,
            "HTTP response",
            f"must begin with a status line and have a header of at most {MAX_HEADER_BYTES} bytes",
            head[:60].decode("latin-1"),
            "look at the tool that wrote the file",
        )
    fields: dict[str, str] = {}
    for line in head.decode("latin-1").split("\n")[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = _join_chunks(body)
    encodings = [name.strip() for name in fields.get("content-encoding", "").lower().split(",")]
    if len(encodings) > MAX_CODINGS:
        raise PageError(
            RejectReason.BAD_WARC,
            "Content-Encoding",
            f"must name at most {MAX_CODINGS} codings",
            len(encodings),
            "unfold the body before it is written, or leave the page out",
        )
    for encoding in reversed(encodings):
        body = _unfold(body, encoding, max_body_bytes + 1)
    return HttpResponse(fields.get("content-type"), body, _status_of(head), fields)


def _status_of(head: bytes) -> int | None:
    _, _, rest = head[:64].partition(b" ")
    digits = rest.lstrip()[:3]
    return int(digits) if len(digits) == 3 and digits.isdigit() else None


def header_end(data: bytes | bytearray, most: int | None = None) -> int:
    """The place behind the empty line that ends a header, or -1 if the first `most` bytes have none.

    Lines may also end with LF alone, the empty one too.
    """
    crlf = data.find(b"\n\r\n", 0, most)
    lf = data.find(b"\n\n", 0, crlf if crlf >= 0 else most)
    if lf >= 0:
        return lf + 2
    return crlf + 3 if crlf >= 0 else -1


def _join_chunks(body: bytes) -> bytes:
    """Join chunks (RFC 9112, sec. 7.1). A body without chunks stays as it is; a cut one gives the chunks it has."""
    joined = bytearray()
    place = 0
    while True:
        line_end = body.find(b"\n", place, place + 1024)
        try:
            size = int(body[place : line_end if line_end >= 0 else place].split(b";")[0].strip(), 16)
        except ValueError:
            return bytes(joined) if joined else body
        if size <= 0:
            return bytes(joined)
        joined += body[line_end + 1 : line_end + 1 + size]
        place = line_end + 1 + size
        place += len(body[place : place + 2]) - len(body[place : place + 2].lstrip(b"\r\n"))


def _unfold(body: bytes, encoding: str, most: int) -> bytes:
    try:
        if encoding in ("gzip", "x-gzip"):
            return zlib.decompressobj(wbits=31).decompress(body, most)
        if encoding == "deflate":
            return _inflate(body, most)
        if encoding == "br":
            return _unbrotli(body, most)
        if encoding == "zstd":
            return zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(body).read(most)
    except (zlib.error, zstandard.ZstdError, OSError):
        pass
    return body


def _inflate(body: bytes, most: int) -> bytes:
    # "deflate" means zlib (RFC 9110, sec. 8.4.1.2), but some servers send the bare stream.
    try:
        return zlib.decompressobj().decompress(body, most)
    except zlib.error:
        return zlib.decompressobj(wbits=-15).decompress(body, most)


class _WatchedBody(io.BytesIO):
    """at_end: whether more was asked for than there is, as of a body that is cut, and not of one that is no Brotli"""

    at_end = False

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.at_end |= not data
        return data


def _unbrotli(body: bytes, most: int) -> bytes:
    watched = _WatchedBody(body)
    try:
        return bytes(BrotliReader(watched).read(most)) if body else body
    except OSError:
        if not watched.at_end:
            raise
    reader, unfolded = BrotliReader(io.BytesIO(body)), bytearray()
    with contextlib.suppress(OSError):
        while len(unfolded) < most and (piece := reader.read(min(_BROTLI_STEP, most - len(unfolded)))):
            unfolded += piece
    return bytes(unfolded) or body
