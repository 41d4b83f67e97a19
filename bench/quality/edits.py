"""The edits of the robustness bench: replaces words of a page's main text inside its HTML, and adds link lists.

Markup is never parsed and written out again: an edit cuts the page's own characters, so everything that is not edited
stays byte for byte.
"""

import html as entities
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

SHINGLE_WORDS = 4
COVERAGE = (0.95, 1.05)
"""A page is edited only if this share of its main text's words is found in its HTML."""
_PIECE = re.compile(
    r"<!--.*?-->|<(script|style|noscript|template|title|textarea|select)\b.*?</\1\s*>|<[a-zA-Z/!?][^>]*>|(?P<text>[^<]+)|<",
    re.DOTALL | re.IGNORECASE,
)
_WORD = re.compile(r"(?P<word>[^\W_]+(?:(?:['’]|&(?:rsquo|apos|#39|#8217|#x27|#x2019);)[^\W_]+)*)|&(?:#\w+|\w+);")
_LINK = re.compile(r"<a\b[^>]*>(.*?)</a\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_BLOCK_END = re.compile(r"</(?:p|div|h[1-6]|li|ul|ol|blockquote|table|section|article)\s*>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A word of the text nodes and its place in the HTML. word: with resolved entities"""

    start: int
    end: int
    word: str


@dataclass(frozen=True, slots=True)
class MarkedPage:
    """A page whose main text is known. words: of all its text nodes, ascending  main: those of the main text."""

    id: str
    html: str
    words: tuple[WordSpan, ...]
    main: tuple[WordSpan, ...]


def words_of(text: str) -> list[str]:
    """Words of a plain text, split like those of `spans_of`."""
    return [match["word"] for match in _WORD.finditer(text) if match["word"]]


def spans_of(html: str) -> Iterator[WordSpan]:
    """Every word of the text nodes, except those of scripts, styles, titles and comments."""
    for piece in _PIECE.finditer(html):
        if piece["text"] is not None:
            for match in _WORD.finditer(piece["text"]):
                if match["word"]:
                    yield WordSpan(
                        piece.start() + match.start(), piece.start() + match.end(), entities.unescape(match["word"])
                    )


def mark(page_id: str, html: str, main_text: str) -> MarkedPage | None:
    """Find the main text in the page: words in a run of 4 that the main text contains. None if that fails."""
    wanted = [_compared(word) for word in words_of(main_text)]
    runs = {tuple(wanted[at : at + SHINGLE_WORDS]) for at in range(len(wanted) - SHINGLE_WORDS + 1)}
    spans = list(spans_of(html))
    lowered = [_compared(span.word) for span in spans]
    is_main = bytearray(len(spans))
    for at in range(len(spans) - SHINGLE_WORDS + 1):
        if tuple(lowered[at : at + SHINGLE_WORDS]) in runs:
            is_main[at : at + SHINGLE_WORDS] = bytes([1]) * SHINGLE_WORDS
    main = tuple(span for span, inside in zip(spans, is_main, strict=True) if inside)
    if not wanted or not COVERAGE[0] <= len(main) / len(wanted) <= COVERAGE[1]:
        return None
    return MarkedPage(page_id, html, tuple(spans), main)


def replace_words(html: str, words: Sequence[WordSpan], share: float, vocabulary: Sequence[str], random: Random) -> str:
    """Replace this share of the words (rounded, at least one), each by another word. words: of the page"""
    count = max(1, round(share * len(words)))
    chosen = sorted(random.sample(words, count), key=lambda span: span.start)
    parts: list[str] = []
    at = 0
    for span in chosen:
        other = random.choice(vocabulary)
        while other.lower() == span.word.lower():
            other = random.choice(vocabulary)
        parts += (html[at : span.start], other)
        at = span.end
    return "".join((*parts, html[at:]))


def link_texts(html: str) -> list[str]:
    """The texts of a page's links, in order, without their tags; links without words are left out."""
    texts = (entities.unescape(_TAG.sub(" ", link)) for link in _LINK.findall(html))
    return [" ".join(found) for found in map(words_of, texts) if found]


def draw_link_lists(lists: Sequence[Sequence[str]], words: int, random: Random) -> list[list[str]]:
    """Runs of link texts from random lists, `words` words in total; the last text is cut to fit."""
    drawn: list[list[str]] = []
    left = words
    while left > 0:
        texts = random.choice(lists)
        run: list[str] = []
        for text in texts[random.randrange(len(texts)) :]:
            taken = text.split()[:left]
            left -= len(taken)
            run.append(" ".join(taken))
            if left == 0:
                break
        drawn.append(run)
    return drawn


def inject(page: MarkedPage, lists: Sequence[Sequence[str]], as_links: bool, random: Random) -> str:
    """Put link lists between two blocks of the main text, at one random place.

    as_links: a <ul> of links for each list; otherwise a <div> for each list with its texts and no link, which is what
    a template that links by script, or a feed without its markup, leaves.
    """
    added = "".join(_list_markup(texts) if as_links else f"<div>{_escaped(' '.join(texts))}</div>" for texts in lists)
    at = _place_between_blocks(page, random)
    return page.html[:at] + added + page.html[at:]


def _compared(word: str) -> str:
    return word.lower().replace("’", "'")


def _list_markup(texts: Sequence[str]) -> str:
    items = "".join(f'<li><a href="/list/{number}">{_escaped(text)}</a></li>' for number, text in enumerate(texts))
    return f"<ul>{items}</ul>"


def _escaped(text: str) -> str:
    return entities.escape(text, quote=False)


def _place_between_blocks(page: MarkedPage, random: Random) -> int:
    """The end of a block within the main text; of a main text in one block, the end of the next block."""
    first, last = page.main[0].end, page.main[-1].start
    ends = [match.end() for match in _BLOCK_END.finditer(page.html, first)]
    within = ends[: bisect_left(ends, last)]
    if within:
        return random.choice(within)
    return ends[0] if ends else page.main[-1].end
