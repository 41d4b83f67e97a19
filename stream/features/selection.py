"""The choice of a page's blocks by the scorecards (stream/features/scorecard.py has the rules and the points).

Helpers take addresses: for an array that is passed on for every block numba counts references, and it looks whether an
index is below 0. The two took longer than all else here.
"""

# mypy: disable-error-code="operator,call-overload,assignment"
# numba compiles these; to mypy the least of two NumPy integers is anything that can be compared.

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
    LINK_CLASSES,
    LINK_EDGES,
    MOST_LIKELY_WORDS,
    NEAR,
    REACHES,
    SECOND_CARD,
    SUM_CLASSES,
    WORD_CLASSES,
    WORD_EDGES,
)
from stream.text.elements import LEAD_PLAIN
from stream.text.sources import part
from stream.text.vectors import byte_at, leading_zeros, load_int, load_int32


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


@part
def select_blocks(blocks, count, card, explains):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard, bool -> bool
    """Fill blocks.reasons of a page's blocks; whether blocks were kept for want of others.

    reasons: indexes into REASONS; unless `explains`, which group spoke against a block is not found out.
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
def score_first(blocks, count, card, explains):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard, bool -> None
    """Fill card.words, unlinked, firsts, and against: the group of the first card with the fewest points."""
    card.unlinked[0] = card.words[0] = 0
    card.coarse[0] = card.coarse[1] = card.coarse[count + 2] = card.coarse[count + 3] = 0
    largest = np.int64(1)
    for block in range(count):
        words, links = np.int64(blocks.words[block]), np.int64(blocks.links[block])
        card.words[block + 1] = card.words[block] + words
        card.unlinked[block + 1] = card.unlinked[block] + words - links
        largest = max(largest, words - links)
        sixteenths = quotient(links * 16, words)
        link_class = 1 + _LINK_CLASS[sixteenths] if 0 < links < words else (LINK_CLASSES - 1 if links > 0 else 0)
        card.fine[block] = _WORD_CLASS[min(words, WORD_EDGES[-1])] * LINK_CLASSES + link_class
        coarse = _COARSE_CLASS[min(words, COARSE_WORD_EDGES[-1])] * COARSE_LINK_CLASSES
        card.coarse[block + 2] = coarse + _COARSE_LINK_CLASS[sixteenths]
    points, coarse_classes = np.int64(card.first.ctypes.data), np.int64(card.coarse.ctypes.data)
    words, unlinked = np.int64(card.words.ctypes.data), np.int64(card.unlinked.ctypes.data)
    of_sections = np.int64(card.section_points.ctypes.data)
    for block in range(count):
        sections, fine = np.int64(blocks.sections[block]), np.int64(card.fine[block])
        word_class = np.int64(np.uint64(fine) // np.uint64(LINK_CLASSES))
        near, unlinked_near = around(words, block, NEAR, count), around(unlinked, block, NEAR, count)
        far, unlinked_far = around(words, block, FAR, count), around(unlinked, block, FAR, count)
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
            point(points, _FIRST[9] + eighths(load_int(words + (block << 3)), load_int(words + (count << 3)), 7)),
            # the class's edges are the powers of two
            point(points, _FIRST[10] + log2(2 * quotient(around(unlinked, block, 0, count) * 64, largest), 6)),
            point(of_sections, sections & 31)
            + point(of_sections, 32 + (sections >> 5 & 31))
            + point(of_sections, 64 + (sections >> 10)),
            point(points, _FIRST[12] + (sections >> _LIST & 1) * WORD_CLASSES + word_class),
            point(points, _FIRST[13] + (sections >> _HEADING & 1) * WORD_CLASSES + word_class),
        )
        card.firsts[block + 2] = point(points, _FIRST[14]) + sum_of_7(given[:7]) + sum_of_7(given[7:])
        if explains:
            card.against[block] = fewest(given)


@part
def score_second(blocks, count, card, explains):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard, bool -> None
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
    points, firsts = np.int64(card.second.ctypes.data), np.int64(card.firsts.ctypes.data)
    likely, capped = np.int64(card.likely.ctypes.data), np.int64(card.capped.ctypes.data)
    page, unlikely_before = card.likely[count], card.unlikely[centre + 1]
    for block in range(count):
        own, own_words = around(likely, block, 0, count), around(capped, block, 0, count)
        closest = around(likely, block, REACHES[0], count) - own
        closer = around(likely, block, REACHES[1], count) - own
        close = around(likely, block, REACHES[2], count) - own
        first = firsts + (block << 2)
        given = (
            point(points, _SECOND[0] + min(max((load_int32(first + 8) * 2 + 32 >> 6) + 12, 0), 24)),
            point(points, _SECOND[1] + other_class(load_int32(first + 4), block >= 1)),
            point(points, _SECOND[2] + other_class(load_int32(first + 12), block + 1 < count)),
            point(points, _SECOND[3] + other_class(load_int32(first), block >= 2)),
            point(points, _SECOND[4] + other_class(load_int32(first + 16), block + 2 < count)),
            point(points, _SECOND[5] + share_class(closest, around(capped, block, REACHES[0], count) - own_words)),
            point(points, _SECOND[6] + log2(closest >> 8, 8)),
            point(points, _SECOND[7] + share_class(closer, around(capped, block, REACHES[1], count) - own_words)),
            point(points, _SECOND[8] + log2(closer >> 8, 8)),
            point(points, _SECOND[9] + share_class(close, around(capped, block, REACHES[2], count) - own_words)),
            point(points, _SECOND[10] + log2(close >> 8, 8)),
            point(points, _SECOND[11] + log2(page >> 8, 9)),
            point(points, _SECOND[12] + eighths(load_int(likely + (block << 3)), page, 8)),
            point(points, _SECOND[13] + eighths(own, page, 8)),
            point(points, _SECOND[14] + np.int64(np.uint64(card.fine[block]) // np.uint64(LINK_CLASSES))),
            point(points, _SECOND[15] + log2(abs(block - centre), 9)),
            point(points, _SECOND[16] + log2(abs(card.unlikely[block + 1] - unlikely_before) >> 8, 10)),
        )
        last = given[14] + given[15] + given[16]
        card.seconds[block] = point(points, _SECOND[17]) + sum_of_7(given[:7]) + sum_of_7(given[7:14]) + last
        if explains and fewest(given) > 0:
            card.against[block] = FIRST_GROUPS + fewest(given) - 1


@part
def choose_kept(blocks, count, card, explains):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard, bool -> bool
    """Fill blocks.reasons from card.seconds and against; whether blocks were kept for want of others."""
    enough = min(np.int64(ENOUGH_WORDS), card.unlinked[count] // 2)
    kept = np.int64(0)
    for block in range(count):
        keeps = card.seconds[block] > KEEP_ABOVE
        kept += np.int64(blocks.words[block]) if keeps else np.int64(0)
        blocks.reasons[block] = KEPT if keeps else FIRST_REASON + (card.against[block] if explains else 0)
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
def point(points, place):  # type: ignore[no-untyped-def]  # int64 address of int32[], int64 -> int64
    """The points at a place."""
    return load_int32(points + (place << 2))


@part
def around(sums, block, reach, count):  # type: ignore[no-untyped-def]  # address of int64[count + 1], int64 x 3 -> int64
    """By running sums, the sum over a block and `reach` blocks on each side."""
    first, last = max(block - reach, np.int64(0)), min(block + reach + 1, count)
    return load_int(sums + (last << 3)) - load_int(sums + (first << 3))


@part
def sum_of_7(given):  # type: ignore[no-untyped-def]  # 7 int64 -> int64
    """Their sum; numba's own of a tuple goes through memory and takes a fifth of the time of a card."""
    return given[0] + given[1] + given[2] + given[3] + given[4] + given[5] + given[6]


@part
def fewest(given):  # type: ignore[no-untyped-def]  # tuple of int64 -> int64
    """The place of the least, the first of equals."""
    least, best, place = given[0], np.int64(0), np.int64(0)
    for some in given:
        if some < least:
            least, best = some, place
        place += 1
    return best


@part
def log2(value, highest):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """The binary logarithm of 1 + value, rounded down, at most `highest`."""
    return min(np.int64(63) - leading_zeros(np.uint64(value + 1)), np.int64(highest))


@part
def eighths(share, whole, highest):  # type: ignore[no-untyped-def]  # int64, int64, int64 -> int64
    """How many eighths of the whole, at most `highest`."""
    return min(quotient(share * 8, max(whole, np.int64(1))), np.int64(highest))


@part
def quotient(number, divisor):  # type: ignore[no-untyped-def]  # int64 >= 0, int64 > 0 -> int64
    """Rounded down, for numbers below 2^50 and quotients below 2^12.

    By IEEE division of doubles, a third of the time of integers': the quotient of two integers is at least 1 / divisor
    below the next one, which is more than a double's rounding takes away.
    """
    return np.int64(np.float64(number) / np.float64(divisor))


@part
def share_class(likely, words):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """0 where there are no other words, else by the share of likely ones."""
    return eighths(likely, words * 256, 8) + 1 if words > 0 else np.int64(0)


@part
def other_class(first, there):  # type: ignore[no-untyped-def]  # int64, bool -> int64
    """The class of another block's first sum; the last where there is no such block."""
    return min(max((first + 32 >> 6) + 6, np.int64(0)), np.int64(12)) if there else np.int64(13)
