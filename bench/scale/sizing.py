"""Computes the processes, the broker traffic and the disks that a rate or a number of pages needs."""

from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

from bench.scale.costs import Costs, published_bytes, state_bytes
from bench.scale.outcomes import SimulationResult
from bench.scale.simulation import SimulationPlan, simulate

RATES = (1_000, 10_000, 100_000)
PAGES = (10**8, 10**9, 10**10)
SHARDS = (0, 1, 2, 4, 8, 16, 32, 64)
LOAD = 0.7
"""Maximal load of a role; the rest is for a rebuild, a machine that is away, and an uneven hour."""
KEPT_UP = 0.97
MOST_P99_MS = 1_000.0
DISK_BYTES = 2e12
"""Disk of a shard's machine, which may be filled to 0.7."""


class Size(NamedTuple):
    """The size that a rate needs. shards: 0 if each worker judges all pages  outcome: at this rate; cores: processes

    reached: whether the simulation keeps up at a load of LOAD; else `outcome` is at maximal input
    """

    rate: int
    workers: int
    shards: int
    outcome: SimulationResult
    reached: bool

    @property
    def processes(self) -> int:
        """Workers, shards, the resolver and a standby resolver."""
        return self.workers + (self.shards + 2 if self.shards else 0)


def workers_for(rate: float, shards: int, costs: Costs) -> int:
    """The workers that sign `rate` pages/s at a load of LOAD; without shards each one also judges all pages."""
    for_all = costs.judge if not shards else costs.seen
    room = LOAD - rate * for_all
    return ceil(rate * (costs.intake + costs.commit) / room) if room > 0 else 0


def most_pages_per_s(shards: int, costs: Costs) -> float:
    """Upper bound of the throughput with free hops: the steps of a shard and of the resolver follow each other.

    A shard reads ahead while the resolver works.
    """
    pages, steps = SimulationPlan(1, 1).round_pages, (costs.response, costs.confirm, costs.resolution, costs.file)
    if not shards:
        return 1 / costs.judge
    shard = sum(step.of_one(pages, shards) for step in steps)
    return pages / (shard + max(costs.resolver.of_all(pages, shards), costs.ahead.of_one(pages, shards)))


def size_for(rate: int, costs: Costs, seconds: float = 6.0) -> Size:
    """The fewest shards that keep up with a rate at a load of LOAD, else the fastest number. seconds: simulated time"""
    for shards in SHARDS:
        workers = workers_for(rate, shards, costs)
        if not workers or most_pages_per_s(shards, costs) * LOAD < rate:
            continue
        full = simulate(SimulationPlan(workers, shards, seconds=seconds), costs)
        if full.pages_per_s * LOAD >= rate * KEPT_UP:
            at_rate = simulate(SimulationPlan(workers, shards, float(rate), seconds=seconds), costs)
            if at_rate.p99_ms <= MOST_P99_MS:
                return Size(rate, workers, shards, at_rate, True)
    shards = max(SHARDS, key=lambda one: most_pages_per_s(one, costs))
    workers = workers_for(most_pages_per_s(shards, costs), shards, costs)
    full = simulate(SimulationPlan(workers, shards, seconds=seconds), costs)
    return Size(rate, workers, shards, full, False)


class Traffic(NamedTuple):
    """Bytes per second written to and read from the broker; and the part of them on our own topics."""

    written: float
    read: float
    own_written: float
    own_read: float


def traffic(rate: float, workers: int, shards: int, roles: Sequence[dict[str, Any]], message: float) -> Traffic:
    """The broker's traffic, without replication. Each page is read once, and written once or named once.

    Shards and the resolver read all of `signatures` and `matches`; workers and shards read all of `verdicts`. Without
    shards every worker reads all of `signatures`.
    """
    large = max(roles, key=lambda run: run["round"])
    log, published = large["log_bytes"], published_bytes(roles, shards)
    if not shards:
        own_written, own_read = log, workers * log
    else:
        measured = {int(name[2:]): found for name, found in large.items() if name[:2] == "S="}
        nearest = min(measured, key=lambda number: abs(number - shards))
        outcome = measured[nearest]["outcome_bytes"]
        responses = published - log - outcome
        own_written, own_read = published, (shards + 1) * (log + responses) + (workers + shards) * outcome
    return Traffic(rate * (message + own_written), rate * (message + own_read), rate * own_written, rate * own_read)


def disk_of_shard(pages: float, shards: int, roles: Sequence[dict[str, Any]]) -> float:
    """Bytes on one shard's disk, or on each worker's without shards, for `pages` indexed pages."""
    return state_bytes(roles, shards) * pages / max(shards, 1)


def shards_by_disk(pages: float, roles: Sequence[dict[str, Any]]) -> int:
    """The fewest shards of SHARDS whose part fits a disk, or 0 if one worker holds everything."""
    fits = partial(disk_of_shard, pages, roles=roles)
    return next((shards for shards in SHARDS if fits(shards) <= DISK_BYTES * LOAD), SHARDS[-1])
