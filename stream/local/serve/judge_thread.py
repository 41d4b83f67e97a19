"""The thread that judges the requests of the HTTP port in batches, with a fair queue, and its metrics."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

from spotsieve.stream.base.errors import SpotsieveError, StateError
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.library import CrawledPage, Deduplicator, Verdict
from spotsieve.stream.local.serve.fairness import Capacity, FairQueue, RecentClients
from spotsieve.stream.observe.logs import logger

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
TURN_PAGES = 16
"""Pages of each client in a batch where several clients send requests, so that one does not delay the others."""
PAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ABANDON_SECONDS = 1.0
"""Longest time that stopping waits for a state that is being opened."""
OPENING = "the state is being opened"


class ServeMetrics:
    """Metrics in a registry of their own. The label path is a route or `other`, so clients cannot create labels."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "spotsieve_serve_requests", "Requests, by route and status.", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "spotsieve_serve_request_seconds",
            "Seconds from the header of a request to its response.",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.pages = Counter(
            "spotsieve_serve_pages",
            "Pages judged, by operation and verdict.",
            ("act", "verdict"),
            registry=self.registry,
        )
        self.batch_pages = Histogram(
            "spotsieve_serve_batch_pages",
            "Pages that were judged together.",
            buckets=PAGES,
            registry=self.registry,
        )
        self.refreshes = Counter(
            "spotsieve_serve_refreshes",
            "Times that the state was reopened, by outcome.",
            ("outcome",),
            registry=self.registry,
        )

        self.refused_connections = Counter(
            "spotsieve_serve_refused_connections",
            "Connections that were closed before the application had a request, by reason.",
            ("reason",),
            registry=self.registry,
        )

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(name, about, registry=self.registry).set_function(value)


@dataclass(frozen=True, slots=True)
class _Job:
    """The pages of one request. adds: whether they are indexed  arrived: time.monotonic() at arrival"""

    pages: Sequence[CrawledPage]
    adds: bool
    arrived: float
    response: "asyncio.Future[list[Verdict]]"


class _Opening(threading.Thread):
    """Opens a state in a thread that may outlive the event loop. An unwanted state is closed at once."""

    def __init__(self, open_state: Callable[[], Deduplicator]) -> None:
        super().__init__(name="spotsieve-opening", daemon=True)
        self._open_state = open_state
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[Deduplicator] = self._loop.create_future()

    def run(self) -> None:
        """Open the state, and give it or the error to the event loop."""
        try:
            state = self._open_state()
        except BaseException as error:
            settle, close = partial(self._fail, error), None
        else:
            settle, close = partial(self._succeed, state), state.close
        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:  # The event loop has ended.
            if close is not None:
                close()

    def result(self) -> Deduplicator | None:
        """The state, if the event loop has it."""
        opened = self.opened
        return opened.result() if opened.done() and not opened.cancelled() and opened.exception() is None else None

    def _succeed(self, state: Deduplicator) -> None:
        if self.opened.done():
            state.close()
        else:
            self.opened.set_result(state)

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, Exception):  # Such as a panic of RocksDB's bindings. Callers catch Exception.
            cause, error = error, RuntimeError(f"opening the state failed with {type(error).__name__}: {error}")
            error.__cause__ = cause
        if not self.opened.done():
            self.opened.set_exception(error)


class JudgeThread:
    """Judges requests in one thread, batch after batch, beside the event loop.

    A single page costs ten times as much as a page in a batch of 64, so requests that arrive together are judged
    together. A single request never waits for others. If one client sends several at a time, the first waits up to
    linger_ms for more. Clients take turns, and the requests of each are taken in their order; within a batch, those
    that add precede look-ups.

    open_state: opens the state, also at each refresh  batch_pages: limit on the pages of requests judged together
    """

    def __init__(
        self, open_state: Callable[[], Deduplicator], settings: ServeSettings, batch_pages: int, metrics: ServeMetrics
    ) -> None:
        self._open_state = open_state
        self._linger_seconds = settings.linger_ms / 1000
        self._batch_pages = batch_pages
        self._metrics = metrics
        self._capacity = Capacity(settings.waiting_pages, settings.client_share, "pages")
        self._jobs = FairQueue[_Job](lambda job: len(job.pages))
        self.clients = RecentClients()
        """The clients that sent requests lately, as the caller of verdicts() notes them."""
        self._arrived = asyncio.Event()
        # One thread keeps the order of additions, and closes a replaced state between two batches.
        self._thread = ThreadPoolExecutor(1, "spotsieve-serve")
        self._opening: _Opening | None = None
        self._deduplicator: Deduplicator | None = None
        self._opened_at = 0.0
        self.failure = ""
        self.stopping = False
        self.known_pages = 0
        self.scheme = ""
        metrics.watch("spotsieve_serve_waiting_pages", "Pages that wait for a verdict.", lambda: self._capacity.used)
        metrics.watch(
            "spotsieve_serve_indexed_pages",
            "Pages indexed in the state, at the last batch or refresh.",
            lambda: self.known_pages,
        )
        age = "Seconds since the state was opened, 0 before. Look-ups do not see pages that others indexed since."
        metrics.watch("spotsieve_serve_state_age_seconds", age, self._age)

    @property
    def is_opening(self) -> bool:
        """Whether the state is not open yet. A large state, or one after a kill, takes minutes, as do kernels."""
        return self._deduplicator is None

    async def open(self) -> None:
        """Open the state, and look up a made-up page, so that the first request does not wait until all kernels are
        loaded. Raises SpotsieveError.
        """

        def open_ready() -> Deduplicator:
            state = self._open_state()
            try:
                state.query_batch([CrawledPage("made up", "", "<p>A page that loads all kernels.</p>")])
            except BaseException:
                state.close()
                raise
            return state

        self._use(await self._opened(open_ready))

    async def verdicts(self, pages: Sequence[CrawledPage], adds: bool, client: str = "") -> list[Verdict]:
        """Verdicts of the pages of a request. adds: whether to index them. Raises BusyError, StateError."""
        with self._capacity.claim(client) as claim:
            claim.grow(len(pages))
            job = _Job(pages, adds, time.monotonic(), asyncio.get_running_loop().create_future())
            self._jobs.put(client, job)
            self._arrived.set()
            return await job.response

    async def work(self) -> None:
        """Judge requests as they arrive, forever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            together = False
            while self._jobs:
                if together and len(self.clients) < 2 and len(self._jobs) < self._batch_pages:
                    # The time counts from the first arrival, so requests that waited for the previous batch go now.
                    await asyncio.sleep(self._jobs.first.arrived + self._linger_seconds - time.monotonic())
                batch = self._jobs.take(self._batch_pages, TURN_PAGES if len(self.clients) > 1 else self._batch_pages)
                together = len(batch) > 1
                await self._work_on(batch)

    async def _work_on(self, batch: Sequence[_Job]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._thread, self._judge, batch)
        except StateError as error:
            # Later requests are refused at once. The next refresh of a look-up port clears the failure.
            self.failure = str(error)
            logger().error("the state failed", error=self.failure)
            _fail(batch, error)
        except Exception as error:
            if len(batch) > 1 and not any(job.adds for job in batch):
                for job in batch:  # Isolate the page of one client from those of the others.
                    await self._work_on([job])
                return
            logger().exception("internal error of Spotsieve")
            _fail(batch, error)
        else:
            for job, job_verdicts in zip(batch, verdicts, strict=True):
                if not job.response.done():  # Its client may have disconnected.
                    job.response.set_result(job_verdicts)

    async def refresh(self, every_seconds: float) -> None:
        """Reopen the state periodically, forever, so that look-ups see the pages that its owner has indexed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(every_seconds)
            try:
                fresh = await self._opened(self._open_state)
            except SpotsieveError as error:
                self._metrics.refreshes.labels("failed").inc()
                logger().warning("cannot reopen the state; look-ups continue with the previous one", error=str(error))
                continue
            await loop.run_in_executor(self._thread, self._replace, fresh)
            self._metrics.refreshes.labels("done").inc()

    def close(self) -> bool:
        """Finish the current batch, and close the state. Returns whether a state is still being opened."""
        self._thread.shutdown(wait=True)
        if self._deduplicator is not None:
            self._deduplicator.close()
        if self._opening is None:
            return False
        self._opening.join(ABANDON_SECONDS)
        unused = self._opening.result()
        if unused is not None and unused is not self._deduplicator:
            unused.close()  # The task that waited for it was cancelled before it went on.
        return self._opening.is_alive()

    def _age(self) -> float:
        return 0.0 if self.is_opening else time.monotonic() - self._opened_at

    async def _opened(self, open_state: Callable[[], Deduplicator]) -> Deduplicator:
        self._opening = _Opening(open_state)
        self._opening.start()
        return await self._opening.opened

    def _judge(self, jobs: Sequence[_Job]) -> list[list[Verdict]]:
        """Verdicts of each job, judged in one batch of additions and one of look-ups."""
        assert self._deduplicator is not None
        by_job: dict[int, list[Verdict]] = {}
        for adds, judge in ((True, self._deduplicator.add_batch), (False, self._deduplicator.query_batch)):
            chosen = [job for job in jobs if job.adds is adds]
            if not chosen:
                continue
            verdicts = iter(judge(page for job in chosen for page in job.pages))
            for job in chosen:
                by_job[id(job)] = [next(verdicts) for _ in job.pages]
            self._metrics.batch_pages.observe(sum(len(job.pages) for job in chosen))
        self.known_pages = self._deduplicator.known_pages
        return [by_job[id(job)] for job in jobs]

    def _replace(self, fresh: Deduplicator) -> None:
        before = self._deduplicator
        self._use(fresh)
        if before is not None:
            before.close()

    def _use(self, fresh: Deduplicator) -> None:
        self._deduplicator = fresh
        self.known_pages, self._opened_at, self.failure = fresh.known_pages, time.monotonic(), ""
        self.scheme = fresh.settings.scheme.name


def _fail(batch: Sequence[_Job], error: Exception) -> None:
    """Fail all requests of a batch with an error."""
    for job in batch:
        if not job.response.done():
            job.response.set_exception(error)
