"""What a host's pages taught, and when two pages are copies by it: the obvious way. Twin of spotsieve.stream.judge.

Block fingerprints and title words come from the signatures. A memory counts the pages of the host that have each of
them. Those of many pages are template text, which does not distinguish any of them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""The weight of a block fingerprint, by its class."""
KEPT_TENTHS, LEFT_OUT_TENTHS = 10, 4
"""What a word of a kept print counts, and of one that was not kept. In tenths sums are whole, in whatever order."""
MOST_ITEMS, MOST_ITEM_COUNT = 1_024, 15
MOST_WORDS, MOST_WORD_COUNT = 64, 255


class Bars(NamedTuple):
    """The settings of the rule, with their defaults."""

    min_alike: float = 0.5
    other_title_min_alike: float = 0.8
    no_title_min_alike: float = 0.6
    min_jaccard: float = 0.32
    thin_min_jaccard: float = 0.7
    template_share: float = 0.04
    keep_variants: bool = False


class Print(NamedTuple):
    """One print of a page. number: it stands for a block's numbers, else for its text"""

    stored: int
    identity: int
    number: bool
    kept: bool
    weight: int

    @property
    def tenths(self) -> int:
        """How much it counts among a page's own prints, in tenths of words."""
        return self.weight * (KEPT_TENTHS if self.kept else LEFT_OUT_TENTHS)


def print_of(stored: int) -> Print:
    """stored: hash of 26 bits, number, kept, class of 4 bits."""
    return Print(stored, stored >> 5, bool(stored >> 5 & 1), bool(stored >> 4 & 1), WEIGHTS[stored & 15])


class PageText(NamedTuple):
    """What a page is compared by. share: of its listed kept text, what is template  listed: the weight of all of it

    prints: ascending; of a page that is judged all of them, of a filed one those that were its own then
    """

    host: int
    site: int
    length: int
    sketch: tuple[int, ...]
    prints: tuple[Print, ...]
    titles: frozenset[int]
    share: float = 0.0
    listed: int = 0


@dataclass
class Memory:
    """What is known of a host.

    first: the entry of its only page, whose prints and title stand for items and words; None: they are here
    pages: how many taught it  last: the number that the next filed page had when it last learned
    """

    pages: int = 0
    last: int = 0
    first: int | None = None
    items: dict[int, int] = field(default_factory=dict)
    words: dict[int, int] = field(default_factory=dict)

    def learn_items(self, identities: Iterable[int]) -> None:
        """Count a page's items; with too many, the rarest are forgotten."""
        _count(self.items, identities, MOST_ITEM_COUNT)
        _make_room(self.items, min(max(5 * self.pages, 192), MOST_ITEMS))

    def learn_words(self, words: Iterable[int]) -> None:
        """Count a page's title words; with too many, the rarest are forgotten."""
        _count(self.words, words, MOST_WORD_COUNT)
        _make_room(self.words, MOST_WORDS)


def _count(counts: dict[int, int], found: Iterable[int], most: int) -> None:
    for one in found:
        counts[one] = min(counts.get(one, 0) + 1, most)


def _make_room(counts: dict[int, int], room: int) -> None:
    if len(counts) <= room:
        return
    rare = 0
    while len(counts) > room * 3 / 4:
        rare += 1
        for one in [one for one, count in counts.items() if count <= rare]:
            del counts[one]


class Host(NamedTuple):
    """A page's host as of now, before the page teaches it. pages: how many taught it"""

    pages: int
    items: Mapping[int, int]
    words: Mapping[int, int]
    bars: Bars

    def is_template(self, one: Print) -> bool:
        """Whether many pages of the host have this print."""
        return self.items.get(one.identity, 0) > min(max(2.0, self.bars.template_share * self.pages), 10.0)

    def rare(self, titles: Iterable[int]) -> set[int]:
        """The words of a title that few titles of the host have."""
        most = min(max(1.0, 0.3 * self.pages), 100.0)
        return {word for word in titles if self.words.get(word, 0) <= most}

    def own(self, prints: Iterable[Print]) -> list[Print]:
        """The prints that are no template now."""
        return [one for one in prints if not self.is_template(one)]

    def share(self, prints: Iterable[Print]) -> tuple[float, int]:
        """The share of template text in a page's listed main text, and the weight of the listed main text."""
        listed = kept_text(prints)
        weight = sum(one.weight for one in listed)
        template = sum(one.weight for one in listed if self.is_template(one))
        return (template / weight if weight else 0.0), weight


def kept_text(prints: Iterable[Print]) -> list[Print]:
    """The prints of text, not of numbers, that were kept."""
    return [one for one in prints if one.kept and not one.number]


class Answer(NamedTuple):
    """The verdict on a pair: the reason of a copy, "" for none  sure: only the new parts of the copy are learned."""

    reason: str
    score: float
    sure: bool = False


def compare(page: PageText, indexed: PageText, host: Host) -> Answer:
    """A page and an earlier one. host: that of the page"""
    bits = 64 * len(page.sketch)
    distance = sum((one ^ other).bit_count() for one, other in zip(page.sketch, indexed.sketch, strict=True))
    jaccard = max(0.0, 1 - 2 * distance / bits)
    title = title_overlap(host.rare(page.titles), host.rare(indexed.titles))
    if page.host == indexed.host:
        return _same_host(page, indexed, host, jaccard, bits, title)
    return _other_host(page, indexed, host, jaccard, title)


def title_overlap(one: set[int], other: set[int]) -> float | None:
    """The Jaccard of two titles' rare words; None where neither has any."""
    return len(one & other) / len(one | other) if one or other else None


def bar(title: float | None, words: float, host: Host) -> float:
    """How alike two pages must be that have so many words of their own."""
    bars = host.bars
    least = bars.min_alike
    if title is None:
        top = bars.no_title_min_alike
        needed = top - (top - least) * min(max((words - 20) / 20, 0.0), 1.0)
    else:
        top = bars.other_title_min_alike
        needed = top - (top - least) * min(max((title - 0.2) / (0.6 - 0.2), 0.0), 1.0)
        needed += 0.12 * (1 - words / 20) if words < 20 else 0.0
    agree = title is not None and title >= 0.6
    return max(needed, bars.other_title_min_alike) if host.pages < 4 and not agree else needed


class Met(NamedTuple):
    """Own prints of two pages, in tenths of words: of both, and of what they share."""

    one: int
    other: int
    shared: int


def met_prints(page: PageText, indexed: PageText, host: Host, jaccard: float, bits: int) -> Met:
    """Own prints of both; nothing is shared where the sketches rule it out."""
    mine = {one.identity: one for one in host.own(page.prints)}
    theirs = {one.identity: one for one in host.own(indexed.prints)}
    both = [identity for identity in mine if identity in theirs]
    kept = 0
    for one, other in ((mine[identity], theirs[identity]) for identity in both):
        if one.kept and other.kept and not one.number:
            kept += max(0, min(one.weight, other.weight) - 2)
    high = min(1.0, jaccard + 3 * math.sqrt((1 - jaccard * jaccard) / bits))
    room = high * (page.length + indexed.length) / (1 + high)
    if min(kept, page.length, indexed.length) > room:
        both = []
    larger = {identity: max(mine[identity].tenths, theirs[identity].tenths) for identity in both}
    whole = [
        sum(larger.get(identity, print_.tenths) for identity, print_ in prints.items()) for prints in (mine, theirs)
    ]
    return Met(whole[0], whole[1], sum(larger.values()))


def _same_host(page: PageText, indexed: PageText, host: Host, jaccard: float, bits: int, title: float | None) -> Answer:
    agree = title is not None and title >= 0.6
    met = met_prints(page, indexed, host, jaccard, bits)
    either_own = met.one + met.other - met.shared
    fewer, more = min(met.one, met.other), max(met.one, met.other)
    words = fewer / 10
    alike = met.shared / either_own if either_own else 0.0
    contained = met.shared / fewer if fewer else 0.0

    shared, either = _features(page, indexed, jaccard)
    share, _ = host.share(page.prints)
    now = sum(print_.weight for print_ in kept_text(indexed.prints) if host.is_template(print_))
    became = now / indexed.listed if indexed.listed else 0.0
    template, template_of_indexed = page.length * share, indexed.length * min(1.0, indexed.share + became)
    least, most = min(template, template_of_indexed), max(template, template_of_indexed)
    sketch_contained = 0.0
    if either - most >= max(40, 0.6 * either) or (agree and either - most >= max(15, 0.5 * either)):
        by_sketch = max(0.0, shared - least) / (either - most)
        shorter = min(page.length - template, indexed.length - template_of_indexed)
        sketch_contained = max(0.0, shared - least) / shorter if shorter > 0 else 0.0
        if by_sketch > alike:
            alike, words = by_sketch, either - most
    elif not host.own(page.prints) and jaccard >= 0.95:
        alike, words = jaccard, either

    reason = ""
    both = fewer >= 600
    if alike >= bar(title, words, host) and (title is None or title > 0.2 or words >= 60):
        reason = "own_text"
    elif title is not None and title >= 0.75 and both and alike >= (0.45 if host.pages < 4 else 0.42):
        reason = "same_title"
    elif (contained >= 0.85 and fewer >= 40 and more <= 1500 and alike >= 0.4 and (agree or title is None)) or (
        title is not None and title >= 0.95 and both and max(contained, sketch_contained) >= 0.75 and alike >= 0.28
    ):
        reason = "contained"
    if host.bars.keep_variants and _are_variants(host.own(page.prints), host.own(indexed.prints)):
        reason = ""
    return Answer(reason, min(alike, 1.0), alike >= 0.7 and (agree or title is None))


def _are_variants(mine: list[Print], theirs: list[Print]) -> bool:
    """Whether two pages keep the same texts, and each keeps numbers that the other lacks."""
    both = {one.identity for one in mine} & {one.identity for one in theirs}
    alone = [{one.number for one in prints if one.kept and one.identity not in both} for prints in (mine, theirs)]
    return alone == [{True}, {True}]


def _other_host(page: PageText, indexed: PageText, host: Host, jaccard: float, title: float | None) -> Answer:
    share, _ = host.share(page.prints)
    if 1 - share < 0.5:
        return Answer("", jaccard)
    if page.site == indexed.site != 0 and jaccard < bar(title, 80, host):
        return Answer("", jaccard)
    thin = page.length < 60 or indexed.length < 60
    if jaccard >= (host.bars.thin_min_jaccard if thin else host.bars.min_jaccard):
        return Answer("near", jaccard)
    if thin or title is None or title < 0.8 or len(host.rare(page.titles)) <= 1 or jaccard < 0.24:
        return Answer("", jaccard)
    shared, _ = _features(page, indexed, jaccard)
    return Answer("near" if shared / min(page.length, indexed.length) >= 0.75 else "", jaccard)


def _features(page: PageText, indexed: PageText, jaccard: float) -> tuple[float, float]:
    """By the sketches: features of both pages, and of either."""
    total = page.length + indexed.length
    shared = min(jaccard * total / (1 + jaccard), page.length, indexed.length)
    return shared, total - shared
