"""The choice of a page's blocks by the scorecards (stream/features/scorecard.py has the rules and the points).

Arrays are taken through whole pages, never passed on for one block: numba then counts their references, which took
longer than all else here.
"""

import numpy as np

from stream.features.scorecard import (
    COARSE_LINK_CLASSES,
    COARSE_LINK_EDGES,
    COARSE_WORD_EDGES,
    ENOUGH_WORDS,
    FAR,
    FIRST_CARD,
    FIRST_GROUPS,
    FIRST_REASON,
    KEEP_ABOVE,
    KEPT,
    KEPT_IN_NEED,
    LADDER,
    LARGEST_EDGES,
    LINK_CLASSES,
    LINK_EDGES,
    MOST_LIKELY_WORDS,
    NEAR,
    QUOTED,
    REACHES,
    SECOND_CARD,
    SUM_CLASSES,
    WORD_CLASSES,
    WORD_EDGES,
)
from stream.text.elements import LEAD_PLAIN, LEAD_QUOTED
from stream.text.sources import part
from stream.text.vectors import leading_zeros


def _starts(card: dict[str, int]) -> tuple[int, ...]:
    sizes = list(card.values())
    return tuple(sum(sizes[:place]) for place in range(len(sizes)))


def _classes(edges: tuple[int, ...], most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.searchsorted(np.array(edges), np.arange(most + 1), side="right").astype(np.int64)


_FIRST, _SECOND = _starts(FIRST_CARD), _starts(SECOND_CARD)
_LIST, _HEADING = 0, 9
_WORD_CLASS = _classes(WORD_EDGES, WORD_EDGES[-1])
_COARSE_CLASS = _classes(COARSE_WORD_EDGES, COARSE_WORD_EDGES[-1])
_LINK_CLASS = _classes(LINK_EDGES, 16)
_COARSE_LINK_CLASS = _classes(COARSE_LINK_EDGES, 16)
_LARGEST_CLASS = _classes(LARGEST_EDGES, 64)


@part
def select_blocks(blocks, count, card):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard -> bool
    """Fill blocks.reasons of a page's blocks with indexes into REASONS; whether blocks were kept for want of others."""
    if count == 0:
        return False
    if blocks.leads[0] == LEAD_PLAIN or blocks.leads[0] == LEAD_QUOTED:
        for block in range(count):
            blocks.reasons[block] = KEPT if blocks.leads[block] == LEAD_PLAIN else QUOTED
        return False
    score_first(blocks, count, card)
    score_second(blocks, count, card)
    return choose_kept(blocks, count, card)


@part
def score_first(blocks, count, card):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard -> None
    """Fill card.words, unlinked, firsts, and against: the group of the first card with the fewest points."""
    card.unlinked[0] = card.words[0] = 0
    card.coarse[0] = card.coarse[1] = card.coarse[count + 2] = card.coarse[count + 3] = 0
    largest = np.int64(1)
    for block in range(count):
        words, links = np.int64(blocks.words[block]), np.int64(blocks.links[block])
        card.words[block + 1] = card.words[block] + words
        card.unlinked[block + 1] = card.unlinked[block] + words - links
        largest = max(largest, words - links)
        sixteenths = links * 16 // words
        link_class = 1 + _LINK_CLASS[sixteenths] if 0 < links < words else (LINK_CLASSES - 1 if links > 0 else 0)
        card.fine[block] = _WORD_CLASS[min(words, WORD_EDGES[-1])] * LINK_CLASSES + link_class
        coarse = _COARSE_CLASS[min(words, COARSE_WORD_EDGES[-1])] * COARSE_LINK_CLASSES
        card.coarse[block + 2] = coarse + _COARSE_LINK_CLASS[sixteenths]
    points, coarse_classes = card.first, card.coarse
    for block in range(count):
        sections, fine = np.int64(blocks.sections[block]), np.int64(card.fine[block])
        word_class = fine // LINK_CLASSES
        first, last = max(block - NEAR, 0), min(block + NEAR + 1, count)
        near, unlinked_near = card.words[last] - card.words[first], card.unlinked[last] - card.unlinked[first]
        first, last = max(block - FAR, 0), min(block + FAR + 1, count)
        far, unlinked_far = card.words[last] - card.words[first], card.unlinked[last] - card.unlinked[first]
        unlinked = card.unlinked[block + 1] - card.unlinked[block]
        given = (
            points[_FIRST[0] + fine],
            points[_FIRST[1] + np.int64(coarse_classes[block + 1])],
            points[_FIRST[2] + np.int64(coarse_classes[block + 3])],
            points[_FIRST[3] + np.int64(coarse_classes[block])],
            points[_FIRST[4] + np.int64(coarse_classes[block + 4])],
            points[_FIRST[5] + log2(unlinked_near, SUM_CLASSES - 1)],
            points[_FIRST[6] + eighths(near - unlinked_near, near, 7)],
            points[_FIRST[7] + log2(unlinked_far, SUM_CLASSES - 1)],
            points[_FIRST[8] + eighths(far - unlinked_far, far, 7)],
            points[_FIRST[9] + eighths(card.words[block], card.words[count], 7)],
            points[_FIRST[10] + _LARGEST_CLASS[unlinked * 64 // largest]],
            np.int32(
                card.section_points[0, sections & 31]
                + card.section_points[1, sections >> 5 & 31]
                + card.section_points[2, sections >> 10]
            ),
            points[_FIRST[12] + (sections >> _LIST & 1) * WORD_CLASSES + word_class],
            points[_FIRST[13] + (sections >> _HEADING & 1) * WORD_CLASSES + word_class],
        )
        total, least, group = np.int64(points[_FIRST[14]]), np.int64(1 << 40), np.int64(0)
        for some in given:
            total += some
            # the group's number comes along and breaks ties
            least = min(least, np.int64(some) * len(given) + group)
            group += 1
        card.firsts[block + 2] = total
        card.against[block] = least % len(given)


@part
def score_second(blocks, count, card):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard -> None
    """Fill card.seconds from card.firsts, and against, by the groups of both cards as REASONS has them."""
    card.likely[0] = card.unlikely[0] = card.capped[0] = 0
    most, centre = np.int64(-1), np.int64(0)
    for block in range(count):
        chance = np.int64(card.chances[(min(max(np.int64(card.firsts[block + 2]), -512), 512) >> 3) + 64])
        words = min(np.int64(blocks.words[block]), MOST_LIKELY_WORDS)
        card.likely[block + 1] = card.likely[block] + words * chance
        card.unlikely[block + 1] = card.unlikely[block] + words * (256 - chance)
        card.capped[block + 1] = card.capped[block] + words
        if words * chance > most:
            most, centre = words * chance, block
    points, firsts, likely, capped = card.second, card.firsts, card.likely, card.capped
    page = likely[count]
    for block in range(count):
        own = likely[block + 1] - likely[block]
        own_capped = capped[block + 1] - capped[block]
        first, last = max(block - REACHES[0], 0), min(block + REACHES[0] + 1, count)
        sum_a, of_a = likely[last] - likely[first] - own, capped[last] - capped[first] - own_capped
        first, last = max(block - REACHES[1], 0), min(block + REACHES[1] + 1, count)
        sum_b, of_b = likely[last] - likely[first] - own, capped[last] - capped[first] - own_capped
        first, last = max(block - REACHES[2], 0), min(block + REACHES[2] + 1, count)
        sum_c, of_c = likely[last] - likely[first] - own, capped[last] - capped[first] - own_capped
        given = (
            points[_SECOND[0] + min(max((np.int64(firsts[block + 2]) * 2 + 32 >> 6) + 12, 0), 24)],
            points[_SECOND[1] + other_class(np.int64(firsts[block + 1]), block >= 1)],
            points[_SECOND[2] + other_class(np.int64(firsts[block + 3]), block + 1 < count)],
            points[_SECOND[3] + other_class(np.int64(firsts[block]), block >= 2)],
            points[_SECOND[4] + other_class(np.int64(firsts[block + 4]), block + 2 < count)],
            points[_SECOND[5] + share_class(sum_a, of_a)],
            points[_SECOND[6] + log2(sum_a >> 8, 8)],
            points[_SECOND[7] + share_class(sum_b, of_b)],
            points[_SECOND[8] + log2(sum_b >> 8, 8)],
            points[_SECOND[9] + share_class(sum_c, of_c)],
            points[_SECOND[10] + log2(sum_c >> 8, 8)],
            points[_SECOND[11] + log2(page >> 8, 9)],
            points[_SECOND[12] + eighths(likely[block], page, 8)],
            points[_SECOND[13] + eighths(own, page, 8)],
            points[_SECOND[14] + np.int64(card.fine[block]) // LINK_CLASSES],
            points[_SECOND[15] + log2(abs(block - centre), 9)],
            points[_SECOND[16] + log2(abs(card.unlikely[block + 1] - card.unlikely[centre + 1]) >> 8, 10)],
        )
        total, least, group = np.int64(points[_SECOND[17]]), np.int64(1 << 40), np.int64(0)
        for some in given:
            total += some
            least = min(least, np.int64(some) * len(given) + group)
            group += 1
        card.seconds[block] = total
        if least % len(given) > 0:
            card.against[block] = FIRST_GROUPS + least % len(given) - 1


@part
def choose_kept(blocks, count, card):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard -> bool
    """Fill blocks.reasons from card.seconds and against; whether blocks were kept for want of others."""
    enough = min(np.int64(ENOUGH_WORDS), card.unlinked[count] // 2)
    kept = np.int64(0)
    for block in range(count):
        keeps = card.seconds[block] > KEEP_ABOVE
        kept += np.int64(blocks.words[block]) if keeps else np.int64(0)
        blocks.reasons[block] = KEPT if keeps else FIRST_REASON + card.against[block]
    if kept >= enough:
        return False
    for bar in LADDER:
        for block in range(count):
            few_links = 2 * blocks.links[block] <= blocks.words[block]
            if blocks.reasons[block] >= FIRST_REASON and card.seconds[block] > bar and few_links:
                blocks.reasons[block] = KEPT_IN_NEED
                kept += np.int64(blocks.words[block])
        if kept >= enough:
            break
    return True


@part
def log2(value, highest):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """The whole part of log2(1 + value), at most `highest`."""
    return min(np.int64(63) - leading_zeros(np.uint64(value + 1)), np.int64(highest))


@part
def eighths(share, whole, highest):  # type: ignore[no-untyped-def]  # int64, int64, int64 -> int64
    """How many eighths of the whole, at most `highest`."""
    return min(share * 8 // max(whole, np.int64(1)), np.int64(highest))


@part
def share_class(likely, words):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """0 where there are no other words, else by the share of likely ones."""
    if words == 0:
        return np.int64(0)
    return min(likely * 8 // (words * 256), np.int64(8)) + 1


@part
def other_class(first, there):  # type: ignore[no-untyped-def]  # int64, bool -> int64
    """The class of another block's first sum; the last where there is no such block."""
    return min(max((first + 32 >> 6) + 6, np.int64(0)), np.int64(12)) if there else np.int64(13)
