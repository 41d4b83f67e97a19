"""Extrapolates measured costs to any number of shards: CPU, bytes per page, bytes of state.

The CPU of a step, summed over S shards, is a + b S + c S / R microseconds per page with R pages in a round: a is the
cost of a key or a host, b the cost of every shard for every page, and c the cost of every shard for a round.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.speed.report import bench_file

Figures = dict[str, Any]
AHEAD = ("shard_read_us", "shard_ahead_us")
RESPONSE = ("shard_keys and buckets_us", "shard_answer_us")
ALONE = ("shard_read_us", "alone_keys and buckets_us", "shard_answer_us")
"""A response without reading ahead."""
BYTES = ("meetings_bytes", "confirms_bytes", "walks_bytes", "outcome_bytes")
MICRO = 1e-6


class StepCost(NamedTuple):
    """CPU seconds of all shards for a page (once), of each shard for a page (every) and of each for a round (round)."""

    once: float
    every: float
    round: float

    def of_one(self, pages: int, shards: int) -> float:
        """CPU seconds of one shard for a round of `pages` pages."""
        return self.round + pages * (self.once / shards + self.every)

    def of_all(self, pages: int, shards: int) -> float:
        """CPU seconds for a round of `pages` pages, of a role that does the work of all shards."""
        return shards * self.of_one(pages, shards)


class Costs(NamedTuple):
    """The input of the simulation. CPU seconds, per page unless a StepCost.

    intake, commit: of a worker for its own pages, before the log and after the verdict
    seen: of a worker for the verdict of any page  judge: of a single-process service, for any page
    ahead: reading the log and its buckets before the round is requested  alone: a response without reading ahead
    rebuild: indexing from the log and the outcome, by a shard that has not judged
    confirm: the confirmations of a shard for the entries that it holds
    resolver_read: reading the log and the responses, while the shards resolve
    again: share of rounds that are resolved twice  hops: milliseconds by kind of hop  message: bytes of a page
    """

    intake: float
    commit: float
    seen: float
    judge: float
    ahead: StepCost
    response: StepCost
    alone: StepCost
    confirm: StepCost
    resolution: StepCost
    file: StepCost
    rebuild: StepCost
    resolver_read: StepCost
    resolver: StepCost
    again: float
    hops: dict[str, list[float]]
    message: float


def client_us() -> float:
    """CPU of the Kafka client per page in us, from docs/measured/bench.json: the pass-through, exactly once."""
    figures: Figures = json.loads(bench_file().read_text("utf-8"))
    return float(figures["pipeline"]["exactly_once.passthrough"]["client_cpu_us"])


def costs_of(figures: Figures) -> Costs:
    """The costs from measured figures: roles (several measurements), worker, client_us and hops."""
    roles, worker = figures["roles"], figures["worker"]
    points = [(_shards(name), run["round"], found) for run in roles for name, found in run.items() if name[:2] == "S="]
    large = max(roles, key=lambda run: run["round"])

    def step(*names: str) -> StepCost:
        return _fitted([(shards, pages, sum(found[name] for name in names)) for shards, pages, found in points])

    of_worker = [found for _, pages, found in points if pages == large["round"]]
    originals = float(np.median([found["worker_originals_us"] for found in of_worker]))
    resolution, resolutions = (
        step("shard_walk_us"),
        [found["walks_a_round"] for found in of_worker if found["walks_a_round"] > 1],
    )
    again = float(np.mean(resolutions)) - 1 if resolutions else 0.0
    resolved_once = StepCost(*(part / (1 + again) for part in resolution))
    return Costs(
        (worker["decode_us"] + worker["sign_us"] + worker["log_us"] + figures["client_us"] / 2) * MICRO,
        (figures["client_us"] / 2 + originals) * MICRO,
        float(np.median([found["worker_outcomes_us"] for found in of_worker])) * MICRO,
        large["judge_us"] * MICRO,
        step(*AHEAD),
        step(*RESPONSE),
        step(*ALONE),
        step("shard_confirm_us"),
        resolved_once,
        step("shard_file_us"),
        step("rebuild_us"),
        step("resolver_read_us"),
        step("resolver_us"),
        again,
        figures["hops"],
        worker["message_bytes"],
    )


def _shards(name: str) -> int:
    return int(name[2:])


def _fitted(points: Sequence[tuple[int, int, float]]) -> StepCost:
    """The step with the best relative fit to sums over all shards; no part is negative. points: S, R, us per page"""
    shards, pages, total = (np.array(column, np.float64) for column in zip(*points, strict=True))
    columns = np.stack([np.ones_like(shards), shards, shards / pages], axis=1) / total[:, None]
    taken = list(range(columns.shape[1] if len(set(pages.tolist())) > 1 else 2))
    while True:
        parts = np.linalg.lstsq(columns[:, taken], np.ones(len(total)))[0]
        if (parts >= 0).all():
            break
        taken.pop(int(np.argmin(parts)))
    found = np.zeros(3)
    found[taken] = parts * MICRO
    return StepCost(*found.tolist())


def published_bytes(roles: Sequence[Figures], shards: int) -> float:
    """Bytes per page on `signatures`, `matches` and `verdicts` together: a straight line through measured points."""
    large = max(roles, key=lambda run: run["round"])
    if not shards:
        return float(large["log_bytes"])
    measured = {_shards(name): found for name, found in large.items() if name[:2] == "S="}
    total = {number: sum(found[name] for name in BYTES) for number, found in measured.items()}
    return float(large["log_bytes"]) + _on_line(total, shards)


def state_bytes(roles: Sequence[Figures], shards: int) -> float:
    """Bytes of an indexed page in all shards together: a straight line over the number of shards that hold its entry.

    Its entry number selects one shard and its host another one; both are the same shard for one page in S.
    """
    large = max(roles, key=lambda run: run["round"])
    if not shards:
        return float(large["state_bytes"])
    measured = {_shards(name): found for name, found in large.items() if name[:2] == "S="}
    by_copies = {2 - 1 / number: found["state_bytes"] for number, found in measured.items()}
    return _on_line(by_copies, 2 - 1 / shards)


def _on_line(points: dict[Any, float], at: float) -> float:
    """The value at a place: interpolated between measured points, beyond them on the line through all points."""
    places = sorted(points)
    values: NDArray[np.float64] = np.array([points[place] for place in places])
    if places[0] <= at <= places[-1]:
        return float(np.interp(at, places, values))
    return float(np.polynomial.Polynomial.fit(places, values, 1)(at))
