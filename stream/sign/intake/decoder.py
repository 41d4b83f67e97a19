"""Decodes messages to pages: JSON with configured fields, or a message that is HTML itself.

Acceptance decides by HTTP status and media type which pages are judged; the others are emitted unchecked.
"""

import binascii
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import pybase64

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.sign.intake.content import find_media_type, make_page
from spotsieve.stream.sign.intake.fields import RankSource, join_texts, read_time, resolve_paths, shorten, whole_number
from spotsieve.stream.sign.intake.json_text import MIN_LONG_BYTES, take_text

_STATUSES = range(100, 600)
_REDIRECTS = range(300, 400)
_STATUS = re.compile(r"\s*(\d+)(?:\.0*)?(?:\s|$)", re.ASCII)


class Acceptance:
    """Filters pages by HTTP status and media type, by the input settings. An empty list accepts every page."""

    def __init__(self, settings: InputSettings) -> None:
        self._statuses = frozenset(status for text in settings.accepted_statuses for status in _named(text))
        self._types = tuple(text.lower().removesuffix("*") for text in settings.accepted_types)
        self._whole = frozenset(text for text in self._types if not text.endswith("/"))
        self._families = tuple(text for text in self._types if text.endswith("/"))

    def filtered(self, status: int | None, content_type: str | None) -> FilterReason:
        """Why a page is not judged, or FilterReason.NOT.

        A page without a status, or without a Content-Type, is accepted.
        """
        if status is not None and self._statuses and status not in self._statuses:
            return FilterReason.REDIRECT if status in _REDIRECTS else FilterReason.HTTP_STATUS
        if self._types and content_type:
            kind = find_media_type(content_type)
            if kind not in self._whole and not kind.startswith(self._families):
                return FilterReason.MEDIA_TYPE
        return FilterReason.NOT


def read_status(value: object) -> int | None:
    """The HTTP status in a message's field or header, as a whole number or its text; None for any other value.

    The crawler may use a field of this name for other values, such as "done".
    """
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        status = _STATUS.match(value[:40])
        value = int(status[1]) if status else None
    value = whole_number(value)
    return value if isinstance(value, int) and value in _STATUSES else None


def _named(text: str) -> range:
    """The statuses of "404" or "2xx"."""
    if text.endswith("xx"):
        first = 100 * int(text[0])
        return range(first, first + 100)
    return range(int(text), int(text) + 1)


MIN_AUTO_BASE64_CHARACTERS = 64
_BASE64_HEAD = 256
_BASE64_HEAD_BYTES = 4 * _BASE64_HEAD
_MIME_LINES = (64, 76)
_URL_SAFE = str.maketrans("-_", "+/")


class Message(NamedTuple):
    """An undecoded message. timestamp_ms: milliseconds since the epoch  value: None for a tombstone"""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    source: str
    partition: int
    offset: int
    timestamp_ms: int


class Decoder:
    """Decodes messages by the input settings; paths, preset and header names are resolved once.

    `decode` raises PageError, with a RejectReason, for messages that cannot become a page.
    """

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        self._html = settings.format == "html"
        self._paths = resolve_paths(settings)
        kind, _, header = settings.url_from.partition(":")
        self._url_header = header.strip().lower() if kind == "header" else None
        self._type_header = settings.content_type_header.lower()
        self._status_header = settings.status_header.lower()
        self._acceptance = Acceptance(settings)
        self._ranks = RankSource(settings.rank_from)
        body, others = self._paths["body"], (path for name, path in self._paths.items() if name != "body")
        taken = body.names_key and not any(path.reads(body.path) for path in (*others, self._ranks.path))
        self._taken_key = np.frombuffer(body.path.encode(), np.uint8) if taken else None

    @property
    def body_field(self) -> str:
        """The path of the body, the only field that may hold bytes in an unknown character set."""
        return self._paths["body"].path

    @property
    def ranks(self) -> bool:
        """Whether the settings give pages a rank."""
        return self._ranks.wanted

    def decode(self, message: Message) -> Page:
        """The page of a message. Raises PageError; ValueError for a tombstone, which callers handle before."""
        if message.value is None:
            raise ValueError("a message without value is a tombstone, and has no page")
        if self._html:
            return self._decode_html(message, message.value)
        fields, text = self._parse(message.value)
        return self.decode_fields(fields, message, text)

    def _parse(self, value: bytes) -> tuple[dict[str, Any], bytes | None]:
        """The fields of a JSON object, and the text of a long body, then "" in the fields. Raises PageError."""
        if self._taken_key is not None and len(value) >= MIN_LONG_BYTES:
            taken = take_text(value, self._taken_key)
            if taken is not None:
                try:
                    return parse_object(taken.rest), taken.text
                except PageError:
                    pass  # The error shows the message as it is.
        return parse_object(value), None

    def decode_fields(self, fields: dict[str, Any], message: Message, text: bytes | None = None) -> Page:
        """The page of a message with parsed fields, such as a row of a table. Raises PageError.

        text: UTF-8 that replaces the body of the fields
        """
        paths = self._paths
        body, converted = self._read_body(fields, text)
        url = paths["url"].find_text(fields)
        if not url and paths["url"]:
            raise PageError(
                RejectReason.NO_URL,
                paths["url"].path,
                "must hold the page's address",
                None,
                'correct [input.fields] url, or set it to "" if the messages have none',
            )
        label = whole_number(paths["id"].find(fields))
        content_type = paths["content_type"].find_text(fields)
        return make_page(
            body,
            source=message.source,
            partition=message.partition,
            offset=message.offset,
            url=url or "",
            content_type=content_type,
            filtered=self._acceptance.filtered(read_status(paths["status"].find(fields)), content_type),
            charset=paths["charset"].find_text(fields),
            event_time_ms=read_time(paths["fetched_at"].find(fields), message.timestamp_ms, paths["fetched_at"].path),
            latest_ms=message.timestamp_ms,
            label=str(label) if isinstance(label, (str, int)) and not isinstance(label, bool) else "",
            max_page_bytes=self._settings.max_page_bytes,
            rank=self._rank(fields, message),
            converted=converted,
        )

    def _decode_html(self, message: Message, value: bytes) -> Page:
        headers = _by_name(message)
        url = headers.get(self._url_header) if self._url_header else message.key
        if not url:
            raise PageError(
                RejectReason.NO_URL,
                self._settings.url_from,
                "must hold the page's address",
                None,
                "set input.url_from to key or header:NAME",
            )
        raw_type, status = headers.get(self._type_header), headers.get(self._status_header)
        content_type = raw_type.decode("latin-1") if raw_type else None
        return make_page(
            value,
            source=message.source,
            partition=message.partition,
            offset=message.offset,
            url=url.decode("utf-8", "replace"),
            content_type=content_type,
            filtered=self._acceptance.filtered(read_status((status or b"").decode("latin-1")), content_type),
            event_time_ms=message.timestamp_ms,
            latest_ms=message.timestamp_ms,
            max_page_bytes=self._settings.max_page_bytes,
            rank=self._ranks.find({}, headers),
        )

    def _rank(self, fields: dict[str, Any], message: Message) -> float | None:
        return self._ranks.find(fields, _by_name(message)) if self._ranks.wanted else None

    def _read_body(self, fields: dict[str, Any], text: bytes | None) -> tuple[bytes | str, bool]:
        """The body, and whether it is bytes of UTF-8 that were text in the message. text: as in decode_fields"""
        path = self._paths["body"]
        body = join_texts(path.find(fields))
        if isinstance(body, bytes):
            return body, False
        if body is None:
            raise PageError(
                RejectReason.NO_BODY,
                path.path,
                "must hold the page's body, and is missing or null",
                None,
                "correct [input.fields] body, or the crawler",
            )
        if not isinstance(body, str):
            raise PageError(
                RejectReason.FIELD_TYPE,
                path.path,
                "must be text or a list of texts",
                shorten(body),
                "correct the message or the path in [input.fields]",
            )
        encoding = self._paths["body_encoding"].find_text(fields) or self._settings.body_encoding
        if encoding == "text":
            return (body, False) if text is None else (text, True)
        if text is not None:
            if encoding == "auto" and not _may_be_base64(text[:_BASE64_HEAD_BYTES].decode("utf-8", "ignore")):
                return text, True
            body = text.decode()
        if encoding == "base64":
            return _from_base64(body, path.path), False
        if encoding == "auto":
            return _sniff_base64(body), False
        raise PageError(
            RejectReason.FIELD_TYPE,
            self._paths["body_encoding"].path,
            "must be text, base64 or auto",
            shorten(encoding),
            "correct the crawler, or [input.fields] body_encoding",
        )


def _by_name(message: Message) -> dict[str, bytes]:
    """The headers of a message by lower-case name; the last header with a name counts."""
    return {name.lower(): content for name, content in message.headers}


def parse_object(value: bytes) -> dict[str, Any]:
    """Parse a JSON object; the last of equal keys counts, and NaN and Infinity are null.

    Raises PageError NOT_JSON with the position of the mistake.
    """
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        parsed = _parse_leniently(value, error)
    if not isinstance(parsed, dict):
        raise PageError(
            RejectReason.NOT_JSON, "message", "must be a JSON object", shorten(parsed), "send one object for each page"
        )
    return parsed


def _parse_leniently(value: bytes, error: orjson.JSONDecodeError) -> object:
    # Half a surrogate pair is legal JSON (RFC 8259, sec. 8.2) and occurs in real pages. NaN and Infinity are not JSON,
    # but Python and pandas write them for missing values. orjson rejects both. The standard parser is three times
    # slower, and runs only for these errors. orjson has no codes for them, so the code tests its text and place.
    constant = error.doc.startswith(("NaN", "Infinity"), error.pos)
    if constant or "infinity" in error.msg or "surrogate in string" in error.msg:
        try:
            return json.loads(value, parse_constant=_missing)
        except (ValueError, RecursionError):
            pass
    near = value[max(0, error.pos - 20) : error.pos + 40] if len(value) < 2**20 else value[:40]
    raise PageError(
        RejectReason.NOT_JSON,
        "message",
        f"must be JSON ({error.msg} at character {error.pos})",
        shorten(near),
        "look for a cut message, or for text that is not UTF-8",
    ) from None


def _missing(_: str) -> None:
    """The value of NaN, Infinity and -Infinity."""


def _from_base64(body: str, name: str) -> bytes:
    try:
        return pybase64.b64decode(body, validate=True)
    except (ValueError, binascii.Error):
        pass
    try:
        # Line breaks (MIME) and the URL-safe alphabet need a copy of the body, so they are tried second.
        return pybase64.b64decode("".join(body.split()).translate(_URL_SAFE), validate=True)
    except (ValueError, binascii.Error):
        raise PageError(
            RejectReason.BAD_BASE64,
            name,
            f"must be whole base64, has {len(body)} characters",
            shorten(body),
            "look for a cut message, or set input.body_encoding to text or auto",
        ) from None


def _may_be_base64(beginning: str) -> bool:
    """Whether a body may be base64, by its first characters: at least _BASE64_HEAD of them, or all."""
    head = beginning[:_BASE64_HEAD]
    return len(beginning) >= MIN_AUTO_BASE64_CHARACTERS and "<" not in head and " " not in head


def _sniff_base64(body: str) -> bytes | str:
    if not _may_be_base64(body):
        return body
    text = body
    newline = body.find("\n", 0, max(_MIME_LINES) + 2)
    if newline >= 0:
        # A list of words, one per line, is not base64: only the line lengths of MIME and PEM count as base64.
        if len(body[:newline].rstrip("\r")) not in _MIME_LINES:
            return body
        text = "".join(body.split())
    try:
        return pybase64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return body
