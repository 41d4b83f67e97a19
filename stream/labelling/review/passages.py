"""Lays two pages side by side for the eye: lines of text, what the filter leaves out, and the passages they share."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from spotsieve.stream.explain.shown_text import Paragraph, ShownText, paragraphs_of, read_text
from spotsieve.stream.hosts import host_of
from spotsieve.stream.page import Page

SHINGLE_WORDS = 3
"""So many words in a row make a shared passage."""
MOST_BYTES = 20_000
"""Of the text of one page, in UTF-8: so a review of 200 pairs stays below 10 MB."""
LEFT_OUT_WORDS = 12
"""Of a longer text a left-out line shows its first words."""
SHOWN_URL = 2_000


class Side(NamedTuple):
    """One page as a reviewer sees it.

    lines: (whether the filter keeps it, its text in parts: every second one is shared, beginning with one that is not)
    words: of the whole page  cut: words that are not shown
    """

    url: str
    host: str
    title: str
    lines: list[tuple[bool, list[str]]]
    words: int
    cut: int


def side_by_side(earlier: Page, later: Page) -> tuple[Side, Side]:
    """Both pages, with the passages marked that stand on both."""
    shown = [read_text(page.body, page.markup) for page in (earlier, later)]
    paragraphs = [paragraphs_of(text, page) for text, page in zip(shown, (earlier, later), strict=True)]
    forms = [[word.form for word in chain.from_iterable(line.words for line in lines)] for lines in paragraphs]
    length = min(SHINGLE_WORDS, *map(len, forms)) or 1
    common = set.intersection(*({*_shingles(own, length)} for own in forms))
    sides = [
        _side(page, text, lines, _shared(own, common, length))
        for page, text, lines, own in zip((earlier, later), shown, paragraphs, forms, strict=True)
    ]
    return sides[0], sides[1]


def _shingles(forms: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return [tuple(forms[place : place + length]) for place in range(len(forms) - length + 1)]


def _shared(forms: Sequence[str], common: set[tuple[str, ...]], length: int) -> list[bool]:
    """For each word whether it stands in a shingle of both pages."""
    shared = [False] * len(forms)
    for place, shingle in enumerate(_shingles(forms, length)):
        if shingle in common:
            shared[place : place + length] = [True] * length
    return shared


def _side(page: Page, shown: ShownText, paragraphs: Sequence[Paragraph], shared: Sequence[bool]) -> Side:
    words = sum(len(line.words) for line in paragraphs)
    whole = sum(len(shown.text[line.start : line.end].encode()) for line in paragraphs)
    lines, place, left, seen = list[tuple[bool, list[str]]](), 0, MOST_BYTES, 0
    for line in paragraphs:
        flags = shared[place : place + len(line.words)]
        place += len(line.words)
        most = len(line.words)
        if whole > MOST_BYTES and not line.kept:
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
    """The text in parts: not shared, shared, not shared, ...; a mark ends with its last word."""
    parts, start, before = list[str](), line.start, False
    for number in range(most):
        if flags[number] != before:
            word = line.words[number]
            cut = word.start if flags[number] else line.words[number - 1].end
            parts.append(shown.text[start:cut])
            start, before = cut, flags[number]
    parts.append(shown.text[start : _end(line, most)] + ("" if most == len(line.words) else " \N{HORIZONTAL ELLIPSIS}"))
    return parts
