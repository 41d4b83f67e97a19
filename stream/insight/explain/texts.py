"""Reads two pages as their scheme does: blocks kept or left out and why, template, and the shingles that both have."""

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
"""Words in a row that make a passage, for schemes that do not compare shingles."""
MOST_BETWEEN = 12
"""More characters than this between two words are shown as a blank."""
SOURCE_WORDS = 4
SOURCE_BEFORE = 36
SOURCE_LENGTH = 85
_WHOLE_TEXT = "the scheme reads all text"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a block's text. shared: whether it is of a shingle that both pages have"""

    text: str
    shared: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page as it is shown. reason: why it is kept or left out

    template: whether it is template of the page's host by now; None where the host is not known or does not list it
    """

    words: int
    kept: bool
    reason: str
    template: bool | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class PageText:
    """One of two pages. words, kept_words: all tokens, and those of kept blocks  shingles: with repeats"""

    title: str
    words: int
    kept_words: int
    shingles: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two pages side by side; other: None where only one page's text is at hand.

    shingle_words: how many words a shingle has  shared: shingles of both, with repeats  examples: some of them
    """

    page: PageText
    other: PageText | None
    shingle_words: int
    shared: int
    examples: tuple[str, ...]

    @property
    def jaccard(self) -> float:
        """Of the two multisets of shingles."""
        other = self.other.shingles if self.other else 0
        return self.shared / max(self.page.shingles + other - self.shared, 1)


def read_pair(
    page: Page, other: Page | None, settings: SchemeSettings, template: Mapping[int, bool] | None = None
) -> TextPair:
    """Read a page, and the one that it is compared with if there is one.

    template: of the page's host, identity of a print -> whether it is template
    """
    length = shingle_words(settings)
    sieves = isinstance(settings, SpotsieveSettings)
    of_page, of_other = (blocks_of(one.body, one.markup) if one and one.judgeable else [] for one in (page, other))
    if not sieves:
        of_page, of_other = ([replace(block, reason="kept") for block in blocks] for blocks in (of_page, of_other))
    kept, other_kept = kept_words(of_page), kept_words(of_other)
    shingles, others = (Counter(shingles_in_words(words, length)) for words in (kept, other_kept))
    both = shingles & others
    same_host = template if other is None or _host_alike(page, other) else None
    return TextPair(
        _shown(page, of_page, kept, both, length, template, sieves),
        None if other is None else _shown(other, of_other, other_kept, both, length, same_host, sieves),
        length,
        both.total(),
        tuple(" ".join(shingle) for shingle in list(both)[:3]),
    )


def shingle_words(settings: SchemeSettings) -> int:
    """How many words a shingle of a scheme has; schemes without shingles are shown by passages of PASSAGE_WORDS."""
    for name in ("shingle_words", "w"):
        length = getattr(settings, name, None)
        if isinstance(length, int):
            return length
    return PASSAGE_WORDS


def shingles_in_words(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """The shingles of kept text as words: what the kernel hashes (stream/sign/features/shingles.py)."""
    length = min(length, len(words))
    return [tuple(words[place : place + length]) for place in range(len(words) - length + 1)] if words else []


def kept_words(blocks: Sequence[ScoredBlock]) -> list[str]:
    """The tokens of kept blocks, in a row."""
    return [*chain.from_iterable(block.tokens for block in blocks if block.kept)]


def longest_left_out(blocks: Sequence[ScoredBlock], most: int) -> tuple[str, ...]:
    """The words of the longest blocks that are left out, the longest first."""
    left_out = sorted((block.tokens for block in blocks if not block.kept), key=len, reverse=True)
    return tuple(" ".join(tokens) for tokens in left_out[:most])


def longest_run(words: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The longest run of words that both have."""
    match = SequenceMatcher(None, words, others, autojunk=False).find_longest_match()
    return tuple(words[match.a : match.a + match.size])


def source_lines(page: bytes, original: bytes, run: tuple[str, ...]) -> tuple[str, str]:
    """The bytes of both pages around the first words of the run that stand together in both, on one line each.

    The very first words may not stand together: kept words are in a row even if a block between them is left out.
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


def _host_alike(page: Page, other: Page) -> bool:
    return host_of(page.url) == host_of(other.url)


def _shown(
    page: Page,
    blocks: Sequence[ScoredBlock],
    kept: Sequence[str],
    both: Mapping[tuple[str, ...], int],
    length: int,
    template: Mapping[int, bool] | None,
    sieves: bool,
) -> PageText:
    """A page with its shared shingles marked. both: shingles of both pages"""
    marks, shown_text = iter(_marks(kept, both, length)), read_text(page.body, page.markup)
    places = iter(spell_out(shown_text, [*chain.from_iterable(block.tokens for block in blocks)]))
    shown = list[Block]()
    for block in blocks:
        shared = [next(marks) if block.kept else False for _ in block.tokens]
        spelled = _spelled(shown_text.text, block.tokens, [next(places) for _ in block.tokens])
        pieces = tuple(_pieces(spelled, shared))
        reason = block.reason if sieves else _WHOLE_TEXT
        shown.append(Block(len(block.tokens), block.kept, reason, _is_template(block, template), pieces))
    words = sum(block.words for block in shown)
    return PageText(shown_text.title, words, len(kept), len(shingles_in_words(kept, length)), tuple(shown))


def _spelled(text: str, tokens: Sequence[str], places: Sequence[tuple[int, int] | None]) -> list[tuple[str, str]]:
    """The tokens of a block as they stand in the text, each with what stands before it in its block."""
    spelled, before = list[tuple[str, str]](), None
    for token, place in zip(tokens, places, strict=True):
        between = " "
        if before is not None and place is not None and place[0] - before[1] <= MOST_BETWEEN:
            between = text[before[1] : place[0]]
        spelled.append((between if spelled else "", token if place is None else text[place[0] : place[1]]))
        before = place
    return spelled


def _marks(words: Sequence[str], both: Mapping[tuple[str, ...], int], length: int) -> list[bool]:
    """Of each word, whether it is of a shingle that both pages have."""
    marks = [False] * len(words)
    for place, shingle in enumerate(shingles_in_words(words, length)):
        if shingle in both:
            marks[place : place + len(shingle)] = [True] * len(shingle)
    return marks


def _pieces(spelled: Sequence[tuple[str, str]], shared: Sequence[bool]) -> list[Piece]:
    """Words that stand together and are shared, or are not, as one piece."""
    pieces = list[Piece]()
    for (before, word), mark in zip(spelled, shared, strict=True):
        if pieces and pieces[-1].shared == mark:
            pieces[-1] = Piece(pieces[-1].text + before + word, mark)
        else:
            # What stands between a shared word and another one belongs to neither.
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
