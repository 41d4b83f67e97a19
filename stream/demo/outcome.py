"""Compares the outputs with the truth: which copies were found or missed, and whether a page was lost."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from spotsieve.stream.demo.crawl import HOME, RECRAWL, SYNDICATED, CrawlMessage
from spotsieve.stream.demo.edits import ArticleEdit
from spotsieve.stream.demo.traffic import OutputMessages

WEIGHT = {edit: weight for weight, edit in enumerate(ArticleEdit)}


@dataclass(slots=True)
class DemoOutcome:
    """The fate of the planted copies.

    found, missed: copies by how they differ from the page that stands for the article
    lost: addresses of dropped pages that show another article than their original, or nothing at all
    strays: messages that did not come out exactly once  reports: the parsed duplicate reports
    """

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether no page was lost, doubled, or dropped for the wrong reason."""
        return not self.lost and not self.strays


def compare(crawl: Sequence[CrawlMessage], received: OutputMessages) -> DemoOutcome:
    """Compare the outputs with the truth. An address names a page; a re-crawl of the address is the same page again."""
    outcome = DemoOutcome(reports=[orjson.loads(record.value) for record in received.duplicates])
    truth = {sent.url: sent for sent in crawl}
    dropped = [report["page"]["url"] for report in outcome.reports]
    kept = [record.key.decode() for record in (*received.novel, *received.rejected)]
    came_out, went_in = Counter(dropped) + Counter(kept), Counter(sent.url for sent in crawl)
    outcome.strays = sorted(url for url in came_out | went_in if came_out[url] != went_in[url])
    for report in outcome.reports:
        page, original = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
        if page.article is None or page.article != original.article:
            outcome.lost.append(page.url)
        else:
            outcome.found[difference(page, original)] += 1
    _count_missed(outcome, [truth[url] for url in kept])
    return outcome


def difference(page: CrawlMessage, original: CrawlMessage) -> str:
    """How a pair differs: not at all for a re-crawl, else by the heavier of the two edits."""
    if page.url == original.url:
        return RECRAWL
    return max(page.edit, original.edit, key=lambda edit: WEIGHT[edit]).value


def article_count(crawl: Sequence[CrawlMessage]) -> int:
    """Different articles in the crawl."""
    return len({sent.article for sent in crawl if sent.kind in (HOME, SYNDICATED, RECRAWL)} - {None})


def _count_missed(outcome: DemoOutcome, kept: Sequence[CrawlMessage]) -> None:
    """Of the pages that were let through the least edited one stands for its article. The others are missed copies."""
    by_article: defaultdict[int, list[CrawlMessage]] = defaultdict(list)
    for sent in kept:
        if sent.article is not None:
            by_article[sent.article].append(sent)
    for pages in by_article.values():
        original, *others = sorted(pages, key=lambda sent: (WEIGHT[sent.edit], sent.kind != HOME))
        for page in others:
            outcome.missed[difference(page, original)] += 1
