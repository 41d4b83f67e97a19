"""Reads MIME (RFC 2045, 2046): the HTML of a saved page, MHTML (RFC 2557), and the text of e-mails and posts.

    MHTML = header "Content-Type: multipart/related; boundary=B", and parts between lines "--B"
    part = header (Content-Type with a charset, Content-Transfer-Encoding), empty line, content
    message = header with From and Subject, empty line, text or parts
    mbox = messages, each below a line "From ADDRESS DATE"

The parts are divided by searches for the boundary. So the time is linear in the size of the message, and the
memory is at most ten copies of it. Python's package email takes quadratic time for multiparts within each other, and
1,600 of them end it with a RecursionError.
"""

import binascii
import html
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import pybase64

from spotsieve.stream.sign.intake.charset import to_utf8
from spotsieve.stream.sign.text.batch import message_span

MAX_PARTS = 4096
"""A page with more images and frames, or a message with more parts, is read up to here."""
_DEEPEST = 6
"""Multiparts within multiparts: a list may sign a message, and add a footer to a signed one with alternatives."""
_MAX_HEADER_BYTES = 65_536
_HEADER_END = re.compile(rb"\r?\n\r?\n")
_FOLDED = re.compile(rb"\r?\n[ \t]+")
_FIELD = re.compile(rb"^([A-Za-z][A-Za-z0-9-]*)[ \t]*:[ \t]*([^\r\n]*)", re.MULTILINE)
_DECLARES_MIME = re.compile(rb"^content-t(?:ype|ransfer-encoding)[ \t]*:", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb""";\s*([a-z]++)\s*=\s*(?:"([^"]*)"|([^\s;"]++))""", re.IGNORECASE)
_NOT_BASE64 = bytes(set(range(256)).difference(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
_SENT = frozenset(b"to cc message-id received return-path delivered-to newsgroups in-reply-to references".split())
"""Header fields of messages that were sent. Browsers write none of these fields into a saved page."""
_SAVED = frozenset((b"snapshot-content-location", b"content-location"))
_HTML = (b"text/html", b"application/xhtml+xml")
_BEGINNING = re.compile(rb"\s{0,64}([A-Za-z][A-Za-z0-9-]{0,40}[ \t]*:|--|From )")
_BOUNDARY_LINE = re.compile(rb"\s*--([^\r\n]{1,70})\r?\n[A-Za-z-]+:")
_BOUNDARY_END = re.compile(rb"--|[ \t\r]*+(?:\n|\Z)")
"""What may follow a boundary in its line. Otherwise it is the beginning of another boundary, or text."""
_LONGEST_BEGINNING = 200
_MULTIPARTS = ("multipart/related", "message/rfc822", "application/x-mimearchive")
_UNREAD = frozenset(f"text/{name}".encode() for name in ("calendar", "css", "directory", "rtf", "vcard", "x-vcard"))
_MESSAGE = b"message/rfc822"
_MIN_BASE64_SHARE = 7 / 8
"""Archives decode texts and keep their headers. English has fewer letters and digits among its characters."""
_PLAIN_PER_HTML = 1 / 4
"""A plain text that is shorter, compared with the HTML beside it, only says that the message is HTML."""
_SIZED_BYTES = 2**18
_MBOX_LINE = re.compile(rb"(?<=\n)From [^\r\n]{1,200}\r?\n(?=[A-Za-z][A-Za-z0-9-]{0,40}:)")
_BETWEEN_PAGES = b"\n<div>\n"
_ANY_HEADER = b"From:\nSubject:\n\n"
_HTML_BEGINNING = re.compile(rb"\s{0,64}<(?:!doctype|html|head|body)[\s>]", re.IGNORECASE)
_HIDDEN = re.compile(rb"<(style|script|title)[\s>]")
_MARKUP = re.compile(rb"<[^<>]*+>|\s++")


class MimeText(NamedTuple):
    """The text of a body in UTF-8: of a saved page its HTML, and behind it the HTML of its frames.

    text: plain text of a message follows its header; None for a message of attachments only
    is_html: the language of the text  whole: whether the closing boundary is there, so that no part is cut or missing
    """

    text: bytes | None
    is_html: bool = False
    whole: bool = True


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
        return self._value(b"content-type")

    @property
    def encoding(self) -> bytes:
        return self._value(b"content-transfer-encoding")

    @property
    def is_attachment(self) -> bool:
        return self._value(b"content-disposition") == b"attachment"

    def _value(self, name: bytes) -> bytes:
        """A field in lower case, without its parameters; b"" without one."""
        return self.fields.get(name, b"").partition(b";")[0].strip().lower()

    def parameter(self, name: bytes) -> bytes:
        """A parameter of the Content-Type; b"" without one."""
        found = _PARAMETER.findall(self.fields.get(b"content-type", b""))
        return next((quoted or plain for one, quoted, plain in found if one.lower() == name), b"")


def read_mhtml(body: bytes, media_type: str = "", max_bytes: int = 2**24) -> MimeText | None:
    """The page in a body; None for a body that is not MHTML, or has no HTML.

    The bytes decide, because servers send MHTML under any type. A body that begins with its first boundary, because
    its header was sent as the header of HTTP, needs the type.

    media_type: of the Content-Type header, in lower case
    max_bytes: reading ends after the part that exceeds this size
    """
    beginning = _BEGINNING.match(body)
    if not beginning:
        return None
    bare = _BOUNDARY_LINE.match(body, 0, _LONGEST_BEGINNING) if media_type in _MULTIPARTS else None
    if bare is None:
        if not _declares_mime(body, beginning.start(1)):
            return None
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
    return MimeText(_BETWEEN_PAGES.join(found), True, _has_end(message)) if found else None


def begins_mhtml(beginning: bytes) -> bool:
    """Whether the first bytes of a file are the header of a saved page in multipart/related."""
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
        # Mail programs send a text with its images as such a multipart, too.
        return _SENT.isdisjoint(message.fields) or not _SAVED.isdisjoint(message.fields)
    is_mail = b"from" in message.fields and b"subject" in message.fields
    return media_type in _MULTIPARTS and message.media_type.startswith(b"multipart/") and not is_mail


def _declares_mime(body: bytes, start: int) -> bool:
    """Whether the header that begins at an offset has a field of MIME. A quick test: most messages have none."""
    end = _HEADER_END.search(body, start, _MAX_HEADER_BYTES)
    return end is not None and _DECLARES_MIME.search(body, start, end.start()) is not None


def _read_part(data: bytes) -> _Part:
    """Header and content. A part that begins with an empty line has no header."""
    if data[:1] == b"\n" or data[:2] == b"\r\n":
        return _Part({}, data)
    end = _HEADER_END.search(data, 0, _MAX_HEADER_BYTES)
    if end is None:
        return _Part({}, data)
    return _Part(_fields_in(data[: end.start()]), data[end.end() :])


def _fields_in(head: bytes) -> dict[bytes, bytes]:
    """The fields of a header. The first of one name counts."""
    return {name.lower(): value.strip() for name, value in reversed(_FIELD.findall(_FOLDED.sub(b" ", head)))}


def _leaves(message: _Part, depth: int) -> Iterator[_Part]:
    """The parts of a message that are not multiparts, in their order."""
    if not depth or not _is_multipart(message):
        yield message
        return
    for part in _children(message):
        yield from _leaves(part, depth - 1)


def _is_multipart(part: _Part) -> bool:
    """Whether the content of a part has parts. Archives store texts under the header of a multipart."""
    boundary = part.parameter(b"boundary")
    if boundary == b"" or not part.media_type.startswith(b"multipart/"):
        return False
    return _find_boundary(part.content, b"--" + boundary, -1) < len(part.content)


def _children(message: _Part) -> Iterator[_Part]:
    """The parts of a multipart. A part that is cut is a part."""
    data, line = message.content, b"--" + message.parameter(b"boundary")
    place = _find_boundary(data, line, -1)
    for _ in range(MAX_PARTS):
        line_end = data.find(b"\n", place + 1)
        if line_end < 0 or data.startswith(b"--", place + 1 + len(line)):
            return
        place = _find_boundary(data, line, line_end)
        yield _read_part(data[line_end + 1 : place])


def _find_boundary(data: bytes, line: bytes, start: int) -> int:
    """The offset of the line feed before a boundary line; the end of the data without it.

    line: the beginning of the line, up to the boundary's end
    start: the first offset, or -1 if the data may begin with the line
    """
    if start < 0 and data.startswith(line) and _BOUNDARY_END.match(data, len(line)):
        return -1
    place = _find(data, b"\n" + line, max(start, 0))
    if place == len(data) or _BOUNDARY_END.match(data, place + 1 + len(line)):
        return place
    # Few messages come here; an expression per boundary is slower to compile than to search with.
    whole = re.compile(b"\n" + re.escape(line) + b"(?:" + _BOUNDARY_END.pattern + b")").search(data, place + 1)
    return whole.start() if whole else len(data)


def _find(data: bytes, wanted: bytes, start: int) -> int:
    """The offset of a text; the end of the data without it."""
    place = data.find(wanted, start)
    return place if place >= 0 else len(data)


def _has_end(multipart: _Part) -> bool:
    """Whether a multipart has its closing boundary."""
    return _has_line(multipart, b"--" + multipart.parameter(b"boundary") + b"--")


def _has_line(part: _Part, beginning: bytes) -> bool:
    """Whether a line of the content begins so."""
    return part.content.startswith(beginning) or b"\n" + beginning in part.content


def _decode(part: _Part) -> bytes:
    """The content of a part. Base64 that is cut gives what is there, and other bytes in it are ignored (RFC 2045)."""
    if part.encoding == b"quoted-printable":
        return binascii.a2b_qp(part.content)
    if part.encoding == b"base64":
        written = part.content.partition(b"=")[0]
        digits = written.translate(None, _NOT_BASE64)
        if len(digits) < _MIN_BASE64_SHARE * len(written.translate(None, b"\r\n")):
            return part.content
        if len(digits) % 4 == 1:  # 6 bits are no byte.
            digits = digits[:-1]
        return pybase64.b64decode(digits + b"=" * (-len(digits) % 4))
    return part.content


class _Text(NamedTuple):
    """The text of a part in UTF-8. is_html: its language"""

    text: bytes
    is_html: bool = False

    @property
    def size(self) -> int:
        """The number of visible bytes at its beginning, about: without markup, styles and white space."""
        beginning = self.text[:_SIZED_BYTES]
        if not self.is_html:
            return len(b"".join(beginning.split()))
        source, size, place = beginning.lower(), 0, 0
        while (hidden := _HIDDEN.search(source, place)) is not None:
            size += len(_MARKUP.sub(b"", source[place : hidden.start()]))
            place = _find(source, b"</" + hidden[1], hidden.end())
        return size + len(_MARKUP.sub(b"", source[place:]))


def read_message(
    body: bytes, label: str | None = None, max_bytes: int = 2**24, *, is_plain: bool = False
) -> MimeText | None:
    """The text of an e-mail, a post or an mbox; None for other bodies.

    A message is what the filter takes for one in plain text (stream/sign/text/batch.py). Its parts are decoded, each
    by its own charset. Attachments are no text. Of alternatives the plain text counts, unless it only says that the
    message is HTML. The Subject is no text, so it is not decoded. Of the messages of an mbox, only the first keeps its
    header, and none its signature.

    label: the charset of parts that name none
    max_bytes: reading ends after the part that exceeds this size
    is_plain: whether the body is known as plain text, so that None may stand for a message that declares no MIME
    """
    beginning = _BEGINNING.match(body)
    if not beginning or (is_plain and body[:5] != b"From " and not _declares_mime(body, 0)):
        return None
    head_size = _header_size(body)
    if not head_size:
        return None
    messages = _messages_of(body, head_size)
    if len(messages) == 1 and _is_as_sent(messages[0]):
        return MimeText(body)
    reader, texts = _MessageReader(label, max_bytes), list[_Text]()
    for message in messages:
        found = reader.texts(message, _DEEPEST)
        if len(messages) > 1:
            found = [text if text.is_html else _Text(_without_signature(text.text)) for text in found]
        texts += found
    whole = not _is_multipart(messages[-1]) or _has_end(messages[-1])
    if not texts:
        return MimeText(None, whole=whole)
    if any(text.is_html for text in texts):
        parts = (one.text if one.is_html else b"<pre>%s</pre>" % _escaped(one.text) for one in texts)
        return MimeText(_BETWEEN_PAGES.join(parts), is_html=True, whole=whole)
    head = to_utf8(body[:head_size], label).text
    return MimeText(head + b"\n" + b"\n\n".join(one.text for one in texts), whole=whole)


def _messages_of(body: bytes, head_size: int) -> list[_Part]:
    """The messages of an mbox, or the only message. head_size: of the first"""
    heads = [(0, head_size)]
    if body.startswith(b"From "):
        lines = (found.start() for found in islice(_MBOX_LINE.finditer(body, head_size), MAX_PARTS))
        sizes = ((start, _header_size(body[start : start + _MAX_HEADER_BYTES])) for start in lines)
        heads += [(start, start + size) for start, size in sizes if size]
    messages = list[_Part]()
    for (start, text), (end, _) in pairwise([*heads, (len(body), 0)]):
        head = body[start:text]
        messages.append(_Part(_fields_in(head) if _DECLARES_MIME.search(head) else {}, body[text + 1 : end]))
    return messages


def _header_size(message: bytes) -> int:
    """The size of the header of a message, up to its empty line; 0 for other texts and for endless headers."""
    return message_span(message[:_MAX_HEADER_BYTES])[0]


def _is_as_sent(message: _Part) -> bool:
    """Whether the content of a message is plain text that is neither encoded nor in a declared charset."""
    if message.media_type in _HTML or _is_multipart(message) or _HTML_BEGINNING.match(message.content):
        return False
    is_encoded = message.encoding in (b"quoted-printable", b"base64")
    return not is_encoded and (not message.parameter(b"charset") or message.content.isascii())


def _without_signature(text: bytes) -> bytes:
    message = _ANY_HEADER + text
    first, last = message_span(message)
    return message[first:last]


def _escaped(text: bytes) -> bytes:
    return html.escape(text.decode("utf-8", "replace"), quote=False).encode()


class _MessageReader:
    """Reads the texts of messages, up to MAX_PARTS parts and max_bytes. label: the charset of parts that name none"""

    def __init__(self, label: str | None, max_bytes: int) -> None:
        self._label = label
        self._parts_left, self._bytes_left = MAX_PARTS, max_bytes

    def texts(self, part: _Part, depth: int, default: bytes = b"text/plain") -> list[_Text]:
        """The texts of a part, in order. depth: levels of parts below  default: the type of a part that names none"""
        self._parts_left -= 1
        kind = part.media_type or default
        if self._parts_left < 0 or self._bytes_left < 0 or depth < 0:
            return []
        if _is_multipart(part):
            inner = _MESSAGE if kind == b"multipart/digest" else b"text/plain"
            children = (self.texts(child, depth - 1, inner) for child in _children(part) if not child.is_attachment)
            if kind == b"multipart/alternative":
                return _best_of(list(children))
            return [text for texts in children for text in texts]
        if kind == _MESSAGE:
            return self.texts(_read_part(_decode(part).lstrip()), depth - 1)
        if kind in _UNREAD or not (kind in _HTML or kind.startswith((b"text/", b"multipart/"))):
            return []
        is_html = kind in _HTML or (not part.media_type and _HTML_BEGINNING.match(part.content) is not None)
        text = to_utf8(_decode(part), part.parameter(b"charset").decode("latin-1") or self._label).text
        self._bytes_left -= len(text)
        return [_Text(text, is_html)]


def _best_of(alternatives: Sequence[Sequence[_Text]]) -> list[_Text]:
    """The plain text of alternatives, or the last HTML: if there is no plain text, or it only points to the HTML."""
    plain, pages = list[_Text](), list[_Text]()
    for texts in alternatives:
        if any(text.is_html for text in texts):
            pages = list(texts)
        elif not plain:
            plain = list(texts)
    is_mere_hint = sum(text.size for text in plain) < _PLAIN_PER_HTML * sum(text.size for text in pages)
    return pages if is_mere_hint else plain
