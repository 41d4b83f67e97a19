"""The demo's web sites: each has a template, which turns an article into a page."""

import html
from dataclasses import dataclass
from functools import cache
from importlib import resources
from random import Random
from string import Template

from spotsieve.stream.demo.articles import Article, material
from spotsieve.stream.demo.edits import ArticleEdit, paragraphs_html

TEASERS = 6
COMMENTS = 4


@dataclass(frozen=True, slots=True)
class Site:
    """A web site: its host, its name, and the template that all its pages share."""

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
"""Templates with only links and labels around the article. The others have whole sentences there."""

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
    """Titles of all topics, for newspapers only those without articles and auxiliary verbs, which is their style."""
    titles = [topic["title"] for beat in material()["beat"] for topic in beat["topics"]]
    words = {"a", "an", "the", "is", "are", "be", "was", "were", "has", "have", "do", "did", "will", "can"}
    return tuple(title for title in titles if not newspaper or not words & set(title.lower().split()))


def _teasers(random: Random, but: str, template: str) -> str:
    headlines = _headlines(template in NEWSPAPERS)
    chosen = random.sample([title for title in headlines if title != but], TEASERS)
    links = [f'<a href="/story/{random.randint(1000, 9999)}">{html.escape(title)}</a>' for title in chosen]
    return "\n".join(f"<li>{link}</li>" for link in links)
