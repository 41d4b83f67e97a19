"""The pages that broker tests send: a number always gives the same page, and no two numbers give near copies."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

Headers = Sequence[tuple[str, bytes]]

SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ha",
    "je",
    "ki",
    "lo",
    "mu",
    "na",
    "pe",
    "qui",
    "ro",
    "su",
    "ta",
    "ve",
    "wi",
)
FRAMES = (
    "the {} {} was a {} {} of the {} {} that is {} {}.",
    "a {} {} is the {} {} and to be {} {} there was an {} {}.",
    "it was {} {} {} for the {} {} {} with a {} {}.",
)


def article(number: int, sentences: int = 12) -> str:
    """English-looking text of unique words: about four spots per sentence."""
    dice = random.Random(number)
    words = ["".join(dice.choices(SYLLABLES, k=4)) for _ in range(sentences * 8)]
    return " ".join(FRAMES[n % 3].format(*words[n * 8 : n * 8 + 8]) for n in range(sentences))


def html_of(number: int, template: int = 0, sentences: int = 12) -> str:
    """The article in a site's frame. Another frame gives other bytes with the same main text."""
    site = f"site{template}"
    return (
        f"<!doctype html><html><head><title>{site}</title><style>p{{margin:{template}px}}</style></head><body>"
        f"<nav><a href='/{site}'>{site} home</a></nav><article><p>{article(number, sentences)}</p></article>"
        f"<footer>copyright {site}</footer></body></html>"
    )


def edited(html: str) -> str:
    """The same page with an editor's line above its text: a near copy, with another main text."""
    return html.replace("<p>", "<p>a line of the editor was put above the text as it came from the agency. ")


@dataclass(frozen=True, slots=True)
class PageMessage:
    """A message to send; its key names the page during the whole run."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


def url_of(number: int) -> str:
    return f"https://crawl.example/{number}"


def json_page(number: int, html: str, **fields: object) -> PageMessage:
    """A page as crawlers send it, keyed by its URL."""
    message = {"url": url_of(number), "body": html, "content_type": "text/html", **fields}
    return PageMessage(url_of(number).encode(), json.dumps(message).encode(), (("crawl", b"c%d" % number),))


@dataclass(frozen=True, slots=True)
class Crawl:
    """Messages, and the article of each key. Pages of one article are copies of each other."""

    messages: list[PageMessage]
    articles: dict[bytes, int]


def crawl(pages: int, copies_percent: int = 30, seed: int = 1, sentences: int = 5) -> Crawl:
    """Pages with copies at regular distances (half of them exact, half in another frame) of an earlier page.

    Five sentences are 70 words: with fewer than 60, two frames' titles would make two pages of the host's first pages.
    """
    dice = random.Random(seed)
    messages, articles = [], {}
    fresh: list[int] = []
    for number in range(pages):
        if fresh and dice.randrange(100) < copies_percent:
            shown = dice.choice(fresh)
        else:
            shown = seed * 10_000_000 + number
            fresh.append(shown)
        message = json_page(number, html_of(shown, template=dice.randrange(2), sentences=sentences))
        messages.append(message)
        assert message.key is not None
        articles[message.key] = shown
    return Crawl(messages, articles)
