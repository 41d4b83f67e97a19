"""The scorecards by the letter of stream/sign/features/scorecard.py: the reference for the selection of blocks."""

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, SECOND_CARD, frozen_points
from spotsieve.stream.sign.text.html.elements import LEAD_PLAIN, SECTIONS
from tests.reference.blocks import Noted


class PageSizes(NamedTuple):
    """Lists with a number for each block of a page.

    words: tokens  unlinked: tokens outside links  before: tokens of all earlier blocks  largest: most unlinked tokens
    """

    words: list[int]
    unlinked: list[int]
    before: list[int]
    largest: int


class PageChances(NamedTuple):
    """Lists with a number for each block of a page, by the first card.

    likely, unlikely: its words times the chance that they are text, or not
    before: likely words of all earlier blocks  centre: the block with most likely words
    """

    capped: list[int]
    likely: list[int]
    unlikely: list[int]
    before: list[int]
    centre: int


def sizes_of(blocks: list[Noted]) -> PageSizes:
    """The sizes of the blocks of a page."""
    words = [len(block.tokens) for block in blocks]
    unlinked = [len(block.tokens) - block.links for block in blocks]
    return PageSizes(words, unlinked, list(accumulate(words, initial=0)), max([*unlinked, 1]))


def chances_of(sizes: PageSizes, firsts: list[int]) -> PageChances:
    """The chances of the blocks of a page, from the first card's sums of all blocks."""
    chances = [frozen_points()["chance"][(min(max(first, -512), 512) // 8) + 64] for first in firsts]
    capped = [min(size, scorecard.MOST_LIKELY_WORDS) for size in sizes.words]
    likely = [words * chance for words, chance in zip(capped, chances, strict=True)]
    unlikely = [words * (256 - chance) for words, chance in zip(capped, chances, strict=True)]
    centre = likely.index(max(likely)) if likely else 0
    return PageChances(capped, likely, unlikely, list(accumulate(likely, initial=0)), centre)


def reasons_of(blocks: list[Noted]) -> list[str]:
    """The reason of each block of a page, one of REASONS."""
    if blocks and blocks[0].lead == LEAD_PLAIN:
        return ["kept"] * len(blocks)
    points, sizes = frozen_points(), sizes_of(blocks)
    firsts, reasons = list[int](), list[str]()
    for place, block in enumerate(blocks):
        given = {group: points[group][chosen] for group, chosen in first_classes(blocks, sizes, place).items()}
        given["sections around"] = sum(
            points["sections around"][2 * section + (section in block.sections)] for section in range(len(SECTIONS))
        )
        firsts.append(sum(given.values()) + points["first start"][0])
        reasons.append(min((group for group in FIRST_CARD if group in given), key=given.__getitem__))
    seconds, chances = list[int](), chances_of(sizes, firsts)
    for place in range(len(blocks)):
        given = {
            group: points[group][chosen] for group, chosen in second_classes(sizes, firsts, chances, place).items()
        }
        seconds.append(sum(given.values()) + points["second start"][0])
        least = min((group for group in SECOND_CARD if group in given), key=given.__getitem__)
        if least != "first card":
            reasons[place] = least
    enough = min(scorecard.ENOUGH_WORDS, sum(sizes.unlinked) // 2)
    kept = {place for place, second in enumerate(seconds) if second > scorecard.KEEP_ABOVE}
    more = set(kept)
    for threshold in scorecard.LADDER:
        if sum(sizes.words[place] for place in more) >= enough:
            break
        fit = [place for place, block in enumerate(blocks) if 2 * block.links <= sizes.words[place]]
        more = kept | {place for place in fit if seconds[place] > threshold}
    for place in more:
        reasons[place] = "kept" if place in kept else "kept for want of other text"
    return reasons


def first_classes(blocks: list[Noted], sizes: PageSizes, place: int) -> dict[str, int]:
    """The class of a block in every group of the first card but "sections around", which has one for each section."""
    words, links = sizes.words[place], blocks[place].links
    word_class = bisect_right(scorecard.WORD_EDGES, words)

    def coarse(neighbour: int) -> int:
        if not 0 <= neighbour < len(blocks):
            return 0
        share = blocks[neighbour].links * 16 // sizes.words[neighbour]
        sort = bisect_right(scorecard.COARSE_WORD_EDGES, sizes.words[neighbour])
        return sort * 3 + bisect_right(scorecard.COARSE_LINK_EDGES, share)

    if links == 0:
        link_class = 0
    elif links == words:
        link_class = scorecard.LINK_CLASSES - 1
    else:
        link_class = 1 + bisect_right(scorecard.LINK_EDGES, links * 16 // words)
    classes = {
        "words and links": word_class * scorecard.LINK_CLASSES + link_class,
        "block before": coarse(place - 1),
        "block after": coarse(place + 1),
        "second block before": coarse(place - 2),
        "second block after": coarse(place + 2),
    }
    for name, reach in (("near", scorecard.NEAR), ("far", scorecard.FAR)):
        alone, every = around(sizes.unlinked, place, reach), around(sizes.words, place, reach)
        classes[f"words {name}"] = log2(alone, scorecard.SUM_CLASSES - 1)
        classes[f"links {name}"] = eighths(every - alone, every, 7)
    classes["place in page"] = eighths(sizes.before[place], sizes.before[-1], 7)
    classes["share of largest"] = bisect_right(scorecard.LARGEST_EDGES, sizes.unlinked[place] * 64 // sizes.largest)
    classes["words in lists"] = (0 in blocks[place].sections) * scorecard.WORD_CLASSES + word_class
    classes["words in headings"] = (9 in blocks[place].sections) * scorecard.WORD_CLASSES + word_class
    return classes


def second_classes(sizes: PageSizes, firsts: list[int], chances: PageChances, place: int) -> dict[str, int]:
    """The class of a block in every group of the second card. firsts: the first card's sums of all blocks"""
    capped, likely, unlikely, before, centre = chances
    ends = sorted((place, centre))
    classes = {"first card": min(max((2 * firsts[place] + 32) // 64 + 12, 0), 24)}
    for name, step in (
        ("block before", -1),
        ("block after", 1),
        ("second block before", -2),
        ("second block after", 2),
    ):
        there = 0 <= place + step < len(firsts)
        other = min(max((firsts[place + step] + 32) // 64 + 6, 0), 12) if there else 13
        classes[f"first card of {name}"] = other
    for reach in scorecard.REACHES:
        text, words = around(likely, place, reach) - likely[place], around(capped, place, reach) - capped[place]
        classes[f"share of text within {reach}"] = 1 + min(text * 8 // (words * 256), 8) if words else 0
        classes[f"text within {reach}"] = log2(text // 256, 8)
    classes["text of page"] = log2(before[-1] // 256, 9)
    classes["text before"] = eighths(before[place], before[-1], 8)
    classes["share of text"] = eighths(likely[place], before[-1], 8)
    classes["words"] = bisect_right(scorecard.WORD_EDGES, sizes.words[place])
    classes["distance to most text"] = log2(abs(place - centre), 9)
    classes["other text between"] = log2(sum(unlikely[ends[0] + 1 : ends[1] + 1]) // 256, 10)
    return classes


def around(values: list[int], place: int, reach: int) -> int:
    """The sum over a block and `reach` blocks on each side."""
    return sum(values[max(place - reach, 0) : place + reach + 1])


def eighths(share: int, whole: int, highest: int) -> int:
    """How many eighths of the whole."""
    return min(share * 8 // max(whole, 1), highest)


def log2(value: int, highest: int) -> int:
    """The binary logarithm of 1 + value, rounded down."""
    return min((value + 1).bit_length() - 1, highest)
