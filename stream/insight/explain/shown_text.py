"""Extracts the visible text of a page with its original spelling, and the source position of every character.

The filter's scanner yields lower-case words without punctuation and spaces. People need the full text. To mark the main
text, the words of both are aligned (stream/sign/features/sieve.py decides which blocks are main text).

PageBlocks are the blocks of the page as the judge counts them, with the text that each belongs to.

Every pattern stops at the next "<", so a hostile page costs time linear in its size.
"""

import enum
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.base.page_text import KEPT, OUTSIDE_SHIFT, WIDE
from spotsieve.stream.judge.by_host.containment import ALL_TEXT, LINK_BLOCK, MAIN_TEXT, TEMPLATE_TEXT
from spotsieve.stream.judge.by_host.distinctive_text import IS_OWN, IS_TEMPLATE
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.text.html.elements import (
    BLOCK,
    BREAK,
    ELEMENTS,
    FOREIGN,
    HIDDEN,
    HIDDEN_BREAK,
    SCRIPT,
    TEMPLATE,
)

MAX_CHARACTERS = 2_000_000
"""Longer pages are truncated."""
_LOOKAHEAD = 48
"""How many of the filter's words may be missing in the text before the alignment gives a word up."""
_BLOCKS = frozenset(ELEMENTS[BLOCK])
_BREAKS = frozenset((*ELEMENTS[BREAK], *ELEMENTS[HIDDEN_BREAK]))
_UNSEEN = "|".join(name for kind in (HIDDEN, HIDDEN_BREAK, SCRIPT, TEMPLATE, FOREIGN) for name in ELEMENTS[kind])
_HTML_MARKUP = (
    rf"<!--.*?(?:-->|\Z)|<(?P<unseen>{_UNSEEN})\b(?![^<>]*(?:/>|\bshadowrootmode\s*=))[^<>]*>"
    r"(?P<content>.*?)(?:</(?P=unseen)\b[^<>]*>|\Z)"
    r"""|</?(?P<tag>[a-z][a-z0-9-]*)(?:[^<>"']|"[^"<]*"|'[^'<]*'|["'])*+>|<[!?/][^<>]*>"""
)
_MARKUP = re.compile(_HTML_MARKUP, re.DOTALL | re.IGNORECASE)
# CDATA sections are text in XML.
_XML_MARKUP = re.compile(rf"<!\[CDATA\[|\]\]>|{_HTML_MARKUP}", re.DOTALL | re.IGNORECASE)
REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
"""A character reference, such as &amp;."""
_PIECE = re.compile(rf"{REFERENCE.pattern}|\s+|[^&\s]+|&", re.IGNORECASE)
_BLANK_LINE = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_SOFT_HYPHEN = "\xad"
# In scripts without spaces every character is a word, as in the filter. Marks belong to the letter before them.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARKS = "\u0300-\u036f\u064b-\u065f\u0900-\u0903\u093a-\u094f"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}](?:[^\W_{_SPACELESS}]|[{_MARKS}])*")


class Word(NamedTuple):
    """A word of a text: text[start:end]. form: lower case, for comparison"""

    start: int
    end: int
    form: str


@dataclass(frozen=True, slots=True)
class ShownText:
    """The visible text of a page. text: one paragraph per line  origins: source position of each character

    title: content of <title>, "" if there is none  source: the decoded page
    """

    text: str
    origins: Sequence[int]
    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A line of the text. words: in order  kept: whether most of its words are main text to the default scheme"""

    start: int
    end: int
    words: tuple[Word, ...]
    kept: bool


def read_text(body: bytes, markup: Markup | bool) -> ShownText:
    """The visible text of a page. body: UTF-8; invalid bytes become U+FFFD  markup: the language of the body"""
    source = body.decode("utf-8", "replace")[:MAX_CHARACTERS]
    characters: list[str] = []
    origins: list[int] = []

    def end_line() -> None:
        while characters and characters[-1] == " ":
            characters.pop()
            origins.pop()
        if characters and characters[-1] != "\n":
            characters.append("\n")
            origins.append(origins[-1])

    title = ""
    for start, end, ends_line in _runs(source, markup == Markup.XML) if markup else _plain_runs(source):
        if ends_line is not None:
            if ends_line:
                end_line()
            elif characters and not characters[-1].isspace():
                characters.append(" ")
                origins.append(start)
            continue
        for piece in _PIECE.finditer(source, start, end):
            shown, place = piece[0], piece.start()
            if shown.isspace():
                if characters and not characters[-1].isspace():
                    characters.append(" ")
                    origins.append(place)
                continue
            if markup and shown[0] == "&":
                meant = html.unescape(shown).replace(_SOFT_HYPHEN, "")
                shown = " ".join(meant.split()) or " " * bool(meant)
                origins.extend([place] * len(shown))
            elif _SOFT_HYPHEN in shown:
                origins.extend(place + at for at, character in enumerate(shown) if character != _SOFT_HYPHEN)
                shown = shown.replace(_SOFT_HYPHEN, "")
            else:
                origins.extend(range(place, place + len(shown)))
            characters.extend(shown)
    end_line()
    if markup:
        title = title_of(source)
    return ShownText("".join(characters).removesuffix("\n"), origins, title, source)


def title_of(source: str) -> str:
    """The text of the first <title>; "" if there is none."""
    span = title_span(source)
    return " ".join(html.unescape(source[span[0] : span[1]]).split()) if span else ""


def title_span(source: str) -> tuple[int, int] | None:
    """Start and end of the content of the first <title>; None if there is none."""
    for found in _MARKUP.finditer(source):
        if (found["unseen"] or "").lower() == "title":
            return found.span("content")
    return None


def tags_in(source: str) -> list[str]:
    """Tags, comments and other markup that is not visible, in order."""
    return [found[0] for found in _MARKUP.finditer(source)]


def words_of(text: str) -> list[Word]:
    """The words of a text, in order."""
    return [Word(found.start(), found.end(), found[0].lower()) for found in _WORD.finditer(text)]


def paragraphs_of(shown: ShownText, page: Page) -> list[Paragraph]:
    """The lines with words, each marked as main text or boilerplate as the default scheme classifies its block."""
    blocks = blocks_of(page.body, page.markup)
    tokens = [*chain.from_iterable(block.tokens for block in blocks)]
    kept = [*chain.from_iterable([block.kept] * len(block.tokens) for block in blocks)]
    lines: list[tuple[int, int, tuple[Word, ...]]] = []
    start = 0
    for line in shown.text.split("\n"):
        end = start + len(line)
        found = tuple(Word(word.start + start, word.end + start, word.form) for word in words_of(line))
        if found:
            lines.append((start, end, found))
        start = end + 1
    places = iter(align([word.form for _, _, words in lines for word in words], tokens))
    paragraphs, before = list[Paragraph](), True
    for start, end, words in lines:
        flags = [kept[place] for place in (next(places) for _ in words) if place is not None]
        before = 2 * sum(flags) >= len(flags) if flags else before
        paragraphs.append(Paragraph(start, end, words, before))
    return paragraphs


def spell_out(shown: ShownText, tokens: Sequence[str]) -> list[tuple[int, int] | None]:
    """Start and end of each token in the text, ascending; None for a token that the text spells differently."""
    words = words_of(shown.text)
    return [None if at is None else words[at][:2] for at in align(tokens, [word.form for word in words])]


def align(words: Sequence[str], tokens: Sequence[str]) -> list[int | None]:
    """The index of the equal token for each word, ascending; None if there is none.

    Words and tokens are two readings of one text and nearly equal. The search looks at the next _LOOKAHEAD tokens only,
    and two adjacent words must agree there, so the time is linear.
    """
    found: list[int | None] = []
    place = 0
    for number, word in enumerate(words):
        if place < len(tokens) and tokens[place] == word:
            found.append(place)
            place += 1
            continue
        following = list(words[number + 1 : number + 2])
        jump = next(
            (
                at
                for at in range(place, min(place + _LOOKAHEAD, len(tokens)))
                if tokens[at] == word and list(tokens[at + 1 : at + 2]) == following
            ),
            None,
        )
        found.append(jump)
        if jump is not None:
            place = jump + 1
    return found


def _runs(source: str, xml: bool) -> Iterator[tuple[int, int, bool | None]]:
    """The pieces of markup: (start, end, None) is text, True instead of None ends a line, False separates words."""
    start = 0
    for found in (_XML_MARKUP if xml else _MARKUP).finditer(source):
        if start < found.start():
            yield start, found.start(), None
        start = found.end()
        name = (found["tag"] or found["unseen"] or "").lower()
        if name in _BLOCKS:
            yield start, start, True
        elif name in _BREAKS:
            yield start, start, False
    if start < len(source):
        yield start, len(source), None


def _plain_runs(source: str) -> Iterator[tuple[int, int, bool | None]]:
    """The pieces of plain text, as _runs: blank lines end paragraphs."""
    start = 0
    for found in _BLANK_LINE.finditer(source):
        yield start, found.start(), None
        yield found.end(), found.end(), True
        start = found.end()
    yield start, len(source), None


_FIFTEENTHS = 15


class BlockRole(enum.StrEnum):
    """The text that a block belongs to."""

    DISTINCTIVE = "distinctive text"
    TEMPLATE = "template text"
    COMMON = "common text"


@dataclass(frozen=True, slots=True)
class PageBlocks:
    """The b packed blocks of a page (stream/base/page_text.py), by the memory of its host.

    packed: uint64[b]  flags: uint8[b] (IS_OWN, ... of stream/judge/by_host/distinctive_text.py)
    """

    packed: NDArray[np.uint64]
    flags: NDArray[np.uint8]

    @property
    def roles(self) -> list[BlockRole]:
        """The role of each block."""
        kinds = np.where(self.flags & IS_OWN != 0, 0, np.where(self.flags & IS_TEMPLATE != 0, 1, 2))
        members = [*BlockRole]
        return [members[kind] for kind in kinds.tolist()]

    @property
    def wide(self) -> NDArray[np.bool_]:
        """The blocks with long shingles: bool[b]."""
        return self._has(WIDE)

    @property
    def links(self) -> NDArray[np.bool_]:
        """The blocks of links, whose words are never fresh: bool[b]."""
        outside = (self.packed >> np.uint64(OUTSIDE_SHIFT)) & np.uint64(_FIFTEENTHS)
        return np.asarray(outside / _FIFTEENTHS < LINK_BLOCK)

    def in_part(self, part: int) -> NDArray[np.bool_]:
        """The blocks of a part (MAIN_TEXT, ... of stream/judge/by_host/containment.py): bool[b]."""
        kept, own = self._has(KEPT), self.flags & IS_OWN != 0
        if part == MAIN_TEXT:
            return np.asarray(own & kept)
        if part == ALL_TEXT:
            return np.asarray(own)
        if part == TEMPLATE_TEXT:
            return kept if kept.any() else np.ones_like(kept)
        return np.asarray(kept & (self.flags & IS_TEMPLATE == 0))

    def _has(self, bit: Any) -> NDArray[np.bool_]:
        return np.asarray(self.packed & bit != 0)
