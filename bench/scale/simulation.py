"""Simulates W workers, S shards and a resolver on a broker: rounds of the log, event by event, from measured costs.

Each process has its own core. A record of a topic reaches all of its readers after one hop, drawn from the measured
hops; the broker itself has no limit, so provide for its CPU and network (sizing.py). On a replicated cluster of three
brokers a hop takes longer than here. simpy keeps the clock and the queues: a process is a generator that waits for
events, as the roles are programs that wait for records. The same seed gives the same run.
"""

from collections import defaultdict, deque
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import simpy

from bench.scale.costs import Costs
from bench.scale.outcomes import SimulationResult, outcome_of
from spotsieve.stream.base.settings.runtime import ClusterSettings, ServiceSettings
from spotsieve.stream.service.worker import MOST_IN_FLIGHT

BATCH_PAGES, LINGER_S = ServiceSettings().batch_pages, ServiceSettings().linger_ms / 1e3
TICK_S = 0.002
WARM_SHARE = 0.4
"""Length of the part of a run that does not count."""
FIRST, LATER = 0, 1
"""Priorities of a process: work of a round waits for all work of higher priority, and for none of lower priority."""
Waits = Generator[simpy.Event, Any, None]


class SimulationPlan(NamedTuple):
    """The simulated cluster. workers, shards: numbers; without shards each worker judges all pages itself

    pages_per_s: input rate; 0: maximal input  ahead: shards read buckets before a round requests them
    in_flight: pages of a worker between fetch and commit
    lost: a role that is away (shard, resolver) from the second `at` for `away` seconds; ""
    """

    workers: int
    shards: int
    pages_per_s: float = 0.0
    ahead: bool = True
    seconds: float = 20.0
    round_pages: int = ClusterSettings().round_pages
    in_flight: int = MOST_IN_FLIGHT * BATCH_PAGES
    seed: int = 1
    lost: str = ""
    at: float = 0.0
    away: float = 0.0


class _Batch(NamedTuple):
    """Pages that go together. came: seconds and pages of each group  read: the shards that have read their buckets"""

    worker: int
    pages: int
    came: tuple[tuple[float, int], ...]
    read: list[bool]


class _Round:
    """Events of a round: responded, confirmed, resolved and indexed by each shard, announced and resolved for all."""

    def __init__(self, env: simpy.Environment, shards: int, batches: list[_Batch], resolutions: int) -> None:
        self.batches, self.pages, self.resolutions = batches, sum(one.pages for one in batches), resolutions
        self.announced, self.resolved = env.event(), env.event()
        self.answered, self.confirmed, self.indexed = ([env.event() for _ in range(shards)] for _ in range(3))
        self.resolution = [[env.event() for _ in range(shards)] for _ in range(resolutions)]
        self.allowed = [env.event() for _ in range(resolutions)]


class Simulation:
    """A run of a plan."""

    def __init__(self, plan: SimulationPlan, costs: Costs) -> None:
        self._plan, self._costs, self._env = plan, costs, simpy.Environment()
        self._dice = np.random.default_rng(plan.seed)
        self._workers = [simpy.PriorityResource(self._env) for _ in range(plan.workers)]
        self._shards = [simpy.PriorityResource(self._env) for _ in range(plan.shards)]
        self._resolver = simpy.PriorityResource(self._env)
        self._busy = defaultdict[str, float](float)
        self._input = [deque[tuple[float, int]]() for _ in range(plan.workers)]
        self._in_flight = [0] * plan.workers
        self._log, self._logged = deque[_Batch](), self._env.event()
        self._to_commit = [list[_Batch]() for _ in range(plan.workers)]
        self._committing = [False] * plan.workers
        self._done = list[tuple[float, float, int]]()

    def run(self) -> SimulationResult:
        """Run the simulation to its end."""
        env, plan = self._env, self._plan
        for worker in range(plan.workers):
            if plan.pages_per_s:
                env.process(self._arrive(worker))
            env.process(self._take(worker))
        if plan.shards:
            env.process(self._resolve())
        if plan.lost:
            env.process(self._lose())
        env.run(plan.seconds)
        return self._outcome()

    def _hop(self, name: str) -> simpy.Event:
        """The arrival of a record. name: kind of hop, such as plain.small"""
        hops = self._costs.hops[name]
        return self._env.timeout(hops[int(self._dice.integers(len(hops)))] / 1e3)

    def _work(self, core: simpy.PriorityResource, role: str, seconds: float, when: int = FIRST) -> Waits:
        with core.request(when) as mine:
            yield mine
            yield self._env.timeout(seconds)
            self._count(role, seconds)

    def _count(self, role: str, seconds: float) -> None:
        if self._env.now > self._plan.seconds * WARM_SHARE:
            self._busy[role] += seconds

    def _arrive(self, worker: int) -> Waits:
        rate = self._plan.pages_per_s / self._plan.workers
        while True:
            yield self._env.timeout(TICK_S)
            pages = int(self._dice.poisson(rate * TICK_S))
            if pages:
                self._env.process(self._fetch(worker, self._env.now, pages))

    def _fetch(self, worker: int, came: float, pages: int) -> Waits:
        yield self._hop("plain.small")
        self._input[worker].append((came, pages))

    def _take(self, worker: int) -> Waits:
        """Write a worker's batches into the log."""
        env, plan = self._env, self._plan
        while True:
            waited = 0.0
            while plan.pages_per_s and (not self._input[worker] or waited < LINGER_S):
                if sum(pages for _, pages in self._input[worker]) >= BATCH_PAGES:
                    break
                waited += TICK_S if self._input[worker] else 0.0
                yield env.timeout(TICK_S)
            batch = self._next_batch(worker)
            while self._in_flight[worker] + batch.pages > plan.in_flight:
                yield env.timeout(5 * TICK_S)
            self._in_flight[worker] += batch.pages
            yield from self._work(self._workers[worker], "worker", batch.pages * self._costs.intake, LATER)
            env.process(self._append(batch))

    def _next_batch(self, worker: int) -> _Batch:
        if not self._plan.pages_per_s:
            return _Batch(worker, BATCH_PAGES, ((self._env.now, BATCH_PAGES),), [False] * self._plan.shards)
        came, pages, waiting = list[tuple[float, int]](), 0, self._input[worker]
        while waiting and (not came or pages + waiting[0][1] <= BATCH_PAGES):
            came.append(waiting.popleft())
            pages += came[-1][1]
        return _Batch(worker, pages, tuple(came), [False] * self._plan.shards)

    def _append(self, batch: _Batch) -> Waits:
        yield self._hop("plain.meetings")
        if not self._plan.shards:
            for worker in range(self._plan.workers):
                self._env.process(self._judge(worker, batch))
            return
        self._log.append(batch)
        if self._plan.ahead:
            for shard in range(self._plan.shards):
                self._env.process(self._read_ahead(shard, batch))
        if not self._logged.triggered:
            self._logged.succeed()

    def _judge(self, worker: int, batch: _Batch) -> Waits:
        """Judge the pages of all workers, on a worker of a service without shards."""
        yield from self._work(self._workers[worker], "worker", batch.pages * self._costs.judge)
        if worker == batch.worker:
            self._commit(worker, [batch])

    def _read_ahead(self, shard: int, batch: _Batch) -> Waits:
        """Read the buckets of a batch, unless its round has come first."""
        with self._shards[shard].request(LATER) as mine:
            yield mine
            if batch.read[shard]:
                return
            seconds = self._costs.ahead.of_one(batch.pages, self._plan.shards) - self._costs.ahead.round
            seconds += self._costs.ahead.round * batch.pages / self._plan.round_pages
            yield self._env.timeout(seconds)
            batch.read[shard] = True
            self._count(f"shard {shard}", seconds)

    def _resolve(self) -> Waits:
        """The loop of the resolver: one round after the other."""
        before: _Round | None = None
        while True:
            waited = not self._log
            round_ = yield from self._named(before)
            self._env.process(self._announce(round_, None if waited else before))
            yield self._env.all_of(round_.confirmed)
            reading = self._costs.resolver_read.of_all(round_.pages, self._plan.shards)
            yield from self._work(self._resolver, "resolver", reading)
            for number in range(round_.resolutions):
                yield self._env.all_of(round_.resolution[number])
                if number + 1 < round_.resolutions:
                    yield self._hop("fenced.small")
                    round_.allowed[number + 1].succeed()
            resolving = self._costs.resolver.of_all(round_.pages, self._plan.shards)
            yield from self._work(self._resolver, "resolver", resolving)
            self._env.process(self._tell(round_))
            before = round_

    def _named(self, before: _Round | None) -> Generator[simpy.Event, Any, _Round]:
        """The next round, as soon as the log has pages for it."""
        while not self._log:
            self._logged = self._env.event()
            yield self._logged
        batches, pages = list[_Batch](), 0
        while self._log and (not batches or pages + self._log[0].pages <= self._plan.round_pages):
            batches.append(self._log.popleft())
            pages += batches[-1].pages
        resolutions = 2 if self._dice.random() < self._costs.again else 1
        round_ = _Round(self._env, self._plan.shards, batches, resolutions)
        for shard in range(self._plan.shards):
            self._env.process(self._shard(shard, round_, before))
        return round_

    def _announce(self, round_: _Round, before: _Round | None) -> Waits:
        """before: the round whose outcome announces this one in the same transaction; None: a separate record does"""
        yield self._hop("fenced.small") if before is None else before.resolved
        round_.announced.succeed()

    def _answering(self, shard: int, round_: _Round) -> float:
        """CPU seconds of a shard's response, with the buckets that were not read ahead."""
        costs, shards = self._costs, self._plan.shards
        if not self._plan.ahead:
            return costs.alone.of_one(round_.pages, shards)
        unread = sum(batch.pages for batch in round_.batches if not batch.read[shard])
        for batch in round_.batches:
            batch.read[shard] = True
        return costs.response.of_one(round_.pages, shards) + (costs.ahead.of_one(unread, shards) if unread else 0.0)

    def _shard(self, shard: int, round_: _Round, before: _Round | None) -> Waits:
        """The steps of a shard in a round: respond, confirm, resolve, index; each one waits for the previous round."""
        core, costs, shards = self._shards[shard], self._costs, self._plan.shards
        yield round_.announced
        if before is not None:
            yield before.indexed[shard]
        yield from self._work(core, f"shard {shard}", self._answering(shard, round_))
        self._env.process(self._send(round_.answered[shard], "plain.meetings"))
        yield self._env.all_of(round_.answered)
        yield from self._work(core, f"shard {shard}", costs.confirm.of_one(round_.pages, shards))
        self._env.process(self._send(round_.confirmed[shard], "plain.meetings"))
        yield self._env.all_of(round_.confirmed)
        for number in range(round_.resolutions):
            if number:
                yield round_.allowed[number]
            yield from self._work(core, f"shard {shard}", costs.resolution.of_one(round_.pages, shards))
            self._env.process(self._send(round_.resolution[number][shard], "plain.meetings"))
        yield round_.resolved
        yield from self._work(core, f"shard {shard}", costs.file.of_one(round_.pages, shards))
        round_.indexed[shard].succeed()

    def _send(self, arrived: simpy.Event, hop: str) -> Waits:
        yield self._hop(hop)
        arrived.succeed()

    def _tell(self, round_: _Round) -> Waits:
        yield self._hop("fenced.outcome")
        round_.resolved.succeed()
        for worker in range(self._plan.workers):
            own = [batch for batch in round_.batches if batch.worker == worker]
            self._env.process(self._see(worker, round_.pages, own))

    def _see(self, worker: int, pages: int, own: list[_Batch]) -> Waits:
        yield from self._work(self._workers[worker], "worker", pages * self._costs.seen)
        if own:
            self._commit(worker, own)

    def _commit(self, worker: int, batches: list[_Batch]) -> None:
        self._to_commit[worker] += batches
        if not self._committing[worker]:
            self._committing[worker] = True
            self._env.process(self._commit_all(worker))

    def _commit_all(self, worker: int) -> Waits:
        """One transaction is in flight at a time; the next one takes everything that waits."""
        while self._to_commit[worker]:
            batches, self._to_commit[worker] = self._to_commit[worker], []
            pages = sum(batch.pages for batch in batches)
            yield from self._work(self._workers[worker], "worker", pages * self._costs.commit)
            yield self._hop("fenced.meetings")
            self._in_flight[worker] -= pages
            for batch in batches:
                self._done += [(self._env.now, self._env.now - came, pages) for came, pages in batch.came]
        self._committing[worker] = False

    def _lose(self) -> Waits:
        """Occupy a role's core while the role is away."""
        core = self._resolver if self._plan.lost == "resolver" else self._shards[0]
        yield self._env.timeout(self._plan.at)
        with core.request(FIRST - 1) as mine:
            yield mine
            yield self._env.timeout(self._plan.away)

    def _outcome(self) -> SimulationResult:
        plan, seconds = self._plan, self._plan.seconds * (1 - WARM_SHARE)
        busy = {"worker": self._busy["worker"] / plan.workers / seconds}
        if plan.shards:
            busy["shard"] = max(self._busy[f"shard {one}"] for one in range(plan.shards)) / seconds
            busy["resolver"] = self._busy["resolver"] / seconds
        lost_at = plan.at if plan.lost else None
        return outcome_of(self._done, plan.seconds - seconds, plan.seconds, busy, lost_at)


def simulate(plan: SimulationPlan, costs: Costs) -> SimulationResult:
    """Run a plan."""
    return Simulation(plan, costs).run()
