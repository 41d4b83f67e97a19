"""Runs the soak: several lanes of workers on one broker. In each lane, workers are killed again and again."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.soak.check import VerdictCounts, check, together
from bench.soak.pages import soak_pages
from tests.fixtures.brokers.topics import KILLED_SESSION_MS, TopicSet
from tests.fixtures.pages.crawls import PageMessage
from tests.fixtures.services.service import Spotsieve

PARTITIONS = 4
MIB = 2**20
LOOK_SECONDS = 0.5
"""Interval of polling lag and memory."""
EARLY_SECONDS = 120.0
"""After this time a worker's caches are full: any further growth is a leak."""
STOP_SECONDS = 30.0
# RocksDB's cache grows by design; a small one is full early, so that any other growth shows.
SETTINGS = 'index.cache_mb = 8\nindex.write_buffer_mb = 8\nlog.format = "json"\n'


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """Length and intensity of a soak. All values except `lanes` are per lane: a service with its own topics and log.

    wave: pages sent as fast as the broker takes them; the next wave begins when all earlier pages are committed, so
    that the lag returns to 0 after every kill
    kill_every: seconds between two kills, minimum and maximum; longer while no worker has committed anything since its
    start, or no page waits to be committed
    least_kills: after `pages` pages, more are sent until there were this many kills
    pause_seconds: from the end of a wave to the next
    spared_seconds: one worker at a time is not killed for this time, so that a leak shows; 0: none is exempt
    """

    pages: int
    wave: int
    kill_every: tuple[float, float]
    least_kills: int
    most_seconds: float
    pause_seconds: float = 0.0
    workers: int = 2
    spared_seconds: float = 0.0
    lanes: int = 1
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Kill:
    """at_seconds: since the first page  lag, most_lag: uncommitted pages, at the kill and at most after it
    recovered_seconds: from the kill until all pages are committed
    """

    worker: str
    at_seconds: float
    lag: int
    recovered_seconds: float
    most_lag: int


@dataclass(frozen=True, slots=True)
class Life:
    """One process, from its start to its end.

    rss_mib: largest resident memory seen  early_mib: the same within its first EARLY_SECONDS
    """

    worker: str
    seconds: float
    rss_mib: float
    early_mib: float


@dataclass(frozen=True, slots=True)
class SoakResult:
    """The result of a soak, all lanes together; lives in the order of their ends.

    seconds: from the first page to the last commit  most_lag: of any lane
    """

    pages: int
    sent_bytes: int
    seconds: float
    kills: Sequence[Kill]
    lives: Sequence[Life]
    most_lag: int
    checked: VerdictCounts

    @property
    def pages_per_second(self) -> float:
        """Throughput including all kills and pauses."""
        return self.pages / self.seconds


def soak(servers: str, directory: Path, plan: SoakPlan, progress: Callable[[str], None]) -> SoakResult:
    """Run a plan, then read all outputs and judge the logs again. progress(line) is called after each wave.

    Raises AssertionError if a worker ends by itself, or the plan's time is over before everything is committed.
    """
    with ThreadPoolExecutor(plan.lanes) as threads:
        lanes = [
            threads.submit(
                _soak_lane, servers, directory / f"lane-{lane}", replace(plan, seed=plan.seed + lane), lane, progress
            )
            for lane in range(plan.lanes)
        ]
        soaked = [lane.result() for lane in lanes]
    runs = [run for run, _ in soaked]
    return SoakResult(
        pages=sum(run.sent for run in runs),
        sent_bytes=sum(run.sent_bytes for run in runs),
        seconds=max(run.seconds for run in runs),
        kills=sorted((kill for run in runs for kill in run.kills), key=lambda kill: kill.at_seconds),
        lives=[life for _, life in sorted((ended for run in runs for ended in run.lives), key=lambda ended: ended[0])],
        most_lag=max(run.most_lag for run in runs),
        checked=together([checked for _, checked in soaked]),
    )


def _soak_lane(
    servers: str, directory: Path, plan: SoakPlan, lane: int, progress: Callable[[str], None]
) -> tuple["_Run", VerdictCounts]:
    config = {"segment.bytes": str(64 * MIB)}
    with TopicSet(servers, PARTITIONS, config) as topics:
        toml = topics.toml(KILLED_SESSION_MS) + SETTINGS
        workers = [Spotsieve(directory, toml, f"worker-{lane}-{number + 1}") for number in range(plan.workers)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.until_ready()
            run = _Run(topics, workers, plan, lambda line: progress(f"lane {lane}: {line}"))
            asyncio.run(run.to_the_end())
            for worker in workers:
                assert worker.until_ready().terminate(STOP_SECONDS) == 0, worker.text()
        except BaseException as error:
            progress(f"lane {lane} ends: {error}")
            raise
        finally:
            for worker in workers:
                worker.__exit__()
        progress(f"lane {lane}: reading the outputs, judging the log again ...")
        return run, check(topics, toml, directory / "judged-again")


@dataclass
class _Run:
    """The part of a lane in which pages flow; everything runs in one event loop.

    lives: with the time.monotonic() of each end
    """

    topics: TopicSet
    workers: Sequence[Spotsieve]
    plan: SoakPlan
    progress: Callable[[str], None]
    kills: list[Kill] = field(default_factory=list)
    lives: list[tuple[float, Life]] = field(default_factory=list)
    sent: int = 0
    sent_bytes: int = 0
    lag: int = 0
    most_lag: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.plan.seed)
        self._began: dict[str, float] = {}
        self._largest: dict[str, int] = {}
        self._early: dict[str, int] = {}
        self._excluded = self.workers[0] if self.plan.spared_seconds else None
        self._recovering: list[tuple[Kill, float]] = []
        self._committed = Counter[TopicPartition]()
        self._killed = 0
        for worker in self.workers:
            self._lives_from_now(worker)

    async def to_the_end(self) -> None:
        """Send, kill and poll until every page is committed."""
        began = time.monotonic()
        partitions = [TopicPartition(self.topics.names["input"], number) for number in range(PARTITIONS)]
        async with AIOKafkaConsumer(
            bootstrap_servers=self.topics.servers, group_id=self.topics.group, enable_auto_commit=False
        ) as offsets:
            offsets.assign(partitions)
            offsets.pause(*partitions)
            stages = [self._send(offsets), self._watch_lag(offsets), self._watch_memory(), self._kill_now_and_then()]
            tasks = [asyncio.create_task(stage) for stage in stages]
            try:
                done, _ = await asyncio.wait(tasks, timeout=self.plan.most_seconds, return_when=asyncio.FIRST_COMPLETED)
                assert done, f"{self.sent:,} pages sent, {self.lag:,} of them not committed when the time was over"
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self.seconds = time.monotonic() - began
        for worker in self.workers:
            self._note_life(worker)

    async def _send(self, offsets: AIOKafkaConsumer) -> None:
        """Send wave after wave; the next one begins when all earlier pages are committed."""
        async with AIOKafkaProducer(
            bootstrap_servers=self.topics.servers, max_batch_size=2**18, max_request_size=2**20, linger_ms=5
        ) as producer:
            making = self._make(0)
            while self.sent < self.plan.pages or self._killed < self.plan.least_kills:
                pages = await making
                # Generated while the previous wave drains, so that the broker limits the rate and not the generator.
                making = self._make(self.sent + self.plan.wave)
                waiting = [
                    await producer.send(self.topics.names["input"], page.value, page.key, page.partition)
                    for page in pages
                ]
                self.sent_bytes += sum(len(page.value or b"") for page in pages)
                await asyncio.gather(*waiting)
                self.sent += self.plan.wave
                while await self._measure_lag(offsets):  # noqa: ASYNC110 - the broker is asked; there is no event
                    await asyncio.sleep(LOOK_SECONDS / 5)
                await asyncio.sleep(self.plan.pause_seconds)
                self.progress(f"{self.sent:,} pages committed, {self._killed} kills, most lag {self.most_lag:,}")

    def _make(self, first: int) -> asyncio.Future[list[PageMessage]]:
        return asyncio.ensure_future(asyncio.to_thread(list, soak_pages(first, self.plan.wave, PARTITIONS)))

    async def _watch_lag(self, offsets: AIOKafkaConsumer) -> None:
        while True:
            await self._measure_lag(offsets)
            await asyncio.sleep(LOOK_SECONDS)

    async def _measure_lag(self, offsets: AIOKafkaConsumer) -> int:
        """Pages that are in the topic and not committed; records which kills are recovered from."""
        partitions = list(offsets.assignment())
        ends = await offsets.end_offsets(partitions)
        for partition in partitions:
            # A broker that is fenced for a moment answers as if nothing were committed.
            self._committed[partition] = await offsets.committed(partition) or self._committed[partition]
        self.lag = sum(ends.values()) - sum(self._committed.values())
        self.most_lag = max(self.most_lag, self.lag)
        for kill, at in self._recovering:
            if not self.lag:
                self.kills.append(replace(kill, recovered_seconds=time.monotonic() - at))
        self._recovering = [
            (replace(kill, most_lag=max(kill.most_lag, self.lag)), at) for kill, at in self._recovering if self.lag
        ]
        return self.lag

    async def _watch_memory(self) -> None:
        while True:
            for worker in self.workers:
                assert worker.alive.poll() is None, f"{worker.name} ended by itself:\n{worker.text()}"
                resident = psutil.Process(worker.alive.pid).memory_info().rss
                self._largest[worker.name] = max(self._largest[worker.name], resident)
                if self._age(worker) <= EARLY_SECONDS:
                    self._early[worker.name] = self._largest[worker.name]
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill_now_and_then(self) -> None:
        began = time.monotonic()
        working = {worker.name: asyncio.create_task(_first_commit(worker)) for worker in self.workers}
        while True:
            due = time.monotonic() + self._dice.uniform(*self.plan.kill_every)
            victims: list[Spotsieve] = []
            while time.monotonic() < due or not self.lag or not victims:
                await asyncio.sleep(LOOK_SECONDS * self._dice.random())
                victims = self._victims([task.result() for task in working.values() if task.done()])
            victim = self._dice.choice(victims)
            # No await in between, so that other code that polls the workers sees them alive.
            self._note_life(victim)
            victim.kill()
            self._killed += 1
            now = time.monotonic()
            self._recovering.append((Kill(victim.name, now - began, self.lag, 0.0, self.lag), now))
            if victim is self._excluded:
                self._excluded = self._dice.choice([worker for worker in self.workers if worker is not victim])
            victim.start()
            self._lives_from_now(victim)
            working[victim.name] = asyncio.create_task(_first_commit(victim))

    def _victims(self, ready: Sequence[Spotsieve]) -> list[Spotsieve]:
        """The workers that may be killed, except the exempt one; only that one when it has lived long enough."""
        old = [worker for worker in ready if worker is self._excluded and self._age(worker) >= self.plan.spared_seconds]
        return old or [worker for worker in ready if worker is not self._excluded]

    def _age(self, worker: Spotsieve) -> float:
        return time.monotonic() - self._began[worker.name]

    def _lives_from_now(self, worker: Spotsieve) -> None:
        self._began[worker.name], self._largest[worker.name], self._early[worker.name] = time.monotonic(), 0, 0

    def _note_life(self, worker: Spotsieve) -> None:
        largest, early = self._largest[worker.name] / MIB, self._early[worker.name] / MIB
        self.lives.append((time.monotonic(), Life(worker.name, self._age(worker), largest, early)))


async def _first_commit(worker: Spotsieve) -> Spotsieve:
    """Wait until a worker has committed something since its start. Workers that are killed sooner, one after the other,
    make no progress and show nothing.
    """
    await asyncio.to_thread(worker.until_ready)
    while not await asyncio.to_thread(worker.committed):  # noqa: ASYNC110 - the worker is asked; there is no event
        await asyncio.sleep(LOOK_SECONDS)
    return worker
