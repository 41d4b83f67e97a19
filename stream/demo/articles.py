"""Writes the demo's articles, edits them as other sites would, and renders them as web pages.

The text is readable English from the hand-written sentences in articles.toml. A site that republishes an article may
change the typography, the dateline, the length, or some words. Each site has a template for its pages.
"""

import html
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from random import Random
from string import Template
from typing import Any

ARTICLES = 80
FACTS = 4
QUOTES = 2
ISSUE_DATE = "14 March 2026"


@dataclass(frozen=True, slots=True)
class Article:
    """An article. paragraphs: plain text  place: where the story takes place"""

    number: int
    section: str
    title: str
    author: str
    date: str
    place: str
    paragraphs: tuple[str, ...]

    def with_paragraphs(self, paragraphs: list[str], title: str | None = None) -> "Article":
        """The same article with another text."""
        return replace(self, paragraphs=tuple(paragraphs), title=title or self.title)

    @property
    def words(self) -> int:
        """The number of words in the text."""
        return sum(len(paragraph.split()) for paragraph in self.paragraphs)


@cache
def material() -> dict[str, Any]:
    """The content of articles.toml."""
    return tomllib.loads(resources.files(__package__).joinpath("articles.toml").read_text("utf-8"))


def write_articles(seed: int) -> list[Article]:
    """ARTICLES distinct articles; deterministic for a seed."""
    sentences = material()
    beats = sentences["beat"]
    # The beats alternate, as they would in a crawl.
    chosen = [
        (beat, topic)
        for topics in zip(*(beat["topics"] for beat in beats), strict=True)
        for beat, topic in zip(beats, topics, strict=True)
    ]
    return [
        _write(number, beat, topic, sentences, Random(f"{seed}-article-{number}"))
        for number, (beat, topic) in enumerate(chosen[:ARTICLES])
    ]


def _write(number: int, beat: dict[str, Any], topic: dict[str, Any], words: dict[str, Any], random: Random) -> Article:
    person, other, author = random.sample(words["names"], 3)
    slots = {
        "subject": topic["subject"],
        "Subject": topic["subject"][0].upper() + topic["subject"][1:],
        "person": person,
        "other": other,
        "body": random.choice(beat["bodies"]),
        "place": random.choice(words["places"]),
        "month": random.choice(words["months"]),
        "day": random.choice(words["days"]),
        "few": str(random.randint(3, 12)),
        "many": str(random.randint(104, 986)),
        "percent": str(random.randint(6, 48)),
        "year": str(random.randint(1948, 2011)),
    }
    facts = random.sample(beat["facts"], FACTS)
    quotes = random.sample(beat["quotes"], QUOTES)
    paragraphs = [
        f"{random.choice(beat['leads'])} {topic['own'][0]}",
        f"{facts[0]} {facts[1]}",
        quotes[0],
        f"{topic['own'][1]} {random.choice(beat['backgrounds'])}",
        f"{facts[2]} {quotes[1]}",
        f"{facts[3]} {random.choice(beat['outlooks'])}",
    ]
    return Article(
        number,
        beat["name"],
        topic["title"],
        author,
        ISSUE_DATE,
        slots["place"],
        tuple(_sentence_case(paragraph.format_map(slots)) for paragraph in paragraphs),
    )


def _sentence_case(text: str) -> str:
    return text[0].upper() + text[1:]


SYNONYMS = {
    "about": "around", "began": "started", "begin": "start", "expected": "due", "years": "seasons", "months": "weeks",
    "found": "discovered", "large": "big", "larger": "bigger", "people": "residents", "said": "explained",
    "told": "informed", "money": "funding", "shown": "displayed", "published": "released", "street": "road",
    "house": "home", "used": "employed", "made": "built", "asked": "invited", "whole": "entire", "third": "fourth",
    "small": "modest", "first": "initial", "different": "other", "almost": "nearly", "twice": "repeatedly",
    "known": "established", "looked": "glanced", "thought": "believed", "morning": "evening", "cost": "price",
    "in": "within", "on": "upon", "but": "though", "by": "through", "which": "that", "from": "out of", "day": "date",
    "year": "season", "town": "place", "more": "further", "only": "merely", "because": "since", "where": "in which",
}  # fmt: skip
EDITED_SHARE = 0.05
CUT_SHARES = (0.5, 0.75)


class ArticleEdit(StrEnum):
    """How a copy differs from the article, from the lightest to the heaviest."""

    NONE = "unchanged text, another template"
    TYPOGRAPHY = "curly quotes, entities, emphasis"
    DATELINE = "new headline and dateline"
    CUT = 'cut after half or more, "read more"'
    WORDS = "one word in twenty replaced"


def edit_article(article: Article, edit: ArticleEdit, random: Random) -> Article:
    """The article as another site prints it."""
    change: dict[ArticleEdit, Callable[[Article, Random], Article]] = {
        ArticleEdit.DATELINE: _dateline,
        ArticleEdit.CUT: _cut,
        ArticleEdit.WORDS: _words,
    }
    return change[edit](article, random) if edit in change else article


def paragraphs_html(article: Article, edit: ArticleEdit) -> str:
    """The paragraphs as HTML. The edit TYPOGRAPHY changes the markup but not the words."""
    return "\n".join(
        f"<p>{_typeset(paragraph) if edit is ArticleEdit.TYPOGRAPHY else html.escape(paragraph, quote=False)}</p>"
        for paragraph in article.paragraphs
    )


def _dateline(article: Article, random: Random) -> Article:
    agency = random.choice(["Wire", "North News", "Press Pool", "Regional Desk"])
    first, *rest = article.paragraphs
    title = f"{article.place}: {article.title}"
    return article.with_paragraphs([f"{article.place.upper()}, March 14 ({agency}) - {first}", *rest], title)


def _cut(article: Article, random: Random) -> Article:
    left = round(article.words * random.uniform(*CUT_SHARES))
    paragraphs = []
    for paragraph in article.paragraphs:
        words = paragraph.split()
        if len(words) >= left:
            paragraphs.append(" ".join(words[:left]) + " ...")
            break
        paragraphs.append(paragraph)
        left -= len(words)
    return article.with_paragraphs([*paragraphs, "Read more"])


def _words(article: Article, random: Random) -> Article:
    places = [
        (number, match.span())
        for number, paragraph in enumerate(article.paragraphs)
        for match in re.finditer(r"\b[a-z]+\b", paragraph)
        if match.group() in SYNONYMS
    ]
    chosen = sorted(random.sample(places, min(len(places), max(1, round(article.words * EDITED_SHARE)))), reverse=True)
    paragraphs = list(article.paragraphs)
    for number, (start, end) in chosen:
        text = paragraphs[number]
        paragraphs[number] = text[:start] + SYNONYMS[text[start:end]] + text[end:]
    return article.with_paragraphs(paragraphs)


def _typeset(paragraph: str) -> str:
    text = html.escape(paragraph, quote=False)
    text = re.sub(r'"([^"]*)"', r"&ldquo;\1&rdquo;", text).replace("'", "&rsquo;")
    text = re.sub(r" - ", " &mdash; ", text)
    text = re.sub(r"(\d) ", r"\1&nbsp;", text)
    return re.sub(r"^(\w+ \w+)", r"<strong>\1</strong>", text)


TEASERS = 6
COMMENTS = 4


@dataclass(frozen=True, slots=True)
class Site:
    """A web site. template: name of the template of all its pages"""

    host: str
    name: str
    template: str


SITES = (
    Site("www.northern-herald.example", "The Northern Herald", "broadsheet"),
    Site("www.eastbridge-times.example", "Eastbridge Times", "broadsheet"),
    Site("news.pressline.example", "Pressline", "agency"),
    Site("wire.unionpress.example", "Union Press", "agency"),
    Site("m.dispatch.example", "Dispatch", "mobile"),
    Site("amp.morningpost.example", "Morning Post", "mobile"),
    Site("www.calder-gazette.example", "Calder Gazette", "gazette"),
    Site("www.wexley-observer.example", "Wexley Observer", "gazette"),
    Site("hillside.weblog.example", "Hillside Notes", "weblog"),
    Site("rambler.weblog.example", "The Idle Rambler", "weblog"),
    Site("news.bigportal.example", "BigPortal News", "portal"),
    Site("today.netstart.example", "Netstart Today", "portal"),
    Site("www.dailyblast.example", "Daily Blast", "tabloid"),
    Site("www.thewhistle.example", "The Whistle", "tabloid"),
    Site("www.slowquarterly.example", "Slow Quarterly", "magazine"),
    Site("www.folio-review.example", "Folio Review", "magazine"),
)

NEWSPAPERS = ("broadsheet", "agency", "mobile", "gazette")
"""Templates with only links and labels around the article. The others have full sentences there."""

_COMMENTS = (
    "I was there, and it was not like that at all.",
    "The same thing was tried in my home town. It did not end well.",
    "A good article for once. There should be a prize for the headline.",
    "Has anyone asked what the neighbours think? I have, and they are not amused.",
    "My uncle had a hand in this, so I will say no more.",
    "First!",
    "The picture is from another place. You can tell by the lamp posts.",
    "This could have been a letter. A short one.",
    "Who is going to pay for it? That is what I would like to be told.",
    "There is a typing error in the third line, otherwise quite right.",
    "Thank you for writing about the people behind it.",
    "I have read this somewhere else, with a better picture.",
    "In the end it will be the cyclists who get the blame.",
    "Lovely. It made the whole bus look up when I laughed.",
)


def render(site: Site, article: Article, edit: ArticleEdit, random: Random) -> tuple[str, str]:
    """The article as a page of the site: (URL, HTML)."""
    number = 100 + article.number
    slug = "-".join("".join(c if c.isalnum() and c.isascii() else " " for c in article.title.lower()).split()[:5])
    url = f"https://{site.host}/{article.section}/{number}/{slug}.html"
    slots = {
        "site": html.escape(site.name),
        "host": site.host,
        "url": url,
        "title": html.escape(article.title),
        "author": article.author,
        "date": article.date,
        "section": article.section,
        "number": str(number),
        "article": paragraphs_html(article, edit),
        "teasers": _teasers(random, article.title, site.template),
        "comments": "\n".join(
            f"<li><p>{html.escape(random.choice(material()['names']))}: {html.escape(text)}</p></li>"
            for text in random.sample(_COMMENTS, COMMENTS)
        ),
    }
    return url, _template(site.template).substitute(slots)


@cache
def _template(name: str) -> Template:
    return Template(resources.files(__package__).joinpath("templates", f"{name}.html").read_text("utf-8"))


@cache
def _headlines(newspaper: bool) -> tuple[str, ...]:
    """The titles of all topics; for newspapers only those in their style, without articles and auxiliary verbs."""
    titles = [topic["title"] for beat in material()["beat"] for topic in beat["topics"]]
    words = {"a", "an", "the", "is", "are", "be", "was", "were", "has", "have", "do", "did", "will", "can"}
    return tuple(title for title in titles if not newspaper or not words & set(title.lower().split()))


def _teasers(random: Random, but: str, template: str) -> str:
    headlines = _headlines(template in NEWSPAPERS)
    chosen = random.sample([title for title in headlines if title != but], TEASERS)
    links = [f'<a href="/story/{random.randint(1000, 9999)}">{html.escape(title)}</a>' for title in chosen]
    return "\n".join(f"<li>{link}</li>" for link in links)
