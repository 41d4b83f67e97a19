"""Makes pages of what a program gives: an id, an address and a body, checked one by one."""

import logging
import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import xxhash

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.files.records import content_number
from spotsieve.stream.sign.intake import Acceptance, make_page, shorten
from spotsieve.stream.sign.intake.decoder import read_status
from spotsieve.stream.sign.intake.fields import read_rank, read_time

LOGGER = logging.getLogger("spotsieve")
SOURCE = "library"
"""The first part of the page id of every page that comes from a program."""


class CrawledPage(NamedTuple):
    """A page as a program has it; a plain tuple of the first three fields will do too.

    id: the program's own name of the page, text or a whole number  url: "" where there is none
    body: HTML or plain text; text, or bytes in whatever character set they came
    content_type: the header's value; without it the body shows whether it is HTML, and bytes show their character set
    status: the HTTP status; pages that input.accepted_statuses leaves out are unchecked
    fetched_at: when, for the horizon and policy.keep = newest: a datetime, ISO 8601, or epoch seconds or milliseconds;
    without it: now
    rank: a number or a date, by which policy.keep = highest or lowest chooses between copies. input.rank_from must be
    given with these; where it leads does not matter here
    """

    id: str | int
    url: str
    body: str | bytes
    content_type: str | None = None
    status: int | None = None
    fetched_at: datetime | str | float | None = None
    rank: datetime | str | float | None = None


class PageMaker:
    """Makes pages by one set of input settings. clock: the time now, in seconds since the epoch"""

    def __init__(self, settings: InputSettings, clock: Callable[[], float]) -> None:
        self._max_page_bytes = settings.max_page_bytes
        self._acceptance = Acceptance(settings)
        self._clock = clock
        self._ranked, self._told = bool(settings.rank_from), False

    def make_of(self, given: object) -> tuple[str, Page]:
        """The same of what an iterable gave, which may be a tuple of the first fields of CrawledPage."""
        if not isinstance(given, tuple | list) or not 3 <= len(given) <= len(CrawledPage._fields):
            rule = "must be an (id, url, body) or a CrawledPage"
            raise PageError(
                RejectReason.FIELD_TYPE, "page", rule, shorten(given), "make tuples of rows and of other objects"
            )
        return self.make(CrawledPage(*given))

    def make(self, given: CrawledPage) -> tuple[str, Page]:
        """The id as text, and the page. Raises PageError, which names the page and what is wrong with it."""
        name = _name_of(given.id)
        body, url = _body_of(name, given.body), _text_of(name, "url", given.url) or ""
        content_type = _text_of(name, "content_type", given.content_type)
        now_ms = int(self._clock() * 1000)
        page = make_page(
            body,
            source=SOURCE,
            partition=0,  # The number of its content is known below.
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
        # It is of the bytes as they were given. Text is not encoded a second time: the page has its bytes.
        page = page._replace(partition=content_number(page.body if isinstance(body, str) else body))
        if self._ranked and page.rank is None and not self._told:
            self._told = True
            shown = escape_control_characters(name)
            LOGGER.warning("page %s has no rank that can be read, and counts last", shown)
        return name, page


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
        "give every page a name of its own",
    )


def _body_of(name: str, given: object) -> str | bytes:
    if isinstance(given, str | bytes):
        return given
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    reason = RejectReason.NO_BODY if given is None else RejectReason.FIELD_TYPE
    rule = "must be text or bytes"
    raise PageError(reason, f"body of page {name!r}", rule, _shown(given), "leave out the pages that have none")


def _text_of(name: str, field: str, given: object) -> str | None:
    if given is None or isinstance(given, str):
        return given
    rule = "must be text or None"
    raise PageError(
        RejectReason.FIELD_TYPE, f"{field} of page {name!r}", rule, _shown(given), "give None where there is none"
    )


def _time_of(given: object) -> object:
    if not isinstance(given, datetime):
        return given
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()


def _status_of(given: object) -> int | None:
    """The status, also as a number of NumPy, or as the float that a frame makes of a column with gaps."""
    if isinstance(given, float):
        return read_status(int(given)) if given.is_integer() else None
    try:
        return read_status(operator.index(given))  # type: ignore[arg-type]
    except TypeError:
        return read_status(given)


def _shown(given: object) -> object:
    return "None" if given is None else shorten(given)
