"""Decides by HTTP status and media type which pages are judged at all; the others are passed on unchecked."""

from spotsieve.stream.page import FilterReason
from spotsieve.stream.settings.model import InputSettings

_STATUSES = range(100, 600)
_REDIRECTS = range(300, 400)


class Acceptance:
    """The filters of one set of input settings. An empty list accepts everything."""

    def __init__(self, settings: InputSettings) -> None:
        self._statuses = frozenset(status for text in settings.accepted_statuses for status in _named(text))
        self._types = tuple(text.lower().removesuffix("*") for text in settings.accepted_types)
        self._whole = frozenset(text for text in self._types if not text.endswith("/"))
        self._families = tuple(text for text in self._types if text.endswith("/"))

    def filtered(self, status: int | None, content_type: str | None) -> FilterReason:
        """Why a page is not judged, or FilterReason.NOT. A page without status, or without Content-Type, is accepted."""
        if status is not None and self._statuses and status not in self._statuses:
            return FilterReason.REDIRECT if status in _REDIRECTS else FilterReason.HTTP_STATUS
        if self._types and content_type:
            kind = content_type.split(";", 1)[0].split(",", 1)[0].strip().lower()
            if kind not in self._whole and not kind.startswith(self._families):
                return FilterReason.MEDIA_TYPE
        return FilterReason.NOT


def read_status(value: object) -> int | None:
    """The HTTP status in a message's field or header, a number or its digits; None for anything else.

    A field of this name may hold something of the crawler's own, such as "done".
    """
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        text = (value[:40].split() or [""])[0]
        value = int(text) if text.isascii() and text.isdigit() else None
    return value if isinstance(value, int) and value in _STATUSES else None


def _named(text: str) -> range:
    """The statuses that "404" or "2xx" names."""
    if text.endswith("xx"):
        first = 100 * int(text[0])
        return range(first, first + 100)
    return range(int(text), int(text) + 1)
