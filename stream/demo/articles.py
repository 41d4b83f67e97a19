"""Writes the demo's articles: readable English from the hand-written sentences of articles.toml."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from random import Random
from typing import Any

ARTICLES = 80
FACTS = 4
QUOTES = 2
ISSUE_DATE = "14 March 2026"


@dataclass(frozen=True, slots=True)
class Article:
    """One article. paragraphs: plain text  place: where it plays"""

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
        """Words of the text."""
        return sum(len(paragraph.split()) for paragraph in self.paragraphs)


@cache
def material() -> dict[str, Any]:
    """The content of articles.toml."""
    return tomllib.loads(resources.files(__package__).joinpath("articles.toml").read_text("utf-8"))


def write_articles(seed: int) -> list[Article]:
    """ARTICLES different articles; the same ones for the same seed."""
    sentences = material()
    beats = sentences["beat"]
    # The beats take turns, as a crawl would meet them.
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
