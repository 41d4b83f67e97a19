"""When a page is a copy of an indexed one. Twin of stream/judge/by_host/pairs.py."""

from dataclasses import dataclass
from typing import NamedTuple

from tests.reference.containment import (
    ALL_TEXT,
    LEAST_MAIN,
    MAIN_TEXT,
    TEMPLATE_TEXT,
    WHOLE_MAIN_TEXT,
    Comparison,
    EntryText,
    PageView,
)
from tests.reference.host_memory import item_of

FEW_PAGES, TEMPLATE_WORDS = 4, 200
LEAST_MAIN_ON_HOST, MAIN_SHARE = 60, 0.05
THIN, SHORT = 100, 80
SURE, SURE_WORDS = 0.95, 20
NEARLY_ALL, NEARLY_NONE, WHOLE_SHARE = 0.9, 0.05, 0.3
MOST_LENGTHS, LENGTH_SLACK = 2.1, 10
LEAST_WORDS = 3
"""A page with fewer distinctive words consists of template text."""


class Bars(NamedTuple):
    """The thresholds of the rule, with their defaults (HostThresholds)."""

    template_share: float = 0.12
    min_containment: float = 0.6
    max_fresh_words: float = 0
    one_host: bool = False
    drop_parts: bool = False
    keep_variants: bool = False

    def careful(self, share: float) -> float:
        """The required containment if only this share of what may be missing by default may be missing."""
        return 1.0 - share * (1.0 - self.min_containment)


class Part(NamedTuple):
    """A part of the page that the rule asks for. beside: another part is asked for too"""

    part: int
    words: float
    beside: bool


def compare(view: PageView, entry: EntryText, bars: Bars) -> float | None:
    """The score of a page that is a copy of an entry; None for one that is no copy. view: the page on its host"""
    if bars.one_host and view.page.host != entry.host:
        return None
    pair = Pair(view, entry, bars)
    return pair.score() if pair.comparison.shares_text else None


@dataclass
class Pair:
    """A page and an entry."""

    view: PageView
    entry: EntryText
    bars: Bars

    def __post_init__(self) -> None:
        view, entry = self.view, self.entry
        self.comparison = Comparison(view, entry)
        self.same_host = view.page.host == entry.host
        self.common = view.common_words > view.whole_words / 2
        words = view.memory.words
        theirs = {word for word in entry.titles if words.pages_with(word) <= view.memory.common_limit}
        self.shared_words = len(view.rare & theirs) if self.same_host else 0
        self.title: float | None = None
        if self.same_host and (view.rare or theirs):
            self.title = len(view.rare & theirs) / len(view.rare | theirs)

    def score(self) -> float | None:
        """The smallest containment of the parts if each is enough, and the entry is not too long."""
        long_enough = self.bars.drop_parts or self.fits_length()
        scores = [self.contained(part) for part in self.parts()]
        score = min([1.0, *(score for score in scores if score is not None)])
        whole = self.view.whole_words
        if None in scores:
            # An article on another host, found by its main text with common text.
            if not self.common or self.same_host or whole < max(LEAST_MAIN, WHOLE_SHARE * self.view.every_word):
                return None
            again = self.contained(Part(WHOLE_MAIN_TEXT, whole, False))
            if again is None:
                return None
            score = min(again, 1.0)
        if self.bars.keep_variants and self.same_host and self.are_variants():
            return None
        return score if long_enough else None

    def parts(self) -> list[Part]:
        """The parts that must be contained."""
        view = self.view
        speaks = view.main_words >= (LEAST_MAIN_ON_HOST if self.same_host else LEAST_MAIN)
        every = view.main_words + view.other_words if self.same_host else MAIN_SHARE * view.own_words
        other_text = view.main_words < every
        with_common = self.same_host and self.common and view.whole_words >= LEAST_MAIN
        beside = speaks + (other_text or not speaks) + with_common > 1
        parts = []
        if speaks:
            parts.append(Part(MAIN_TEXT, view.main_words, beside))
        if (other_text or not speaks) and view.own_words >= LEAST_WORDS:
            parts.append(Part(ALL_TEXT, view.own_words, beside))
        if not speaks and view.own_words < LEAST_WORDS:
            parts.append(Part(TEMPLATE_TEXT, self.template_words(), beside))
        if with_common:
            parts.append(Part(WHOLE_MAIN_TEXT, view.whole_words, beside))
        return parts

    def template_words(self) -> int:
        """The words of the page's main text, or of all its text if it has no main text."""
        blocks = self.view.page.blocks
        return sum(block.words for block in blocks if block.kept) or sum(block.words for block in blocks)

    def fits_length(self) -> bool:
        """Whether the entry is at most twice as long, without what became template text of its host since."""
        view, entry = self.view, self.entry
        main, every = float(entry.main), float(entry.every)
        if self.same_host:
            gone, gone_main = self.comparison.shared_template_words()
            main, every = main - gone_main, every - gone
            for block in entry.blocks:
                if view.memory.blocks.pages_with(item_of(block.identity)) >= view.limit:
                    every -= block.words
                    main -= block.words if block.kept else 0
        if view.own_words < LEAST_WORDS:
            return True
        speaks = view.main_words >= LEAST_MAIN
        length, words = (main, view.main_words) if speaks else (every, view.own_words)
        if length <= MOST_LENGTHS * words + LENGTH_SLACK:
            return True
        whole = view.whole_words
        long_enough = entry.whole <= MOST_LENGTHS * whole + LENGTH_SLACK
        return whole >= LEAST_MAIN and (self.common or speaks) and long_enough

    def contained(self, asked: Part) -> float | None:
        """The containment of a part if it is enough, and few of its words are fresh."""
        part, words, beside = asked
        pages, least = self.view.memory.pages, self.bars.min_containment
        contained, fresh = self.comparison.measure(part)
        thin = words < THIN and not (self.same_host and part == MAIN_TEXT)
        young = self.same_host and (not beside or part == MAIN_TEXT) and pages < FEW_PAGES - 0.5
        if thin and part == ALL_TEXT:
            contained = self.contained_with_title()
        needed = self.needed(asked, thin, young)
        most_allowed = self.bars.max_fresh_words - 1.0 if self.bars.max_fresh_words else words
        if young and part != TEMPLATE_TEXT and words > TEMPLATE_WORDS:
            # This many of the shared words may be template text that is not known yet.
            rest = words - TEMPLATE_WORDS
            if (words * contained - TEMPLATE_WORDS) / rest >= needed and fresh <= min(
                (1.0 - least) * rest, most_allowed
            ):
                return contained
        if contained < needed or fresh > min(self.most_fresh(asked, needed, thin, young), most_allowed):
            return None
        sure = contained >= SURE and words >= SURE_WORDS and not young and part != TEMPLATE_TEXT
        if self.title is None or sure:
            return contained
        least_title = 0.7 if thin or part == TEMPLATE_TEXT else 0.5 if young or words < SHORT else 0.0
        return contained if self.title >= least_title else None

    def contained_with_title(self) -> float:
        """The containment of thin text by its blocks and the rare words of its title."""
        contained, every = self.comparison.contained_by_blocks()
        if self.same_host:
            contained, every = contained + self.shared_words, every + len(self.view.rare)
        return contained / max(every, 1e-9)

    def needed(self, asked: Part, thin: bool, young: bool) -> float:
        """The required containment: higher where less is known."""
        bars, needed = self.bars, self.bars.min_containment
        title = -1.0 if self.title is None else self.title
        if self.same_host and title < 1.0:
            similar = title >= 0.5 and asked.words >= LEAST_MAIN_ON_HOST
            needed = bars.careful(0.875 if similar else 0.625)
        if young:
            needed = max(needed, NEARLY_ALL if asked.words <= TEMPLATE_WORDS else bars.careful(0.625))
        elif thin and self.title is None:
            needed = bars.careful(0.75)
        if not self.same_host and asked.part in (WHOLE_MAIN_TEXT, TEMPLATE_TEXT):
            needed = max(needed, NEARLY_ALL)
        if asked.beside and asked.part != MAIN_TEXT:
            needed = min(needed, bars.min_containment - 0.1)
        return needed

    def most_fresh(self, asked: Part, needed: float, thin: bool, young: bool) -> float:
        """The most fresh words of a part."""
        by_default = (1.0 - self.bars.min_containment) * asked.words
        most = (1.0 - needed) * asked.words
        if thin and self.same_host and self.title is None:
            most = 0.625 * (1.0 - self.bars.min_containment) * asked.words
        if asked.part in (WHOLE_MAIN_TEXT, TEMPLATE_TEXT) and not self.same_host:
            most = NEARLY_NONE * asked.words
        if (thin and not self.same_host and not young) or (asked.beside and asked.part != MAIN_TEXT):
            most = by_default
        if young:
            most = 0.0
        return most

    def are_variants(self) -> bool:
        """Whether the distinctive blocks of both pages have the same texts, and some have other numbers."""
        texts = {block.identity for block in self.view.page.blocks}
        exact = {block.text for block in self.view.page.blocks}
        theirs = self.entry.blocks
        if any(block.identity not in texts and not block.numeric for block in theirs):
            return False
        return any(block.text not in exact for block in theirs) and sum(self.view.own) <= len(theirs)
