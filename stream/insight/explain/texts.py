"""Reads two pages as their scheme does: main text, boilerplate and why, template text, and the shingles in common."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SchemeSettings, SpotsieveSettings
from spotsieve.stream.base.urls import host_of
from spotsieve.stream.insight.explain.shown_text import read_text, spell_out
from spotsieve.stream.sign.features.block_fingerprints import identities_of_block
from spotsieve.stream.sign.features.sieve import ScoredBlock, blocks_of

PASSAGE_WORDS = 3
"""Length of the passages to mark, in words, for schemes that do not compare shingles."""
MAX_GAP = 12
"""A longer gap between two words, in characters, is shown as a blank."""
SOURCE_WORDS = 4
SOURCE_BEFORE = 36
SOURCE_LENGTH = 85
_WHOLE_TEXT = "the scheme reads the whole text"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a block's text. shared: whether it belongs to a shingle of both pages"""

    text: str
    shared: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page. main_text: False for boilerplate  reason: why it is one or the other

    template: whether it is template text of the page's host now; None if the host has no statistics on it
    """

    words: int
    main_text: bool
    reason: str
    template: bool | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class PageText:
    """One of two pages. words, main_words: tokens of all blocks, and of the main text  shingles: with repeats"""

    title: str
    words: int
    main_words: int
    shingles: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two pages side by side. other: None if only one page's text is available

    shingle_words: length of a shingle  shared: shingles of both pages, with repeats  examples: some of them
    """

    page: PageText
    other: PageText | None
    shingle_words: int
    shared: int
    examples: tuple[str, ...]

    @property
    def jaccard(self) -> float:
        """The Jaccard similarity of the two multisets of shingles."""
        other = self.other.shingles if self.other else 0
        return self.shared / max(self.page.shingles + other - self.shared, 1)


def read_pair(
    page: Page, other: Page | None, settings: SchemeSettings, template: Mapping[int, bool] | None = None
) -> TextPair:
    """Read a page, and the page that it is compared with, if any.

    template: whether a block is template text of the page's host, by the identity of its block fingerprint
    """
    length = shingle_words(settings)
    sieves = isinstance(settings, SpotsieveSettings)
    blocks, other_blocks = (blocks_of(one.body, one.markup) if one and one.judgeable else [] for one in (page, other))
    if not sieves:
        blocks, other_blocks = ([replace(block, reason="kept") for block in some] for some in (blocks, other_blocks))
    words, other_words = main_text_words(blocks), main_text_words(other_blocks)
    both = Counter(shingles_in_words(words, length)) & Counter(shingles_in_words(other_words, length))
    other_template = template if other is None or host_of(page.url) == host_of(other.url) else None
    return TextPair(
        _page_text(page, blocks, words, both, length, template, sieves),
        None if other is None else _page_text(other, other_blocks, other_words, both, length, other_template, sieves),
        length,
        both.total(),
        tuple(" ".join(shingle) for shingle in list(both)[:3]),
    )


def shingle_words(settings: SchemeSettings) -> int:
    """The length of a scheme's shingles in words; PASSAGE_WORDS for schemes without shingles."""
    for name in ("shingle_words", "w"):
        length = getattr(settings, name, None)
        if isinstance(length, int):
            return length
    return PASSAGE_WORDS


def shingles_in_words(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """The shingles of the main text as words, as the kernel hashes them (stream/sign/features/shingles.py)."""
    length = min(length, len(words))
    return [tuple(words[place : place + length]) for place in range(len(words) - length + 1)] if words else []


def main_text_words(blocks: Sequence[ScoredBlock]) -> list[str]:
    """The tokens of the main text, in order."""
    return [*chain.from_iterable(block.tokens for block in blocks if block.kept)]


def longest_boilerplate(blocks: Sequence[ScoredBlock], count: int) -> tuple[str, ...]:
    """The words of the longest `count` blocks of boilerplate, the longest first."""
    boilerplate = sorted((block.tokens for block in blocks if not block.kept), key=len, reverse=True)
    return tuple(" ".join(tokens) for tokens in boilerplate[:count])


def longest_run(words: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The longest run of words in common."""
    match = SequenceMatcher(None, words, others, autojunk=False).find_longest_match()
    return tuple(words[match.a : match.a + match.size])


def source_lines(page: bytes, original: bytes, run: tuple[str, ...]) -> tuple[str, str]:
    """The source of both pages around the start of the run, on one line each.

    It starts at the first SOURCE_WORDS words of the run that are adjacent in both sources. The very first ones may not
    be: words of the main text count as adjacent even if boilerplate lies between them.
    """
    texts = page.decode("utf-8", "replace"), original.decode("utf-8", "replace")
    between = r"(?:<[^>]*>|&\w+;|[^\w<&])+"
    starts = [0, 0]
    for place in range(len(run)):
        words = between.join(re.escape(word) for word in run[place : place + SOURCE_WORDS])
        found = [re.search(rf"\b{words}\b", text, re.IGNORECASE) for text in texts]
        if all(found):
            starts = [match.start() for match in found if match]
            break
    return _line(texts[0], starts[0]), _line(texts[1], starts[1])


def _page_text(
    page: Page,
    blocks: Sequence[ScoredBlock],
    main_words: Sequence[str],
    both: Mapping[tuple[str, ...], int],
    length: int,
    template: Mapping[int, bool] | None,
    sieves: bool,
) -> PageText:
    """A page with the shingles of both pages marked."""
    marks, shown_text = iter(_marks(main_words, both, length)), read_text(page.body, page.markup)
    places = iter(spell_out(shown_text, [*chain.from_iterable(block.tokens for block in blocks)]))
    marked = list[Block]()
    for block in blocks:
        shared = [next(marks) if block.kept else False for _ in block.tokens]
        spelled = _spelled(shown_text.text, block.tokens, [next(places) for _ in block.tokens])
        pieces = tuple(_pieces(spelled, shared))
        reason = block.reason if sieves else _WHOLE_TEXT
        marked.append(Block(len(block.tokens), block.kept, reason, _is_template(block, template), pieces))
    words, shingles = sum(block.words for block in marked), len(shingles_in_words(main_words, length))
    return PageText(shown_text.title, words, len(main_words), shingles, tuple(marked))


def _spelled(text: str, tokens: Sequence[str], places: Sequence[tuple[int, int] | None]) -> list[tuple[str, str]]:
    """The tokens of a block as (gap, word): the word as the page spells it, and the text between it and the last."""
    spelled, before = list[tuple[str, str]](), None
    for token, place in zip(tokens, places, strict=True):
        between = " "
        if before is not None and place is not None and place[0] - before[1] <= MAX_GAP:
            between = text[before[1] : place[0]]
        spelled.append((between if spelled else "", token if place is None else text[place[0] : place[1]]))
        before = place
    return spelled


def _marks(words: Sequence[str], both: Mapping[tuple[str, ...], int], length: int) -> list[bool]:
    """Whether each word belongs to a shingle of both pages."""
    marks = [False] * len(words)
    for place, shingle in enumerate(shingles_in_words(words, length)):
        if shingle in both:
            marks[place : place + len(shingle)] = [True] * len(shingle)
    return marks


def _pieces(spelled: Sequence[tuple[str, str]], shared: Sequence[bool]) -> list[Piece]:
    """Joins adjacent words into pieces that are shared or not."""
    pieces = list[Piece]()
    for (before, word), mark in zip(spelled, shared, strict=True):
        if pieces and pieces[-1].shared == mark:
            pieces[-1] = Piece(pieces[-1].text + before + word, mark)
        else:
            # The gap between a shared word and another one belongs to neither.
            if before:
                pieces.append(Piece(before, False))
            pieces.append(Piece(word, mark))
    return pieces


def _is_template(block: ScoredBlock, template: Mapping[int, bool] | None) -> bool | None:
    if template is None:
        return None
    listed = [template[one] for one in identities_of_block(block.tokens) if one in template]
    return listed[0] if listed else None


def _line(text: str, place: int) -> str:
    start = max(0, place - SOURCE_BEFORE)
    return " ".join(text[start : start + 2 * SOURCE_LENGTH].split())[:SOURCE_LENGTH]
