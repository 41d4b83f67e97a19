"""The distinctive text of a page, and how much of it an indexed page contains.

Reference for stream/judge/by_host/distinctive_text.py and stream/judge/by_host/containment.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tests.reference.host_memory import Memory, item_of
from tests.reference.packed_text import NOTICE, Block, PageText, Sample, rounded_size

ENTRY_SAMPLES, ENTRY_BLOCKS = 192, 16
LEAST_OWN = 8
"""A page with fewer distinctive words takes only blocks of the host's share of pages as template text."""
LEAST_MAIN = 20
"""The least words of main text that speak for a page."""
OWN_SHARE = 0.05
"""Notices are distinctive if the page has less than this share of other words, and fewer than LEAST_MAIN."""
PROSE_WORDS, PROSE_SHARE = 100, 0.9
FRESH_RUN, FRESH_SLACK = 10, 2.0
LINK_BLOCK, FRESH_BLOCK, LEAST_TEXT = 0.4, 1 / 3, 6
FEW_SHINGLES = 16
MAIN_TEXT, ALL_TEXT, TEMPLATE_TEXT, WHOLE_MAIN_TEXT = range(4)


@dataclass
class PageView:
    """A page by the memory of its host.

    template, own: of each block, whether it is template text, and whether it is distinctive
    rare: the title words that are not common on the host
    """

    page: PageText
    memory: Memory
    limit: float
    template: list[bool]
    own: list[bool]
    rare: set[int]

    @cached_property
    def own_words(self) -> int:
        """The words of the distinctive text."""
        return sum(block.words for block in self._chosen(self.own))

    @cached_property
    def own_words_without_numbers(self) -> int:
        """The words of distinctive blocks without numbers."""
        return sum(block.words for block in self._chosen(self.own) if not block.numeric)

    @cached_property
    def main_words(self) -> int:
        """The words of the distinctive main text."""
        return sum(block.words for block in self._chosen(self.own) if block.kept)

    @cached_property
    def other_words(self) -> float:
        """The words of the other distinctive text, outside links."""
        return sum(block.words_outside_links for block in self._chosen(self.own) if not block.kept)

    @cached_property
    def prose_words(self) -> int:
        """The words of long distinctive blocks outside the main text with few links."""
        long = [block for block in self._chosen(self.own) if not block.kept and block.words >= PROSE_WORDS]
        return sum(block.words for block in long if block.words_outside_links >= PROSE_SHARE * block.words)

    @cached_property
    def whole_words(self) -> int:
        """The words of the main text that is no template text."""
        return sum(block.words for block in self._not_template() if block.kept)

    @cached_property
    def common_words(self) -> int:
        """The words of these that are common text."""
        template, common = self.template, self.page.common
        chosen = [one > 0 and not other for one, other in zip(common, template, strict=True)]
        return sum(block.words for block in self._chosen(chosen) if block.kept)

    @cached_property
    def every_word(self) -> float:
        """The words that are no template text; outside the main text, links do not count."""
        return sum(float(block.words) if block.kept else block.words_outside_links for block in self._not_template())

    @cached_property
    def complete_below(self) -> tuple[int, int]:
        """The hashes up to which the samples of the other text, and of the main text, have every shingle."""
        return self.page.complete_below(False), self.page.complete_below(True)

    def _not_template(self) -> list[Block]:
        return self._chosen([not one for one in self.template])

    def _chosen(self, which: Sequence[bool]) -> list[Block]:
        return [block for block, chosen in zip(self.page.blocks, which, strict=True) if chosen]


def look_up(page: PageText, memory: Memory, share: float) -> PageView:
    """A page by the memory of its host. share: the share of the host's pages from which text is template text"""
    limit = memory.template_limit(share)
    shown = [memory.blocks.pages_with(item_of(block.identity)) for block in page.blocks]
    template = [count >= limit or common == NOTICE for count, common in zip(shown, page.common, strict=True)]
    own = [not one and not common for one, common in zip(template, page.common, strict=True)]
    rare = {word for word in page.titles if memory.words.pages_with(word) <= memory.common_limit}
    own_words = sum(block.words for block, distinctive in zip(page.blocks, own, strict=True) if distinctive)
    notices = [common == NOTICE and count < limit for count, common in zip(shown, page.common, strict=True)]
    notice_words = sum(block.words for block, notice in zip(page.blocks, notices, strict=True) if notice and block.kept)
    if notice_words >= LEAST_MAIN and own_words < min(OWN_SHARE * notice_words, LEAST_MAIN):
        own = [one or notice for one, notice in zip(own, notices, strict=True)]
    elif own_words < LEAST_OWN:
        higher = max(limit, share * memory.pages)
        own = [
            one or (is_template and not common and count < higher)
            for one, is_template, common, count in zip(own, template, page.common, shown, strict=True)
        ]
    return PageView(page, memory, limit, template, own, rare)


class EntryText(NamedTuple):
    """The text of an indexed page, as later pages are compared with it.

    main, whole, every: words of the distinctive main text, of the main text that is no template text, and of all
    distinctive text  limit: of packed_limits  sample: hashes in 16 bits  blocks: the heaviest distinctive ones
    """

    host: int
    site: int
    main: int
    whole: int
    every: int
    limit: int
    sample: tuple[int, ...]
    blocks: frozenset[Block]
    titles: tuple[int, ...]

    @property
    def limits(self) -> tuple[int, int]:
        """The hashes up to which the sample has every shingle of the other text, and of the main text."""
        steps, part = divmod(self.limit, 256)
        return (steps + 1) * (part + 1) - 1, (steps + 1) * 256 - 1


def packed_limits(main: int, rest: int) -> int:
    """The limits of a sample in one word: that of the main text in steps of 256, the other one in 256ths of the first.

    main, rest: the hashes up to which the main text and the other text have every shingle
    """
    each = max(1, min((main + 1) // 256, rest + 1))
    return 256 * (each - 1) + min((rest + 1) // each, 256) - 1


def entry_of(view: PageView) -> EntryText:
    """The text of a page that is indexed."""
    page = view.page
    whole = view.whole_words if view.whole_words >= LEAST_MAIN else view.own_words
    main = view.main_words if view.main_words >= LEAST_MAIN else view.own_words
    limit, hashes = entry_sample(view)
    own = [block for block, chosen in zip(page.blocks, view.own, strict=True) if chosen and block.identity]
    heaviest = sorted(own, key=lambda block: -block.words)[:ENTRY_BLOCKS]
    return EntryText(
        page.host,
        page.site,
        rounded_size(main),
        rounded_size(whole),
        rounded_size(view.own_words),
        limit,
        tuple(scaled(one, limit // 256 * 256 + 255) for one in hashes),
        frozenset(heaviest),
        page.titles,
    )


def entry_sample(view: PageView) -> tuple[int, list[int]]:
    """The limits of a sample, and its hashes in ascending order: the smallest hashes of the text that is compared.

    Template text is not compared, unless it is distinctive or the page has no other text. For a page without main text,
    both limits are the limit of the other text.
    """
    page = view.page
    counts = [own or not template for own, template in zip(view.own, view.template, strict=True)]
    chosen = [sample for sample in page.samples if counts[sample.place] or not any(counts)]
    limit = page.complete_below(kept=any(page.blocks[sample.place].kept for sample in chosen))
    hashes = sorted(sample.hash for sample in chosen)
    if len(hashes) > ENTRY_SAMPLES:
        limit = min(limit, hashes[ENTRY_SAMPLES] - 1)
    limit = packed_limits(limit, page.complete_below(kept=False))
    return limit, [one for one in hashes[:ENTRY_SAMPLES] if one <= limit // 256 * 256 + 255]


def scaled(value: int, limit: int) -> int:
    """A hash up to the limit in 16 bits."""
    return value * 2**16 // (limit + 1)


class Measured(NamedTuple):
    """A part of a page in comparison with an entry.

    contained: the share of its shingles that the entry has  fresh: its fresh words
    """

    contained: float
    fresh: float


class Comparison:
    """A page beside an entry.

    whole: of each block, whether the entry has it  found: of each sampled shingle, whether the entry has it; None if
    the entry cannot tell
    """

    def __init__(self, view: PageView, entry: EntryText) -> None:
        self.view, self.page, self.entry = view, view.page, entry
        known = {block.text for block in entry.blocks} - {None}
        self.whole = [block.text in known for block in self.page.blocks]
        sample = set(entry.sample)
        self.found: list[bool | None] = []
        for one in self.page.samples:
            if self.whole[one.place]:
                self.found.append(True)
            elif one.hash <= entry.limits[self.page.blocks[one.place].kept]:
                self.found.append(scaled(one.hash, entry.limits[True]) in sample)
            else:
                self.found.append(None)

    @cached_property
    def no_main_text(self) -> bool:
        """Whether no block of the page is main text."""
        return not any(block.kept for block in self.page.blocks)

    @property
    def shares_text(self) -> bool:
        """Whether both pages have a block or a shingle in common."""
        return any(self.whole) or True in self.found

    def density(self, kept: bool) -> float:
        """The share of shingles of the main text, or of the other text, that are compared."""
        return min(self.entry.limits[kept] + 1.0, self.view.complete_below[kept] + 1.0) / 2.0**32

    def is_in(self, part: int, place: int) -> bool:
        """Whether a block belongs to a part of the page."""
        block = self.page.blocks[place]
        if part == MAIN_TEXT:
            return self.view.own[place] and block.kept
        if part == ALL_TEXT:
            return self.view.own[place]
        if part == TEMPLATE_TEXT:
            return block.kept or self.no_main_text
        return block.kept and not self.view.template[place]

    def compared(self, part: int) -> list[tuple[Sample, bool]]:
        """The sampled shingles of a part that the entry can tell about, and whether it has them."""
        return [
            (sample, found)
            for sample, found in zip(self.page.samples, self.found, strict=True)
            if found is not None and self.is_in(part, sample.place)
        ]

    def measure(self, part: int) -> Measured:
        """Measure a part."""
        return Measured(self._contained(part), self._fresh(part))

    def _contained(self, part: int) -> float:
        """In words: shared blocks count whole; any other shingle stands also for those that its sample leaves out."""
        shared, every = 0.0, 0.0
        for place, block in enumerate(self.page.blocks):
            if self.whole[place] and self.is_in(part, place):
                shared += max(1, block.words - 2) * words_of_shingle(block)
                every += max(1, block.words - 2) * words_of_shingle(block)
        for sample, found in self.compared(part):
            if not self.whole[sample.place]:
                stands_for = self.words_of(sample)
                every += stands_for
                shared += stands_for if found else 0
        return shared / max(every, 1) if every else float(self.represents_too_little(part))

    def words_of(self, sample: Sample) -> float:
        """The words that a sampled shingle stands for."""
        block = self.page.blocks[sample.place]
        return 1 / self.density(block.kept) * words_of_shingle(block)

    def represents_too_little(self, part: int) -> bool:
        """Whether few shingles of a part are compared, and shared blocks are less than half of it."""
        if self.density(True) == self.density(False) == 1:
            return False
        blocks = [(place, block.words) for place, block in enumerate(self.page.blocks) if self.is_in(part, place)]
        whole = sum(words for place, words in blocks if self.whole[place])
        compared = sum(not self.whole[sample.place] for sample, _ in self.compared(part))
        return compared < FEW_SHINGLES and 2 * whole < sum(words for _, words in blocks)

    def _fresh(self, part: int) -> float:
        """The words in runs of FRESH_RUN and more that touch no shared shingle, without blocks of links."""
        blocks, text, before = self.page.blocks, dict[int, int](), list[int]()
        words, all_words = 0, 0
        for place, block in enumerate(blocks):
            before.append(all_words)
            all_words += block.words
            if self.may_be_fresh(part, place):
                text[place] = words
                words += block.words
        fresh, last, missing = 0.0, 0, list[float]()
        for sample, found in self.compared(part):
            if sample.place not in text:
                continue
            density = self.density(blocks[sample.place].kept)
            if not found:
                missing.append(self.words_of(sample))
                continue
            start = text[sample.place] + max(sample.position - before[sample.place], 0)
            end = start + sample.width
            if self.whole[sample.place]:
                start, end = text[sample.place], text[sample.place] + blocks[sample.place].words
            fresh += fresh_words(start - last, missing, density == 1)
            last, missing = max(last, end), []
        exact = self.density(True) == self.density(False) == 1
        return fresh + fresh_words(words - last, missing, exact)

    def may_be_fresh(self, part: int, place: int) -> bool:
        """Whether a block belongs to a part and is no block of links."""
        block = self.page.blocks[place]
        return self.is_in(part, place) and block.words_outside_links >= LINK_BLOCK * block.words

    def words_outside_links(self, part: int) -> int:
        """The words of a part, without blocks of links."""
        return sum(block.words for place, block in enumerate(self.page.blocks) if self.may_be_fresh(part, place))

    def share_in_fresh_blocks(self, part: int) -> float:
        """The share of the compared shingles of a part that lie in blocks of which the entry has hardly any."""
        blocks: dict[int, list[bool]] = {}
        for sample, found in self.compared(part):
            blocks.setdefault(sample.place, []).append(found)
        fresh = sum(len(found) for found in blocks.values() if len(found) > 1 and sum(found) < FRESH_BLOCK * len(found))
        return fresh / max(1, sum(map(len, blocks.values())))

    def shared_template_words(self) -> tuple[float, float]:
        """The words of template text that the entry has too, without whole blocks: all, and those of main text."""
        every, main = 0.0, 0.0
        for sample, found in zip(self.page.samples, self.found, strict=True):
            place, kept = sample.place, self.page.blocks[sample.place].kept
            is_template = self.view.template[place] and not self.view.own[place] and not self.page.common[place]
            if found and is_template and not self.whole[place]:
                every += 1 / self.density(kept)
                main += 1 / self.density(kept) if kept else 0
        return every, main

    def contained_by_blocks(self, with_links: bool = True) -> tuple[float, float]:
        """The words of distinctive blocks that the entry has, and the words of all distinctive blocks compared."""
        contained, every = 0.0, 0.0
        for words, found, compared in self._compared_blocks(with_links):
            contained, every = contained + words * found / compared, every + words
        return contained, every

    def fresh_blocks(self) -> list[int]:
        """The words of each distinctive block without a shingle of the entry."""
        return [words for words, found, _ in self._compared_blocks() if found == 0]

    def _compared_blocks(self, with_links: bool = True) -> list[tuple[int, int, int]]:
        """Words, shared shingles and compared shingles of each distinctive block; a shared block is one shingle."""
        responses: dict[int, list[bool]] = {}
        for sample, found in self.compared(ALL_TEXT):
            responses.setdefault(sample.place, []).append(found)
        blocks = []
        for place, block in enumerate(self.page.blocks):
            if not with_links and not self.may_be_fresh(ALL_TEXT, place):
                continue
            if self.view.own[place] and self.whole[place]:
                blocks.append((block.words, 1, 1))
            elif self.view.own[place] and place in responses:
                blocks.append((block.words, sum(responses[place]), len(responses[place])))
        return blocks


def words_of_shingle(block: Block) -> float:
    """The words that a shingle of a block stands for: a block has two shingles less than words."""
    is_text = block.words >= LEAST_TEXT and block.words_outside_links >= LINK_BLOCK * block.words
    return block.words / (block.words - 2) if is_text else 1.0


def fresh_words(run: int, missing: Sequence[float], exact: bool) -> float:
    """The fresh words of a run between two shared shingles.

    missing: of each compared shingle in it, the words that it stands for  exact: none was left out
    """
    if run < FRESH_RUN or not missing:
        return 0.0
    if exact:
        return float(run)
    return min(float(run), sum(missing) + FRESH_SLACK) if len(missing) > 1 else 0.0
