"""Reads the text of a page as the page spells it: all visible text, or the paragraphs of its blocks.

The filter's scanner yields lower-case words without punctuation and spaces. People need the full text. The scanner also
records where each block ends in the page, so the text of a block is the text between two such places, without markup
and with its character references decoded. Where one text is needed for the whole page, its words and the scanner's are
aligned.

Tags, quoted attributes, comments and hidden elements are read as the scanner reads them (html/scan.py): a test scans
the paragraphs of the labelled sets again and compares the words. Every pattern takes what it scans, and a missing end
tag is looked for once, so a hostile page costs time linear in its size.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.sign.features.sieve import SelectedBlocks, blocks_of
from spotsieve.stream.sign.text.batch import message_span
from spotsieve.stream.sign.text.html.elements import (
    BLOCK,
    BREAK,
    ELEMENTS,
    FOREIGN,
    HIDDEN,
    HIDDEN_BREAK,
    PLAINTEXT,
    SCRIPT,
    TEMPLATE,
    TEXTAREA,
    XMP,
)
from spotsieve.stream.sign.text.prose import unescape_html

MAX_CHARACTERS = 2_000_000
"""Longer pages are truncated where they are shown as one text."""
PARAGRAPH_END = "\n\n"
"""Separates paragraphs. It ends a block of plain text too, so the filter finds the same blocks in the text."""
_LOOKAHEAD = 48
"""How many of the filter's words may be missing in the text before the alignment gives a word up."""
_KINDS = {name: kind for kind, names in ELEMENTS.items() for name in names}
_HIDES = frozenset((HIDDEN, HIDDEN_BREAK, SCRIPT))
_EMPTY = frozenset((HIDDEN, SCRIPT))
"""Kinds whose empty-element tags in XML do not even separate words."""
_TAG_PATTERN = (
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)(?P<attributes>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')|=)*+)(?:>|\Z)"
    r"|<[!?/][^>]*+(?:>|\Z)"
)
_TAG = re.compile(_TAG_PATTERN, re.DOTALL | re.IGNORECASE)
"""A comment or a tag. A quote means something only after "="."""
_XML_TAG = re.compile(rf"<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|{_TAG_PATTERN}", re.DOTALL | re.IGNORECASE)
_END_TAGS = {
    name: re.compile(rf"</{name}(?=[\s/>]|\Z)", re.IGNORECASE)
    for kind in (*_HIDES, TEXTAREA, XMP)
    for name in ELEMENTS[kind]
}
_TEMPLATE_TAG = re.compile(r"<(/?)template(?=[\s/>]|\Z)[^>]*+>?", re.IGNORECASE)
_SHADOW_ROOT = re.compile(r"\sshadowrootmode\s*=", re.IGNORECASE)
REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});", re.IGNORECASE)
"""A character reference, such as &amp;."""
_PIECE = re.compile(rf"{REFERENCE.pattern}|\s+|[^&\s]+|&", re.IGNORECASE)
_BLANK_LINE = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_WHITE = re.compile(r"\s+")
_LETTER = re.compile(r"[^\W_]")
_SOFT_HYPHEN = "\xad"
# In scripts without spaces every character is a word, as in the filter. Marks belong to the letter before them.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_MARKS = "\u0300-\u036f\u064b-\u065f\u0900-\u0903\u093a-\u094f"
_WORD = re.compile(rf"[{_SPACELESS}]|[^\W_{_SPACELESS}](?:[^\W_{_SPACELESS}]|[{_MARKS}])*")


class _Run(enum.IntEnum):
    """A piece of a page. TEXT: with references  RAW: text without references  PARAGRAPH, LINE: an end of one

    SPACE: separates words
    """

    TEXT = 0
    RAW = 1
    PARAGRAPH = 2
    LINE = 3
    SPACE = 4


class Word(NamedTuple):
    """A word of a text: text[start:end]. form: lower case, for comparison"""

    start: int
    end: int
    form: str


@dataclass(frozen=True, slots=True)
class ShownText:
    """The visible text of a page. text: one paragraph per line  origins: source position of each character

    title: content of <title>, "" without a title  source: the decoded page
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

    runs = _runs(source, markup == Markup.XML) if markup else _plain_runs(source, *_message_span(body))
    for start, end, kind in runs:
        if kind == _Run.PARAGRAPH:
            end_line()
        elif kind > _Run.RAW and characters and not characters[-1].isspace():
            characters.append(" ")
            origins.append(start)
        for piece in _PIECE.finditer(source, start, end):
            shown, place = piece[0], piece.start()
            if shown.isspace():
                if characters and not characters[-1].isspace():
                    characters.append(" ")
                    origins.append(place)
                continue
            if kind == _Run.TEXT and shown[0] == "&":
                meant = unescape_html(shown).replace(_SOFT_HYPHEN, "")
                shown = " ".join(meant.split()) or " " * bool(meant)
                origins.extend([place] * len(shown))
            elif _SOFT_HYPHEN in shown:
                origins.extend(place + at for at, character in enumerate(shown) if character != _SOFT_HYPHEN)
                shown = shown.replace(_SOFT_HYPHEN, "")
            else:
                origins.extend(range(place, place + len(shown)))
            characters.extend(shown)
    end_line()
    title = title_of(source) if markup else ""
    return ShownText("".join(characters).removesuffix("\n"), origins, title, source)


def paragraphs_in(body: bytes, markup: Markup | bool, selected: SelectedBlocks, chosen: Sequence[bool]) -> list[str]:
    """The text of each chosen block, as the page spells it. chosen: whether to take each block, one for each

    body: UTF-8; invalid bytes become U+FFFD
    Line ends of plain text, of <pre> and of <br> are kept. Other white space becomes one space.
    """
    # The header of a message is above the end of its first block.
    paragraphs, start = list[str](), 0 if markup else message_span(body[: max(selected.ends[:1], default=0)])[0]
    for end, is_chosen, keeps_lines in zip(selected.ends, chosen, selected.preformatted, strict=True):
        if is_chosen:
            source = _without_title(body, start, end, selected.title) if markup == Markup.XML else body[start:end]
            paragraphs.append(_paragraph(source.decode("utf-8", "replace"), markup, keeps_lines))
        start = end
    return paragraphs


def _without_title(body: bytes, start: int, end: int, title: tuple[int, int]) -> bytes:
    """A part of a page in XML without the content of the page's title. Later titles are text."""
    first, last = (min(max(place, start), end) for place in title)
    return body[start:first] + body[last:end]


def _paragraph(source: str, markup: Markup | bool, keeps_lines: bool) -> str:
    """The text of the part of a page that belongs to one block."""
    if not markup:
        return _lines_of(source)
    if "<" not in source:
        return _cleaned(unescape_html(source), keeps_lines)
    clean = partial(_cleaned, keeps_lines=True) if keeps_lines else _cleaned_lines
    parts, paragraphs = list[str](), list[str]()
    for start, end, kind in _runs(source, markup == Markup.XML, titled=True):
        if kind <= _Run.RAW:
            text = source[start:end]
            if kind == _Run.TEXT and "&" in text:
                text = unescape_html(text)
            parts.append(text if keeps_lines else _WHITE.sub(" ", text))
        elif kind == _Run.PARAGRAPH:
            paragraphs.append(clean("".join(parts)))
            parts = []
        else:
            parts.append("\n" if kind == _Run.LINE else " ")
    paragraphs.append(clean("".join(parts)))
    # Before the words of a block there may be others without letters, which are no blocks.
    return "\n".join([text for text in paragraphs if _LETTER.search(text)] or filter(None, paragraphs))


def title_of(source: str) -> str:
    """The text of the first <title>; "" if there is none."""
    span = title_span(source)
    return " ".join(unescape_html(source[span[0] : span[1]]).split()) if span else ""


def title_span(source: str) -> tuple[int, int] | None:
    """Start and end of the content of the first <title>; None if there is none."""
    place, unclosed = 0, set[str]()
    while (found := _TAG.search(source, place)) is not None:
        place, name = found.end(), (found["name"] or "").lower()
        if found["end"] or name not in _END_TAGS or name in unclosed:
            continue
        last = _END_TAGS[name].search(source, place)
        if name == "title":
            return place, len(source) if last is None else last.start()
        if last is None:
            unclosed.add(name)
        else:
            place = last.end()
    return None


def tags_in(source: str) -> list[str]:
    """Tags, comments and other invisible markup, in order. The content of a hidden element follows its tag."""
    shown, hidden = 0, list[tuple[int, int]]()
    for start, end, kind in _runs(source, False):
        if kind <= _Run.RAW and start < end:
            hidden.append((shown, start))
            shown = end
    tags = list[str]()
    for first, last in (*hidden, (shown, len(source))):
        starts = [found.start() for found in _TAG.finditer(source, first, last)]
        tags += [source[start:end] for start, end in pairwise([*starts, last])]
    return tags


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


def _runs(source: str, xml: bool, titled: bool = False) -> Iterator[tuple[int, int, _Run]]:
    """The pieces of markup: (start, end, kind). Pieces of the last three kinds are empty.

    titled: whether the title of the page is not in the source; all titles of XML are text then
    """
    pattern, unclosed, start, place = _XML_TAG if xml else _TAG, set[str](), 0, 0
    while (found := pattern.search(source, place)) is not None:
        if start < found.start():
            yield start, found.start(), _Run.TEXT
        start = place = found.end()
        if xml and found["cdata"] is not None:
            yield *found.span("cdata"), _Run.RAW
            continue
        name = (found["name"] or "").lower()
        kind = _KINDS.get(name)
        if kind is None:
            continue
        if xml and name == "title":
            is_later, titled = titled or bool(found["end"]), True
            kind = BLOCK if is_later else HIDDEN
        is_empty = xml and found["attributes"].endswith("/")
        if kind == BLOCK:
            yield start, start, _Run.PARAGRAPH
        elif kind in (BREAK, FOREIGN, HIDDEN_BREAK) or (is_empty and kind not in _EMPTY):
            yield start, start, _Run.LINE if name == "br" else _Run.SPACE
        if kind < HIDDEN or kind == FOREIGN or is_empty or found["end"]:
            continue
        if kind == TEMPLATE:
            if not _SHADOW_ROOT.search(found["attributes"]):
                start = place = _template_end(source, start)
            continue
        last = None if kind == PLAINTEXT or name in unclosed else _END_TAGS[name].search(source, start)
        if last is None:
            unclosed.add(name)
            if name == "noscript" or (kind in _HIDES and found["attributes"].endswith("/")):
                continue
        end = len(source) if last is None else last.start()
        if kind not in _HIDES:
            yield start, start, _Run.SPACE
            yield start, end, _Run.TEXT if kind == TEXTAREA else _Run.RAW
            yield end, end, _Run.SPACE
        start = place = end
    if start < len(source):
        yield start, len(source), _Run.TEXT


def _template_end(source: str, start: int) -> int:
    """The end of the end tag of a <template> whose content begins at `start`, or the end of the source."""
    depth = 1
    for tag in _TEMPLATE_TAG.finditer(source, start):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.end()
    return len(source)


def _cleaned(text: str, keeps_lines: bool) -> str:
    """Text without soft hyphens and NUL, with single spaces, or with its lines as they are."""
    text = text.replace(_SOFT_HYPHEN, "").replace("\0", "")
    return _lines_of(text) if keeps_lines else " ".join(text.split())


def _cleaned_lines(text: str) -> str:
    """Text whose only line ends are those of <br>."""
    lines = [_cleaned(line, False) for line in text.split("\n")]
    return "\n".join(filter(None, lines))


def _lines_of(text: str) -> str:
    """Text without white space at the ends of its lines, and without empty lines around it."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def _message_span(body: bytes) -> tuple[int, int]:
    """The offsets of message_span in characters."""
    first, last = message_span(body)
    return len(body[:first].decode("utf-8", "replace")), len(body[:last].decode("utf-8", "replace"))


def _plain_runs(source: str, start: int, end: int) -> Iterator[tuple[int, int, _Run]]:
    """The pieces of plain text between two places, as _runs: blank lines end paragraphs."""
    for found in _BLANK_LINE.finditer(source, start, end):
        yield start, found.start(), _Run.RAW
        yield found.end(), found.end(), _Run.PARAGRAPH
        start = found.end()
    yield start, min(end, len(source)), _Run.RAW
