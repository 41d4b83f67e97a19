"""Decodes the payload of an HTTP response: header, chunks, Content-Encoding."""

import contextlib
import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import zstandard
from fastwarc.stream_io import BrotliReader

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.files.compression import compression_of

MAX_HEADER_BYTES = 256 * 2**10
"""The limit of browsers. A header of 60 MB would take gigabytes as fields."""
MAX_CODINGS = 5
"""A body may be encoded so many times over, as in curl. Each of thousands of codings that hardly shrink it would be
unfolded to a whole page."""
_BROTLI_STEP = 64
"""A reader of Brotli that comes to the end of a cut body gives nothing of the bytes that it was asked for last."""
_MAGIC_BYTES = 4
"""Bytes by which the header of another member or frame is recognised."""
_FIRST_INFLATED_BYTES = 1024
"""Each further piece of a member is twice as long. So the bytes behind a member, which zlib copies, are at most as many
as the member's own and these, and the time stays linear for any number of members."""
_ZSTD_PIECE_BYTES = 256
"""zstandard cannot limit the output of a piece. 256 bytes unfold to at most 8 MB (a block of 4 bytes to 128 KB)."""


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
            return _inflate_members(body, most, 31, lambda head: compression_of(head) == "gzip")
        if encoding == "deflate":
            return _inflate(body, most)
        if encoding == "br":
            return _unbrotli(body, most)
        if encoding == "zstd":
            return _decode_frames(body, most)
    except (zlib.error, zstandard.ZstdError, OSError):
        pass
    return body


def _inflate(body: bytes, most: int) -> bytes:
    # "deflate" means zlib (RFC 9110, sec. 8.4.1.2), but some servers send the bare stream. It has no header that
    # distinguishes a second stream from garbage, so only its first one is decoded.
    try:
        return _inflate_members(body, most, zlib.MAX_WBITS, _begins_zlib)
    except zlib.error:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(body, most)


def _begins_zlib(head: bytes) -> bool:
    """Whether bytes begin with the header of a zlib stream without a dictionary (RFC 1950, sec. 2.2)."""
    method, flags = head[:2] if len(head) >= 2 else (0, 0)
    return method & 15 == 8 and method >> 4 <= 7 and not flags & 32 and (method << 8 | flags) % 31 == 0


def _inflate_members(body: bytes, most: int, wbits: int, begins: Callable[[bytes], bool]) -> bytes:
    """The content of all members of a body, up to `most` bytes. Raises zlib.error for a damaged member.

    wbits: the format, as zlib numbers it
    begins: whether bytes begin with the header of a member; any other bytes behind a complete member are ignored
    """
    decoded, place = bytearray(), 0
    while True:
        member, size = zlib.decompressobj(wbits=wbits), _FIRST_INFLATED_BYTES
        while not member.eof and place < len(body) and len(decoded) < most:
            decoded += member.decompress(body[place : place + size], most - len(decoded))
            place += size
            size *= 2
        place = min(place, len(body)) - len(member.unused_data)
        if not member.eof or not begins(body[place : place + _MAGIC_BYTES]):
            return bytes(decoded)


def _decode_frames(body: bytes, most: int) -> bytes:
    """The content of all zstd frames of a body, up to `most` bytes. Raises zstandard.ZstdError for a damaged frame.

    Bytes behind a complete frame that begin no other are ignored.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**27)
    try:
        return decompressor.stream_reader(body, read_across_frames=True).read(most)
    except zstandard.ZstdError:
        pass  # The reader gives nothing of frames before garbage, so they are decoded again, each by itself.
    decoded, place = bytearray(), 0
    while True:
        frame = decompressor.decompressobj()
        while not frame.eof and place < len(body) and len(decoded) < most:
            decoded += frame.decompress(body[place : place + _ZSTD_PIECE_BYTES])
            place += _ZSTD_PIECE_BYTES
        place = min(place, len(body)) - len(frame.unused_data)
        if not frame.eof or compression_of(body[place : place + _MAGIC_BYTES]) != "zstd":
            return bytes(decoded[:most])


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
