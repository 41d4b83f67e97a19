"""Runs the simulations of sizing.md: how far S shards go, what a lost machine costs, what a rate needs."""

from math import ceil
from operator import attrgetter
from typing import NamedTuple

from bench.scale.costs import Costs
from bench.scale.outcomes import Outcome
from bench.scale.simulation import Plan, simulate
from bench.scale.sizing import RATES, Size, size_for

SHARDS = (1, 2, 4, 6, 8, 16, 32)
LOST_SHARDS, AWAY_S = 4, 10.0
"""Of a process that is started again with its disk, and of a resolver until the next one takes over: at most 10 s."""
NEARLY = 0.98
"""Of what any number of workers takes: as few workers are simulated as take this share of it."""
EFFICIENT = 0.8
Case = dict[tuple[int, bool], "Reach"]


class Reach(NamedTuple):
    """How far S shards go. workers: as many as this takes  full: where all that can be taken comes in

    half: where half of it does  efficiency: pages/s a process, over those of one process that does all
    """

    workers: int
    full: Outcome
    half: Outcome
    efficiency: float


class Loss(NamedTuple):
    """What comes of a role that is away. rebuild_us: CPU of a shard for a page of the log, where its disk is lost"""

    pages_per_s: float
    outcomes: dict[str, Outcome]
    rebuild_us: float


class Efficient(NamedTuple):
    """The most pages/s of any W x S whose efficiency is at least EFFICIENT; none: 0 of each"""

    workers: int
    shards: int
    pages_per_s: float
    efficiency: float


class Cases(NamedTuple):
    """All that was simulated. alone: one process that does all  ceiling: pages/s of any number of these"""

    alone: Outcome
    ceiling: float
    reached: Case
    efficient: Efficient
    lost: Loss
    sizes: list[Size]


def run_cases(costs: Costs, seconds: float = 6.0) -> Cases:
    """Simulate them. seconds: of a run"""
    alone = simulate(Plan(1, 0, seconds=seconds), costs)
    reached = {
        (shards, ahead): _reach(shards, ahead, costs, alone, seconds) for shards in SHARDS for ahead in (False, True)
    }
    sizes = [size_for(rate, costs) for rate in RATES]
    efficient = max(
        (_efficient(shards, reached, costs, alone, seconds) for shards in SHARDS), key=attrgetter("pages_per_s")
    )
    return Cases(alone, 1 / costs.judge, reached, efficient, _lose(costs, reached[LOST_SHARDS, True]), sizes)


def _reach(shards: int, ahead: bool, costs: Costs, alone: Outcome, seconds: float) -> Reach:
    of_page = costs.intake + costs.commit
    # More workers than any number of shards keeps busy; then as few as take nearly as much.
    most = simulate(Plan(min(4 + 3 * shards, 40), shards, 0.0, ahead, seconds), costs).pages_per_s
    workers = ceil(most * of_page / (1 - most * costs.seen))
    full = simulate(Plan(workers, shards, 0.0, ahead, seconds), costs)
    while full.pages_per_s < NEARLY * most:
        workers += 1
        full = simulate(Plan(workers, shards, 0.0, ahead, seconds), costs)
    half = simulate(Plan(workers, shards, full.pages_per_s / 2, ahead, seconds), costs)
    return Reach(workers, full, half, _efficiency(full, workers, shards, alone))


def _efficiency(outcome: Outcome, workers: int, shards: int, alone: Outcome) -> float:
    return outcome.pages_per_s / (workers + shards + 1) / alone.pages_per_s


def _efficient(shards: int, reached: Case, costs: Costs, alone: Outcome, seconds: float) -> Efficient:
    """The most workers beside so many shards that are efficient: the fewer there are, the busier each is."""
    for workers in range(reached[shards, True].workers, 0, -1):
        outcome = simulate(Plan(workers, shards, seconds=seconds), costs)
        efficiency = _efficiency(outcome, workers, shards, alone)
        if efficiency >= EFFICIENT:
            return Efficient(workers, shards, outcome.pages_per_s, efficiency)
    return Efficient(0, 0, 0.0, 0.0)


def _lose(costs: Costs, reach: Reach) -> Loss:
    rate = reach.full.pages_per_s / 2
    plan = Plan(reach.workers, LOST_SHARDS, rate, seconds=40.0, at=18.0, away=AWAY_S)
    outcomes = {lost: simulate(plan._replace(lost=lost), costs) for lost in ("shard", "resolver")}
    return Loss(rate, outcomes, costs.rebuild.of_one(plan.round_pages, LOST_SHARDS) / plan.round_pages * 1e6)
