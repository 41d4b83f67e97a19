"""Decodes the payload of an HTTP response: header, Transfer-Encoding, Content-Encoding."""

import contextlib
import io
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import zstandard
from fastwarc.stream_io import BrotliReader

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.files.compression import compression_of

MAX_HEADER_BYTES = 256 * 2**10
"""The limit of browsers. A header of 60 MB would take gigabytes as fields."""
MAX_CODINGS = 5
"""A body may be encoded so many times over, as in curl. Each of thousands of codings that hardly shrink it would be
decoded to a whole page."""
_STATUS_LINE = re.compile(rb"HTTPS?/|(?:HTTPS?[0-9.]*|ICY)[ \t]+[0-9]{3}(?![0-9])", re.IGNORECASE)
"""The beginning of a status line. Some servers write "HTTP 200 OK" or "HTTP1.1 200 OK", and SHOUTcast "ICY 200 OK"."""
_INTERIM = re.compile(rb"\S+[ \t]+(?:1[0-9]{2}(?![0-9])|200[ \t]+connection established)", re.IGNORECASE)
"""The beginning of a response that another one follows. A proxy sends the second form before it forwards bytes."""
_MOST_INTERIM = 5
_SIZE_LINE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,1000})[ \t]*(?:;[^\n]{0,1000})?(\r?\n)")
_TRAILER = re.compile(rb"(?:(?:[A-Za-z][-\w]*+:[^\n]*+|[ \t\r]*+)\n)*+(?:[A-Za-z][-\w]*+:.*+|[ \t\r]*+)\Z")
"""The fields behind the last chunk."""
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_CHECKSUM, _GZIP_EXTRA, _GZIP_NAME, _GZIP_COMMENT = 2, 4, 8, 16
_GZIP_TRAILER_BYTES = 8
_ZLIB_TRAILER_BYTES = 4
_MOST_DIGITS = 16
_BROTLI_STEP = 64
"""A reader of Brotli that comes to the end of a cut body gives nothing of the bytes that it was asked for last."""
_MAGIC_BYTES = 4
"""Bytes by which the header of another member or frame is recognised."""
_MOST_UNUSED_BYTES = 8
"""Bytes behind a bare deflate stream, such as a checksum. A text that begins like a stream has more."""
_MOST_GROWN_BYTES = 16
"""Bytes that a coding adds to a short body or to one that it cannot shrink, with one in 1,024."""
_FIRST_INFLATED_BYTES = 1024
"""Each further piece of a member is twice as long. So the bytes behind a member, which zlib copies, are at most as many
as the member's own and these, and the time stays linear for any number of members."""
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_HEADER_BYTES = 18
"""The longest header of a frame."""
_READ_BYTES = 2**17


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Content-Type (all lines, joined) and status as sent, and the body as a browser would see it.

    status: None where it is no number
    fields: of the header, by their names in lower case
    whole: whether every coding of the body could be decoded to its end
    """

    content_type: str | None
    body: bytes
    status: int | None
    fields: Mapping[str, str]
    whole: bool = True


def read_http(block: bytes, max_body_bytes: int) -> HttpResponse:
    """The response in a block of bytes, with at most max_body_bytes + 1 bytes of the unfolded body.

    Interim responses before it (100, 103, or that of a proxy which opens a connection) are skipped.

    Crawlers store bodies as sent, or decoded under the old headers. So a body that does not begin like its coding is
    taken as it is. A body that is cut or damaged gives as much as can be decoded. Raises PageError BAD_WARC.
    """
    start, end = find_header(block, MAX_HEADER_BYTES)
    head, body = block[start:end], block[end:]
    if not is_response(head) or len(head) > MAX_HEADER_BYTES:
        raise PageError(
            RejectReason.BAD_WARC,
            "HTTP response",
            f"must begin with a status line and have a header of at most {MAX_HEADER_BYTES} bytes",
            head[:60].decode("latin-1"),
            "look at the tool that wrote the file",
        )
    lines = field_lines(head.decode("latin-1"))
    fields = first_values(lines)
    transfer, content = _codings(lines, "transfer-encoding"), _codings(lines, "content-encoding")
    if len(transfer) + len(content) > MAX_CODINGS:
        raise PageError(
            RejectReason.BAD_WARC,
            "Content-Encoding",
            f"must name at most {MAX_CODINGS} codings, with those of Transfer-Encoding",
            len(transfer) + len(content),
            "decode the body before it is written, or leave the page out",
        )
    whole, sent_bytes = True, len(body)
    for coding in reversed(content + transfer):
        if coding == "chunked":
            joined = _join_chunks(body)
            body, whole = joined.text, whole and joined.whole
        elif (decoded := _decode(body, coding, max_body_bytes + 1)) is not None:
            # A body may be cut between two members. Then only its length tells.
            body, whole = decoded.text, whole and decoded.whole and not _is_shorter(sent_bytes, fields)
    return HttpResponse(_content_type(lines), body, _status_of(head), fields, whole)


def is_response(block: bytes) -> bool:
    """Whether a block of bytes begins with a status line."""
    return _STATUS_LINE.match(block) is not None


def _is_shorter(sent_bytes: int, fields: Mapping[str, str]) -> bool:
    """Whether a body has fewer bytes than its Content-Length says."""
    length = fields.get("content-length", "")
    return length.isascii() and length.isdigit() and len(length) < _MOST_DIGITS and sent_bytes < int(length)


def _content_type(lines: Sequence[tuple[str, str]]) -> str | None:
    """The values of all Content-Type lines, joined by commas as in the Fetch standard: the last valid type counts."""
    return ", ".join(value for name, value in lines if name.lower() == "content-type" and value) or None


def _codings(lines: Sequence[tuple[str, str]], field: str) -> list[str]:
    """The codings in all lines of a field, in the order of their application. identity is none."""
    values = (value for name, value in lines if name.lower() == field)
    codings = (coding.strip().lower() for value in values for coding in value.split(","))
    return [coding for coding in codings if coding not in ("", "identity")]


def _status_of(head: bytes) -> int | None:
    words = head[:64].split(None, 2)
    digits = words[1][:3] if len(words) > 1 else b""
    return int(digits) if len(digits) == 3 and digits.isdigit() else None


def find_header(block: bytes, most: int | None = None) -> tuple[int, int]:
    """Start and end of the HTTP header of a block, behind interim responses. Without an empty line all is header.

    most: the longest header, in bytes
    """
    start, end = 0, header_end(block, most)
    for _ in range(_MOST_INTERIM):
        if end < 0 or not _INTERIM.match(block, start) or not _STATUS_LINE.match(block, end):
            break
        start, end = end, header_end(block, most, end)
    return start, end if end >= 0 else len(block)


def header_end(data: bytes | bytearray, most: int | None = None, start: int = 0) -> int:
    """The place behind the empty line that ends a header, or -1 if its first `most` bytes have none.

    Lines may also end with LF alone, or with CR CR LF, the empty one too.
    """
    end, stop = -1, None if most is None else start + most
    for empty_line in (b"\n\r\n", b"\n\n", b"\n\r\r\n"):
        place = data.find(empty_line, start, stop)
        if place >= 0:
            end, stop = place + len(empty_line), place
    return end


def read_fields(head: bytes) -> dict[str, str]:
    """The fields of a WARC header by their names in lower case; the first of equals counts."""
    return first_values(field_lines(head.decode("utf-8", "replace")))


def first_values(lines: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The value of the first line of each field, by its name in lower case."""
    return {name.lower(): value for name, value in reversed(lines)}


def field_lines(head: str) -> list[tuple[str, str]]:
    """Name and value of every field of a header, whose first line is none. Folded lines are joined."""
    found = list[tuple[str, list[str]]]()
    joining = False
    for line in head.split("\n")[1:]:
        if line[:1] in (" ", "\t") and joining:
            found[-1][1].append(line.strip())
            continue
        name, colon, value = line.partition(":")
        joining = bool(colon and name.strip())
        if joining:
            found.append((name.strip(), [value.strip()]))
    return [(name, " ".join(filter(None, values))) for name, values in found]


class _DecodedPayload(NamedTuple):
    """The decoded part of a body. whole: whether the body was decoded to its end"""

    text: bytes
    whole: bool = True


def _join_chunks(body: bytes) -> _DecodedPayload:
    """Join chunks (RFC 9112, sec. 7.1). A body without chunks stays as it is; a cut one gives the chunks it has."""
    if not _begins_with_chunk(body):
        return _DecodedPayload(body)
    joined = bytearray()
    place = 0
    while line := _SIZE_LINE.match(body, place):
        size = min(int(line[1], 16), len(body))
        if size == 0:
            return _DecodedPayload(bytes(joined))
        joined += body[line.end() : line.end() + size]
        place = line.end() + size
        place += len(body[place : place + 2]) - len(body[place : place + 2].lstrip(b"\r\n"))
    return _DecodedPayload(bytes(joined), whole=False)


def _begins_with_chunk(body: bytes) -> bool:
    """Whether a body begins with a chunk, and not with text whose first line is a number."""
    line = _SIZE_LINE.match(body)
    if line is None:
        return False
    end = line.end() + int(line[1], 16)
    if end == line.end():
        return _TRAILER.match(body, end) is not None
    return body[end : end + 1] in (b"\n", b"\r", b"") and (end <= len(body) or line[2] == b"\r\n")


def _decode(body: bytes, coding: str, most: int) -> _DecodedPayload | None:
    """Decode one coding of a body, up to `most` bytes; None for a body that does not begin like the coding."""
    decoded: _DecodedPayload | None = None
    if coding in ("gzip", "x-gzip"):
        decoded = _decode_members(body, most, _gzip_header, _GZIP_TRAILER_BYTES)
    elif coding == "deflate":
        decoded = _decode_members(body, most, _zlib_header, _ZLIB_TRAILER_BYTES)
        if decoded is None:
            decoded = _inflate_bare(body, most)
    elif coding == "br":
        decoded = _decode_brotli(body, most)
    elif coding == "zstd":
        decoded = _decode_frames(body, most)
    return decoded


def _decode_members(
    body: bytes, most: int, header_size: Callable[[bytes, int], int], trailer_bytes: int
) -> _DecodedPayload | None:
    """The content of all members of a body, up to `most` bytes; None if it begins with no readable member.

    Like browsers, this ignores a wrong checksum or length behind the content of a member.

    header_size: the size of the header of a member at an offset, 0 for other bytes, which are ignored behind a whole
    member, or -1 for a header that is cut
    trailer_bytes: the size of the checksum and length behind the content
    """
    size_of_header = header_size(body, 0)
    if not size_of_header:
        return None
    decoded, place = bytearray(), 0
    while size_of_header > 0:
        place += size_of_header
        member, size = zlib.decompressobj(wbits=-zlib.MAX_WBITS), _FIRST_INFLATED_BYTES
        while not member.eof and place < len(body) and len(decoded) < most:
            try:
                decoded += member.decompress(body[place : place + size], most - len(decoded))
            except zlib.error:
                return _DecodedPayload(bytes(decoded), whole=False) if decoded else None
            place += size
            size *= 2
        if not member.eof:
            return _DecodedPayload(bytes(decoded), whole=len(decoded) >= most)
        place = min(place, len(body)) - len(member.unused_data) + trailer_bytes
        size_of_header = header_size(body, place)
    return _DecodedPayload(bytes(decoded), whole=size_of_header == 0 and place <= len(body))


def _gzip_header(body: bytes, start: int) -> int:
    """The size of a gzip header (RFC 1952, sec. 2.3)."""
    if not body.startswith(_GZIP_MAGIC, start):
        return -1 if _ends_within(body, start, _GZIP_MAGIC) else 0
    flags, place = (body[start + 3], start + 10) if len(body) >= start + 10 else (0, -1)
    if place >= 0 and flags & _GZIP_EXTRA:
        place += 2 + int.from_bytes(body[place : place + 2], "little")
    for flag in (_GZIP_NAME, _GZIP_COMMENT):
        if 0 <= place <= len(body) and flags & flag:
            place = body.find(b"\0", place) + 1 or -1
    if place >= 0 and flags & _GZIP_CHECKSUM:
        place += 2
    return place - start if 0 <= place <= len(body) else -1


def _zlib_header(body: bytes, start: int) -> int:
    """The size of the header of a zlib stream without a dictionary (RFC 1950, sec. 2.2)."""
    if len(body) < start + 2:
        return 0
    method, flags = body[start], body[start + 1]
    is_header = method & 15 == 8 and method >> 4 <= 7 and not flags & 32 and (method << 8 | flags) % 31 == 0
    return 2 if is_header else 0


def _inflate_bare(body: bytes, most: int) -> _DecodedPayload | None:
    """A deflate stream without a header, which some servers send as "deflate"; None for other bytes.

    It has no header that distinguishes a stream from text that begins like one. So a stream with many bytes behind its
    end, or that has more bytes than its content, is none.
    """
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        text = stream.decompress(body, most)
    except zlib.error:
        return None
    unused_bytes = len(stream.unused_data)
    read_bytes = len(body) - unused_bytes - len(stream.unconsumed_tail)
    if unused_bytes > _MOST_UNUSED_BYTES or _is_shrunk(text, read_bytes):
        return None
    return _DecodedPayload(text, whole=stream.eof or len(text) >= most or not body)


def _is_shrunk(text: bytes | bytearray, encoded_bytes: int) -> bool:
    """Whether a text has so few bytes that no coding has made these bytes of it."""
    return len(text) + _MOST_GROWN_BYTES + (encoded_bytes >> 10) < encoded_bytes


def _ends_within(body: bytes, start: int, magic: bytes) -> bool:
    """Whether a body ends with the first bytes of a magic number at an offset."""
    return start < len(body) < start + len(magic) and magic.startswith(body[start:])


def _decode_frames(body: bytes, most: int) -> _DecodedPayload | None:
    """The content of all zstd frames of a body, up to `most` bytes; None if it begins with no frame.

    Bytes behind a complete frame that begin no other are ignored.
    """
    if compression_of(body[:_MAGIC_BYTES]) != "zstd":
        return None
    end, whole = _end_of_frames(body)
    reader = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
        memoryview(body)[:end], read_across_frames=True
    )
    decoded = bytearray()
    try:
        while len(decoded) < most and (piece := reader.read(min(_READ_BYTES, most - len(decoded)))):
            decoded += piece
    except zstandard.ZstdError:
        return _DecodedPayload(bytes(decoded), whole=False)
    return _DecodedPayload(bytes(decoded), whole=whole or len(decoded) >= most)


def _end_of_frames(body: bytes) -> tuple[int, bool]:
    """The end of the last zstd frame of a body (RFC 8878, sec. 3.1), and whether this frame is complete."""
    place = 0
    while compression_of(body[place : place + _MAGIC_BYTES]) == "zstd":
        if body.startswith(_ZSTD_MAGIC, place):
            end = _end_of_frame(body, place)
        else:
            end = place + 8 + int.from_bytes(body[place + 4 : place + 8], "little")
        if end > len(body):
            return len(body), False
        place = end
    return place, not _ends_within(body, place, _ZSTD_MAGIC)


def _end_of_frame(body: bytes, start: int) -> int:
    """The end of the zstd frame at an offset, beyond the body if the frame is cut."""
    try:
        place = start + zstandard.frame_header_size(body[start : start + _ZSTD_HEADER_BYTES])
    except zstandard.ZstdError:
        return len(body) + 1
    has_checksum, is_last = body[start + 4] & 4, False
    while not is_last:
        header = int.from_bytes(body[place : place + 3], "little")
        if place + 3 > len(body):
            return len(body) + 1
        is_last, is_run = bool(header & 1), header >> 1 & 3 == 1
        place += 3 + (1 if is_run else header >> 3)
    return place + (4 if has_checksum else 0)


class _WatchedBody(io.BytesIO):
    """at_end: whether more was asked for than there is, as of a body that is cut, and not of one that is no Brotli"""

    at_end = False

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.at_end |= not data
        return data


def _decode_brotli(body: bytes, most: int) -> _DecodedPayload | None:
    """The content of a Brotli stream, up to `most` bytes; None for other bytes.

    It has no header, and the reader ignores the bytes behind its end. So a stream that shrinks in decoding is none.
    """
    if not body:
        return None
    watched = _WatchedBody(body)
    try:
        text = bytes(BrotliReader(watched).read(most))
        return _DecodedPayload(text) if len(text) >= most or not _is_shrunk(text, len(body)) else None
    except OSError:
        if not watched.at_end:
            return None
    reader, decoded = BrotliReader(io.BytesIO(body)), bytearray()
    with contextlib.suppress(OSError):
        while len(decoded) < most and (piece := reader.read(min(_BROTLI_STEP, most - len(decoded)))):
            decoded += piece
    is_stream = decoded and len(decoded) >= min(most, len(body))
    return _DecodedPayload(bytes(decoded), whole=False) if is_stream else None
