"""Compares the recorded and the replayed verdicts of a range: counts by kind, and the first examples of each.

`RecordedOutcomes` takes 14 bytes per offset of the range.
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
    """The recorded or replayed outcome for a page. Reports show the names in lower case."""

    NOT_RECORDED = 0
    NOVEL = 1
    DUPLICATE = 2
    UNCHECKED = 3
    REJECTED = 4
    """The message is not a page; it is a dead letter."""
    UNDELIVERED = 5
    """The page was judged but is too large for an output, so its verdict is unknown."""

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
"""Placeholders for an original that the output topics do not name, and for one of another topic."""


@dataclass(slots=True)
class RecordedOutcomes:
    """The verdicts on the pages of a range in the output topics. If messages contradict, the first noted one counts.

    The order of messages in two topics is unknown, so the reader notes reports of duplicates first.

    outcome: uint8[p] (PageOutcome)  reason: uint8[p] (index into `reasons`)
    original_partition: int32[p], original_offset: int64[p]: the original of a duplicate, or the page that a novel page
    supersedes  again: number of messages that repeat a verdict (at_least_once)
    differing: places of pages with a contradicting message  foreign: number of messages without a page id
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
        """Add the verdict of an output message. original: partition and offset; pages outside the range are ignored"""
        if place == OUTSIDE:
            return
        if self.outcome[place] == PageOutcome.NOT_RECORDED:
            self.outcome[place] = outcome
            self.reason[place] = self._number(reason)
            self.original_partition[place], self.original_offset[place] = original
        elif self.outcome[place] == outcome and UNKNOWN_ORIGINAL in (original, self.original(place)):
            # With mode = "annotate" a duplicate is both reported and emitted, but the emitted page does not have the
            # page id of its original.
            self.again += original == self.original(place)
        elif self.outcome[place] == outcome and self.original(place) == original:
            self.again += 1
        elif outcome != PageOutcome.UNDELIVERED:
            self.differing.append(place)

    def original(self, place: int) -> tuple[int, int]:
        """The partition and offset of the recorded original, or of the page that a novel page supersedes.

        OTHER_TOPIC if it is in another topic. UNKNOWN_ORIGINAL if the output topics do not name the original of a
        duplicate, or if a novel page supersedes none.
        """
        return int(self.original_partition[place]), int(self.original_offset[place])

    def _number(self, reason: str) -> int:
        """The index of a reason. If foreign messages have filled the byte, a new reason becomes 0, the empty one."""
        if reason not in self.reasons:
            if len(self.reasons) > np.iinfo(np.uint8).max:
                return 0
            self.reasons.append(reason)
        return self.reasons.index(reason)


COMPARED = (PageOutcome.NOVEL, PageOutcome.DUPLICATE, PageOutcome.UNCHECKED, PageOutcome.REJECTED)


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The replay's verdict on one page.

    original: of a duplicate, or the page that a novel page supersedes  score: of a duplicate
    """

    outcome: PageOutcome
    reason: str
    original: Entry | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A page with differing verdicts. recorded_original: a page id, or None if it is unknown"""

    page: str
    url: str
    recorded: PageOutcome
    recorded_reason: str
    recorded_original: str | None
    replayed: ReplayVerdict


@dataclass(slots=True)
class Comparison:
    """The counts and examples of a comparison, filled page by page.

    Two verdicts differ if their kinds differ, if both are duplicates of different originals, or if both are novel but
    do not supersede the same page. A page whose recorded original (or superseded page) is outside the range cannot get
    the same verdict: if it differs, it is counted in original_outside.

    A page that was sent again may have been judged a second time after its original was forgotten, but only one of the
    two verdicts was committed. It counts as equal if one of its replayed verdicts is equal.

    examples: most examples for each pair of kinds  done: bool[p], the replayed places
    differing: uint8[p], the replayed PageOutcome of a differing verdict, else 0
    pages: counts by (recorded, replayed)  other_original: counts by verdict of pages that differ only in the original,
    or in the superseded page
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
        """Add the replayed verdict of a page, for the first time or again."""
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
        differences = self.differences.setdefault((recorded, replayed.outcome), [])
        if len(differences) < self.examples:
            differences.append(self._difference(place, url, recorded, replayed))

    def note_tombstone(self, place: int) -> None:
        """Add a tombstone, which is emitted and never judged."""
        self.done[place] = True
        self.tombstones += 1

    @property
    def compared(self) -> int:
        """The number of pages with a recorded and a replayed verdict, except original_outside."""
        return sum(self.pages[row, column] for row in COMPARED for column in COMPARED) - self.original_outside

    @property
    def messages(self) -> int:
        """The number of replayed messages of every kind."""
        return self.replayed.total() + self.tombstones

    def not_replayed(self) -> int:
        """The number of recorded pages that were not replayed: removed from the input, or not reached."""
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
        differences, page = self.differences[recorded, first], self.page_id(place)
        differences[:] = [difference for difference in differences if difference.page != page]

    def _equal(self, place: int, recorded: PageOutcome, replayed: ReplayVerdict) -> bool:
        if recorded != replayed.outcome:
            return False
        original = self.recorded.original(place)
        if recorded != PageOutcome.DUPLICATE and original == UNKNOWN_ORIGINAL:
            return replayed.original is None
        return recorded not in (PageOutcome.DUPLICATE, PageOutcome.NOVEL) or self._same(original, replayed.original)

    def _same(self, recorded: tuple[int, int], replayed: Entry | None) -> bool:
        """Whether the originals are the same. An original that the output topics do not name counts as the same."""
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
