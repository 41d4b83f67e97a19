"""Selection of the main text of a page by the scorecards (stream/sign/features/scorecard.py has the rules and points).

Helpers take addresses instead of arrays. For an array argument, numba counts references and checks for negative
indexes in every block; together that took longer than everything else here.
"""

# mypy: disable-error-code="operator,call-overload,assignment,arg-type"
# numba compiles these. mypy takes min() of two NumPy integers for any comparable type.

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.features.scorecard import (
    COARSE_LINK_CLASSES,
    COARSE_LINK_EDGES,
    COARSE_WORD_EDGES,
    EDGE,
    ENOUGH_WORDS,
    FAR,
    FIRST_CARD,
    FIRST_GROUPS,
    FIRST_REASON,
    KEEP_ABOVE,
    KEPT,
    KEPT_IN_NEED,
    LADDER,
    LINK_CLASSES,
    LINK_EDGES,
    MOST_LIKELY_WORDS,
    NEAR,
    NO_OTHER,
    REACHES,
    SECOND_CARD,
    SUM_CLASSES,
    WORD_CLASSES,
    WORD_EDGES,
)
from spotsieve.stream.sign.text.html.elements import LEAD_PLAIN, section_of
from spotsieve.stream.sign.text.machine import byte_at, leading_zeros, load_int, load_int32


def _starts(card: dict[str, int]) -> tuple[int, ...]:
    sizes = list(card.values())
    return tuple(sum(sizes[:place]) for place in range(len(sizes)))


def _classes(edges: tuple[int, ...], most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.searchsorted(np.array(edges), np.arange(most + 1), side="right").astype(np.int64)


_FIRST, _SECOND = _starts(FIRST_CARD), _starts(SECOND_CARD)
_LIST, _HEADING = section_of("ul"), section_of("h1")
_WORD_CLASS = _classes(WORD_EDGES, WORD_EDGES[-1])
_COARSE_CLASS = _classes(COARSE_WORD_EDGES, COARSE_WORD_EDGES[-1])
_LINK_CLASS = _classes(LINK_EDGES, 16)
_COARSE_LINK_CLASS = _classes(COARSE_LINK_EDGES, 16)


@part
def select_blocks(blocks, count, card, explains):  # Blocks, int64, Scorecard, bool -> bool
    """Fill blocks.reasons with indexes into REASONS; return whether blocks were kept only because text was scarce.

    explains: whether to determine the group with the fewest points of each block
    """
    if count == 0:
        return False
    if blocks.leads[0] == LEAD_PLAIN:
        blocks.reasons[:count] = KEPT
        return False
    score_first(blocks, count, card, explains)
    score_second(blocks, count, card, explains)
    return choose_kept(blocks, count, card, explains)


@part
def score_first(blocks, count, card, explains):  # Blocks, int64, Scorecard, bool -> None
    """Fill card.words, unlinked and firsts, and if `explains` against: the group with the fewest points."""
    card.unlinked[: EDGE + 1] = 0
    card.words[: EDGE + 1] = 0
    card.coarse[0] = card.coarse[1] = card.coarse[count + 2] = card.coarse[count + 3] = 0
    every, alone, largest = np.int64(0), np.int64(0), np.int64(1)
    for block in range(count):
        words, links = np.int64(blocks.words[block]), np.int64(blocks.links[block])
        every += words
        alone += words - links
        card.words[EDGE + block + 1] = every
        card.unlinked[EDGE + block + 1] = alone
        largest = max(largest, words - links)
        # Most blocks have either no links or only links.
        sixteenths = quotient(links * 16, words) if 0 < links < words else (links > 0) << 4
        link_class = 1 + _LINK_CLASS[np.uint64(sixteenths)] if 0 < links < words else (links > 0) * (LINK_CLASSES - 1)
        card.fine[block] = _WORD_CLASS[np.uint64(min(words, WORD_EDGES[-1]))] * LINK_CLASSES + link_class
        coarse = _COARSE_CLASS[np.uint64(min(words, COARSE_WORD_EDGES[-1]))] * COARSE_LINK_CLASSES
        card.coarse[block + 2] = coarse + _COARSE_LINK_CLASS[np.uint64(sixteenths)]
    card.words[EDGE + count + 1 : 2 * EDGE + count + 1] = every
    card.unlinked[EDGE + count + 1 : 2 * EDGE + count + 1] = alone
    points, coarse_classes = np.int64(card.first.ctypes.data), np.int64(card.coarse.ctypes.data)
    words, unlinked = first_sum(card.words), first_sum(card.unlinked)
    of_sections = np.int64(card.section_points.ctypes.data)
    of_page, of_largest = 1.0 / np.float64(max(every, np.int64(1))), 1.0 / np.float64(largest)
    for block in range(count):
        sections, fine = np.int64(blocks.sections[block]), np.int64(card.fine[block])
        word_class = np.int64(np.uint64(fine) // np.uint64(LINK_CLASSES))
        near, unlinked_near = around(words, block, NEAR), around(unlinked, block, NEAR)
        far, unlinked_far = around(words, block, FAR), around(unlinked, block, FAR)
        before = coarse_classes + block
        given = (
            point(points, _FIRST[0] + fine),
            point(points, _FIRST[1] + np.int64(byte_at(before + 1))),
            point(points, _FIRST[2] + np.int64(byte_at(before + 3))),
            point(points, _FIRST[3] + np.int64(byte_at(before))),
            point(points, _FIRST[4] + np.int64(byte_at(before + 4))),
            point(points, _FIRST[5] + log2(unlinked_near, SUM_CLASSES - 1)),
            point(points, _FIRST[6] + eighths(near - unlinked_near, near, 7)),
            point(points, _FIRST[7] + log2(unlinked_far, SUM_CLASSES - 1)),
            point(points, _FIRST[8] + eighths(far - unlinked_far, far, 7)),
            point(points, _FIRST[9] + min(part_of(load_int(words + (block << 3)) * 8, of_page), np.int64(7))),
            # The edges of this group are powers of two.
            point(points, _FIRST[10] + log2(2 * part_of(around(unlinked, block, 0) * 64, of_largest), 6)),
            point(of_sections, sections & 31)
            + point(of_sections, 32 + (sections >> 5 & 31))
            + point(of_sections, 64 + (sections >> 10)),
            point(points, _FIRST[12] + (sections >> _LIST & 1) * WORD_CLASSES + word_class),
            point(points, _FIRST[13] + (sections >> _HEADING & 1) * WORD_CLASSES + word_class),
        )
        card.firsts[block] = point(points, _FIRST[14]) + sum_of_7(given[:7]) + sum_of_7(given[7:])
        if explains:
            card.against[block] = fewest(given)


@part
def score_second(blocks, count, card, explains):  # Blocks, int64, Scorecard, bool -> None
    """Fill card.seconds from card.firsts, and if `explains` against, as an index into the groups of REASONS."""
    card.likely[: EDGE + 1] = 0
    card.capped[: EDGE + 1] = 0
    card.unlikely[0] = 0
    card.others[0] = card.others[1] = card.others[count + 2] = card.others[count + 3] = NO_OTHER
    text, other_text, capped_words = np.int64(0), np.int64(0), np.int64(0)
    most, centre = np.int64(-1), np.int64(0)
    for block in range(count):
        first = np.int64(card.firsts[block])
        chance = np.int64(card.chances[np.uint64((min(max(first, -512), 512) >> 3) + 64)])
        words = min(np.int64(blocks.words[block]), MOST_LIKELY_WORDS)
        text += words * chance
        other_text += words * (256 - chance)
        capped_words += words
        card.likely[EDGE + block + 1] = text
        card.unlikely[block + 1] = other_text
        card.capped[EDGE + block + 1] = capped_words
        card.others[block + 2] = min(max((first + 32 >> 6) + 6, 0), NO_OTHER - 1)
        if words * chance > most:
            most, centre = words * chance, block
    card.likely[EDGE + count + 1 : 2 * EDGE + count + 1] = text
    card.capped[EDGE + count + 1 : 2 * EDGE + count + 1] = capped_words
    points, others = np.int64(card.second.ctypes.data), np.int64(card.others.ctypes.data)
    likely, capped = first_sum(card.likely), first_sum(card.capped)
    unlikely_before, of_text = card.unlikely[centre + 1], 1.0 / np.float64(max(text, np.int64(1)))
    for block in range(count):
        own, own_words = around(likely, block, 0), around(capped, block, 0)
        closest = around(likely, block, REACHES[0]) - own
        closer = around(likely, block, REACHES[1]) - own
        close = around(likely, block, REACHES[2]) - own
        before = others + block
        given = (
            point(points, _SECOND[0] + min(max((np.int64(card.firsts[block]) * 2 + 32 >> 6) + 12, 0), 24)),
            point(points, _SECOND[1] + np.int64(byte_at(before + 1))),
            point(points, _SECOND[2] + np.int64(byte_at(before + 3))),
            point(points, _SECOND[3] + np.int64(byte_at(before))),
            point(points, _SECOND[4] + np.int64(byte_at(before + 4))),
            point(points, _SECOND[5] + share_class(closest, around(capped, block, REACHES[0]) - own_words)),
            point(points, _SECOND[6] + log2(closest >> 8, 8)),
            point(points, _SECOND[7] + share_class(closer, around(capped, block, REACHES[1]) - own_words)),
            point(points, _SECOND[8] + log2(closer >> 8, 8)),
            point(points, _SECOND[9] + share_class(close, around(capped, block, REACHES[2]) - own_words)),
            point(points, _SECOND[10] + log2(close >> 8, 8)),
            point(points, _SECOND[11] + log2(text >> 8, 9)),
            point(points, _SECOND[12] + min(part_of(load_int(likely + (block << 3)) * 8, of_text), np.int64(8))),
            point(points, _SECOND[13] + min(part_of(own * 8, of_text), np.int64(8))),
            point(points, _SECOND[14] + np.int64(np.uint64(card.fine[block]) // np.uint64(LINK_CLASSES))),
            point(points, _SECOND[15] + log2(abs(block - centre), 9)),
            point(points, _SECOND[16] + log2(abs(card.unlikely[block + 1] - unlikely_before) >> 8, 10)),
        )
        last = given[14] + given[15] + given[16]
        card.seconds[block] = point(points, _SECOND[17]) + sum_of_7(given[:7]) + sum_of_7(given[7:14]) + last
        if explains and fewest(given) > 0:
            card.against[block] = FIRST_GROUPS + fewest(given) - 1


@part
def choose_kept(blocks, count, card, explains):  # Blocks, int64, Scorecard, bool -> bool
    """Fill blocks.reasons from card.seconds and against; return whether text was so scarce that others were kept."""
    enough = min(np.int64(ENOUGH_WORDS), card.unlinked[EDGE + count] // 2)
    kept = np.int64(0)
    for block in range(count):
        keeps = card.seconds[block] > KEEP_ABOVE
        kept += np.int64(blocks.words[block]) if keeps else np.int64(0)
        blocks.reasons[block] = KEPT if keeps else FIRST_REASON + (card.against[block] if explains else 0)
    if kept >= enough:
        return False
    for threshold in LADDER:
        for block in range(count):
            few_links = 2 * blocks.links[block] <= blocks.words[block]
            if blocks.reasons[block] >= FIRST_REASON and card.seconds[block] > threshold and few_links:
                blocks.reasons[block] = KEPT_IN_NEED
                kept += np.int64(blocks.words[block])
        if kept >= enough:
            break
    return True


@part
def point(points, place):  # int64 address of int32[], int64 -> int64
    """The points at an index."""
    return load_int32(points + (place << 2))


@part
def first_sum(sums):  # int64[] -> int64
    """The address of the running sum before the first block."""
    return np.int64(sums.ctypes.data) + (EDGE << 3)


@part
def around(sums, block, reach):  # address from first_sum, int64, int64 -> int64
    """Sum over a block and `reach` <= EDGE blocks on each side, from running sums."""
    place = sums + (block << 3)
    return load_int(place + ((reach + 1) << 3)) - load_int(place - (reach << 3))


@part
def sum_of_7(given):  # 7 int64 -> int64
    """Sum of 7 numbers. numba's sum of a tuple goes through memory and takes a fifth of the time of a card."""
    return given[0] + given[1] + given[2] + given[3] + given[4] + given[5] + given[6]


@part
def fewest(given):  # tuple of int64 -> int64
    """Index of the least number, the first of equal ones."""
    least, best, place = given[0], np.int64(0), np.int64(0)
    for number in given:
        if number < least:
            least, best = number, place
        place += 1
    return best


@part
def log2(value, highest):  # int64, int64 -> int64
    """The binary logarithm of 1 + value, rounded down, at most `highest`."""
    return min(np.int64(63) - leading_zeros(np.uint64(value + 1)), np.int64(highest))


@part
def eighths(share, whole, highest):  # int64, int64, int64 -> int64
    """The share in eighths of the whole, at most `highest`."""
    return min(quotient(share * 8, max(whole, np.int64(1))), np.int64(highest))


@part
def quotient(number, divisor):  # int64 >= 0, int64 > 0 -> int64
    """Quotient rounded down, for numbers below 2^50 and quotients below 2^12.

    IEEE division of doubles takes a third of the time of integer division. The quotient of two integers is at least
    1 / divisor below the next whole number, which is more than a double's rounding.
    """
    return np.int64(np.float64(number) / np.float64(divisor))


@part
def part_of(number, reciprocal):  # int64 >= 0, float64 -> int64
    """Quotient rounded down, by the reciprocal of the divisor, for divisors below 2^40 and quotients up to 64.

    Adding one half moves every quotient away from the integers by at least half of 1 / divisor, which exceeds the
    rounding error.
    """
    return np.int64((np.float64(number) + 0.5) * reciprocal)


@part
def share_class(likely, words):  # int64, int64 -> int64
    """Class of the share of likely text: 0 without words, else 1 + its eighths. likely: in 256ths of words"""
    return min(quotient(likely, max(words, np.int64(1)) << 5), np.int64(8)) + 1 if words > 0 else np.int64(0)
