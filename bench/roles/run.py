"""Runs W workers, S shards and two resolvers under a steady rate of pages, and injects faults into them in turn."""

import asyncio
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.soak.check import VerdictCounts, check
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import PageMessage, crawl
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import wait_until

PARTITIONS, CATCH_UP_SECONDS, SETTLE_SECONDS = 4, 600.0, 120.0
MOST_TIMES = 3
"""Bound of the pages of a run, as a multiple of the plan's."""


class RolesPlan(NamedTuple):
    """The load and the faults. pages: at least; more are sent until all faults are done  rate: pages per second

    pause: seconds between two faults  frozen: seconds that a process is stopped  rounds: of all kinds of faults
    """

    workers: int = 2
    shards: int = 3
    pages: int = 50_000
    rate: float = 150.0
    pause: float = 4.0
    frozen: float = 9.0
    rounds: int = 4


class Harm(NamedTuple):
    """A fault in a process. silent: for the active resolver, the longest time without an outcome, seconds"""

    kind: str
    role: str
    silent: float | None


class RolesResult(NamedTuple):
    """The result of a run. seconds: from the first page to the last commit"""

    harms: Sequence[Harm]
    checked: VerdictCounts
    seconds: float


class Outcomes:
    """The times (time.monotonic) at which a read_committed consumer received each record of `verdicts`."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._stopped = threading.Event()

    @contextmanager
    def recording(self, topics: TopicSet) -> Iterator[None]:
        """Consume while the block runs."""
        listening = threading.Thread(target=lambda: asyncio.run(self._listen(topics)))
        listening.start()
        try:
            yield
        finally:
            self._stopped.set()
            listening.join()

    async def _listen(self, topics: TopicSet) -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=topics.servers, isolation_level="read_committed")
        async with consumer:
            verdicts = TopicPartition(topics.names["verdicts"], 0)
            consumer.assign([verdicts])
            await consumer.seek_to_beginning(verdicts)
            while not self._stopped.is_set():
                found = await consumer.getmany(timeout_ms=100)
                self.times += [time.monotonic()] * sum(map(len, found.values()))

    def longest_silence(self, begin: float, end: float) -> float:
        """The longest time between two records."""
        within = [begin, *(one for one in list(self.times) if begin < one < end), end]
        return max(later - earlier for earlier, later in pairwise(within))


def run(servers: str, directory: Path, plan: RolesPlan, say: Callable[[str], None]) -> RolesResult:
    """Send pages, inject all faults meanwhile, check every verdict. Raises AssertionError if a wait times out."""
    pages, outcomes, harmed = crawl(MOST_TIMES * plan.pages).messages, Outcomes(), threading.Event()
    with TopicSet(servers, partitions=PARTITIONS, shards=plan.shards) as topics:
        toml = topics.toml(KILLED_SESSION_MS)
        made = Roles(directory, topics, plan.workers, plan.shards, resolvers=2, toml=toml)
        with made as roles, outcomes.recording(topics):
            roles.start()
            begun = time.monotonic()
            sending = threading.Thread(target=_send, args=(topics, pages, plan, harmed))
            sending.start()
            wait_until(lambda: len(outcomes.times) > 0, SETTLE_SECONDS, "the first outcome")
            harms = [_harm(*planned, roles, outcomes, plan, say) for planned in _planned(plan)]
            harmed.set()
            sending.join()
            topics.until_all_committed(CATCH_UP_SECONDS)
            seconds = time.monotonic() - begun
            roles.stop()
        say("checking every verdict")
        return RolesResult(harms, check(topics, toml, directory / "judged-again"), seconds)


def _planned(plan: RolesPlan) -> list[tuple[str, str, int]]:
    """Kind of fault, role and process number, in an order that is the same in every run."""
    each = [(kind, role) for role in ("worker", "shard", "resolver") for kind in ("killed", "frozen")]
    harms = [*each, ("without its disk", "shard"), ("killed", "resolver")] * plan.rounds
    random.Random(plan.rounds).shuffle(harms)
    many = {"worker": plan.workers, "shard": plan.shards, "resolver": 1}
    return [(kind, role, turn % many[role]) for turn, (kind, role) in enumerate(harms)]


def _send(topics: TopicSet, pages: Sequence[PageMessage], plan: RolesPlan, harmed: threading.Event) -> None:
    """Send pages, one second's worth at a time, until there are enough of them and all faults are done."""
    begun, step = time.monotonic(), int(plan.rate)
    for first in range(0, len(pages), step):
        if first >= plan.pages and harmed.is_set():
            return
        topics.send(pages[first : first + step])
        time.sleep(max(0.0, begun + (first + step) / plan.rate - time.monotonic()))  # Time itself: it is a rate.


def _harm(
    kind: str, role: str, number: int, roles: Roles, outcomes: Outcomes, plan: RolesPlan, say: Callable[[str], None]
) -> Harm:
    """Inject a fault into a process, bring it back, and wait until its role works. number: unused for the resolver"""
    process = _at_work(roles) if role == "resolver" else roles[f"{role}-{number}"]
    begun = time.monotonic()
    if kind == "frozen":
        process.freeze()
        time.sleep(plan.frozen)  # Time itself: its session must end.
        process.thaw()
    else:
        process.kill()
        if kind == "without its disk":
            shutil.rmtree(process.state)
        if role == "resolver":
            _at_work(roles)
        process.start()
    if role == "resolver":
        _at_work(roles)
    else:
        process.until_ready()
    before = len(outcomes.times)
    wait_until(lambda: len(outcomes.times) > before, SETTLE_SECONDS, f"an outcome after a {role} was {kind}")
    silent = outcomes.longest_silence(begun, time.monotonic()) if role == "resolver" else None
    say(f"  {process.name} {kind}" + (f": {silent:.1f} s without an outcome" if silent is not None else ""))
    time.sleep(plan.pause)  # Time itself: pages flow undisturbed for a while.
    return Harm(kind, role, silent)


def _at_work(roles: Roles) -> Spotsieve:
    """The active resolver."""

    def working() -> Spotsieve | None:
        found = [
            one
            for name, one in roles.processes.items()
            if name.startswith("resolver") and one.alive.poll() is None and one.metric("spotsieve_role") > 0
        ]
        return found[0] if len(found) == 1 else None

    return wait_until(working, SETTLE_SECONDS, "one resolver to work")
