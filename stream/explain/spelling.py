"""Shows a page's words as they stand in the page: with their case, and with the marks between them."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise

from spotsieve.stream.page import Page
from spotsieve.stream.text.elements import BLOCK, BREAK, ELEMENTS, FOREIGN, HIDDEN, HIDDEN_BREAK, SCRIPT, TEMPLATE

MOST_BYTES = 1_000_000
"""A larger page is shown by its words as they are compared."""
LOOK_AHEAD = 4_000
"""Characters that may lie between two words of a page."""
MOST_BETWEEN = 12
"""More characters than this between two words are shown as a blank."""
_UNSEEN = frozenset(name for kind in (HIDDEN, HIDDEN_BREAK, SCRIPT, TEMPLATE, FOREIGN) for name in ELEMENTS[kind])
_PARTING = frozenset(ELEMENTS[BLOCK] + ELEMENTS[BREAK])


class Source:
    """The text of a page. take() gives the page's words in their order, each with what stands before it."""

    def __init__(self, page: Page) -> None:
        self.title = ""
        self._text = ""
        if page.judgeable and len(page.body) <= MOST_BYTES:
            body = page.body.decode("utf-8", "replace")
            self._text, self.title = _text_of(body) if page.markup else (body, "")
        self._lower = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in self._text)
        self._at = 0

    def take(self, words: Sequence[str]) -> list[tuple[str, str]]:
        """The next words of the page, a block -> (what stands before the word in its block, the word as it is)."""
        places = [self._find(word) for word in words]
        shown = [
            (self._text[place[0] : place[1]] if place else word) for word, place in zip(words, places, strict=True)
        ]
        return list(zip(self._between(places), shown, strict=True))

    def _find(self, word: str) -> tuple[int, int] | None:
        """Where the next such word begins and ends; None if it is not near, as one that is written otherwise."""
        at = self._at
        while (start := self._lower.find(word, at, at + LOOK_AHEAD)) >= 0:
            end = start + len(word)
            joined = self._lower[start - 1 : start].isalnum() and word[:1].isascii()
            if not joined:
                self._at = end
                return start, end
            at = end
        return None

    def _between(self, places: Sequence[tuple[int, int] | None]) -> Iterator[str]:
        yield ""
        for one, other in pairwise(places):
            between = " ".join(self._text[one[1] : other[0]].split(" ")) if one and other else " "
            between = re.sub(r"\s+", " ", between)
            yield between if len(between) <= MOST_BETWEEN else " "


class _Reader(HTMLParser):
    """Collects the text of a page, and its title."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.titles: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the library's
        if tag in _UNSEEN:
            self._inside.append(tag)
        self._part(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[self._inside.index(tag) :]
        self._part(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.parts.append(data)
        elif self._inside[0] == "title":
            self.titles.append(data)

    def _part(self, tag: str) -> None:
        """Keep the words of two blocks apart."""
        if tag in _PARTING:
            self.parts.append("\n")


def _text_of(markup: str) -> tuple[str, str]:
    """The text of a page of markup, and its title."""
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    text = unicodedata.normalize("NFC", "".join(reader.parts))
    return text, " ".join("".join(reader.titles).split())
