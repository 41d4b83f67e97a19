"""Scrapy itself crawls a site of our own, with middleware and pipeline: what is skipped, marked and counted."""

import inspect
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy import signals
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

from spotsieve import Deduplicator, SettingError, StateError
from spotsieve.scrapy import Addon, DuplicateMiddleware, DuplicatePipeline
from tests.conftest import REPOSITORY
from tests.fixtures.crawled_site import SITE, site
from tests.fixtures.filter_crawl import article
from tests.fixtures.services.forking import forked_python

__all__ = ["site"]
SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.http import TextResponse

class Crawl(scrapy.Spider):
    name = "crawl"
    custom_settings = {"TELNETCONSOLE_ENABLED": False, "CONCURRENT_REQUESTS": 1, "DEPTH_PRIORITY": 1,
                       "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}

    async def start(self):
        yield scrapy.Request(sys.argv[1], meta={"spotsieve": False})

    def parse(self, response):
        readable = isinstance(response, TextResponse)
        for link in response.css("a::attr(href)").getall() if readable else ():
            yield response.follow(link)
        verdict = response.meta.get("spotsieve")
        yield {"url": response.url, "body": response.text if readable else None, "sieved": verdict and verdict.kind}

process = CrawlerProcess(settings=json.loads(sys.argv[2]) | {"FEEDS": {sys.argv[3]: {"format": "jsonlines"}}})
crawler = process.create_crawler(Crawl)
process.crawl(crawler)
process.start()
print(json.dumps({name: value for name, value in crawler.stats.get_stats().items() if "time" not in name}))
"""
MIDDLEWARE = {"SPIDER_MIDDLEWARES": {"spotsieve.scrapy.DuplicateMiddleware": 60}}
PIPELINE = {"ITEM_PIPELINES": {"spotsieve.scrapy.DuplicatePipeline": 100}}


class Crawl:
    """One run of Scrapy in a fork: its items by path, its statistics, and what it logged."""

    def __init__(self, site: str, tmp_path: Path, settings: dict[str, Any]) -> None:
        feed = tmp_path / "items.jsonl"
        feed.unlink(missing_ok=True)
        ran = subprocess.run(
            [*forked_python(REPOSITORY), SPIDER, site, json.dumps(settings), str(feed)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        self.log = ran.stderr
        self.stats: dict[str, int] = json.loads(ran.stdout)
        lines = feed.read_text("utf-8").splitlines() if feed.exists() else []
        self.items = {one["url"].removeprefix(site): one for one in map(json.loads, lines)}

    def counted(self) -> dict[str, int]:
        return {name.removeprefix("spotsieve/"): n for name, n in self.stats.items() if name.startswith("spotsieve/")}


def test_of_several_content_type_lines_the_last_one_with_a_type_counts() -> None:
    middleware = DuplicateMiddleware(get_crawler(settings_dict={"SPOTSIEVE_MODE": "mark"}))
    for number, types in enumerate((["text/html", "image/png"], ["image/png", "text/html"], ["text/html", "junk"])):
        url = f"https://{number}.example/"
        headers = {"Content-Type": types}
        response = HtmlResponse(url, headers=headers, body=article(number).encode(), request=scrapy.Request(url))
        middleware.process_spider_input(response)
        assert response.meta["spotsieve"].kind == ("unchecked" if types[-1] == "image/png" else "novel")


def test_the_middleware_keeps_copies_from_the_spider_and_counts_them(site: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = Crawl(site, tmp_path, {**MIDDLEWARE, "SPOTSIEVE_STATE": str(state)})
    assert sorted(first.items) == ["", "a", "b", "from-a", "image"], "the links of a copy are not followed"
    assert (first.items[""]["sieved"], first.items["image"]["sieved"]) == (False, "unchecked")
    assert first.counted() == {
        "pages": 5,
        "novel": 3,
        "novel/no_match": 3,
        "duplicate": 1,
        "duplicate/contained": 1,
        "unchecked": 1,
        "unchecked/not_text": 1,
        "known_pages": 4,
    }
    assert "Traceback" not in first.log

    # Another day: pages that did not change are copies of their first visit; the state can be queried by others, too.
    again = Crawl(site, tmp_path, {**MIDDLEWARE, "SPOTSIEVE_STATE": str(state)})
    assert sorted(again.items) == [""]
    assert (again.counted()["duplicate"], again.counted()["known_pages"]) == (4, 4)
    with Deduplicator(state, read_only=True) as seen:
        original = seen.query("x", "", SITE["/a"]).original
    assert original is not None
    assert original.url == f"{site}a"


def test_the_add_on_judges_responses_or_items_and_leaves_other_components_alone(site: str, tmp_path: Path) -> None:
    on = {"ADDONS": {"spotsieve.scrapy.Addon": 500}}
    responses = Crawl(site, tmp_path, on)
    assert responses.stats["spotsieve/duplicate"] == 1
    assert "item_dropped_count" not in responses.stats
    items = Crawl(site, tmp_path, {**on, "SPOTSIEVE_JUDGE": "items"})
    assert items.stats["item_dropped_count"] == 1
    other = "scrapy.spidermiddlewares.depth.DepthMiddleware"
    settings = Settings({"SPIDER_MIDDLEWARES": {other: 900}})
    Addon().update_settings(settings)
    assert settings.getdict("SPIDER_MIDDLEWARES") == {other: 900, DuplicateMiddleware: 60}
    named = Settings({"SPIDER_MIDDLEWARES": {"spotsieve.scrapy.DuplicateMiddleware": 10}})
    Addon().update_settings(named)
    assert named.getdict("SPIDER_MIDDLEWARES") == {"spotsieve.scrapy.DuplicateMiddleware": 10}
    with pytest.raises(SettingError, match="must be responses or items"):
        Addon().update_settings(Settings({"SPOTSIEVE_JUDGE": "both"}))


def test_with_mark_every_response_reaches_the_spider_with_its_verdict(site: str, tmp_path: Path) -> None:
    crawl = Crawl(site, tmp_path, {**MIDDLEWARE, "SPOTSIEVE_MODE": "mark"})
    assert {path: item["sieved"] for path, item in crawl.items.items()} == {
        "": False,
        "a": "novel",
        "b": "novel",
        "copy": "duplicate",
        "image": "unchecked",
        "from-a": "novel",
        "from-copy": "novel",
    }


def test_the_pipeline_drops_items_that_are_copies(site: str, tmp_path: Path) -> None:
    crawl = Crawl(site, tmp_path, {**PIPELINE, "SPOTSIEVE_SETTINGS": {"index": {"scope": "global"}}})
    assert sorted(crawl.items) == ["", "a", "b", "from-a", "from-copy", "image"]
    assert crawl.stats["item_dropped_count"] == 1
    assert crawl.counted()["duplicate"] == 1
    assert crawl.counted()["no_page"] == 1, "an item without a body is kept"
    assert f"a copy of {site}a" in crawl.log


def test_items_are_marked_and_an_unchanged_address_can_pass_again(tmp_path: Path) -> None:
    settings = {"SPOTSIEVE_MODE": "mark", "SPOTSIEVE_RECRAWL": "pass", "SPOTSIEVE_FIELD": "sieved"}
    settings |= {"SPOTSIEVE_STATE": str(tmp_path / "state")}
    verdicts = []
    for _ in range(2):
        crawler = get_crawler(settings_dict=settings)
        pipeline = DuplicatePipeline.from_crawler(crawler)
        items = [{"url": f"https://{name}.example/", "body": SITE[f"/{name}"]} for name in ("a", "copy")]
        verdicts += [pipeline.process_item(item)["sieved"] for item in items]
        crawler.signals.send_catch_log(signals.spider_closed)
    kinds = [(one["verdict"], one["reason"], one["original_url"]) for one in verdicts]
    assert kinds[0] == ("novel", "no_match", None)
    assert kinds[2] == ("novel", "first_attempt", None)
    assert kinds[1] == kinds[3] == ("duplicate", "contained", "https://a.example/")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"SPOTSIEVE_MODE": "drop"}, "SPOTSIEVE_MODE must be skip or mark, got 'drop'"),
        ({"SPOTSIEVE_RECRAWL": "yes"}, "SPOTSIEVE_RECRAWL must be drop or pass"),
        ({"SPOTSIEVE_FIELDS": {"html": "body"}}, "SPOTSIEVE_FIELDS must name fields among id, url, body"),
        ({"SPOTSIEVE_SETTINGS": {"index": {"scpoe": "host"}}}, "did you mean index.scope?"),
        ({"SPOTSIEVE_READ_ONLY": True}, "read_only needs the path of a state"),
        ({"SPOTSIEVE_STATE": "nowhere", "SPOTSIEVE_READ_ONLY": True}, "must hold a state"),
    ],
)
def test_a_wrong_setting_of_a_project_is_told_at_the_start(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((SettingError, StateError)) as error:
        DuplicatePipeline.from_crawler(get_crawler(settings_dict=settings))
    assert says in str(error.value)


class WithoutField(scrapy.Item):
    url = scrapy.Field()
    body = scrapy.Field()


def test_an_item_class_without_the_field_of_the_mark_is_told_what_to_add() -> None:
    crawler = get_crawler(settings_dict={"SPOTSIEVE_MODE": "mark"})
    pipeline = DuplicatePipeline.from_crawler(crawler)
    with pytest.raises(SettingError, match=r"add `spotsieve = scrapy.Field\(\)` to WithoutField"):
        pipeline.process_item(WithoutField(url="u", body="<p>x"))
    crawler.signals.send_catch_log(signals.spider_closed)


def test_where_the_state_fails_pages_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("the state", "is full", None, "make room")

    monkeypatch.setattr(Deduplicator, "add", fail)
    crawler = get_crawler(settings_dict={})
    pipeline = DuplicatePipeline.from_crawler(crawler)
    items = [{"url": "u", "body": f"<p>{article(1)}"} for _ in range(2)]
    assert [pipeline.process_item(item) for item in items] == items
    assert crawler.stats is not None
    assert crawler.stats.get_value("spotsieve/failed") == 2
    crawler.signals.send_catch_log(signals.spider_closed)


def test_the_settings_of_the_document_are_those_that_scrapy_takes(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "integrations.md").read_text("utf-8")
    add_on, *blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    project: dict[str, Any] = {}
    exec(add_on, project)
    assert [load_object(path) for path in project["ADDONS"]] == [Addon]
    made = []
    for block in blocks:
        given: dict[str, Any] = {}
        exec(block, given)
        settings = {name: value for name, value in given.items() if name.isupper()}
        (path,) = (settings.get("SPIDER_MIDDLEWARES") or settings["ITEM_PIPELINES"]).keys()
        crawler = get_crawler(settings_dict={**settings, "SPOTSIEVE_STATE": str(tmp_path / "seen")})
        made.append(load_object(path).from_crawler(crawler))
        if isinstance(made[-1], DuplicatePipeline):
            assert made[-1].process_item({"url": "", "html": f"<p>{article(1)}"})["html"]
        crawler.signals.send_catch_log(signals.spider_closed)
    assert [type(one) for one in made] == [DuplicateMiddleware, DuplicatePipeline]
    source = Path(inspect.getfile(DuplicatePipeline)).read_text("utf-8")
    assert set(re.findall(r"SPOTSIEVE_[A-Z_]+", source)) == set(re.findall(r"`(SPOTSIEVE_(?!SERVE_)[A-Z_]+)`", text))
