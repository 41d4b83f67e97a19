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

DIGEST = "b37549d6025f58819742d3fbe314265cd1304ff76f373c899b55d83af7b4e07f"

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
COARSE_LINK_CLASSES = len(COARSE_LINK_EDGES) + 1
COARSE_CLASSES = (len(COARSE_WORD_EDGES) + 1) * COARSE_LINK_CLASSES
SUM_CLASSES, SHARE_CLASSES, LARGEST_CLASSES = 12, 8, len(LARGEST_EDGES) + 1

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
    section_points: int32[3, 32], the points of five sections each, by their bits
    The others are columns over a page's blocks, written over: words, unlinked: int64, running sums
    fine, coarse: uint8, classes of a block's words and links, coarse with two blocks of no words before and behind
    """

    points: NDArray[np.int32]
    threshold: int
    section_points: NDArray[np.int32]
    words: NDArray[np.int64]
    unlinked: NDArray[np.int64]
    fine: NDArray[np.uint8]
    coarse: NDArray[np.uint8]


def scorecard(most_blocks: int) -> Scorecard:
    """The frozen points, with room for pages of up to `most_blocks` blocks."""
    points, threshold = frozen_points()
    start = _STARTS[list(GROUPS).index("sections around")]
    of_sections = points[start : start + 2 * len(SECTIONS)].reshape(3, 5, 2)
    bits = np.arange(32)[:, None] >> np.arange(5) & 1
    section_points = np.stack([np.take_along_axis(five, bits.T, axis=1).sum(axis=0) for five in of_sections])
    sums = [np.zeros(most_blocks + 1, np.int64) for _ in range(2)]
    classes = [np.zeros(most_blocks + 4, np.uint8) for _ in range(2)]
    return Scorecard(points, threshold, section_points.astype(np.int32), *sums, *classes)


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
    """Fill blocks.reasons of a page's blocks: KEPT, or why each is left out (an index into REASONS).

    That is the group with the fewest points, the first of equals. All in one function: to pass arrays to another one
    for every block, whose references numba then counts, took longer than all else here.
    """
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
    points, coarse = card.points, card.coarse
    for block in range(count):
        lead, sections = np.int64(blocks.leads[block]), np.int64(blocks.sections[block])
        if lead == LEAD_PLAIN or lead == LEAD_QUOTED:
            blocks.reasons[block] = KEPT if lead == LEAD_PLAIN else QUOTED
            continue
        fine = np.int64(card.fine[block])
        word_class = fine // LINK_CLASSES
        first, last = max(block - NEAR, 0), min(block + NEAR + 1, count)
        near, unlinked_near = card.words[last] - card.words[first], card.unlinked[last] - card.unlinked[first]
        first, last = max(block - FAR, 0), min(block + FAR + 1, count)
        far, unlinked_far = card.words[last] - card.words[first], card.unlinked[last] - card.unlinked[first]
        unlinked = card.unlinked[block + 1] - card.unlinked[block]
        given = (
            points[_STARTS[0] + fine],
            points[_STARTS[1] + np.int64(coarse[block + 1])],
            points[_STARTS[2] + np.int64(coarse[block + 3])],
            points[_STARTS[3] + np.int64(coarse[block])],
            points[_STARTS[4] + np.int64(coarse[block + 4])],
            points[_STARTS[5] + _SUM_CLASS[min(unlinked_near, len(_SUM_CLASS) - 1)]],
            points[_STARTS[6] + eighth(near - unlinked_near, near)],
            points[_STARTS[7] + _SUM_CLASS[min(unlinked_far, len(_SUM_CLASS) - 1)]],
            points[_STARTS[8] + eighth(far - unlinked_far, far)],
            points[_STARTS[9] + eighth(card.words[block], card.words[count])],
            points[_STARTS[10] + _LARGEST_CLASS[unlinked * 64 // largest]],
            points[_STARTS[11] + lead],
            np.int32(
                card.section_points[0, sections & 31]
                + card.section_points[1, sections >> 5 & 31]
                + card.section_points[2, sections >> 10]
            ),
            points[_STARTS[13] + (sections >> _LIST & 1) * WORD_CLASSES + word_class],
            points[_STARTS[14] + (sections >> _HEADING & 1) * WORD_CLASSES + word_class],
        )
        total, least, group = np.int64(0), np.int64(1 << 40), np.int64(0)
        for some in given:
            total += some
            # the group's number comes along and breaks ties
            least = min(least, np.int64(some) * len(given) + group)
            group += 1
        blocks.reasons[block] = KEPT if total >= card.threshold else least % len(given) + FIRST_GROUP


@part
def eighth(share, whole):  # type: ignore[no-untyped-def]  # int64, int64 -> int64
    """Which eighth of the whole, 0..7."""
    return min(share * 8 // max(whole, np.int64(1)), np.int64(7))
