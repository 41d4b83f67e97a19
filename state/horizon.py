"""Owns the event-time horizon: how far event time has come, and below which entry number everything is dead.

The watermark is the greatest event time of the log so far. A horizon is cut into STEPS steps; when the watermark enters
another step, a mark is kept: the step, and the number of the next entry. An entry of step j is dead from step j + 65
on, so it counts for at least one horizon of event time and at most a 64th longer. Entries are numbered in the order of
filing, so all that is dead lies below ONE number, the floor: no posting carries a time, and a posting is living or dead
by one comparison. An entry's age is that of its filing (the watermark of then), not of its own event time, which may
lag behind: pages that arrive late count as long as others.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, FiledPages, StateView

STEPS = 64
"""Of a horizon: at most a 64th is remembered longer than asked for, and at most 65 marks are kept."""
NO_TIME = int(np.iinfo(np.int64).min)
_HOUR_MS = 3_600_000


class Mark(NamedTuple):
    """Where a step began. number: of the first entry that was filed in it, or later."""

    step: int
    number: int


class Clock(NamedTuple):
    """How far event time has come: the watermark, and the marks of the steps that still count, ascending.

    Of steps in which nothing was filed only the last is kept, so numbers ascend too.
    """

    watermark_ms: int = NO_TIME
    marks: tuple[Mark, ...] = ()

    @property
    def floor(self) -> int:
        """Entries with lower numbers are dead."""
        return self.marks[0].number if self.marks else 0

    def stats(self) -> dict[str, int]:
        """Its figures for State.stats(); watermark_ms is 0 where there is none."""
        return {"floor": self.floor, "watermark_ms": self.watermark_ms if self.marks else 0}

    def moved(self, watermark_ms: int, step_ms: int, entry_count: int) -> "Clock":
        """The clock when event time has come to watermark_ms. entry_count: the number of the next entry."""
        step = watermark_ms // step_ms
        if self.marks and self.marks[-1].step == step:
            return Clock(watermark_ms, self.marks)
        counting = [mark for mark in self.marks if mark.step >= step - STEPS and mark.number < entry_count]
        return Clock(watermark_ms, (*counting, Mark(step, entry_count)))


class Run(NamedTuple):
    """Pages start..end - 1 of a record, which lie in one step. watermark_ms: after the last of them."""

    start: int
    end: int
    watermark_ms: int


class Living:
    """A view of the state without what is dead."""

    def __init__(self, state: StateView, floor: int) -> None:
        self._state = state
        self._floor = floor

    @property
    def entry_count(self) -> int:
        """The number of the next entry."""
        return self._state.entry_count

    def buckets(self, keys: NDArray[np.uint64]) -> Buckets:
        """keys: uint64[u] -> their living postings."""
        return self._state.buckets(keys).living(self._floor)

    def filed(self, numbers: NDArray[np.uint64]) -> FiledPages:
        """numbers: uint64[e], of living entries -> the filed pages. Raises CorruptRecord where one is missing."""
        return self._state.filed(numbers)


def step_of(horizon_hours: float) -> int:
    """Milliseconds of a step; 0: there is no horizon."""
    return max(1, round(horizon_hours * _HOUR_MS / STEPS)) if horizon_hours else 0


def runs_of(event_time_ms: NDArray[np.int64], watermark_ms: int, step_ms: int) -> Iterator[Run]:
    """Cut a record where the watermark enters another step, which happens 64 times a horizon.

    event_time_ms: int64[n]  watermark_ms: before the record
    """
    if not len(event_time_ms):
        return
    watermarks = np.maximum.accumulate(np.maximum(event_time_ms, watermark_ms))
    cuts = (np.flatnonzero(np.diff(watermarks // step_ms)) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(watermarks)], strict=True):
        yield Run(start, end, int(watermarks[end - 1]))
