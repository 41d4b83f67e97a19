"""Owns the comparison: recorded verdict beside replayed one, counted by kind, with the first examples of each."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream.replay.places import OUTSIDE
from stream.replay.recorded import OTHER_TOPIC, UNKNOWN_ORIGINAL, Outcome, Recorded
from stream.signature import Entry, page_id_text

COMPARED = (Outcome.NOVEL, Outcome.DUPLICATE, Outcome.UNCHECKED, Outcome.REJECTED)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the replay says of one page. original, score: of a duplicate."""

    outcome: Outcome
    reason: str
    original: Entry | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A page whose verdicts differ. The originals are page ids; recorded_original is None where it is not known."""

    page: str
    url: str
    recorded: Outcome
    recorded_reason: str
    recorded_original: str | None
    replayed: Replayed


@dataclass(slots=True)
class Comparison:
    """Grows page by page.

    Verdicts differ where the kinds do, or where both say duplicate, of another original. A page that was recorded as
    the duplicate of one that is not in the range cannot be judged as it was: where it differs it is counted apart.

    examples: most kept of each pair of kinds  done: bool[p], the places that were met
    pages: counter of (recorded, replayed)  other_original: counter of the pages where only the original differs
    """

    recorded: Recorded
    examples: int
    pages: Counter[tuple[Outcome, Outcome]] = field(default_factory=Counter)
    replayed: Counter[Outcome] = field(default_factory=Counter)
    differ: int = 0
    other_original: int = 0
    original_outside: int = 0
    tombstones: int = 0
    differences: dict[tuple[Outcome, Outcome], list[Difference]] = field(default_factory=dict)
    done: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.done = np.zeros(len(self.recorded.places), np.bool_)

    def note(self, place: int, url: str, replayed: Replayed) -> None:
        """A page was replayed."""
        self.done[place] = True
        recorded = Outcome(int(self.recorded.outcome[place]))
        self.replayed[replayed.outcome] += 1
        self.pages[recorded, replayed.outcome] += 1
        if recorded not in COMPARED:
            return
        original = self.recorded.original(place)
        if recorded == replayed.outcome and (recorded != Outcome.DUPLICATE or self._same(original, replayed.original)):
            return
        if recorded == Outcome.DUPLICATE and self._is_outside(original):
            self.original_outside += 1
            return
        self.differ += 1
        self.other_original += recorded == replayed.outcome
        kept = self.differences.setdefault((recorded, replayed.outcome), [])
        if len(kept) < self.examples:
            kept.append(self._difference(place, url, recorded, replayed))

    def note_tombstone(self, place: int) -> None:
        """A message without a value: passed on, never judged."""
        self.done[place] = True
        self.tombstones += 1

    @property
    def compared(self) -> int:
        """Pages with a recorded and a replayed verdict, but for those of an original outside the range that differ."""
        return sum(self.pages[row, column] for row in COMPARED for column in COMPARED) - self.original_outside

    @property
    def met(self) -> int:
        """Messages replayed, of whatever kind."""
        return self.replayed.total() + self.tombstones

    def not_replayed(self) -> int:
        """Pages with a recorded verdict that the replay did not meet: gone from the input, or not reached."""
        return int(np.count_nonzero((self.recorded.outcome != Outcome.NOT_RECORDED) & ~self.done))

    def page_id(self, place: int) -> str:
        """The page id of a place, as text."""
        places = self.recorded.places
        return page_id_text(places.topic, *places.page(place))

    def _same(self, recorded: tuple[int, int], replayed: Entry | None) -> bool:
        """An original that the outputs do not tell is taken for the same."""
        assert replayed is not None
        topic = self.recorded.places.topic
        return recorded == UNKNOWN_ORIGINAL or (topic, *recorded) == (
            replayed.source,
            replayed.partition,
            replayed.offset,
        )

    def _is_outside(self, original: tuple[int, int]) -> bool:
        places = self.recorded.places
        return original != UNKNOWN_ORIGINAL and places.of_page(places.topic, *original) == OUTSIDE

    def _difference(self, place: int, url: str, recorded: Outcome, replayed: Replayed) -> Difference:
        original = self.recorded.original(place)
        known = recorded == Outcome.DUPLICATE and original not in (UNKNOWN_ORIGINAL, OTHER_TOPIC)
        return Difference(
            self.page_id(place),
            url,
            recorded,
            self.recorded.reasons[self.recorded.reason[place]],
            page_id_text(self.recorded.places.topic, *original) if known else None,
            replayed,
        )
