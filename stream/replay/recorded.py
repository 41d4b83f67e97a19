"""Holds the verdicts that were recorded for a range, in 14 bytes an offset."""

import enum
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.replay.places import OUTSIDE, RangePlaces
from spotsieve.stream.verdict import Kind


class PageOutcome(enum.IntEnum):
    """What became of a page, recorded or replayed. Reports show the names in lower case."""

    NOT_RECORDED = 0
    NOVEL = 1
    DUPLICATE = 2
    UNCHECKED = 3
    REJECTED = 4
    """The message is no page, and a dead letter."""
    UNDELIVERED = 5
    """The page was judged, but no output takes one so large: its verdict is not known."""

    @property
    def label(self) -> str:
        """The name in reports."""
        return self.name.lower().replace("_", " ")


OUTCOME_OF_KIND = {
    Kind.NOVEL: PageOutcome.NOVEL,
    Kind.DUPLICATE: PageOutcome.DUPLICATE,
    Kind.UNCHECKED: PageOutcome.UNCHECKED,
}
UNKNOWN_ORIGINAL = (-1, -1)
OTHER_TOPIC = (-2, -2)
"""In place of an original: where the outputs do not name it, and where it is a page of another topic."""


@dataclass(slots=True)
class RecordedOutcomes:
    """What the output topics say of the pages of a range. Of messages that differ, the first one noted counts.

    Nothing tells the order of messages in two topics, so reports of duplicates are noted first.

    outcome: uint8[p] (Outcome)  reason: uint8[p] (an index into `reasons`)
    original_partition: int32[p], original_offset: int64[p]: the original of a duplicate, or the page that a novel one
    replaces
    again: further messages that say the same of a page (at_least_once)
    differing: places of which a further message said something else  foreign: messages that name no page
    """

    places: RangePlaces
    again: int = 0
    foreign: int = 0
    differing: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=lambda: [""])
    outcome: NDArray[np.uint8] = field(init=False)
    reason: NDArray[np.uint8] = field(init=False)
    original_partition: NDArray[np.int32] = field(init=False)
    original_offset: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.places)
        self.outcome = np.zeros(count, np.uint8)
        self.reason = np.zeros(count, np.uint8)
        self.original_partition = np.full(count, UNKNOWN_ORIGINAL[0], np.int32)
        self.original_offset = np.full(count, UNKNOWN_ORIGINAL[1], np.int64)

    def note(
        self, place: int, outcome: PageOutcome, reason: str = "", original: tuple[int, int] = UNKNOWN_ORIGINAL
    ) -> None:
        """Note what a message of the outputs says of a page in the range.  original: partition and offset"""
        if place == OUTSIDE:
            return
        if self.outcome[place] == PageOutcome.NOT_RECORDED:
            self.outcome[place] = outcome
            self.reason[place] = self._number(reason)
            self.original_partition[place], self.original_offset[place] = original
        elif self.outcome[place] == outcome and UNKNOWN_ORIGINAL in (original, self.original(place)):
            # Under mode = "annotate" a duplicate is reported and passes, with its original's id but not its page id.
            self.again += original == self.original(place)
        elif self.outcome[place] == outcome and self.original(place) == original:
            self.again += 1
        elif outcome != PageOutcome.UNDELIVERED:
            self.differing.append(place)

    def original(self, place: int) -> tuple[int, int]:
        """The partition and offset of the recorded original, or of the page that a novel one replaces.

        OTHER_TOPIC where it is in another topic. UNKNOWN_ORIGINAL where the outputs do not name the original of a
        duplicate, or where a novel page replaces none.
        """
        return int(self.original_partition[place]), int(self.original_offset[place])

    def _number(self, reason: str) -> int:
        """The number of a reason. Once foreign messages have filled the byte, a new reason counts as none."""
        if reason not in self.reasons:
            if len(self.reasons) > np.iinfo(np.uint8).max:
                return 0
            self.reasons.append(reason)
        return self.reasons.index(reason)
