"""Evaluates a simulated run: throughput, waiting times, and the busiest role."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LATE = 1.5
"""Pages wait longer than before if they wait this many times as long as the 99th percentile."""


class SimulationResult(NamedTuple):
    """pages_per_s: committed  p50_ms, p99_ms, most_ms: of a page, from its producer to a read_committed reader of its

    output; meaningless at maximal input  busy: share of time, by role  recovered_s: from the loss until pages wait no
    longer than before it; 0 if they never do
    """

    pages_per_s: float
    p50_ms: float
    p99_ms: float
    most_ms: float
    busy: dict[str, float]
    recovered_s: float

    @property
    def bottleneck(self) -> str:
        """The busiest role, or the hops of a round if no role is busy for 90 % of the time."""
        role = max(self.busy, key=lambda name: self.busy[name])
        return role if self.busy[role] >= 0.9 else "hops"


def outcome_of(
    done: Sequence[tuple[float, float, int]], begin: float, end: float, busy: dict[str, float], lost_at: float | None
) -> SimulationResult:
    """The result of a run. done: commit time, waiting time and number of pages  begin: earlier commits do not count

    busy: by role  lost_at: when a role went away; None if no role did
    """
    counted = [one for one in done if one[0] > begin]
    if not counted:
        return SimulationResult(0.0, np.inf, np.inf, np.inf, busy, 0.0)
    when, waited, pages = (np.array(column, np.float64) for column in zip(*counted, strict=True))
    order = np.argsort(waited, kind="stable")
    reached = np.cumsum(pages[order]) / pages.sum()
    p50, p99 = (float(waited[order][np.searchsorted(reached, share)]) * 1e3 for share in (0.5, 0.99))
    recovered_s = 0.0 if lost_at is None else _recovered(when, waited, lost_at, end)
    return SimulationResult(float(pages.sum()) / (end - begin), p50, p99, float(waited.max()) * 1e3, busy, recovered_s)


def _recovered(when: NDArray[Any], waited: NDArray[Any], lost_at: float, end: float) -> float:
    """Seconds from the loss to the last page that waits longer than before; 0 if pages do so until the end."""
    usual = float(np.quantile(waited[when < lost_at], 0.99))
    late = when[(when > lost_at) & (waited > usual * LATE)]
    last = float(late.max()) if len(late) else lost_at
    return last - lost_at if last < end - 1 else 0.0
