"""Computes the scorecards' classes for whole pages as columns, the input of the fit, as the kernel reads them.

A place is an index into a card's points, group after group. tests/reference/scorecard.py says the same for one block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, SECOND_CARD
from spotsieve.stream.sign.text.html.elements import SECTIONS, section_of

Ints = NDArray[np.int64]
Points = Mapping[str, Sequence[int]]
SCALE = 64
"""Points for a factor e in the odds."""
CHANCE = tuple(round(256 / (1 + float(np.exp(-8 * step / SCALE)))) for step in range(-64, 65))
UNUSED_SECTIONS = ("header", "footer", "main", "article", "figure")
"""Groups whose meaning differs between the pages of one site and of others; the cards are no worse without them."""
_NAMES = tuple(elements[0] for elements in SECTIONS)
_LIST, _HEADING = section_of("ul"), section_of("h1")
_SECTIONS_AROUND = "sections around"


@dataclass(frozen=True, slots=True)
class Columns:
    """The n blocks of a page. words, links: int64[n], tokens and those in links  sections: int64[n], bits"""

    words: Ints
    links: Ints
    sections: Ints


def first_places(page: Columns) -> Ints:
    """int64[n, columns]: the block's place in every group of the first card; of sections around, a column each."""
    start = starts(FIRST_CARD)
    return np.stack([start[group] + classes for group, classes in _first_classes(page)], axis=1)


def second_places(page: Columns, firsts: Ints) -> Ints:
    """int64[n, groups]: the same of the second card. firsts: int64[n], the first card's sums"""
    start = starts(SECOND_CARD)
    return np.stack([start[group] + classes for group, classes in _second_classes(page, firsts)], axis=1)


def first_sums(page: Columns, points: Points) -> Ints:
    """The first card's sums, int64[n]."""
    sums: Ints = _points(points, FIRST_CARD)[first_places(page)].sum(axis=1) + points["first start"][0]
    return sums


def second_sums(page: Columns, firsts: Ints, points: Points) -> Ints:
    """The second card's sums, int64[n]: a block is kept where they are above KEEP_ABOVE."""
    sums: Ints = _points(points, SECOND_CARD)[second_places(page, firsts)].sum(axis=1) + points["second start"][0]
    return sums


def starts(card: Mapping[str, int]) -> dict[str, int]:
    """The first place of each group."""
    return dict(zip(card, np.cumsum([0, *card.values()]).tolist(), strict=False))


def size_of(card: Mapping[str, int]) -> int:
    """Number of points of a card, the start's included."""
    return sum(card.values())


def _points(points: Points, card: Mapping[str, int]) -> Ints:
    return np.concatenate([np.asarray(points[group], np.int64) for group in card])


def _first_classes(page: Columns) -> Iterator[tuple[str, Ints]]:
    words, links = page.words, page.links
    unlinked, sixteenths = words - links, links * 16 // words
    word_class = _bucket(words, scorecard.WORD_EDGES)
    link_class = np.where(links == 0, 0, 1 + _bucket(sixteenths, scorecard.LINK_EDGES))
    link_class[links == words] = scorecard.LINK_CLASSES - 1
    coarse = _bucket(words, scorecard.COARSE_WORD_EDGES) * scorecard.COARSE_LINK_CLASSES
    coarse += _bucket(sixteenths, scorecard.COARSE_LINK_EDGES)
    yield "words and links", word_class * scorecard.LINK_CLASSES + link_class
    yield "block before", _moved(coarse, 1, 0)
    yield "block after", _moved(coarse, -1, 0)
    yield "second block before", _moved(coarse, 2, 0)
    yield "second block after", _moved(coarse, -2, 0)
    for name, reach in (("near", scorecard.NEAR), ("far", scorecard.FAR)):
        every, alone = _around(words, reach), _around(unlinked, reach)
        yield f"words {name}", _log2(alone, scorecard.SUM_CLASSES - 1)
        yield f"links {name}", _eighths(every - alone, every, 7)
    yield "place in page", _eighths(_before(words), words.sum(), 7)
    yield "share of largest", _bucket(unlinked * 64 // max(int(unlinked.max()), 1), scorecard.LARGEST_EDGES)
    for section, name in enumerate(_NAMES):
        if name not in UNUSED_SECTIONS:
            yield _SECTIONS_AROUND, 2 * section + (page.sections >> section & 1)
    yield "words in lists", (page.sections >> _LIST & 1) * scorecard.WORD_CLASSES + word_class
    yield "words in headings", (page.sections >> _HEADING & 1) * scorecard.WORD_CLASSES + word_class


def _second_classes(page: Columns, firsts: Ints) -> Iterator[tuple[str, Ints]]:
    chance = np.asarray(CHANCE)[(np.clip(firsts, -512, 512) >> 3) + 64]
    capped = np.minimum(page.words, scorecard.MOST_LIKELY_WORDS)
    likely, unlikely = capped * chance, capped * (256 - chance)
    centre = int(np.argmax(likely))
    yield "first card", np.clip((2 * firsts + 32 >> 6) + 12, 0, 24)
    other = np.clip((firsts + 32 >> 6) + 6, 0, 12)
    yield "first card of block before", _moved(other, 1, 13)
    yield "first card of block after", _moved(other, -1, 13)
    yield "first card of second block before", _moved(other, 2, 13)
    yield "first card of second block after", _moved(other, -2, 13)
    for reach in scorecard.REACHES:
        text, words = _around(likely, reach) - likely, _around(capped, reach) - capped
        yield f"share of text within {reach}", np.where(words > 0, 1 + _eighths(text, words * 256, 8), 0)
        yield f"text within {reach}", _log2(text // 256, 8)
    yield "text of page", np.full(len(firsts), _log2(likely.sum()[None] // 256, 9)[0])
    yield "text before", _eighths(_before(likely), likely.sum(), 8)
    yield "share of text", _eighths(likely, likely.sum(), 8)
    yield "words", _bucket(page.words, scorecard.WORD_EDGES)
    yield "distance to most text", _log2(np.abs(np.arange(len(firsts)) - centre), 9)
    up_to = np.cumsum(unlikely)
    yield "other text between", _log2(np.abs(up_to - up_to[centre]) // 256, 10)


def _bucket(values: Ints, edges: Sequence[int]) -> Ints:
    return np.searchsorted(np.asarray(edges), values, side="right")


def _moved(values: Ints, steps: int, beyond: int) -> Ints:
    """Each block's value `steps` blocks before; beyond: where there is none."""
    moved = np.full(len(values), beyond, np.int64)
    if abs(steps) < len(values):
        moved[max(steps, 0) : len(values) + min(steps, 0)] = values[max(-steps, 0) : len(values) - max(steps, 0)]
    return moved


def _around(values: Ints, reach: int) -> Ints:
    sums, places = np.concatenate([[0], np.cumsum(values)]), np.arange(len(values))
    found: Ints = sums[np.minimum(places + reach + 1, len(values))] - sums[np.maximum(places - reach, 0)]
    return found


def _before(values: Ints) -> Ints:
    return np.cumsum(values) - values


def _eighths(share: Ints, whole: Ints, highest: int) -> Ints:
    return np.minimum(share * 8 // np.maximum(whole, 1), highest)


def _log2(values: Ints, highest: int) -> Ints:
    """Rounded down, of 1 + value: the exponent that frexp gives is exact below 2^53, and one more."""
    return np.minimum(np.frexp((values + 1).astype(np.float64))[1].astype(np.int64) - 1, highest)
