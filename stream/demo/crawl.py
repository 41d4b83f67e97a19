"""Builds the demo's crawl: the messages, and the truth about each of them."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

import orjson

from spotsieve.stream.demo.articles import (
    NEWSPAPERS,
    SITES,
    Article,
    ArticleEdit,
    Site,
    edit_article,
    render,
    write_articles,
)

SEED = 2008
COPY_COUNTS = (0, 1, 2, 2, 3, 4, 6)
"""Number of other sites that republish an article. Each value is equally likely."""
EDITS = (
    ArticleEdit.NONE,
    ArticleEdit.NONE,
    ArticleEdit.NONE,
    ArticleEdit.TYPOGRAPHY,
    ArticleEdit.TYPOGRAPHY,
    ArticleEdit.DATELINE,
    ArticleEdit.CUT,
    ArticleEdit.WORDS,
)
TRADE_WEIGHT = 4
"""How much more often an article appears in a newspaper than on a site of another kind."""
RECRAWLS = 8
HOME = "articles on their original site"
RECRAWL = "the same URL fetched again"
SYNDICATED = "republished by another site"
ODD = "odd messages"
_START = datetime(2026, 3, 14, 6, 0, tzinfo=UTC)
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"


@dataclass(frozen=True, slots=True)
class CrawlMessage:
    """One message of the crawl, and the truth about it.

    article: number of the article on the page; None for odd messages  kind: HOME, RECRAWL, SYNDICATED or ODD
    about: description of an odd message  body: the page's HTML
    """

    key: bytes
    value: bytes | None
    url: str
    kind: str
    about: str = ""
    article: int | None = None
    edit: ArticleEdit = ArticleEdit.NONE
    template: str = ""
    body: bytes = b""


def build_crawl(seed: int = SEED) -> list[CrawlMessage]:
    """The messages in sending order; deterministic for a seed."""
    random = Random(f"{seed}-crawl")
    articles = write_articles(seed)
    homes: list[CrawlMessage] = []
    copies: list[CrawlMessage] = []
    for article in articles:
        home, *others = _choose_sites(random, 1 + random.choice(COPY_COUNTS))
        homes.append(_page(home, article, ArticleEdit.NONE, HOME, seed))
        copies += [_page(site, article, random.choice(EDITS), SYNDICATED, seed) for site in others]
    random.shuffle(copies)
    recrawls = [replace(page, kind=RECRAWL) for page in random.sample(homes, RECRAWLS)]
    # Articles and copies are spread over the day. Most copies come after the original page, a few before it.
    stream = homes[:40] + copies[: len(copies) // 3] + homes[40:] + copies[len(copies) // 3 :] + recrawls
    stream[150:150] = _odd_messages()
    return [_timed(message, number) for number, message in enumerate(stream)]


def crawl_summary(crawl: list[CrawlMessage]) -> list[tuple[str, int]]:
    """Rows (description, number of messages) for people, with the copies by edit."""
    kinds = Counter(sent.kind for sent in crawl)
    edits = Counter(sent.edit for sent in crawl if sent.kind == SYNDICATED)
    rows = [(HOME, kinds[HOME])]
    rows += [(f"{SYNDICATED}: {edit.value}", edits[edit]) for edit in ArticleEdit]
    rows.append((RECRAWL, kinds[RECRAWL]))
    rows += [(sent.about, 1) for sent in crawl if sent.kind == ODD]
    return rows


def _choose_sites(random: Random, number: int) -> list[Site]:
    """Choose distinct sites. Newspapers and agencies are more likely, since they trade articles."""
    left = list(SITES)
    chosen = []
    for _ in range(number):
        (site,) = random.choices(left, [TRADE_WEIGHT if site.template in NEWSPAPERS else 1 for site in left])
        left.remove(site)
        chosen.append(site)
    return chosen


def _page(site: Site, article: Article, edit: ArticleEdit, kind: str, seed: int) -> CrawlMessage:
    random = Random(f"{seed}-{site.host}-{article.number}")
    url, markup = render(site, edit_article(article, edit, random), edit, random)
    body = markup.encode()
    fields = {"url": url, "content_type": "text/html; charset=utf-8", "body": markup}
    return CrawlMessage(url.encode(), orjson.dumps(fields), url, kind, "", article.number, edit, site.template, body)


def _timed(sent: CrawlMessage, number: int) -> CrawlMessage:
    """The message with its fetch time: 7 s after the previous message."""
    if sent.value is None or sent.kind == ODD:
        return sent
    fields = orjson.loads(sent.value)
    fetched = _START + timedelta(seconds=7 * number)
    return replace(sent, value=orjson.dumps({"fetched_at": fetched.isoformat(), **fields}))


def _odd_messages() -> list[CrawlMessage]:
    """Unusual messages, as in every crawl. The filter must neither stop at them nor drop them."""
    image = {
        "url": "https://m.dispatch.example/px.png",
        "content_type": "image/png",
        "body": _PIXEL,
        "fetched_at": _START.isoformat(),
    }
    empty = {"url": "https://www.thewhistle.example/gone", "content_type": "text/html", "body": ""}
    login = {
        "url": "https://news.bigportal.example/signin",
        "content_type": "text/html",
        "body": "<html><body><form><label>Name<input></label><label>Password<input></label></form></body></html>",
    }
    found = [
        ("an image", image["url"], orjson.dumps(image)),
        ("an empty page", empty["url"], orjson.dumps(empty)),
        ("a log-in form", login["url"], orjson.dumps(login)),
        ("broken JSON", "https://broken.example/", b'{"url": "https://broken.example/", "body": "<p>the crawler died'),
        ("a tombstone (a key without a value)", "https://www.thewhistle.example/deleted", None),
    ]
    return [CrawlMessage(url.encode(), value, url, ODD, about) for about, url, value in found]
