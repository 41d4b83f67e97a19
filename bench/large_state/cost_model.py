"""Models CPU and reads a page against the size of the state, and what a crawl of a billion pages costs.

The judge's CPU for a page is a + b log2(n / 1,000,000) + c r: n pages in the state, r reads of the disk. No part is
negative, and the fit is by relative errors. Beyond the largest measured state, r is that of this state.
"""

from collections.abc import Sequence
from math import ceil, e, log2
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from bench.scale.costs import Costs
from spotsieve.stream.base.settings.runtime import ClusterSettings

GrowthRow = dict[str, Any]
"""The JudgingCosts of a state, and: pages_filled, memory, cache_mb, filled_bytes, load_average, on."""
UNIT = 1_000_000
MODELLED_FROM = 1_000_000
"""Smaller states are mostly in the write buffers."""
ROUND_PAGES = ClusterSettings().round_pages


class RentedMachine(NamedTuple):
    """A machine at its public price. cores: virtual CPUs  memory, disk: bytes"""

    name: str
    cores: int
    memory: float
    disk: float
    dollars_an_hour: float


MACHINE = RentedMachine("i4i.2xlarge of AWS, on demand in us-east-1", 8, 64 * 2**30, 1.875e12, 0.686)


class Line(NamedTuple):
    """A value against the size of a state and reads a page: base + doubling log2(n / UNIT) + read x reads."""

    base: float
    doubling: float
    read: float

    def at(self, pages: float, reads: float) -> float:
        """The value for a page that is judged over `pages` pages."""
        return self.base + self.doubling * log2(pages / UNIT) + self.read * reads


class CostModel(NamedTuple):
    """cpu_us, wall_us: of a page  reads: of a page in the largest state, with a tenth of it in memory"""

    cpu_us: Line
    wall_us: Line
    reads: float


def fit(rows: Sequence[GrowthRow]) -> CostModel:
    """The model of measured rows."""
    rows = [row for row in rows if row["pages_filled"] >= MODELLED_FROM]
    largest = max((row for row in rows if row["memory"] != "all"), key=lambda row: row["pages_filled"])
    return CostModel(_line(rows, "cpu_us"), _line(rows, "wall_us"), largest["reads"])


def _line(rows: Sequence[GrowthRow], name: str) -> Line:
    """The line with the least sum of squared relative errors."""
    values = np.array([row[name] for row in rows])
    columns = [(1.0, log2(row["pages_filled"] / UNIT), row["reads"]) for row in rows]
    parts, _ = nnls(np.array(columns) / values[:, None], np.ones(len(rows)))
    return Line(*parts.tolist())


class Crawl(NamedTuple):
    """What a number of pages costs. shards: 0 if one process does all  dollars: of the machines, while they work"""

    shards: int
    cpu_us: float
    cpu_hours: float
    days: float
    machines: int
    dollars: float


def crawl(model: CostModel, costs: Costs, state: float, pages: int, shards: int) -> Crawl:
    """The costs of a crawl of `pages` pages, with a tenth of the state in memory.

    Of the judge's CPU the part that does not read grows with the number of shards, as measured for states in memory.
    costs: of the roles, docs/measured/scale.json  state: bytes of a page in all shards
    """
    count = max(1, shards)
    worker_us = (costs.intake + costs.commit + shards * costs.seen) * 1e6
    steps = (
        costs.ahead,
        costs.response,
        costs.confirm,
        costs.resolution,
        costs.file,
        costs.resolver_read,
        costs.resolver,
    )
    factor = sum(step.of_all(ROUND_PAGES, shards) for step in steps) / ROUND_PAGES / costs.judge if shards else 1.0
    typical = pages / count / e  # The mean of log2(n) for n from 0 to N is log2(N / e).
    lines = (model.cpu_us, model.wall_us)
    judge_us, wall_us = (factor * line.at(typical, 0.0) + line.read * model.reads for line in lines)
    seconds = pages * wall_us / count / 1e6
    cores = (worker_us + judge_us) * pages / 1e6 / seconds
    machines = max(
        ceil(cores / MACHINE.cores), ceil(pages * state / 10 / MACHINE.memory), ceil(pages * state / MACHINE.disk)
    )
    hours = seconds / 3600
    return Crawl(
        shards,
        worker_us + judge_us,
        (worker_us + judge_us) * pages / 3.6e9,
        hours / 24,
        machines,
        machines * hours * MACHINE.dollars_an_hour,
    )
