"""Reads the rank of a page: a number or a date in its message that says which of two copies is kept."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from spotsieve.stream.intake.fields import FieldPath

_MOST_CHARACTERS = 64
"""No number and no date is longer."""
_HEADER = "header:"


class RankSource:
    """Where the rank of a page is: by the setting input.rank_from, a path of fields or `header:NAME`."""

    __slots__ = ("_header", "_path", "wanted")

    def __init__(self, rank_from: str) -> None:
        """wanted: whether pages have ranks at all"""
        named = rank_from.startswith(_HEADER)
        self._path = FieldPath("" if named else rank_from)
        self._header = rank_from.removeprefix(_HEADER).strip().lower() if named else ""
        self.wanted = bool(rank_from)

    def find(self, fields: dict[str, Any], headers: Mapping[str, Any]) -> float | None:
        """The rank of a page by its fields and headers; None where it has none that can be read.

        headers: by their names in lower case
        """
        if not self.wanted:
            return None
        return read_rank(headers.get(self._header) if self._header else self._path.find(fields))


def read_rank(value: object) -> float | None:
    """Read a rank: a number, also as text, true (1) or false (0), or a date, which counts as seconds since the epoch.

    Dates are datetimes, ISO 8601 (without a zone they are UTC) or those of HTTP (RFC 9110, sec. 5.6.7). Of a list the
    first element counts. None: there is none, or it is anything else, or not finite.
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
        elif isinstance(value, int | float):
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
