"""Reads the fields of a JSON message by configured paths or presets, and checks their types.

Two fields have formats of their own. The rank is a number or a date that decides which of two copies is kept. The fetch
time is ISO 8601, an HTTP date, 14 digits as in CDX, or epoch seconds or milliseconds.
"""

import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

from spotsieve.stream.base.errors import PageError, RejectReason, SettingError
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings

SHOWN_CHARACTERS = 80
"""Number of characters of a wrong value that an error message shows."""

_NONE = dict.fromkeys(("content_type", "fetched_at", "charset", "status", "id"), "")
PRESETS: Mapping[str, Mapping[str, str | tuple[str, ...]]] = {
    # The item that KafkaPipeline.process_item serialises (istresearch/scrapy-cluster, crawler/crawling/pipelines.py and
    # spiders/link_spider.py): response_headers maps a name to a list of values, timestamp is UTC without a zone, body
    # is text, or base64 of bytes in `encoding` if KAFKA_BASE_64_ENCODE is set. `url` is the requested URL, and
    # `response_url` is the URL of the body.
    "scrapy-cluster": {
        "url": "response_url",
        "body": "body",
        "content_type": "response_headers.Content-Type",
        "fetched_at": "timestamp",
        "charset": "encoding",
        "status": "status_code",
        "id": "",
    },
    # ApacheKafkaCommitter.appendUpsertRequest (Norconex/crawlers, committer-apachekafka): one flat object, `id` is the
    # document's reference, `content` the body, and beside them every metadata field as text or a list of texts.
    # `content` is the output of the importer, mostly extracted text whatever the metadata says, so the kind of content
    # is sniffed.
    "norconex": {
        "url": "id",
        "body": "content",
        "content_type": "",
        "fetched_at": "",
        "charset": "",
        "status": "",
        "id": "",
    },
    # The documents of datatrove's JsonlWriter and ParquetWriter: text, id and a dict of metadata.
    "datatrove": _NONE
    | {"url": ("metadata.url", "url"), "body": "text", "fetched_at": ("metadata.date", "date"), "id": "id"},
    # Text data sets of the Hugging Face hub, whose URL is in `metadata`, in `meta` or a column of its own. Their dates
    # have many forms, so they are not read.
    "huggingface": _NONE | {"url": ("metadata.url", "meta.url", "url"), "body": "text"},
    # WET files are WARC, and need no preset. These are the JSON lines that cc_net makes of them.
    "commoncrawl-wet": _NONE | {"url": "url", "body": "raw_content", "fetched_at": "date_download"},
    # The fields of StormCrawler's indexers (indexer.url.fieldname, indexer.text.fieldname), by their defaults.
    "stormcrawler": _NONE | {"url": "url", "body": "content"},
    # The document that Nutch's indexing filters make (index-basic): `content` is extracted text.
    "nutch": _NONE | {"url": "url", "body": "content", "fetched_at": "tstamp"},
    # pages.jsonl of Browsertrix and of WACZ files, with extracted text. Its first line has no page and is rejected.
    "browsertrix": _NONE | {"url": "url", "body": "text", "fetched_at": "ts", "id": "id"},
}


class FieldPath:
    """One configured path. A key that itself contains dots (Norconex: `document.contentType`) takes precedence."""

    __slots__ = ("_is_key", "_others", "_steps", "path")

    def __init__(self, path: str, *others: str) -> None:
        """others: paths for messages without a value at the first path, in the order of precedence"""
        self.path = path
        self._steps = tuple(path.split(".")) if "." in path else ()
        self._others = tuple(map(FieldPath, others))
        self._is_key = not self._steps and not others

    def __bool__(self) -> bool:
        return bool(self.path)

    @property
    def names_key(self) -> bool:
        """Whether it is one key at the top of a message, which JSON writes without an escape in one way."""
        return self.path.isascii() and self.path.replace("_", "a").isalnum() and not self._others

    def reads(self, key: str) -> bool:
        """Whether the path can lead to the value of a key at the top of a message."""
        return (
            (self.path != "" and key == self.path)
            or key in self._steps[:1]
            or any(other.reads(key) for other in self._others)
        )

    def find(self, message: dict[str, Any]) -> Any:
        """The value at the path; None if the path is empty or not in the message."""
        # An empty path is that of no field, although a message may have an empty key.
        value = message.get(self.path) if self.path else None
        # Most paths are keys, and every message is asked for eight.
        return value if value is not None or self._is_key else self._find_elsewhere(message)

    def _find_elsewhere(self, message: dict[str, Any]) -> Any:
        """The value at the steps of the path, or else at another path."""
        here: Any = message if self._steps else None
        for step in self._steps:
            here = here.get(step) if isinstance(here, dict) else None
        for other in self._others:
            here = other.find(message) if here is None else here
        return here

    def find_text(self, message: dict[str, Any]) -> str | None:
        """The text at the path, or the first text of a list (header values, multi-valued metadata); None without one.

        Raises PageError FIELD_TYPE for other values.
        """
        value = self.find(message)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list):
            if not value:
                return None
            if isinstance(value[0], str):
                return value[0]
        raise PageError(
            RejectReason.FIELD_TYPE,
            self.path,
            "must be text",
            shorten(value),
            "correct the message or the path in [input.fields]",
        )


def join_texts(value: object) -> object:
    """A list of texts as one text, joined by line ends; None for an empty list; other values unchanged.

    Parquet and programs may hold bytes in a list; then the result is bytes.
    """
    if not isinstance(value, list) or not all(isinstance(part, str | bytes) for part in value):
        return value
    if any(isinstance(part, bytes) for part in value):
        return b"\n".join(part.encode("utf-8", "replace") if isinstance(part, str) else part for part in value)
    return "\n".join(value) if value else None


def whole_number(value: object) -> object:
    """A number without a fraction as an int; None for NaN and infinity; other values unchanged.

    Data frames hold whole numbers as 404.0, or as decimals, and missing ones as NaN.
    """
    if not isinstance(value, float | Decimal):
        return value
    if not math.isfinite(value):
        return None
    whole = int(value)
    return whole if whole == value and abs(whole) < _FIRST_INEXACT else value


def resolve_paths(settings: InputSettings) -> dict[str, FieldPath]:
    """The path of each field of FieldPaths: from the settings if it differs from the default, otherwise from the
    preset.

    A path that equals the default counts as unset, because the example file sets every path, which would override each
    preset. Raises SettingError for a preset together with format html.
    """
    if settings.preset and settings.format != "json":
        raise SettingError("input.preset", "needs input.format = json", settings.preset, "remove one of the two")
    paths: dict[str, str | tuple[str, ...]] = {name: getattr(settings.fields, name) for name in FieldPaths.model_fields}
    for name, path in PRESETS.get(settings.preset, {}).items():
        if paths[name] == FieldPaths.model_fields[name].default:
            paths[name] = path
    return {name: FieldPath(*_alternatives(path)) for name, path in paths.items()}


def find_preset(fields: Collection[str]) -> str | None:
    """The preset with the most paths among these fields, its URL and body included; None if no preset fits."""
    found: dict[str, int] = {}
    for preset, paths in PRESETS.items():
        hits = [name for name, path in paths.items() if any(one in fields for one in _alternatives(path))]
        if {"url", "body"} <= set(hits):
            found[preset] = len(hits)
    return max(found, key=lambda preset: found[preset], default=None)


def _alternatives(path: str | tuple[str, ...]) -> tuple[str, ...]:
    return (path,) if isinstance(path, str) else path


def shorten(value: object) -> object:
    """The value as an error message shows it: at most SHOWN_CHARACTERS of text; containers by their JSON name."""
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "..."
    if isinstance(value, bytes):
        return shorten(value[: 4 * SHOWN_CHARACTERS].decode("utf-8", "replace"))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return value


_FIRST_INEXACT = 2**53
"""A float from here on may stand for another whole number."""
_MOST_CHARACTERS = 64
"""Longest text of a number or a date."""
_HEADER = "header:"


class RankSource:
    """Finds the rank of a page by the setting input.rank_from, a path of fields or `header:NAME`."""

    __slots__ = ("_header", "path", "wanted")

    def __init__(self, rank_from: str) -> None:
        """path: of the field, empty for a header  wanted: whether pages have ranks"""
        named = rank_from.startswith(_HEADER)
        self.path = FieldPath("" if named else rank_from)
        self._header = rank_from.removeprefix(_HEADER).strip().lower() if named else ""
        self.wanted = bool(rank_from)

    def find(self, fields: dict[str, Any], headers: Mapping[str, Any]) -> float | None:
        """The rank of a page from its fields and headers; None without a readable rank.

        headers: by lower-case name
        """
        if not self.wanted:
            return None
        return read_rank(headers.get(self._header) if self._header else self.path.find(fields))


def read_rank(value: object) -> float | None:
    """Read a rank: a number, also as text, true (1) or false (0), or a date, in seconds since the epoch.

    Dates are datetimes, ISO 8601 (UTC if they have no zone), or HTTP dates (RFC 9110, sec. 5.6.7). In a list, the first
    element counts. Returns None if the value is missing, is anything else, or is not finite.
    """
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, bytes):
        value = value[: _MOST_CHARACTERS + 1].decode("latin-1")
    try:
        if isinstance(value, datetime):
            number = _seconds(value)
        elif isinstance(value, str):
            number = _from_text(value.strip())
        elif isinstance(value, int | float | Decimal):
            number = float(value)
        else:
            return None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return number if math.isfinite(number) else None


def _from_text(text: str) -> float:
    if not text or len(text) > _MOST_CHARACTERS or "_" in text:
        raise ValueError
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:
        return _seconds(parsedate_to_datetime(text))


def _seconds(when: datetime) -> float:
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_LEAP_SECOND = re.compile(r"(?<!\d)(\d{1,2}:\d{2}):60(?!\d)", re.ASCII)
_HOUR_24 = re.compile(r"(?<=[Tt ])24:00:00(?!\d)", re.ASCII)
_LOOSE_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})[Tt ]\s*(\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d+)?\s*([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)
_BASIC_DATE_DIGITS = 8
_ISO_DATE_CHARACTERS = len("2024-03-01")
_YEAR = re.compile(r"\d{4}", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)

# 1e11 is the year 5138 in seconds and 1973 in milliseconds, so no date of the web is misread.
_FIRST_MILLISECONDS = 10**11
_FIRST_CDX = 10**13  # 14 digits; as milliseconds the year 2286
_END_MILLISECONDS = 10**14


def read_time(value: object, missing_ms: int, name: str = "fetched_at", *, years: bool = False) -> int:
    """Read a time in milliseconds since the epoch. A time without a zone is UTC; None, NaN, infinity and ""
    give `missing_ms`.

    Text may also be an HTTP date (RFC 9110, sec. 5.6.7). Second 60 is the next second, and 24:00:00 the next day.

    Numbers below 1e11 are seconds, numbers from 1e11 to 1e14 milliseconds, also as text. Eight digits as text are a
    date (20240301), and 2024-03 is the first day of the month. 14 digits that form a date and a time of day are read as
    in CDX (20240301000010); other numbers of 14 digits are milliseconds.

    name: the field, for error messages  years: four digits as text are a year, as in WARC-Date; otherwise they are
    seconds

    Raises PageError: BAD_TIME, or FIELD_TYPE if the value is neither text nor a number.
    """
    value = whole_number(value)
    if value is None or value == "":
        return missing_ms
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return missing_ms
        if _MONTH.fullmatch(text) or (years and _YEAR.fullmatch(text)):
            return _from_iso(f"{text}-01-01"[:_ISO_DATE_CHARACTERS], name)
        if len(text) != _BASIC_DATE_DIGITS and len(text) <= 40 and _NUMBER.fullmatch(text):
            return _from_number(float(text), value, name)
        return _from_iso(text, name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _from_number(value, value, name)
    raise PageError(
        RejectReason.FIELD_TYPE,
        name,
        "must be ISO 8601 text, an HTTP date or a number of seconds or milliseconds",
        shorten(value),
        "send a time, or leave the field out to use the message's timestamp",
    )


def _from_iso(text: str, name: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        loose = _from_loose_date(text) if len(text) <= _MOST_CHARACTERS else None
        if loose is None:
            raise _bad_time(text, name) from None
        when = loose
    try:
        milliseconds = (when.replace(tzinfo=when.tzinfo or UTC) - _EPOCH) // _MILLISECOND
    except OverflowError:
        milliseconds = -1
    if milliseconds < 0:
        raise _bad_time(text, name)
    return milliseconds


def _from_loose_date(text: str) -> datetime | None:
    """An HTTP date, or ISO 8601 with a leap second, hour 24, lower-case letters or numbers of one digit."""
    text, leap_seconds = _LEAP_SECOND.subn(r"\1:59", text)
    text, later_days = _HOUR_24.subn("00:00:00", text)
    found = _LOOSE_DATE.fullmatch(text)
    try:
        if found is None:
            when = parsedate_to_datetime(text)
        else:
            date, time = "-".join(found.group(1, 2, 3)), ":".join(found.group(4, 5, 6))
            when = datetime.strptime(f"{date} {time}{found[8] or '+0000'}".upper(), "%Y-%m-%d %H:%M:%S%z")
            when += timedelta(seconds=float(found[7] or 0))
        return when + timedelta(seconds=min(leap_seconds, 1), days=min(later_days, 1))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _from_number(number: float, value: object, name: str) -> int:
    if 0 <= number < _FIRST_MILLISECONDS:
        return int(number * 1000)
    if _FIRST_MILLISECONDS <= number < _END_MILLISECONDS:
        return int(number) if number < _FIRST_CDX else _from_cdx(int(number))
    raise _bad_time(value, name)


def _from_cdx(number: int) -> int:
    digits = str(number)
    try:
        return _from_iso(f"{digits[:_BASIC_DATE_DIGITS]}T{digits[_BASIC_DATE_DIGITS:]}", "")
    except PageError:
        return number


def _bad_time(value: object, name: str) -> PageError:
    return PageError(
        RejectReason.BAD_TIME,
        name,
        "must be ISO 8601, an HTTP date, epoch seconds or epoch milliseconds, not before 1970",
        shorten(value),
        "send e.g. 2024-03-01T00:00:10Z, or leave the field out to use the message's timestamp",
    )
