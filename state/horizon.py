"""Tracks event time: the watermark, and the floor of the deduplication window.

The watermark is the greatest event time of the log so far. The window (index.horizon_hours) is cut into STEPS steps.
When the watermark enters another step, the clock adds a mark: the step, and the number of the next entry. An entry of
step j is dead from step j + 65 on. So it counts for at least one window of event time, and at most a 64th longer.

Entries are numbered in the order of indexing, so all dead entries lie below one number, the floor. A posting needs no
time: one comparison with the floor decides whether it lives. The age of an entry counts from the watermark at its
indexing, not from its own event time, which may lag behind. So late pages count as long as others.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STEPS = 64
"""Steps of the window: an entry lives at most a 64th longer than configured, and a clock has at most 65 marks."""
NO_TIME = int(np.iinfo(np.int64).min)
_HOUR_MS = 3_600_000


class StepMark(NamedTuple):
    """The beginning of a step. number: the first entry that was indexed in this step or later"""

    step: int
    number: int


class Clock(NamedTuple):
    """The watermark, and the marks of the steps within the window, ascending.

    Of consecutive steps without an indexed page only the last keeps its mark, so the numbers ascend too.
    """

    watermark_ms: int = NO_TIME
    marks: tuple[StepMark, ...] = ()

    @property
    def floor(self) -> int:
        """The lowest living entry number: entries below it are dead."""
        return self.marks[0].number if self.marks else 0

    def stats(self) -> dict[str, int]:
        """Return floor and watermark_ms for State.stats(). watermark_ms is 0 before the first page."""
        return {"floor": self.floor, "watermark_ms": self.watermark_ms if self.marks else 0}

    def moved(self, watermark_ms: int, step_ms: int, entry_count: int) -> "Clock":
        """Return the clock with event time at watermark_ms. entry_count: the number of the next entry"""
        step = watermark_ms // step_ms
        if self.marks and self.marks[-1].step == step:
            return Clock(watermark_ms, self.marks)
        counting = [mark for mark in self.marks if mark.step >= step - STEPS and mark.number < entry_count]
        return Clock(watermark_ms, (*counting, StepMark(step, entry_count)))


class StepRun(NamedTuple):
    """Pages start..end - 1 of a record, all in one step. watermark_ms: the watermark after the last page"""

    start: int
    end: int
    watermark_ms: int


def step_of(horizon_hours: float) -> int:
    """Return the length of a step in milliseconds; 0 without a window."""
    return max(1, round(horizon_hours * _HOUR_MS / STEPS)) if horizon_hours else 0


def runs_of(event_time_ms: NDArray[np.int64], watermark_ms: int, step_ms: int) -> Iterator[StepRun]:
    """Cut a record where the watermark enters another step, which happens 64 times in a window.

    event_time_ms: int64[n]  watermark_ms: the watermark before the record
    """
    if not len(event_time_ms):
        return
    watermarks = np.maximum.accumulate(np.maximum(event_time_ms, watermark_ms))
    cuts = (np.flatnonzero(np.diff(watermarks // step_ms)) + 1).tolist()
    for start, end in zip([0, *cuts], [*cuts, len(watermarks)], strict=True):
        yield StepRun(start, end, int(watermarks[end - 1]))
