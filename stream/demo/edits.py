"""Edits the articles that another site takes over: nothing, typography, a dateline, a cut, or other words."""

import html
import re
from collections.abc import Callable
from enum import StrEnum
from random import Random

from spotsieve.stream.demo.articles import Article

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
    """The paragraphs as markup. Typography changes the markup and not the words."""
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
