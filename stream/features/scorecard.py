"""The scorecard: which blocks are the page's own text, by points for what a block is and what stands around it.

Each group puts a block into one of its classes and gives the points of that class; a block is kept if their sum reaches
the threshold. All sums are whole numbers, so the verdict is the same on every CPU. In plain text nothing is scored: its
quoted lines are left out, all else is kept.

    scorecard.txt = header lines "# ...", "threshold N", then a line a group: its name, ":", the points of its classes
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.text.elements import LEAD_COUNT, LEAD_PLAIN, LEAD_QUOTED, SECTIONS
from stream.text.sources import part

DIGEST = "6d3da7c53e2ccf6684f3b9a6df66dbd398284595a726bfedd6615b4d4f6c776f"

WORD_EDGES = (1, 2, 3, 5, 8, 12, 20, 40, 80, 160)
COARSE_WORD_EDGES = (1, 5, 15, 40)
LINK_EDGES = (2, 5, 10)
"""Of 16 words, how many in links."""
COARSE_LINK_EDGES = (5, 12)
LARGEST_EDGES = (1, 2, 4, 8, 16, 32)
"""Of 64 parts of the greatest number of unlinked words in one block."""
NEAR, FAR = 3, 6
"""Blocks on each side whose words are summed."""

WORD_CLASSES, LINK_CLASSES = len(WORD_EDGES) + 1, len(LINK_EDGES) + 3
COARSE_CLASSES = (len(COARSE_WORD_EDGES) + 1) * (len(COARSE_LINK_EDGES) + 1)
SUM_CLASSES, SHARE_CLASSES, LARGEST_CLASSES = 12, 8, len(LARGEST_EDGES) + 1
STOP_CLASSES = 14

GROUPS: dict[str, int] = {
    "words and links": WORD_CLASSES * LINK_CLASSES,
    "block before": COARSE_CLASSES,
    "block after": COARSE_CLASSES,
    "second block before": COARSE_CLASSES,
    "second block after": COARSE_CLASSES,
    "words near": SUM_CLASSES,
    "links near": SHARE_CLASSES,
    "words far": SUM_CLASSES,
    "links far": SHARE_CLASSES,
    "place in page": SHARE_CLASSES,
    "share of largest": LARGEST_CLASSES,
    "tag before": LEAD_COUNT,
    "sections around": 2 * len(SECTIONS),
    "words in lists": 2 * WORD_CLASSES,
    "words in headings": 2 * WORD_CLASSES,
    "stop-words": STOP_CLASSES,
}
"""Name and number of classes, in the order of the points."""
KEPT, QUOTED, FIRST_GROUP = 0, 1, 2
REASONS: tuple[str, ...] = ("kept", "quoted", *GROUPS)
"""Of a block: kept, quoted in plain text, or the group that spoke most against it."""

_SIZES = tuple(GROUPS.values())
_STARTS = tuple(sum(_SIZES[:place]) for place in range(len(_SIZES)))
POINT_COUNT = sum(_SIZES)
_LIST, _HEADING = 0, 9
_WORD_CLASS = np.searchsorted(np.array(WORD_EDGES), np.arange(WORD_EDGES[-1] + 1), side="right").astype(np.int64)
_COARSE_CLASS = np.searchsorted(np.array(COARSE_WORD_EDGES), np.arange(COARSE_WORD_EDGES[-1] + 1), side="right").astype(
    np.int64
)
_LINK_CLASS = np.searchsorted(np.array(LINK_EDGES), np.arange(17), side="right").astype(np.int64)
_COARSE_LINK_CLASS = np.searchsorted(np.array(COARSE_LINK_EDGES), np.arange(17), side="right").astype(np.int64)
_LARGEST_CLASS = np.searchsorted(np.array(LARGEST_EDGES), np.arange(65), side="right").astype(np.int64)
_SUM_CLASS = np.array([min((1 + words).bit_length() - 1, SUM_CLASSES - 1) for words in range(2048)], dtype=np.int64)


class Scorecard(NamedTuple):
    """points: int32[POINT_COUNT], group after group  threshold: the least sum of a block that is kept
    unlinked, words, linked: int64[most blocks + 1], running sums over the page's blocks, written over
    """

    points: NDArray[np.int32]
    threshold: int
    unlinked: NDArray[np.int64]
    words: NDArray[np.int64]


def scorecard(most_blocks: int) -> Scorecard:
    """The frozen points, with room for pages of up to `most_blocks` blocks."""
    points, threshold = frozen_points()
    return Scorecard(points, threshold, *(np.zeros(most_blocks + 1, np.int64) for _ in range(2)))


@cache
def frozen_points() -> tuple[NDArray[np.int32], int]:
    """Read the points once a process; RuntimeError where the file is not the one this release was tested with."""
    written = files(__package__).joinpath("scorecard.txt").read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGEST:
        raise RuntimeError(
            f"stream/features/scorecard.txt must have the digest {DIGEST}, got {digest}; "
            "install the package again, or put the new digest into stream/features/scorecard.py if the change is meant"
        )
    heading, *lines = [line for line in written.decode("ascii").splitlines() if not line.startswith("#")]
    points: list[int] = []
    for (name, classes), line in zip(GROUPS.items(), lines, strict=True):
        found, numbers = line.split(":")
        if found != name or len(numbers.split()) != classes:
            raise RuntimeError(f"scorecard.txt must have {classes} points of '{name}', got the line '{line}'; restore it")
        points += map(int, numbers.split())
    return np.array(points, dtype=np.int32), int(heading.split()[1])


@part
def select_blocks(blocks, count, card):  # type: ignore[no-untyped-def]  # Blocks, int64, Scorecard -> None
    """Fill blocks.reasons of a page's blocks: KEPT, or why each is left out (an index into REASONS)."""
    card.unlinked[0] = card.words[0] = 0
    largest = np.int64(1)
    for block in range(count):
        words, links = np.int64(blocks.words[block]), np.int64(blocks.links[block])
        card.words[block + 1] = card.words[block] + words
        card.unlinked[block + 1] = card.unlinked[block] + words - links
        largest = max(largest, words - links)
    for block in range(count):
        if blocks.leads[block] == LEAD_PLAIN:
            blocks.reasons[block] = KEPT
        elif blocks.leads[block] == LEAD_QUOTED:
            blocks.reasons[block] = QUOTED
        else:
            blocks.reasons[block] = judge_block(block, count, largest, blocks, card)


@part
def judge_block(block, count, largest, blocks, card):  # type: ignore[no-untyped-def]
    """KEPT, or the group with the fewest points, the first of equals; largest: unlinked words of the page's largest."""
    words, links = np.int64(blocks.words[block]), np.int64(blocks.links[block])
    total, least, reason = np.int64(0), np.int64(1 << 40), np.int64(0)
    for group in range(len(_SIZES)):
        points = np.int64(0)
        if group == 0:
            points = point(card, 0, word_class(words) * LINK_CLASSES + link_class(words, links))
        elif group <= 4:
            # before, after, second before, second after
            step = np.int64((group + 1) >> 1)
            neighbour = block - step if group & 1 else block + step
            points = point(card, group, neighbour_class(neighbour, count, blocks))
        elif group <= 8:
            reach = np.int64(NEAR if group <= 6 else FAR)
            first, last = max(block - reach, 0), min(block + reach + 1, count)
            unlinked = card.unlinked[last] - card.unlinked[first]
            around = card.words[last] - card.words[first]
            if group & 1:
                points = point(card, group, _SUM_CLASS[min(unlinked, len(_SUM_CLASS) - 1)])
            else:
                points = point(card, group, eighth(around - unlinked, around))
        elif group == 9:
            points = point(card, group, eighth(card.words[block], card.words[count]))
        elif group == 10:
            points = point(card, group, _LARGEST_CLASS[(words - links) * 64 // largest])
        elif group == 11:
            points = point(card, group, np.int64(blocks.leads[block]))
        elif group == 12:
            points = section_points(card, blocks.sections[block])
        elif group == 13:
            points = point(card, group, (blocks.sections[block] >> _LIST & 1) * WORD_CLASSES + word_class(words))
        elif group == 14:
            points = point(card, group, (blocks.sections[block] >> _HEADING & 1) * WORD_CLASSES + word_class(words))
        else:
            points = point(card, group, stop_class(words, np.int64(blocks.stops[block])))
        total += points
        if points < least:
            least, reason = points, np.int64(group)
    return np.int64(KEPT) if total >= card.threshold else reason + FIRST_GROUP


@part
def point(card, group, chosen):  # type: ignore[no-untyped-def]  # Scorecard, int64, int64 -> int64
    """The points of a group's class."""
    return np.int64(card.points[np.uint64(_STARTS[group] + chosen)])


@part
def section_points(card, sections):  # type: ignore[no-untyped-def]  # Scorecard, int32 -> int64
    """The points of every section, open or not."""
    total = np.int64(0)
    for section in range(len(SECTIONS)):
        total += point(card, 12, 2 * section + (sections >> section & 1))
    return total


@part
def word_class(words):  # type: ignore[no-untyped-def]  # int64 -> int64
    """The class of a number of words."""
    return _WORD_CLASS[min(words, WORD_EDGES[-1])]


@part
def link_class(words, links):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """0: no word is in a link; the last: all are; else by their share in sixteenths."""
    if links == 0:
        return np.int64(0)
    if links >= words:
        return np.int64(LINK_CLASSES - 1)
    return 1 + _LINK_CLASS[links * 16 // words]


@part
def neighbour_class(neighbour, count, blocks):  # type: ignore[no-untyped-def]  # int64, int64, Blocks -> int64
    """Coarse class of another block's words and links; beyond the page's ends that of a block without words."""
    if neighbour < 0 or neighbour >= count:
        return np.int64(0)
    words, links = np.int64(blocks.words[neighbour]), np.int64(blocks.links[neighbour])
    coarse = _COARSE_CLASS[min(words, COARSE_WORD_EDGES[-1])]
    return coarse * (len(COARSE_LINK_EDGES) + 1) + _COARSE_LINK_CLASS[links * 16 // words]


@part
def eighth(share, whole):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """Which eighth of the whole, 0..7."""
    return min(share * 8 // max(whole, 1), 7)


@part
def stop_class(words, stops):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """By the share of stop-words, for short, middling and long blocks."""
    long = np.int64(STOP_CLASSES // 2 if words >= 20 else 0)
    return long + (1 + min(stops * 16 // words // 2, 5) if words >= 6 else 0)
