"""Reads two pages as their scheme does: main text, boilerplate and why, shared shingles, and fresh text.

For schemes that measure containment, a shingle lies in one block, and fresh text is a run of FRESH_RUN words and more
that touches no shingle of the other page. The figures are those of stream/judge/by_host/containment.py, but over the
texts themselves instead of samples. The other schemes compare the shingles of the whole text.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.page_text import KEPT, OUTSIDE_SHIFT, SHINGLE, WIDE, WIDE_SHINGLE
from spotsieve.stream.base.settings.schemes import SchemeSettings, SpotsieveSettings
from spotsieve.stream.judge.by_host.containment import (
    ALL_TEXT,
    FRESH_RUN,
    LEAST_TEXT,
    LINK_BLOCK,
    MAIN_TEXT,
    TEMPLATE_TEXT,
)
from spotsieve.stream.judge.by_host.distinctive_text import IS_DISTINCTIVE, IS_TEMPLATE
from spotsieve.stream.sign.features.shown_text import read_text, spell_out
from spotsieve.stream.sign.features.sieve import ScoredBlock, blocks_of

PASSAGE_WORDS = 3
"""Length of the passages to mark, in words, for schemes that do not compare shingles."""
EXAMPLES = 3
MAX_GAP = 12
"""A longer gap between two words, in characters, is shown as a blank."""
SOURCE_WORDS = 4
SOURCE_BEFORE = 36
SOURCE_LENGTH = 85
_WHOLE_TEXT = "the scheme reads the whole text"
Shingle = tuple[str, ...]
_FIFTEENTHS = 15


class BlockRole(enum.StrEnum):
    """The text that a block belongs to."""

    DISTINCTIVE = "distinctive text"
    TEMPLATE = "template text"
    COMMON = "common text"


@dataclass(frozen=True, slots=True)
class PageBlocks:
    """The b packed blocks of a page (stream/base/page_text.py), by the memory of its host.

    packed: uint64[b]  flags: uint8[b] (IS_DISTINCTIVE, ... of stream/judge/by_host/distinctive_text.py)
    """

    packed: NDArray[np.uint64]
    flags: NDArray[np.uint8]

    @property
    def roles(self) -> list[BlockRole]:
        """The role of each block."""
        kinds = np.where(self.flags & IS_DISTINCTIVE != 0, 0, np.where(self.flags & IS_TEMPLATE != 0, 1, 2))
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
        kept, own = self._has(KEPT), self.flags & IS_DISTINCTIVE != 0
        if part == MAIN_TEXT:
            return np.asarray(own & kept)
        if part == ALL_TEXT:
            return np.asarray(own)
        if part == TEMPLATE_TEXT:
            return kept if kept.any() else np.ones_like(kept)
        return np.asarray(kept & (self.flags & IS_TEMPLATE == 0))

    def _has(self, bit: Any) -> NDArray[np.bool_]:
        return np.asarray(self.packed & bit != 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a block's text. shared: whether it belongs to a shingle of both pages  fresh: whether it is fresh"""

    text: str
    shared: bool
    fresh: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page. main_text: False for boilerplate  reason: why it is one or the other

    role: by the memory of its host; None if it is unknown  compared: whether it belongs to the part that decides
    """

    words: int
    main_text: bool
    reason: str
    role: BlockRole | None
    compared: bool
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class FreshRun:
    """A run of fresh words in the part that decides. text: as the page spells it"""

    words: int
    text: str


@dataclass(frozen=True, slots=True)
class PageText:
    """One of two pages.

    source: the kind of script that holds its text ("JSON-LD", ...); "" for the visible text of the page
    words, main_words: tokens of all blocks, and of the main text  compared_words: of the part that decides
    shingles, shared: different shingles of this part, and how many of them the other page has
    containment: the share of this part that the other page has, by the words that its shingles stand for
    """

    title: str
    source: str
    words: int
    main_words: int
    compared_words: int
    shingles: int
    shared: int
    containment: float
    fresh: tuple[FreshRun, ...]
    blocks: tuple[Block, ...]

    @property
    def fresh_words(self) -> int:
        """The number of fresh words."""
        return sum(run.words for run in self.fresh)


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two pages side by side. other: None if only one page's text is available

    contains: whether the scheme measures containment  shingle_words: length of a shingle
    examples: some shingles of both pages
    """

    page: PageText
    other: PageText | None
    contains: bool
    shingle_words: int
    examples: tuple[str, ...]

    @property
    def containment(self) -> float | None:
        """The share of the page's text that the other page has; None without another page."""
        return None if self.other is None else self.page.containment

    @property
    def fresh_words(self) -> int | None:
        """The number of fresh words of the page; None without another page."""
        return None if self.other is None else self.page.fresh_words

    @property
    def jaccard(self) -> float | None:
        """The Jaccard similarity of the two sets of shingles, for schemes that compare the whole text; else None."""
        if self.other is None or self.contains:
            return None
        return self.page.shared / max(self.page.shingles + self.other.shingles - self.page.shared, 1)


class _Counted(NamedTuple):
    """A block as the judge counts it.

    role: by the memory of its host  compared: whether it belongs to the part that decides
    links: whether it is a block of links  length: of its shingles, in words
    weight: the words that each of its shingles stands for
    """

    role: BlockRole | None
    compared: bool
    links: bool
    length: int
    weight: float = 1.0


def read_pair(
    page: Page,
    other: Page | None,
    settings: SchemeSettings,
    part: int = ALL_TEXT,
    facts: PageBlocks | None = None,
    other_facts: PageBlocks | None = None,
) -> TextPair:
    """Read a page, and the page that it is compared with, if any.

    part: the part of the page that decides (MAIN_TEXT, ... of stream/judge/by_host/containment.py)
    facts, other_facts: the blocks of both pages by the memories of their hosts, if the scheme has them
    """
    length, contains = shingle_words(settings), isinstance(settings, SpotsieveSettings)
    texts = [
        _Text(*_counted(one, contains, part, blocks, length), whole=not contains)
        for one, blocks in ((page, facts), (other, other_facts))
    ]
    own, others = (text.all_shingles() for text in texts)
    both = own & others
    pages = [
        _page_text(one, text, known if other is not None else None, contains)
        for one, text, known in ((page, texts[0], others), (other, texts[1], own))
        if one is not None
    ]
    examples = [*dict.fromkeys(" ".join(shingle) for shingle in texts[0].shingles() if shingle in both)]
    return TextPair(pages[0], (*pages, None)[1], contains, length, tuple(examples[:EXAMPLES]))


def shingle_words(settings: SchemeSettings) -> int:
    """The length in words of the shingles that a scheme compares; PASSAGE_WORDS for schemes without shingles."""
    if isinstance(settings, SpotsieveSettings):
        return SHINGLE
    length = getattr(settings, "w", None)
    return length if isinstance(length, int) else PASSAGE_WORDS


def shingles_in_words(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """The shingles of a text, given by its words, as the kernel hashes them (stream/sign/features/shingles.py)."""
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


class _Text:
    """The words of a page, and its shingles.

    blocks: b blocks  counted: the same as the judge counts them  whole: whether shingles go over the ends of blocks
    """

    def __init__(self, blocks: Sequence[ScoredBlock], counted: Sequence[_Counted], *, whole: bool) -> None:
        self.blocks, self.counted, self.whole = blocks, counted, whole

    def _spans(self, compared: bool) -> Iterator[tuple[int, Shingle, float]]:
        """The shingles, with the numbers of words before them and the words that each stands for.

        compared: only those of the part that decides
        """
        if self.whole:
            words = [*chain.from_iterable(block.tokens for block in self.blocks)]
            for place, shingle in enumerate(shingles_in_words(words, self.counted[0].length if self.counted else 1)):
                yield place, shingle, 1.0
            return
        start = 0
        for block, how in zip(self.blocks, self.counted, strict=True):
            if how.compared or not compared:
                for place, shingle in enumerate(shingles_in_words(block.tokens, how.length)):
                    yield start + place, shingle, how.weight
            start += len(block.tokens)

    def shingles(self) -> dict[Shingle, float]:
        """The different shingles of the part that decides, in order, with the words that each stands for."""
        weights = dict[Shingle, float]()
        for _, shingle, weight in self._spans(True):
            weights.setdefault(shingle, weight)
        return weights

    def all_shingles(self) -> set[Shingle]:
        """All shingles."""
        return {shingle for _, shingle, _ in self._spans(False)}

    def shared(self, others: set[Shingle]) -> list[bool]:
        """Whether each word belongs to a shingle of the other page."""
        marks = [False] * sum(len(block.tokens) for block in self.blocks)
        for place, shingle, _ in self._spans(False):
            if shingle in others:
                marks[place : place + len(shingle)] = [True] * len(shingle)
        return marks

    def fresh(self, shared: Sequence[bool]) -> list[list[int]]:
        """The runs of fresh words, as places of words: FRESH_RUN and more of the compared words outside link blocks."""
        runs, run, place = list[list[int]](), list[int](), 0
        for block, how in zip(self.blocks, self.counted, strict=True):
            for word in range(place, place + len(block.tokens)) if how.compared and not how.links else ():
                if not shared[word]:
                    run.append(word)
                elif run:
                    runs.append(run)
                    run = []
            place += len(block.tokens)
        return [run for run in (*runs, run) if len(run) >= FRESH_RUN]


def _counted(
    page: Page | None, contains: bool, part: int, facts: PageBlocks | None, length: int
) -> tuple[list[ScoredBlock], list[_Counted]]:
    """The blocks of a page, and how the judge counts them. A repeated block has the role of the first one."""
    blocks = blocks_of(page.body, page.markup) if page is not None and page.judgeable else []
    if not contains:
        blocks = [replace(block, reason="kept") for block in blocks]
    if not contains or facts is None or not len(facts.packed):
        return blocks, [_Counted(None, block.kept, False, length) for block in blocks]
    roles, compared, links, wide = facts.roles, facts.in_part(part), facts.links, facts.wide
    first = {block.tokens: block.place for block in blocks if block.place is not None}
    counted = []
    for block in blocks:
        place = first.get(block.tokens)
        if place is None:
            counted.append(_Counted(None, False, False, length))
            continue
        counts = bool(compared[place]) and block.place is not None
        width = WIDE_SHINGLE if wide[place] else length
        words = len(block.tokens)
        weight = words / (words - 2) if words >= LEAST_TEXT and not links[place] else 1.0
        counted.append(_Counted(roles[place], counts, bool(links[place]), width, weight))
    return blocks, counted


def _page_text(page: Page, text: _Text, others: set[Shingle] | None, contains: bool) -> PageText:
    """A page with marks. others: the shingles of the other page; None without one"""
    shown_text, own = read_text(page.body, page.markup), text.shingles()
    both = [weight for shingle, weight in own.items() if shingle in (others or ())]
    shared = text.shared(others or set())
    runs = [] if others is None else text.fresh(shared)
    fresh = {*chain.from_iterable(runs)}
    tokens = [*chain.from_iterable(block.tokens for block in text.blocks)]
    places = spell_out(shown_text, tokens)
    marked, start = list[Block](), 0
    for block, how in zip(text.blocks, text.counted, strict=True):
        end = start + len(block.tokens)
        spelled = _spelled(shown_text.text, block.tokens, places[start:end])
        pieces = tuple(_pieces(spelled, [(shared[at], at in fresh) for at in range(start, end)]))
        reason = block.reason if contains else _WHOLE_TEXT
        marked.append(Block(len(block.tokens), block.kept, reason, how.role, how.compared, pieces))
        start = end
    return PageText(
        shown_text.title,
        page.text_source,
        len(tokens),
        sum(block.words for block in marked if block.main_text),
        sum(block.words for block in marked if block.compared),
        len(own),
        len(both),
        sum(both) / max(sum(own.values()), 1.0),
        tuple(FreshRun(len(run), _text_of(shown_text.text, tokens, places, run)) for run in runs),
        tuple(marked),
    )


def _text_of(text: str, tokens: Sequence[str], places: Sequence[tuple[int, int] | None], run: Sequence[int]) -> str:
    """The words of a run, as the page spells them."""
    spelled = _spelled(text, [tokens[at] for at in run], [places[at] for at in run])
    return "".join(before + word for before, word in spelled)


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


def _pieces(spelled: Sequence[tuple[str, str]], marks: Sequence[tuple[bool, bool]]) -> list[Piece]:
    """Joins adjacent words with equal marks (shared, fresh) into pieces."""
    pieces = list[Piece]()
    for (shared, fresh), run in groupby(zip(spelled, marks, strict=True), key=itemgetter(1)):
        (before, first), *rest = (word for word, _ in run)
        # The gap between words with different marks belongs to neither.
        if before:
            pieces.append(Piece(before, False, False))
        pieces.append(Piece("".join((first, *chain.from_iterable(rest))), shared, fresh))
    return pieces


def _line(text: str, place: int) -> str:
    start = max(0, place - SOURCE_BEFORE)
    return " ".join(text[start : start + 2 * SOURCE_LENGTH].split())[:SOURCE_LENGTH]
