"""Runs the simulations of sizing.md: the reach of S shards, the loss of a machine, the size that a rate needs."""

from math import ceil
from operator import attrgetter
from typing import NamedTuple

from bench.scale.costs import Costs
from bench.scale.outcomes import SimulationResult
from bench.scale.simulation import SimulationPlan, simulate
from bench.scale.sizing import RATES, Size, size_for

SHARDS = (1, 2, 4, 6, 8, 16, 32)
LOST_SHARDS, AWAY_S = 4, 10.0
"""Restart of a process with its disk, or takeover by a standby resolver: at most 10 s."""
NEARLY = 0.98
"""The simulation uses the fewest workers that reach this share of the throughput of any number of workers."""
EFFICIENT = 0.8
Case = dict[tuple[int, bool], "Reach"]


class Reach(NamedTuple):
    """The reach of S shards. workers: the number needed for it  full: results at maximal input

    half: results at half of that rate  efficiency: pages/s per process, relative to the single-process service
    """

    workers: int
    full: SimulationResult
    half: SimulationResult
    efficiency: float


class Loss(NamedTuple):
    """The effect of a role that is away. rebuild_us: CPU of a shard that lost its disk, per page of the log"""

    pages_per_s: float
    outcomes: dict[str, SimulationResult]
    rebuild_us: float


class EfficientSetup(NamedTuple):
    """The fastest setup W x S with an efficiency of EFFICIENT or more; all 0 without such a setup"""

    workers: int
    shards: int
    pages_per_s: float
    efficiency: float


class Cases(NamedTuple):
    """All simulated cases. alone: the single-process service  ceiling: pages/s of any number of these"""

    alone: SimulationResult
    ceiling: float
    reached: Case
    efficient: EfficientSetup
    lost: Loss
    sizes: list[Size]


def run_cases(costs: Costs, seconds: float = 6.0) -> Cases:
    """Run all cases. seconds: simulated time of a run"""
    alone = simulate(SimulationPlan(1, 0, seconds=seconds), costs)
    reached = {
        (shards, ahead): _reach(shards, ahead, costs, alone, seconds) for shards in SHARDS for ahead in (False, True)
    }
    sizes = [size_for(rate, costs) for rate in RATES]
    efficient = max(
        (_efficient(shards, reached, costs, alone, seconds) for shards in SHARDS), key=attrgetter("pages_per_s")
    )
    return Cases(alone, 1 / costs.judge, reached, efficient, _lose(costs, reached[LOST_SHARDS, True]), sizes)


def _reach(shards: int, ahead: bool, costs: Costs, alone: SimulationResult, seconds: float) -> Reach:
    of_page = costs.intake + costs.commit
    # First with more workers than any number of shards keeps busy; then with the fewest that reach nearly as much.
    most = simulate(SimulationPlan(min(4 + 3 * shards, 40), shards, 0.0, ahead, seconds), costs).pages_per_s
    workers = ceil(most * of_page / (1 - most * costs.seen))
    full = simulate(SimulationPlan(workers, shards, 0.0, ahead, seconds), costs)
    while full.pages_per_s < NEARLY * most:
        workers += 1
        full = simulate(SimulationPlan(workers, shards, 0.0, ahead, seconds), costs)
    half = simulate(SimulationPlan(workers, shards, full.pages_per_s / 2, ahead, seconds), costs)
    return Reach(workers, full, half, _efficiency(full, workers, shards, alone))


def _efficiency(outcome: SimulationResult, workers: int, shards: int, alone: SimulationResult) -> float:
    return outcome.pages_per_s / (workers + shards + 1) / alone.pages_per_s


def _efficient(shards: int, reached: Case, costs: Costs, alone: SimulationResult, seconds: float) -> EfficientSetup:
    """The most workers beside `shards` shards that are efficient: with fewer workers each one is busier."""
    for workers in range(reached[shards, True].workers, 0, -1):
        outcome = simulate(SimulationPlan(workers, shards, seconds=seconds), costs)
        efficiency = _efficiency(outcome, workers, shards, alone)
        if efficiency >= EFFICIENT:
            return EfficientSetup(workers, shards, outcome.pages_per_s, efficiency)
    return EfficientSetup(0, 0, 0.0, 0.0)


def _lose(costs: Costs, reach: Reach) -> Loss:
    rate = reach.full.pages_per_s / 2
    plan = SimulationPlan(reach.workers, LOST_SHARDS, rate, seconds=40.0, at=18.0, away=AWAY_S)
    outcomes = {lost: simulate(plan._replace(lost=lost), costs) for lost in ("shard", "resolver")}
    return Loss(rate, outcomes, costs.rebuild.of_one(plan.round_pages, LOST_SHARDS) / plan.round_pages * 1e6)
