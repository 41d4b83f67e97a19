"""Reads MHTML (RFC 2557): the HTML of a saved page and of its frames, out of a MIME message with images and styles.

    MHTML = header "Content-Type: multipart/related; boundary=B", and parts between lines "--B"
    part = header (Content-Type with a charset, Content-Transfer-Encoding), empty line, content

The parts are divided by searches for the boundary, so the time is linear in the size of the message.
"""

import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

import pybase64

from spotsieve.stream.sign.intake.charset import to_utf8

MAX_PARTS = 4096
"""A page with more images and frames is read up to here."""
_DEEPEST = 3
"""Multiparts within multiparts: an e-mail program puts multipart/alternative into multipart/related."""
_MAX_HEADER_BYTES = 16_384
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_FOLDED = re.compile(rb"\r?\n[ \t]+")
_FIELD = re.compile(rb"^([A-Za-z][A-Za-z0-9-]*)[ \t]*:[ \t]*([^\r\n]*)", re.MULTILINE)
_PARAMETER = re.compile(rb""";\s*([a-z]++)\s*=\s*(?:"([^"]*)"|([^\s;"]++))""", re.IGNORECASE)
_NOT_BASE64 = bytes(set(range(256)).difference(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_HTML = (b"text/html", b"application/xhtml+xml")
_BEGINNING = re.compile(rb"\s{0,64}(?:[A-Za-z][A-Za-z0-9-]{0,40}[ \t]*:|--)")
_BOUNDARY_LINE = re.compile(rb"\s*--([^\r\n]{1,70})\r?\n[A-Za-z-]+:")
_LONGEST_BEGINNING = 200
_MULTIPARTS = ("multipart/related", "message/rfc822", "application/x-mimearchive")


class SavedPage(NamedTuple):
    """A saved page in UTF-8: its HTML, and behind it the HTML of its frames.

    whole: whether the message has its closing boundary, so that no part is cut or missing
    """

    html: bytes
    whole: bool


class SavedOrigin(NamedTuple):
    """The URL of a saved page and the date when it was saved, as the file has them; b"" for none."""

    url: bytes
    date: bytes


class _Part(NamedTuple):
    """A part of a message. fields: by lower-case name"""

    fields: dict[bytes, bytes]
    content: bytes

    @property
    def media_type(self) -> bytes:
        return self.fields.get(b"content-type", b"").partition(b";")[0].strip().lower()

    def parameter(self, name: bytes) -> bytes:
        """A parameter of the Content-Type; b"" without one."""
        found = _PARAMETER.findall(self.fields.get(b"content-type", b""))
        return next((quoted or plain for one, quoted, plain in found if one.lower() == name), b"")


def read_mhtml(body: bytes, media_type: str = "", max_bytes: int = 2**24) -> SavedPage | None:
    """The page in a body; None for a body that is not MHTML, or has no HTML.

    The bytes decide, because servers send MHTML under any type. A body that begins with its first boundary, because
    its header was sent as the header of HTTP, needs the type.

    media_type: of the Content-Type header, in lower case
    max_bytes: reading ends after the part that exceeds this size
    """
    if not _BEGINNING.match(body):
        return None
    bare = _BOUNDARY_LINE.match(body, 0, _LONGEST_BEGINNING) if media_type in _MULTIPARTS else None
    if bare is None:
        message = _read_part(body.lstrip())
    else:
        message = _Part({b"content-type": b'multipart/related; boundary="' + bare[1].rstrip() + b'"'}, body)
    if not _is_saved_page(message, media_type):
        return None
    found = list[bytes]()
    size = 0
    for part in _documents(message):
        found.append(to_utf8(_decode(part), part.parameter(b"charset").decode("latin-1") or None).text)
        size += len(found[-1])
        if size > max_bytes:
            break
    closing = b"\n--" + message.parameter(b"boundary") + b"--"
    return SavedPage(b"\n<div>\n".join(found), closing in message.content) if found else None


def begins_mhtml(beginning: bytes) -> bool:
    """Whether the first bytes of a file are the header of a multipart/related message."""
    return _BEGINNING.match(beginning) is not None and _is_saved_page(_read_part(beginning.lstrip()), "")


def find_origin(saved: bytes) -> SavedOrigin:
    """URL and date in the header of a saved page. Without a URL there, the URL of its first HTML counts."""
    message = _read_part(saved.lstrip())
    fields = message.fields
    url = fields.get(b"snapshot-content-location") or fields.get(b"content-location")
    if not url:
        url = next((part.fields.get(b"content-location", b"") for part in _documents(message)), b"")
    return SavedOrigin(url, fields.get(b"date", b""))


def _documents(message: _Part) -> list[_Part]:
    """The HTML of a page, and behind it the HTML of its frames."""
    documents = [part for part in _leaves(message, _DEEPEST) if part.media_type in _HTML]
    start = message.parameter(b"start")
    if start:
        documents.sort(key=lambda part: part.fields.get(b"content-id") != start)
    return documents


def _is_saved_page(message: _Part, media_type: str) -> bool:
    if not message.parameter(b"boundary"):
        return False
    if message.media_type == b"multipart/related":
        return True
    return media_type in _MULTIPARTS and message.media_type.startswith(b"multipart/")


def _read_part(data: bytes) -> _Part:
    """Header and content. A part that begins with an empty line has no header."""
    if data[:1] == b"\n" or data[:2] == b"\r\n":
        return _Part({}, data)
    end = _HEADER_END.search(data, 0, _MAX_HEADER_BYTES)
    if end is None:
        return _Part({}, data)
    head = _FOLDED.sub(b" ", data[: end.start()])
    fields = {name.lower(): value.strip() for name, value in reversed(_FIELD.findall(head))}
    return _Part(fields, data[end.end() :])


def _leaves(message: _Part, depth: int) -> Iterator[_Part]:
    """The parts of a message that are not multiparts, in their order. A part that is cut is a part."""
    boundary = message.parameter(b"boundary")
    if not message.media_type.startswith(b"multipart/") or not boundary or not depth:
        yield message
        return
    data, delimiter = b"\n" + message.content, b"\n--" + boundary
    place = data.find(delimiter)
    for _ in range(MAX_PARTS):
        if place < 0:
            return
        line_end = data.find(b"\n", place + 1)
        if line_end < 0 or data.startswith(b"--", place + len(delimiter)):
            return
        place = data.find(delimiter, line_end)
        content = data[line_end + 1 : place if place >= 0 else len(data)]
        yield from _leaves(_read_part(content), depth - 1)


def _decode(part: _Part) -> bytes:
    """The content of a part. Base64 that is cut gives what is there, and other bytes in it are ignored (RFC 2045)."""
    encoding = part.fields.get(b"content-transfer-encoding", b"").lower()
    if encoding == b"quoted-printable":
        return binascii.a2b_qp(part.content)
    if encoding == b"base64":
        digits = part.content.partition(b"=")[0].translate(None, _NOT_BASE64)
        if len(digits) % 4 == 1:  # 6 bits are no byte.
            digits = digits[:-1]
        return pybase64.b64decode(digits + b"=" * (-len(digits) % 4))
    return part.content
