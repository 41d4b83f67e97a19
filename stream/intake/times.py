"""Reads a fetch time: ISO 8601, 14 digits as in CDX, or epoch seconds or milliseconds."""

import re
from datetime import UTC, datetime, timedelta

from spotsieve.stream.errors import PageError, RejectReason
from spotsieve.stream.intake.fields import shorten

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
_BASIC_DATE_DIGITS = 8
_ISO_DATE_CHARACTERS = len("2024-03-01")
_YEAR = re.compile(r"\d{4}", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)

# 1e11 is the year 5138 in seconds and 1973 in milliseconds, so no date of the web is misread.
_FIRST_MILLISECONDS = 10**11
_FIRST_CDX = 10**13  # 14 digits; as milliseconds the year 2286
_END_MILLISECONDS = 10**14


def read_time(value: object, missing_ms: int, name: str = "fetched_at", *, years: bool = False) -> int:
    """Read a time in milliseconds since the epoch. A time without zone is UTC; None and "" give `missing_ms`.

    Numbers below 1e11 are seconds, numbers from 1e11 to 1e14 milliseconds, also where they are text. Eight digits as
    text are a date (20240301), and 2024-03 is its first day. 14 digits that are a date and a time of day are read as in
    CDX (20240301000010), and as milliseconds only where they are none.

    years: four digits as text are a year, as in WARC-Date; elsewhere they are seconds

    Raises PageError: BAD_TIME, or FIELD_TYPE where the value is neither text nor number.
    """
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
        "must be ISO 8601 text or a number of seconds or milliseconds",
        shorten(value),
        "send a time, or leave the field out to use the message's timestamp",
    )


def _from_iso(text: str, name: str) -> int:
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        milliseconds = (when - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        milliseconds = -1
    if milliseconds < 0:
        raise _bad_time(text, name)
    return milliseconds


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
        "must be ISO 8601, epoch seconds or epoch milliseconds, not before 1970",
        shorten(value),
        "send e.g. 2024-03-01T00:00:10Z, or leave the field out to use the message's timestamp",
    )
