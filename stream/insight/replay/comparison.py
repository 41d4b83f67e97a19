"""Compares recorded with replayed verdicts: counts them by kind, and keeps the first examples of each.

Holds the verdicts that were recorded for a range, in 14 bytes an offset.
"""

import enum
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.signature import Entry, page_id_text
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.insight.replay.range import OUTSIDE, RangePlaces


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


COMPARED = (PageOutcome.NOVEL, PageOutcome.DUPLICATE, PageOutcome.UNCHECKED, PageOutcome.REJECTED)


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The replay's verdict on one page.

    original: that of a duplicate, or the page that a novel one replaces  score: that of a duplicate
    """

    outcome: PageOutcome
    reason: str
    original: Entry | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A page whose verdicts differ. recorded_original is a page id, or None where it is not known."""

    page: str
    url: str
    recorded: PageOutcome
    recorded_reason: str
    recorded_original: str | None
    replayed: ReplayVerdict


@dataclass(slots=True)
class Comparison:
    """The counts and examples of a comparison, which grow page by page.

    Two verdicts differ where their kinds differ, where both are duplicates but of different originals, and where both
    are novel but do not replace the same page or both none. A page that was recorded as the duplicate of a page outside
    the range, or as replacing one, cannot be judged as it was: where it differs, it is counted apart.

    A page that was submitted again may have been judged anew after its original was forgotten, and only one of its
    attempts was committed. It counts as equal where one of its attempts is equal.

    examples: how many are kept of each pair of kinds, at most  done: bool[p], the places that were replayed
    differing: uint8[p], the replayed PageOutcome where the verdict differs, else 0
    pages: counts by (recorded, replayed)  other_original: counts, by verdict, of the pages where only the original
    differs, or only the page that is replaced
    """

    recorded: RecordedOutcomes
    examples: int
    pages: Counter[tuple[PageOutcome, PageOutcome]] = field(default_factory=Counter)
    replayed: Counter[PageOutcome] = field(default_factory=Counter)
    differ: int = 0
    other_original: Counter[PageOutcome] = field(default_factory=Counter)
    original_outside: int = 0
    tombstones: int = 0
    differences: dict[tuple[PageOutcome, PageOutcome], list[Difference]] = field(default_factory=dict)
    done: NDArray[np.bool_] = field(init=False)
    differing: NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        self.done = np.zeros(len(self.recorded.places), np.bool_)
        self.differing = np.zeros(len(self.recorded.places), np.uint8)

    def note(self, place: int, url: str, replayed: ReplayVerdict) -> None:
        """A page was replayed, for the first time or again."""
        recorded = PageOutcome(int(self.recorded.outcome[place]))
        if self.done[place]:
            self._note_again(place, recorded, replayed)
            return
        self.done[place] = True
        self.replayed[replayed.outcome] += 1
        self.pages[recorded, replayed.outcome] += 1
        if recorded not in COMPARED:
            return
        if self._equal(place, recorded, replayed):
            return
        if self._is_outside(self.recorded.original(place)):
            self.original_outside += 1
            return
        self.differ += 1
        self.differing[place] = replayed.outcome
        if recorded == replayed.outcome:
            self.other_original[recorded] += 1
        kept = self.differences.setdefault((recorded, replayed.outcome), [])
        if len(kept) < self.examples:
            kept.append(self._difference(place, url, recorded, replayed))

    def note_tombstone(self, place: int) -> None:
        """A message without a value was met, which is passed on and never judged."""
        self.done[place] = True
        self.tombstones += 1

    @property
    def compared(self) -> int:
        """Pages with a recorded and a replayed verdict, without those that are counted in original_outside."""
        return sum(self.pages[row, column] for row in COMPARED for column in COMPARED) - self.original_outside

    @property
    def met(self) -> int:
        """Replayed messages of every kind."""
        return self.replayed.total() + self.tombstones

    def not_replayed(self) -> int:
        """Pages with a recorded verdict that were not replayed: gone from the input, or not reached."""
        return int(np.count_nonzero((self.recorded.outcome != PageOutcome.NOT_RECORDED) & ~self.done))

    def page_id(self, place: int) -> str:
        """The page id of a place, as text."""
        places = self.recorded.places
        return page_id_text(places.topic, *places.page(place))

    def _note_again(self, place: int, recorded: PageOutcome, replayed: ReplayVerdict) -> None:
        first = PageOutcome(int(self.differing[place]))
        if not first or not self._equal(place, recorded, replayed):
            return
        self.differing[place] = 0
        self.differ -= 1
        if recorded == first:
            self.other_original[recorded] -= 1
        self.pages[recorded, first] -= 1
        self.pages[recorded, replayed.outcome] += 1
        self.replayed[first] -= 1
        self.replayed[replayed.outcome] += 1
        kept, page = self.differences[recorded, first], self.page_id(place)
        kept[:] = [difference for difference in kept if difference.page != page]

    def _equal(self, place: int, recorded: PageOutcome, replayed: ReplayVerdict) -> bool:
        if recorded != replayed.outcome:
            return False
        original = self.recorded.original(place)
        if recorded != PageOutcome.DUPLICATE and original == UNKNOWN_ORIGINAL:
            return replayed.original is None
        return recorded not in (PageOutcome.DUPLICATE, PageOutcome.NOVEL) or self._same(original, replayed.original)

    def _same(self, recorded: tuple[int, int], replayed: Entry | None) -> bool:
        """Whether the originals are the same; one that the outputs do not name counts as the same."""
        if recorded == UNKNOWN_ORIGINAL or replayed is None:
            return replayed is not None
        return (self.recorded.places.topic, *recorded) == (replayed.source, replayed.partition, replayed.offset)

    def _is_outside(self, original: tuple[int, int]) -> bool:
        places = self.recorded.places
        return original != UNKNOWN_ORIGINAL and places.of_page(places.topic, *original) == OUTSIDE

    def _difference(self, place: int, url: str, recorded: PageOutcome, replayed: ReplayVerdict) -> Difference:
        original = self.recorded.original(place)
        known = original not in (UNKNOWN_ORIGINAL, OTHER_TOPIC)
        return Difference(
            self.page_id(place),
            url,
            recorded,
            self.recorded.reasons[self.recorded.reason[place]],
            page_id_text(self.recorded.places.topic, *original) if known else None,
            replayed,
        )
