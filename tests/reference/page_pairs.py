"""When a page is a copy of an indexed one. Reference for stream/judge/by_host/pairs.py."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.reference.containment import (
    ALL_TEXT,
    ENTRY_BLOCKS,
    LEAST_MAIN,
    LEAST_OWN,
    MAIN_TEXT,
    TEMPLATE_TEXT,
    WHOLE_MAIN_TEXT,
    Comparison,
    EntryText,
    PageView,
)
from tests.reference.host_memory import item_of

FEW_PAGES, TEMPLATE_WORDS, YOUNG_FRESH = 4, 200, 0.05
EDITED_FRESH, EDITED_BLOCKS = 0.25, 0.1
FRESH_TEXT = 20
LEAST_MAIN_ON_HOST, MOST_OUTSIDE, MOST_OWN = 60, 6, 16
KNOWN_PAGES, KNOWN_OUTSIDE, MOST_LINKS, OTHER_LINKS = 20, 1 / 3, 2, 3
HEADLINE, SIMILAR_TITLE, CLOSE_TITLE, THIN, SHORT = 4, 0.5, 0.7, 100, 80
SURE, SURE_WORDS = 0.95, 20
EXCERPT, MARGIN, BESIDE = 0.35, 0.25, 0.05
NEARLY_ALL, NEARLY_NONE, WHOLE_SHARE = 0.9, 0.05, 0.3
MOST_LENGTHS, LENGTH_SLACK = 2.1, 10
LEAST_WORDS = 3
"""A page with fewer distinctive words consists of template text."""


class PairThresholds(NamedTuple):
    """The thresholds of the rule, with their defaults (HostThresholds)."""

    template_share: float = 0.08
    min_containment: float = 0.6
    max_fresh_words: float = 0
    one_host: bool = False
    drop_parts: bool = False
    keep_variants: bool = False


class Part(NamedTuple):
    """A part of the page that the rule tests. beside: another part is tested too"""

    part: int
    words: float
    beside: bool


def compare(view: PageView, entry: EntryText, thresholds: PairThresholds) -> float | None:
    """The score of a page that is a copy of an entry; None for one that is no copy. view: the page on its host"""
    if thresholds.one_host and view.page.host != entry.host:
        return None
    pair = Pair(view, entry, thresholds)
    return pair.score() if pair.comparison.shares_text else None


@dataclass
class Pair:
    """A page and an entry."""

    view: PageView
    entry: EntryText
    thresholds: PairThresholds
    lengths: float = field(default=1.0, init=False)
    by_all: bool = field(default=False, init=False)
    with_all: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        view, entry = self.view, self.entry
        self.comparison = Comparison(view, entry)
        self.same_host = view.page.host == entry.host
        self.new_host = self.same_host and view.memory.pages < FEW_PAGES - 0.5
        self.common = view.common_words > view.whole_words / 2
        words = view.memory.words
        theirs = {word for word in entry.titles if words.pages_with(word) <= view.memory.common_limit}
        overlap = len(view.rare & theirs) / len(view.rare | theirs) if view.rare or theirs else None
        self.shared_words = len(view.rare & theirs)
        self.title = overlap if self.same_host else None
        self.similar_titles = overlap is not None and overlap >= SIMILAR_TITLE
        mine, others = (view.rare, theirs) if overlap is not None else (set(view.page.titles), set(entry.titles))
        closeness = len(mine & others) / len(mine | others) if mine and others else 0.0
        has_titles = overlap is not None or (mine and others)
        self.other_title = self.same_host and bool(has_titles) and closeness < CLOSE_TITLE
        self.one_article = not self.same_host and self.similar_titles

    def score(self) -> float | None:
        """The smallest containment of the parts if each is enough, and the entry is not too long."""
        parts = self.parts()
        alone = not self.same_host and parts[0].part == WHOLE_MAIN_TEXT
        short_enough, self.lengths, self.by_all = self.compare_lengths(alone)
        if self.by_all and all(part.part != ALL_TEXT for part in parts):
            parts = [part._replace(beside=True) for part in parts] + [Part(ALL_TEXT, self.view.own_words, True)]
        self.with_all = {MAIN_TEXT, ALL_TEXT} <= {part.part for part in parts}
        self.by_all |= self.with_all and self.comparison.represents_too_little(MAIN_TEXT)
        scores = [self.contained(part) for part in parts]
        score = min([1.0, *(score for score in scores if score is not None)])
        if None in scores:
            return None
        if self.thresholds.keep_variants and self.same_host and self.are_variants():
            return None
        return score if short_enough or self.thresholds.drop_parts else None

    def parts(self) -> list[Part]:
        """The parts that must be contained."""
        view = self.view
        has_other_title = self.title is not None and self.title < SIMILAR_TITLE
        is_long = view.main_words >= LEAST_MAIN_ON_HOST or not self.same_host or has_other_title
        speaks = is_long and view.main_words >= LEAST_MAIN
        other_text = view.other_words > 0 or view.own_words > MOST_LINKS * view.main_words
        other_text |= view.main_words < LEAST_MAIN_ON_HOST
        if not self.same_host:
            other_text = (
                view.main_words <= view.prose_words
                or view.other_words > MOST_OUTSIDE * view.main_words
                or view.own_words > MOST_OWN * view.main_words
                or (
                    view.memory.pages >= KNOWN_PAGES
                    and view.other_words > KNOWN_OUTSIDE * view.main_words
                    and not self.similar_titles
                )
            )
        with_common = self.common and view.whole_words >= LEAST_MAIN
        if not self.same_host and with_common and view.whole_words >= WHOLE_SHARE * view.every_word:
            return [Part(WHOLE_MAIN_TEXT, view.whole_words, False)]
        with_common &= self.same_host
        beside = speaks + (other_text or not speaks) + with_common > 1
        own_words = view.own_words_without_numbers if self.same_host and view.own_words < LEAST_OWN else view.own_words
        parts = []
        if speaks:
            parts.append(Part(MAIN_TEXT, view.main_words, beside))
        if (other_text or not speaks) and own_words >= LEAST_WORDS:
            parts.append(Part(ALL_TEXT, view.own_words, beside))
        if not speaks and own_words < LEAST_WORDS:
            parts.append(Part(TEMPLATE_TEXT, self.template_words(), beside))
        if with_common:
            parts.append(Part(WHOLE_MAIN_TEXT, view.whole_words, beside))
        return parts

    def template_words(self) -> int:
        """The words of the page's main text, or of all its text if it has no main text."""
        blocks = self.view.page.blocks
        return sum(block.words for block in blocks if block.kept) or sum(block.words for block in blocks)

    def compare_lengths(self, alone: bool) -> tuple[bool, float, bool]:
        """Whether the entry is at most twice as long, its length in lengths of the page, and whether only all its text
        is short enough, so that all text of the page must be contained.

        What became template text of its host since does not count.  alone: the main text with common text decides
        """
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
            return True, 1.0, False
        speaks = view.main_words >= LEAST_MAIN
        length, words = (main, view.main_words) if speaks else (every, view.own_words)
        too_long = length > MOST_LENGTHS * words + LENGTH_SLACK
        if too_long and view.whole_words >= LEAST_MAIN and (self.common or speaks):
            length, words = entry.whole, view.whole_words
        too_long = length > MOST_LENGTHS * words + LENGTH_SLACK
        by_all = too_long and not alone and every <= MOST_LENGTHS * view.own_words + LENGTH_SLACK
        if by_all:
            length, words = every, view.own_words
        return by_all or not too_long, min(max(1.0, length / words), 2.0), by_all

    def contained(self, tested: Part) -> float | None:
        """The containment of a part if it is enough, and few of its words are fresh."""
        part, words, beside = tested
        least = self.thresholds.min_containment
        contained, fresh = self.comparison.measure(part)
        if self.comparison.represents_too_little(part) and not (part == MAIN_TEXT and self.with_all):
            contained = 0.0
        if part == ALL_TEXT and beside and self.links_may_differ:
            text, every = self.comparison.contained_by_blocks(with_links=False)
            contained = max(contained, text / max(every, 1))
        text_contained = contained
        thin = words < THIN and not (self.same_host and part == MAIN_TEXT)
        young = self.new_host and (not beside or part == MAIN_TEXT)
        if thin and part == ALL_TEXT:
            contained, text_contained = self.contained_with_title(), self.contained_without_heading()
        nearly_all = self.by_all and part == ALL_TEXT
        needed = self.needed(tested, thin, young)
        needed = max(needed, NEARLY_ALL) if nearly_all else needed
        density = self.comparison.density(True)
        needed += MARGIN * math.sqrt(needed * (1.0 - needed) * (1.0 - density) / max(1.0, words * density))
        most_allowed = self.thresholds.max_fresh_words - 1.0 if self.thresholds.max_fresh_words else words
        if part == ALL_TEXT:
            most_allowed = min(most_allowed, max(FRESH_TEXT, (1.0 - least) * self.comparison.words_outside_links(part)))
        if self.other_title and self.comparison.share_in_fresh_blocks(part) * words > FRESH_TEXT:
            most_allowed = min(most_allowed, FRESH_TEXT)
        if young and part != TEMPLATE_TEXT and words > TEMPLATE_WORDS and not nearly_all:
            # This many of the shared words may be template text that is not known yet.
            rest = words - TEMPLATE_WORDS
            most_fresh = (1.0 - least) * rest if self.is_one_text(part) else FRESH_TEXT
            if (words * contained - TEMPLATE_WORDS) / rest >= needed and fresh <= min(most_fresh, most_allowed):
                return contained
        most_fresh = self.most_fresh(tested, needed, thin, young)
        if nearly_all:
            most_fresh = min(most_fresh, (1.0 - NEARLY_ALL) * words)
        elif self.is_edited(tested, young):
            missing = (1.0 - least) / (1.0 + EXCERPT * (self.lengths - 1.0))
            needed = min(needed, 1.0 - missing)
            most_fresh = max(most_fresh, (YOUNG_FRESH if density == 1.0 else EDITED_FRESH) * words)
        if contained < needed or fresh > min(most_fresh, most_allowed):
            return None
        sure = text_contained >= SURE and words >= SURE_WORDS and not young and part != TEMPLATE_TEXT
        if self.title is None or sure:
            return contained
        least_title = CLOSE_TITLE if thin or part == TEMPLATE_TEXT else SIMILAR_TITLE if young or words < SHORT else 0.0
        return contained if self.title >= least_title else None

    @property
    def links_may_differ(self) -> bool:
        """Whether the main text of a page of a known host is contained under the same title."""
        few_links = self.view.own_words <= OTHER_LINKS * self.view.main_words
        is_article = self.title == 1.0 and (self.shared_words >= HEADLINE or few_links)
        has_main = self.view.main_words >= LEAST_MAIN_ON_HOST and is_article
        return has_main and not self.new_host and not self.by_all and self.comparison.measure(MAIN_TEXT)[0] >= SURE

    def is_edited(self, tested: Part, young: bool) -> bool:
        """Whether the page has the entry's title, and its fresh words are scattered; of pages of a new host only."""
        if not self.new_host or not (young or tested.beside) or self.title != 1.0 or tested.part == TEMPLATE_TEXT:
            return False
        return self.has_edits_only(tested.part)

    def has_edits_only(self, part: int) -> bool:
        """Whether hardly any fresh words stand in blocks of their own."""
        return self.comparison.share_in_fresh_blocks(part) <= EDITED_BLOCKS

    def is_one_text(self, part: int) -> bool:
        """Whether pages of a new host have edits only, and no different titles."""
        return (self.title is None or self.title >= SIMILAR_TITLE) and self.has_edits_only(part)

    def contained_with_title(self) -> float:
        """The containment of thin text by its blocks and the rare words of its title."""
        contained, every = self.comparison.contained_by_blocks()
        if self.same_host:
            contained, every = contained + self.shared_words, every + len(self.view.rare)
        return contained / max(every, 1e-9)

    def contained_without_heading(self) -> float:
        """The containment of thin text by its blocks, without its heading: the longest fresh block that is a title."""
        contained, every = self.comparison.contained_by_blocks()
        fresh = self.comparison.fresh_blocks() if self.same_host else []
        heading = max((words for words in fresh if words <= len(self.view.rare)), default=0)
        return contained / max(every - heading, 1e-9)

    def needed(self, tested: Part, thin: bool, young: bool) -> float:
        """The required containment: higher where less is known."""
        missing = (1.0 - self.thresholds.min_containment) / (1.0 + EXCERPT * (self.lengths - 1.0))
        needed = 1.0 - missing
        title = -1.0 if self.title is None else self.title
        if self.same_host and title < 1.0:
            similar = title >= SIMILAR_TITLE and tested.words >= LEAST_MAIN_ON_HOST
            needed = 1.0 - (0.875 if similar else 0.625) * missing
        if young:
            needed = max(needed, NEARLY_ALL if tested.words <= TEMPLATE_WORDS else 1.0 - 0.625 * missing)
        elif thin and self.title is None:
            needed = 1.0 - 0.75 * missing
        if self.is_strict(tested.part):
            needed = max(needed, NEARLY_ALL)
        if tested.beside and tested.part != MAIN_TEXT:
            needed = min(needed, 1.0 - missing - (0.0 if self.same_host and title < SIMILAR_TITLE else BESIDE))
        return needed

    def is_strict(self, part: int) -> bool:
        """Whether nearly all of a part must be contained: of common text under other titles, and of template text."""
        one_article = self.one_article and (self.shared_words >= HEADLINE or self.has_edits_only(part))
        return not self.same_host and (part == TEMPLATE_TEXT or (part == WHOLE_MAIN_TEXT and not one_article))

    def most_fresh(self, tested: Part, needed: float, thin: bool, young: bool) -> float:
        """The most fresh words of a part."""
        by_default = (1.0 - self.thresholds.min_containment) * tested.words
        most = (1.0 - needed) * tested.words
        if thin and self.same_host and self.title is None:
            most = 0.625 * (1.0 - self.thresholds.min_containment) * tested.words
        if self.is_strict(tested.part):
            most = NEARLY_NONE * tested.words
        if (thin and not self.same_host and not young) or (tested.beside and tested.part != MAIN_TEXT):
            most = by_default
            if self.new_host and self.view.main_words <= TEMPLATE_WORDS:
                most = YOUNG_FRESH * tested.words
            elif self.new_host and not self.is_one_text(tested.part):
                most = FRESH_TEXT
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
        return any(block.text not in exact for block in theirs) and min(sum(self.view.own), ENTRY_BLOCKS) <= len(theirs)
