"""Answers for pages in micro-batches: what arrives while a batch is judged makes the next one.

Bounds what a server has in hand: so much of something at a time, and a refusal beyond it.

Owns the metrics of `spotsieve serve`: requests, pages, batches, what waits, and how old the state's view is.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

from spotsieve.stream.base.errors import SpotsieveError, StateError
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.library import CrawledPage, Deduplicator, Verdict
from spotsieve.stream.observe.logs import logger

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class ServeMetrics:
    """The metrics, with a registry of their own. path is one of the routes, or `other`: strangers make no labels."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        PlatformCollector(self.registry)
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "spotsieve_serve_requests", "Requests, by route and status.", ("path", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "spotsieve_serve_request_seconds",
            "From the head of a request to its answer.",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.pages = Counter(
            "spotsieve_serve_pages", "Pages judged, by act and verdict.", ("act", "verdict"), registry=self.registry
        )
        self.batch_pages = Histogram(
            "spotsieve_serve_batch_pages",
            "Pages that were judged together.",
            buckets=PAGES,
            registry=self.registry,
        )
        self.refreshes = Counter(
            "spotsieve_serve_refreshes",
            "Times that the state was opened anew, by outcome.",
            ("outcome",),
            registry=self.registry,
        )

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read at each scrape."""
        Gauge(name, about, registry=self.registry).set_function(value)


class BusyError(Exception):
    """There is no room now: ask again later."""


class Capacity:
    """Holds up to `most` of something, such as bytes or pages. For one event loop. what: what the refusal says"""

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        self.used = 0
        self._what = what

    @contextmanager
    def held(self, amount: int) -> Iterator[None]:
        """Hold so much while the block runs. Raises BusyError if that is too much; what exceeds all of it goes
        alone.
        """
        self.check(amount)
        self.used += amount
        try:
            yield
        finally:
            self.used -= amount

    def check(self, amount: int) -> None:
        """Raises BusyError if so much more has no room."""
        if self.used and self.used + amount > self.most:
            raise BusyError(f"too much is in hand: {self.used:,} of {self.most:,} {self._what}; ask again in a second")


@dataclass(frozen=True, slots=True)
class _Job:
    """The pages of one request. adds: whether they are remembered  arrived: when, in seconds of time.monotonic()"""

    pages: Sequence[CrawledPage]
    adds: bool
    arrived: float
    answer: "asyncio.Future[list[Verdict]]"


class JudgeThread:
    """One thread judges, batch after batch, and the event loop goes on meanwhile.

    A page alone costs ten times what one of 64 costs, so requests that arrive together are judged together. A client
    that is alone waits for nobody. Where several ask, the first waits up to linger_ms for more. Requests are taken in
    the order of their arrival; those that add come before those that ask in the same batch.

    open_state: opens the state; called again at each refresh  batch_pages: requests are joined up to so many pages
    """

    def __init__(
        self, open_state: Callable[[], Deduplicator], settings: ServeSettings, batch_pages: int, metrics: ServeMetrics
    ) -> None:
        self._open_state = open_state
        self._linger_seconds = settings.linger_ms / 1000
        self._batch_pages = batch_pages
        self._metrics = metrics
        self._room = Capacity(settings.waiting_pages, "pages")
        self._jobs = deque[_Job]()
        self._arrived = asyncio.Event()
        # One thread: the order of what is added is that of the batches, and a state is closed between two of them.
        self._thread = ThreadPoolExecutor(1, "spotsieve-serve")
        self._seen = open_state()
        self._opened_at = time.monotonic()
        self.failure = ""
        self.stopping = False
        self.known_pages = self._seen.known_pages
        self.scheme = self._seen.settings.scheme.name
        metrics.watch("spotsieve_serve_waiting_pages", "Pages that wait for a verdict.", lambda: self._room.used)
        metrics.watch(
            "spotsieve_serve_indexed_pages",
            "Pages indexed in the state, as of the last request.",
            lambda: self.known_pages,
        )
        age = "Seconds since the state was opened: look-ups see nothing that others filed since."
        metrics.watch("spotsieve_serve_state_age_seconds", age, lambda: time.monotonic() - self._opened_at)

    async def verdicts(self, pages: Sequence[CrawledPage], adds: bool) -> list[Verdict]:
        """The verdicts of the pages of a request. Raises BusyError, StateError."""
        with self._room.held(len(pages)):
            job = _Job(pages, adds, time.monotonic(), asyncio.get_running_loop().create_future())
            self._jobs.append(job)
            self._arrived.set()
            return await job.answer

    async def work(self) -> None:
        """Judge what arrives, for ever."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            together = False
            while self._jobs:
                if together and len(self._jobs) < self._batch_pages:
                    # Since the first one came: what waited while the batch before was judged has waited enough.
                    await asyncio.sleep(self._jobs[0].arrived + self._linger_seconds - time.monotonic())
                batch = self._taken()
                together = len(batch) > 1
                await self._work_on(batch)

    async def _work_on(self, batch: Sequence[_Job]) -> None:
        loop = asyncio.get_running_loop()
        try:
            verdicts = await loop.run_in_executor(self._thread, self._judge, batch)
        except StateError as error:
            # Those who come later are told so without a try; a look-up port is mended by its next refresh.
            self.failure = str(error)
            logger().error("the state fails", error=self.failure)
            _give(batch, error)
        except Exception as error:
            if len(batch) > 1 and not any(job.adds for job in batch):
                for job in batch:  # so that the page of one client does not fail those of the others
                    await self._work_on([job])
                return
            logger().exception("a defect of Spotsieve's own")
            _give(batch, error)
        else:
            for job, told in zip(batch, verdicts, strict=True):
                if not job.answer.done():  # its client may have left
                    job.answer.set_result(told)

    async def refresh(self, every_seconds: float) -> None:
        """Open the state again and again, for ever, so that look-ups see what its owner has filed."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(every_seconds)
            try:
                fresh = await asyncio.to_thread(self._open_state)
            except SpotsieveError as error:
                self._metrics.refreshes.labels("failed").inc()
                logger().warning("the state cannot be opened anew; look-ups go on by the one before", error=str(error))
                continue
            await loop.run_in_executor(self._thread, self._replace, fresh)
            self._metrics.refreshes.labels("done").inc()

    def close(self) -> None:
        """Let the batch in hand end, and let go of the state."""
        self._thread.shutdown(wait=True)
        self._seen.close()

    def _taken(self) -> list[_Job]:
        """The next jobs, up to _batch_pages, and one at least."""
        batch = [self._jobs.popleft()]
        pages = len(batch[0].pages)
        while self._jobs and pages + len(self._jobs[0].pages) <= self._batch_pages:
            batch.append(self._jobs.popleft())
            pages += len(batch[-1].pages)
        return batch

    def _judge(self, jobs: Sequence[_Job]) -> list[list[Verdict]]:
        """The verdicts of each job, judged as one batch of those that add and one of those that ask."""
        found: dict[int, list[Verdict]] = {}
        for adds, judge in ((True, self._seen.add_batch), (False, self._seen.query_batch)):
            chosen = [job for job in jobs if job.adds is adds]
            if not chosen:
                continue
            verdicts = iter(judge(page for job in chosen for page in job.pages))
            for job in chosen:
                found[id(job)] = [next(verdicts) for _ in job.pages]
            self._metrics.batch_pages.observe(sum(len(job.pages) for job in chosen))
        self.known_pages = self._seen.known_pages
        return [found[id(job)] for job in jobs]

    def _replace(self, fresh: Deduplicator) -> None:
        before, self._seen = self._seen, fresh
        self.known_pages, self._opened_at, self.failure = fresh.known_pages, time.monotonic(), ""
        before.close()


def _give(batch: Sequence[_Job], error: Exception) -> None:
    """Give the error to everybody who waits for the batch."""
    for job in batch:
        if not job.answer.done():
            job.answer.set_exception(error)
