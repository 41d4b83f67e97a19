"""The scorecards: points by which the blocks of a page are classified as main text or boilerplate.

Each group of a card assigns a block to one of its classes and gives the points of that class. The first card uses the
block, the words and links of its neighbours, and the sections around it. The second card uses the first card's sums of
the block and its neighbours, and the position of the page's likely text. A block is kept if its second sum is above
KEEP_ABOVE. All sums are integers, so the choice is the same on every CPU.

    scorecard.txt = header lines "# ...", then one line per table: its name, ":", its numbers; FIRST_CARD's groups, then
                    SECOND_CARD's, then "chance": of 256, the chance of main text for a first sum of 8 * (i - 64)
"""

import hashlib
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.sign.text.html.elements import SECTIONS

DIGEST = "deb52c49edfa0febbb56263db2a4c450e3d7d4c10aabf9d55658a85414ebed24"

KEEP_ABOVE = -16
LADDER = (-64, -128, -192, -256, -384, -512)
"""Lower thresholds for blocks with few links, tried in order until enough words are kept."""
ENOUGH_WORDS = 60
"""Words in kept blocks that are enough; half of the page's unlinked words also suffice."""

WORD_EDGES = (1, 2, 3, 5, 8, 12, 20, 40, 80, 160)
COARSE_WORD_EDGES = (1, 5, 15, 40)
LINK_EDGES = (2, 5, 10)
"""Linked words of 16."""
COARSE_LINK_EDGES = (5, 12)
LARGEST_EDGES = (1, 2, 4, 8, 16, 32)
"""In 64ths of the greatest number of unlinked words in one block."""
NEAR, FAR = 3, 6
"""Number of blocks on each side whose words are summed."""
REACHES = (2, 4, 8)
"""Numbers of blocks on each side whose likely text the second card sums."""
EDGE = 8
"""Spare places of the running sums before the first block and after the last. No reach is longer."""
MOST_LIKELY_WORDS = 100
"""Limit on the words of a block in the sums of likely text."""

WORD_CLASSES, LINK_CLASSES = len(WORD_EDGES) + 1, len(LINK_EDGES) + 3
COARSE_LINK_CLASSES = len(COARSE_LINK_EDGES) + 1
COARSE_CLASSES = (len(COARSE_WORD_EDGES) + 1) * COARSE_LINK_CLASSES
SUM_CLASSES, SHARE_CLASSES, LARGEST_CLASSES = 12, 8, len(LARGEST_EDGES) + 1
OWN_CLASSES, OTHER_CLASSES = 25, 14
NO_OTHER = OTHER_CLASSES - 1
"""The class of a neighbour beyond the first or last block."""
LIKELY_SHARE_CLASSES, LIKELY_SUM_CLASSES, PAGE_CLASSES = 10, 9, 10
NINTHS, DISTANCE_CLASSES, BETWEEN_CLASSES = 9, 10, 11
CHANCES = 129

FIRST_CARD: dict[str, int] = {
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
    "sections around": 2 * len(SECTIONS),
    "words in lists": 2 * WORD_CLASSES,
    "words in headings": 2 * WORD_CLASSES,
    "first start": 1,
}
"""Number of classes by group, in the order of the points. Every block gets the points of "start"."""
SECOND_CARD: dict[str, int] = {
    "first card": OWN_CLASSES,
    "first card of block before": OTHER_CLASSES,
    "first card of block after": OTHER_CLASSES,
    "first card of second block before": OTHER_CLASSES,
    "first card of second block after": OTHER_CLASSES,
    "share of text within 2": LIKELY_SHARE_CLASSES,
    "text within 2": LIKELY_SUM_CLASSES,
    "share of text within 4": LIKELY_SHARE_CLASSES,
    "text within 4": LIKELY_SUM_CLASSES,
    "share of text within 8": LIKELY_SHARE_CLASSES,
    "text within 8": LIKELY_SUM_CLASSES,
    "text of page": PAGE_CLASSES,
    "text before": NINTHS,
    "share of text": NINTHS,
    "words": WORD_CLASSES,
    "distance to most text": DISTANCE_CLASSES,
    "other text between": BETWEEN_CLASSES,
    "second start": 1,
}
KEPT, KEPT_IN_NEED, FIRST_REASON = 0, 1, 2
FIRST_GROUPS = len(FIRST_CARD) - 1
REASONS: tuple[str, ...] = (
    "kept",
    "kept for want of other text",
    *list(FIRST_CARD)[:-1],
    *list(SECOND_CARD)[1:-1],
)
"""Why a block is main text or boilerplate. The reason of boilerplate is the group of the second card with the fewest
points. If that group is the sum of the first card, the reason is the first card's group with the fewest points."""


class Scorecard(NamedTuple):
    """Points of both cards, and scratch columns over a page's blocks.

    first, second: int32, the points of both cards, group after group  chances: int32[129]
    section_points: int32[3, 32], the first card's points for five sections each, by their bits

    Scratch:
    words, unlinked, likely, unlikely, capped: int64, running sums, all but unlikely with EDGE places before and after;
    likely and unlikely in 256ths of words
    fine, coarse: uint8, classes of words and links, coarse with two blocks of no words before and after
    others: uint8, classes of the first card's sums of other blocks, with two absent blocks before and after
    firsts, seconds: int32, the sums of the cards  against: uint8, groups
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    chances: NDArray[np.int32]
    section_points: NDArray[np.int32]
    words: NDArray[np.int64]
    unlinked: NDArray[np.int64]
    likely: NDArray[np.int64]
    unlikely: NDArray[np.int64]
    capped: NDArray[np.int64]
    fine: NDArray[np.uint8]
    coarse: NDArray[np.uint8]
    others: NDArray[np.uint8]
    firsts: NDArray[np.int32]
    seconds: NDArray[np.int32]
    against: NDArray[np.uint8]


def scorecard(most_blocks: int) -> Scorecard:
    """The frozen points, with scratch for pages of up to `most_blocks` blocks."""
    first, second, chances, section_points = _columns_of(tuple(frozen_points().items()))
    room = most_blocks + 2 * EDGE + 1
    words, unlinked, likely, unlikely, capped = (np.empty(room, np.int64) for _ in range(5))
    fine, coarse, others, against = (np.empty(room, np.uint8) for _ in range(4))
    firsts, seconds = (np.empty(room, np.int32) for _ in range(2))
    return Scorecard(
        first=first,
        second=second,
        chances=chances,
        section_points=section_points,
        words=words,
        unlinked=unlinked,
        likely=likely,
        unlikely=unlikely,
        capped=capped,
        fine=fine,
        coarse=coarse,
        others=others,
        firsts=firsts,
        seconds=seconds,
        against=against,
    )


@cache
def frozen_points() -> dict[str, tuple[int, ...]]:
    """Tables of scorecard.txt by name, read once per process. Raises RuntimeError if the file has another digest."""
    written = files(__package__).joinpath("scorecard.txt").read_bytes()
    digest = hashlib.sha256(written).hexdigest()
    if digest != DIGEST:
        raise RuntimeError(
            f"stream/sign/features/scorecard.txt must have the digest {DIGEST}, got {digest}; "
            "install the package again, or put the new digest into stream/sign/features/scorecard.py if you changed it"
        )
    lines = [line.split(":") for line in written.decode("ascii").splitlines() if not line.startswith("#")]
    tables = {name: tuple(map(int, numbers.split())) for name, numbers in lines}
    sizes = {**FIRST_CARD, **SECOND_CARD, "chance": CHANCES}
    if {name: len(numbers) for name, numbers in tables.items()} != sizes:
        raise RuntimeError(
            f"scorecard.txt must have tables of these sizes: {sizes}; write it again from the fitted points"
        )
    return tables


@lru_cache(maxsize=8)
def _columns_of(points: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[NDArray[np.int32], ...]:
    """Arrays of the points: first, second, chances and section_points of Scorecard."""
    tables = dict(points)
    of_sections = np.array(tables["sections around"]).reshape(3, 5, 2)
    bits = np.arange(32)[:, None] >> np.arange(5) & 1
    section_points = np.stack([np.take_along_axis(five, bits.T, axis=1).sum(axis=0) for five in of_sections])
    cards = [np.concatenate([tables[name] for name in card]) for card in (FIRST_CARD, SECOND_CARD)]
    return tuple(column.astype(np.int32) for column in (*cards, np.array(tables["chance"]), section_points))
