"""The pages of the benchmarks: those of the labelled sets (real_pages.py), or generated ones without the sets.

Generated pages share their sentences. So they have many candidates, and the judge takes longer than for real ones.
"""

from collections.abc import Iterator
from functools import cache
from random import Random

import orjson

from bench.speed.real_pages import has_real_pages, real_messages
from spotsieve.stream.demo.articles import (
    NEWSPAPERS,
    SITES,
    Article,
    ArticleEdit,
    Site,
    material,
    render,
    write_articles,
)

PAGE_BYTES = 20_000
DUPLICATES = 0.3
ARTICLE_SHARE = 0.13
"""Shares of a page's bytes. Of the 1,953 pages of ../shared/data/news, 11 % are words, 18 % script and style."""
SCRIPT_SHARE = 0.18
JSON_BYTES = 1_800
"""Field names, and the escapes of quotation marks."""
RECENT = 500
_NEWSPAPER_SITES = [site for site in SITES if site.template in NEWSPAPERS]


def bench_messages(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` JSON messages of about 20 KB: real pages, or generated ones without the labelled sets."""
    return real_messages(count, seed) if has_real_pages() else json_messages(count, seed)


def source_of_pages() -> str:
    """The source of `bench_messages`, for tables."""
    return "pages of the labelled sets" if has_real_pages() else "generated pages"


def json_messages(count: int, seed: int, page_bytes: int = PAGE_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of `count` JSON messages of about page_bytes; three in ten repeat the article of an earlier page.

    A copy has another URL, and the menus, scripts and teasers of another site.
    """
    random = Random(f"bench-{seed}")
    recent: list[Article] = []
    for number in range(count):
        is_copy = bool(recent) and random.random() < DUPLICATES
        article = random.choice(recent) if is_copy else _article(random, round(page_bytes * ARTICLE_SHARE))
        if not is_copy:
            recent = [*recent[1 - RECENT :], article]
        site = _NEWSPAPER_SITES[number % len(_NEWSPAPER_SITES)]
        url, markup = render(site, article, ArticleEdit.NONE, random)
        body_end = markup.lower().rindex("</body")
        around = _surroundings(site, max(0, page_bytes - len(markup) - JSON_BYTES))
        body = f"{markup[:body_end]}{around}{markup[body_end:]}"
        url = f"{url}?n={number}"
        fields = {"url": url, "fetched_at": 1_773_468_000 + number, "content_type": "text/html", "body": body}
        yield url.encode(), orjson.dumps(fields)


def html_pages(count: int, seed: int) -> list[bytes]:
    """Only the bodies of `bench_messages`, as UTF-8."""
    return [orjson.loads(value)["body"].encode() for _, value in bench_messages(count, seed)]


def _article(random: Random, size: int) -> Article:
    """Sentences of all beats in random order, with new random numbers and names: `size` characters."""
    words, (sentences, subjects) = material(), _sentences()
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < size:
        slots = {"subject": random.choice(subjects), "Subject": "It", "body": "the council"}
        slots |= {name: random.choice(words[f"{name}s"]) for name in ("place", "month", "day")}
        slots |= {"person": random.choice(words["names"]), "other": random.choice(words["names"])}
        slots |= {"few": str(random.randint(3, 12)), "many": str(random.randint(104, 9_986))}
        slots |= {"percent": str(random.randint(6, 48)), "year": str(random.randint(1900, 2026))}
        paragraphs.append(" ".join(random.sample(sentences, 3)).format_map(slots))
    title = f"{random.choice(subjects)}, {random.randint(1, 10**9)}"
    return _any_article().with_paragraphs(paragraphs, title)


@cache
def _any_article() -> Article:
    """Any article: the source of author and section of the generated ones."""
    return write_articles(0)[0]


@cache
def _sentences() -> tuple[list[str], list[str]]:
    """All sentences and all subjects of the demo's material."""
    beats = material()["beat"]
    sentences = [
        text for beat in beats for kind in ("facts", "backgrounds", "quotes", "outlooks") for text in beat[kind]
    ]
    sentences += [text for beat in beats for topic in beat["topics"] for text in topic["own"]]
    return sentences, [topic["subject"] for beat in beats for topic in beat["topics"]]


@cache
def _surroundings(site: Site, size: int) -> str:
    """Menus and scripts of a site, `size` characters."""
    random = Random(site.host)
    script = "".join(
        f'["{random.randbytes(6).hex()}",{{"w":{random.randint(1, 999)},"h":"<i class=\\"x\\">"}}],'
        for _ in range(round(size * SCRIPT_SHARE / 45))
    )
    parts, length = [f"<script>window.slots=[{script}];</script>\n"], len(script)
    while length < size:
        name = random.choice(("News", "Local", "Weather", "Jobs", "Cars", "Video", "Letters", "Chess", "Photos"))
        item = (
            f'<li class="menu__item menu__item--level-{random.randint(1, 3)}" data-track="{random.randbytes(4).hex()}">'
            f'<a class="menu__link" href="https://{site.host}/{name.lower()}/{random.randint(100, 999)}/" '
            f'title="{name}" rel="nofollow"><span class="menu__label">{name}</span></a></li>\n'
        )
        parts.append(item)
        length += len(item)
    return "".join(parts)
