"""The filter in Scrapy: a spider middleware and an item pipeline. docs/integrations.md describes their settings."""

import itertools
import logging
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from spotsieve.stream.base.errors import PageError, SettingError, StateError
from spotsieve.stream.local.library import CrawledPage, Deduplicator, DuplicateVerdict, Verdict

LOGGER = logging.getLogger(__name__)
META = "spotsieve"
"""Key of the verdict in response.meta, and default field of the verdict in items. request.meta["spotsieve"] = False
passes a response unjudged."""
FIELDS = {"url": "url", "body": "body"}


class DuplicateResponse(IgnoreRequest):
    """A skipped response, which is a copy of an earlier page. The errback of the request receives it."""

    def __init__(self, response: Response, verdict: DuplicateVerdict) -> None:
        super().__init__(_verdict_text(verdict))
        self.response = response
        self.verdict = verdict


class DuplicateMiddleware:
    """A spider middleware that skips copies, or marks every response with its verdict.

    With SPOTSIEVE_MODE = "skip", the callback is not called for a copy, so its links are not followed. With "mark",
    every response reaches the callback, and response.meta["spotsieve"] is its Verdict.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._judge = _Judge(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The instance that Scrapy creates. Raises SettingError, StateError."""
        return cls(crawler)

    def process_spider_input(self, response: Response, spider: object = None) -> None:  # noqa: ARG002 - Scrapy before 2.14
        """Judge a response. Raises DuplicateResponse for a copy in the mode "skip"."""
        if response.meta.get(META) is False:
            return
        content_type = b", ".join(response.headers.getlist("Content-Type"))
        verdict = self._judge.verdict(
            response.url,
            response.url,
            response.body,
            content_type.decode("latin-1") if content_type else None,
            response.status,
        )
        if verdict is None:
            return
        response.meta[META] = verdict
        if verdict.is_duplicate and self._judge.skips:
            raise DuplicateResponse(response, verdict)

    def process_spider_exception(
        self,
        response: Response,
        exception: Exception,
        spider: object = None,  # noqa: ARG002 - Scrapy before 2.14
    ) -> Iterable[Any] | None:
        """Treat a skipped response as done if the request has no errback."""
        if not isinstance(exception, DuplicateResponse):
            return None
        LOGGER.debug("skipped %s: %s", response.url, exception)
        return ()


class DuplicatePipeline:
    """An item pipeline that drops items that are copies, or marks every item with its verdict."""

    def __init__(self, crawler: Crawler) -> None:
        self._judge = _Judge(crawler)
        settings = crawler.settings
        self._field = settings.get("SPOTSIEVE_FIELD", META)
        self._fields = FIELDS | settings.getdict("SPOTSIEVE_FIELDS")
        unknown = sorted(set(self._fields) - set(CrawledPage._fields))
        if unknown:
            known = ", ".join(CrawledPage._fields)
            raise SettingError("SPOTSIEVE_FIELDS", f"must name fields among {known}", unknown[0], "correct the name")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The instance that Scrapy creates. Raises SettingError, StateError."""
        return cls(crawler)

    def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002 - Scrapy before 2.14
        """Judge an item. Raises DropItem for a copy in the mode "skip", SettingError if the item lacks the field."""
        adapter = ItemAdapter(item)
        values = {name: adapter.get(field) for name, field in self._fields.items()}
        url = values["url"] or ""
        verdict = self._judge.verdict(
            values.get("id"),
            url,
            values["body"],
            values.get("content_type"),
            values.get("status"),
            values.get("fetched_at"),
            values.get("rank"),
        )
        if verdict is None:
            return item
        if self._judge.skips:
            if verdict.is_duplicate:
                raise DropItem(_verdict_text(verdict))
            return item
        try:
            adapter[self._field] = _fields_of(verdict)
        except KeyError:
            then = f"add `{self._field} = scrapy.Field()` to {type(item).__name__}, or name another field"
            raise SettingError("SPOTSIEVE_FIELD", "must be a field of the item", self._field, then) from None
        return item


class Addon:
    """A Scrapy add-on: ADDONS = {"spotsieve.scrapy.Addon": 500} adds the middleware, or the pipeline.

    SPOTSIEVE_JUDGE = "responses" (default) judges responses by DuplicateMiddleware, "items" items by DuplicatePipeline.
    A project that names the class itself keeps its own priority.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Add the component. Raises SettingError."""
        judged = settings.get("SPOTSIEVE_JUDGE", "responses")
        if judged not in _COMPONENTS:
            then = "responses are judged before the spider's callback, items after it"
            raise SettingError("SPOTSIEVE_JUDGE", "must be responses or items", judged, then)
        name, component, priority = _COMPONENTS[judged]
        own = settings.getdict(name)
        if component not in map(load_object, own):
            settings.set(name, {**own, component: priority}, settings.getpriority(name) or "addon")


_COMPONENTS = {
    "responses": ("SPIDER_MIDDLEWARES", DuplicateMiddleware, 60),
    "items": ("ITEM_PIPELINES", DuplicatePipeline, 100),
}
"""Value of SPOTSIEVE_JUDGE -> the setting of Scrapy, the class, and its place among others."""


class _Judge:
    """The Deduplicator of one crawl, and its statistics."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        mode = settings.get("SPOTSIEVE_MODE", "skip")
        if mode not in ("skip", "mark"):
            raise SettingError("SPOTSIEVE_MODE", "must be skip or mark", mode, "skip drops copies, mark labels them")
        recrawl = settings.get("SPOTSIEVE_RECRAWL", "drop")
        if recrawl not in ("drop", "pass"):
            then = "pass keeps an unchanged page that is fetched again"
            raise SettingError("SPOTSIEVE_RECRAWL", "must be drop or pass", recrawl, then)
        assert crawler.stats is not None
        self._stats = crawler.stats
        self.skips = mode == "skip"
        self._passes_recrawls = recrawl == "pass"
        read_only = settings.getbool("SPOTSIEVE_READ_ONLY")
        self._deduplicator = Deduplicator(
            settings.get("SPOTSIEVE_STATE") or None,
            read_only=read_only,
            config=settings.get("SPOTSIEVE_CONFIG") or None,
            **settings.getdict("SPOTSIEVE_SETTINGS"),
        )
        self._act = self._deduplicator.query if read_only else self._deduplicator.add
        # Every visit has an id of its own, so an unchanged page is a copy of its first visit.
        self._visits = (f"{time.time_ns()}.{number}" for number in itertools.count())
        self._failed = False
        crawler.signals.connect(self._close, signals.spider_closed)

    def verdict(
        self,
        name: str | int | None,
        url: str,
        body: Any,
        content_type: str | None,
        status: int | None,
        fetched_at: datetime | str | float | None = None,
        rank: datetime | str | float | None = None,
    ) -> Verdict | None:
        """The verdict of a page, or None if it cannot be judged; it is then emitted unchecked and counted."""
        page_id = name if name not in (None, "") else url
        visit = page_id if self._passes_recrawls and page_id else f"{page_id} {next(self._visits)}".strip()
        try:
            verdict = self._act(
                visit, url, body, content_type=content_type, status=status, fetched_at=fetched_at, rank=rank
            )
        except PageError as error:
            self._stats.inc_value("spotsieve/no_page")
            LOGGER.warning("a page was emitted unchecked: %s", error)
            return None
        except StateError as error:
            # Pages that cannot be judged are not dropped. Only the first failure is logged.
            self._stats.inc_value("spotsieve/failed")
            if not self._failed:
                LOGGER.error("the state failed; from now on all pages are emitted unchecked: %s", error)  # noqa: TRY400 - no defect
            self._failed = True
            return None
        self._stats.inc_value("spotsieve/pages")
        self._stats.inc_value(f"spotsieve/{verdict.kind}")
        self._stats.inc_value(f"spotsieve/{verdict.kind}/{verdict.reason}")
        return verdict

    def _close(self) -> None:
        self._stats.set_value("spotsieve/known_pages", self._deduplicator.known_pages)
        self._deduplicator.close()


def _fields_of(verdict: Verdict) -> dict[str, Any]:
    """The fields of a verdict for an exporter, with the names of the filter's verdict lines."""
    original = verdict.original
    return {
        "verdict": verdict.kind,
        "reason": verdict.reason,
        "score": verdict.score,
        "duplicate_of": original and original.id,
        "original_url": original and original.url,
    }


def _verdict_text(verdict: DuplicateVerdict) -> str:
    return f"a copy of {verdict.original.url or verdict.original.id} ({verdict.reason})"
