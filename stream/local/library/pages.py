"""Pages of the library: an id, a URL and a body from a program, checked field by field."""

import logging
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import xxhash

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.files.file_format import content_number
from spotsieve.stream.sign.intake import Acceptance, make_page, shorten
from spotsieve.stream.sign.intake.decoder import read_status
from spotsieve.stream.sign.intake.fields import join_texts, read_rank, read_time

LOGGER = logging.getLogger("spotsieve")
SOURCE = "library"
"""The source in the page id of every page of a program."""


class CrawledPage(NamedTuple):
    """A page of a program. A plain tuple of the first three or more fields also works.

    id: the program's own id of the page, text or an integer
    url: the URL, "" for none
    body: HTML or plain text, as text, or as bytes in their original character set; a list is joined by line ends
    content_type: value of the HTTP header; without it, the kind and character set are detected from the body
    status: HTTP status; pages with a status outside input.accepted_statuses are unchecked
    fetched_at: fetch time, for the deduplication window and policy.keep = "newest": a datetime (UTC unless it has a
    time zone), ISO 8601 text, or epoch seconds or milliseconds; without it, now
    rank: a number or a date by which policy.keep = "highest" or "lowest" chooses between copies. These policies need
    input.rank_from, whose path has no effect here.

    In all fields but id and body, NaN, NaT and pandas.NA count as None.
    """

    id: str | int
    url: str
    body: str | bytes | list[str] | list[bytes]
    content_type: str | None = None
    status: int | None = None
    fetched_at: datetime | str | float | None = None
    rank: datetime | str | float | None = None


class PageMaker:
    """Makes pages by the input settings. clock: returns the current time, in seconds since the epoch"""

    def __init__(self, settings: InputSettings, clock: Callable[[], float]) -> None:
        self._max_page_bytes = settings.max_page_bytes
        self._acceptance = Acceptance(settings)
        self._clock = clock
        self._ranked, self._warned = bool(settings.rank_from), False

    def make_from(self, value: object) -> Page:
        """The page of a tuple of the first fields of CrawledPage. Raises PageError."""
        if not isinstance(value, tuple | list) or not 3 <= len(value) <= len(CrawledPage._fields):
            rule = "must be an (id, url, body) or a CrawledPage"
            raise PageError(
                RejectReason.FIELD_TYPE, "page", rule, shorten(value), "convert rows and other objects to tuples"
            )
        return self.make(CrawledPage(*value))

    def make(self, given: CrawledPage) -> Page:
        """The page, whose label is the id as text. Raises PageError, which names the page and its fault."""
        name = _name_of(given.id)
        given = CrawledPage(given.id, _present(given.url), given.body, *map(_present, given[3:]))
        body, url = _body_of(name, given.body), _text_of(name, "url", given.url) or ""
        content_type = _text_of(name, "content_type", given.content_type)
        now_ms = int(self._clock() * 1000)
        page = make_page(
            body,
            source=SOURCE,
            partition=0,  # Replaced below, when the bytes are known.
            offset=xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass")) >> 1,
            url=url,
            content_type=content_type,
            event_time_ms=read_time(_time_of(given.fetched_at), now_ms, f"fetched_at of page {name!r}"),
            latest_ms=now_ms,
            label=name,
            filtered=self._acceptance.filtered(_status_of(given.status), content_type),
            max_page_bytes=self._max_page_bytes,
            rank=read_rank(given.rank) if self._ranked else None,
        )
        # The content number derives from the given bytes. For text, the page already holds the encoded bytes.
        page = page._replace(partition=content_number(page.body if isinstance(body, str) else body))
        if self._ranked and page.rank is None and not self._warned:
            self._warned = True
            shown = escape_control_characters(name)
            LOGGER.warning(
                "page %s has no readable rank and is preferred least; later such pages are not logged", shown
            )
        return page


def _present(value: Any) -> Any:
    """The value; None for a missing one of a data frame: NaN, NaT or pandas.NA, which differ from themselves."""
    if value is None or isinstance(value, str | int):
        return value
    try:
        return None if bool(value != value) else value
    except (TypeError, ArithmeticError):
        return None  # pandas.NA is neither true nor false, and a signalling NaN cannot be compared.
    except ValueError:
        return value  # An array is no value of a field.


def _name_of(given: object) -> str:
    if isinstance(given, str) and given:
        return given
    if not isinstance(given, bool | str):
        try:
            return str(operator.index(given))  # type: ignore[arg-type]
        except TypeError:
            pass
    raise PageError(
        RejectReason.FIELD_TYPE,
        "id",
        "must be text or a whole number",
        shorten(given),
        "give every page an id of its own",
    )


def _body_of(name: str, given: object) -> str | bytes:
    body = join_texts(given)
    if isinstance(body, str | bytes):
        return body
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    reason = RejectReason.NO_BODY if body is None else RejectReason.FIELD_TYPE
    rule = "must be text, bytes or a list of texts"
    raise PageError(reason, f"body of page {name!r}", rule, _shown(given), "skip pages without a body")


def _text_of(name: str, field: str, given: object) -> str | None:
    if given is None or isinstance(given, str):
        return given
    rule = "must be text or None"
    raise PageError(RejectReason.FIELD_TYPE, f"{field} of page {name!r}", rule, _shown(given), "pass None for no value")


def _time_of(given: object) -> object:
    if not isinstance(given, datetime):
        return given
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()


def _status_of(given: object) -> int | None:
    """The HTTP status, also from a NumPy integer."""
    if given is None:
        return None
    try:
        return read_status(operator.index(given))  # type: ignore[arg-type]
    except TypeError:
        return read_status(given)


def _shown(given: object) -> object:
    return "None" if given is None else shorten(given)
