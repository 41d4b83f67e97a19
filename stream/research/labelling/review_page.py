"""Writes a review as one HTML file that loads no other resources and shows foreign text only as text.

    data  = {"review": head, "pairs": [pair]}, JSON in a <script> of a type that browsers do not run
    head  = {"id", "scheme", "settings": digest, "seed", "pages", "strata": [{"name", "pages", "drawn"}],
             "fresh_text": numbers of the verdicts by fresh text}
    pair  = {"id_a", "id_b", "stratum": place among the strata, "drawn", "score", "reason", "fresh": number of words,
             "words": number, "lost": whether the page is lost by fresh text, "sides": [earlier, later]}

The page exports JSON Lines: {"review": head}, then for each judged pair {"id_a", "id_b", "label": copy | different |
skipped, "stratum": name, "drawn", "score", "reason"}. stream/research/labelling/labels.py reads them.

A pair is shown as two pages side by side, with lines of text, boilerplate, and shared passages marked.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import chain
from typing import NamedTuple

import orjson
import xxhash

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.insight.explain.texts import shingles_in_words
from spotsieve.stream.research.evaluation.choices import single
from spotsieve.stream.research.labelling.population import Population, ReviewPair, Stratum, changed_input, in_order
from spotsieve.stream.research.models.term_counter import batches_of
from spotsieve.stream.research.scoring.fresh_text import fresh_json
from spotsieve.stream.sign.features.shown_text import Paragraph, ShownText, paragraphs_of, read_text

SHINGLE_WORDS = 3
"""The least number of consecutive words of a shared passage."""
MOST_BYTES = 20_000
"""The most bytes of one page's text, in UTF-8: a review of 200 pairs stays below 10 MB."""
LEFT_OUT_WORDS = 12
"""The words shown of a line of boilerplate, if the page's text is too long."""
SHOWN_URL = 2_000
_UNSAFE = str.maketrans({code: f"\\u{code:04x}" for code in (*b"<>&", 0x2028, 0x2029)})
"""Escapes for JSON in a <script>: with them it cannot end the element, begin a comment, or be read as markup."""


class Side(NamedTuple):
    """One page as a reviewer sees it.

    lines: for each line whether it is main text, and its text in parts: not shared, shared, not shared, ...
    words: the number of words of the page
    cut: the number of words that are not shown
    """

    url: str
    host: str
    title: str
    lines: list[tuple[bool, list[str]]]
    words: int
    cut: int


def side_by_side(earlier: Page, later: Page) -> tuple[Side, Side]:
    """Both pages, with their shared passages marked."""
    shown = [read_text(page.body, page.markup) for page in (earlier, later)]
    paragraphs = [paragraphs_of(text, page) for text, page in zip(shown, (earlier, later), strict=True)]
    forms = [[word.form for word in chain.from_iterable(line.words for line in lines)] for lines in paragraphs]
    length = min(SHINGLE_WORDS, *map(len, forms)) or 1
    common = set.intersection(*({*shingles_in_words(own, length)} for own in forms))
    sides = [
        _side(page, text, lines, _shared(own, common, length))
        for page, text, lines, own in zip((earlier, later), shown, paragraphs, forms, strict=True)
    ]
    return sides[0], sides[1]


def _shared(forms: Sequence[str], common: set[tuple[str, ...]], length: int) -> list[bool]:
    """For each word whether it is in a shingle of both pages."""
    shared = [False] * len(forms)
    for place, shingle in enumerate(shingles_in_words(forms, length)):
        if shingle in common:
            shared[place : place + length] = [True] * length
    return shared


def _side(page: Page, shown: ShownText, paragraphs: Sequence[Paragraph], shared: Sequence[bool]) -> Side:
    words = sum(len(line.words) for line in paragraphs)
    total_bytes = sum(len(shown.text[line.start : line.end].encode()) for line in paragraphs)
    lines, place, left, seen = list[tuple[bool, list[str]]](), 0, MOST_BYTES, 0
    for line in paragraphs:
        flags = shared[place : place + len(line.words)]
        place += len(line.words)
        most = len(line.words)
        if total_bytes > MOST_BYTES and not line.kept:
            most = min(most, LEFT_OUT_WORDS)
        while most and len(_text(shown, line, most).encode()) > left:
            most //= 2
        if not most:
            break
        left -= len(_text(shown, line, most).encode())
        seen += most
        lines.append((line.kept, _parts(shown, line, flags, most)))
    return Side(page.url[:SHOWN_URL], host_of(page.url[:SHOWN_URL]), shown.title[:300], lines, words, words - seen)


def _text(shown: ShownText, line: Paragraph, most: int) -> str:
    return shown.text[line.start : _end(line, most)]


def _end(line: Paragraph, most: int) -> int:
    return line.end if most == len(line.words) else line.words[most - 1].end


def _parts(shown: ShownText, line: Paragraph, flags: Sequence[bool], most: int) -> list[str]:
    """The text in parts: not shared, shared, not shared, ... A shared part ends with its last word."""
    parts, start, before = list[str](), line.start, False
    for number in range(most):
        if flags[number] != before:
            word = line.words[number]
            cut = word.start if flags[number] else line.words[number - 1].end
            parts.append(shown.text[start:cut])
            start, before = cut, flags[number]
    parts.append(shown.text[start : _end(line, most)] + ("" if most == len(line.words) else " \N{HORIZONTAL ELLIPSIS}"))
    return parts


def review_page(
    inputs: Sequence[Input], settings: Settings, population: Population, strata: Sequence[Stratum], seed: int
) -> bytes:
    """The HTML file. Reads the shown pages from the files again. Raises InputError if the files have changed."""
    ordered = in_order(strata, seed)
    pages = _shown_pages(inputs, settings, {place for _, pair in ordered for place in (pair.earlier, pair.later)})
    for place, page in pages.items():
        if population.urls[place] != page.url:
            raise changed_input(page.source)
    places = {stratum.name: number for number, stratum in enumerate(strata)}
    pairs = [_pair_json(pair, places[stratum.name], population, pages) for stratum, pair in ordered]
    head = {
        "scheme": settings.scheme.name,
        "settings": single(settings, settings.scheme).digest,
        "seed": seed,
        "pages": len(population.ids),
        "strata": [{"name": one.name, "pages": one.pages, "drawn": len(one.drawn)} for one in strata],
        "fresh_text": fresh_json(population.fresh),
    }
    drawn = orjson.dumps([head, [(pair["id_a"], pair["id_b"]) for pair in pairs]])
    head["id"] = xxhash.xxh3_128_hexdigest(drawn)
    return _filled(orjson.dumps({"review": head, "pairs": pairs}).decode()).encode()


def _shown_pages(inputs: Sequence[Input], settings: Settings, wanted: set[int]) -> dict[int, Page]:
    found, place = dict[int, Page](), 0
    for batch, _ in batches_of(inputs, settings):
        for page in batch:
            if place in wanted:
                found[place] = page
            place += 1
    if len(found) < len(wanted):
        raise changed_input(inputs[-1].source)
    return found


def _pair_json(pair: ReviewPair, stratum: int, population: Population, pages: Mapping[int, Page]) -> dict[str, object]:
    return {
        "id_a": population.ids[pair.earlier],
        "id_b": population.ids[pair.later],
        "stratum": stratum,
        "drawn": pair.drawn,
        "score": round(pair.score, 6),
        "reason": pair.reason,
        "fresh": pair.fresh,
        "words": pair.words,
        "lost": pair.lost,
        "sides": [_side_json(side) for side in side_by_side(pages[pair.earlier], pages[pair.later])],
    }


def _side_json(side: Side) -> dict[str, object]:
    lines = [(int(kept), parts) for kept, parts in side.lines]
    return {"url": side.url, "title": side.title, "words": side.words, "cut": side.cut, "lines": lines}


def _filled(data: str) -> str:
    """The template with style, script and data. Its security policy allows only this style and script, by digest."""
    here = resources.files(__package__)
    script, style = (here.joinpath(name).read_text("utf-8") for name in ("review.js", "review.css"))
    values = {
        "script": script,
        "style": style,
        "script_digest": _digest(script),
        "style_digest": _digest(style),
        "data": data.translate(_UNSAFE),
    }
    head, *rest = here.joinpath("review.html").read_text("utf-8").split("{{")
    parts = [head]
    for piece in rest:
        name, _, text = piece.partition("}}")
        parts += (values[name], text)
    return "".join(parts)


def _digest(text: str) -> str:
    """The source of an inline script or style in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
