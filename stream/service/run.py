"""Runs a service process: compiles, opens the state, checks the topics, works, and closes in order."""

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

import prometheus_client
from structlog.stdlib import BoundLogger

import spotsieve
from spotsieve.state.directory import readable_by_others
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import (
    EXIT_OK,
    MOST_REJECTED_SHARE,
    REJECTIONS,
    BrokerTrouble,
    RejectReason,
    SpotsieveError,
)
from spotsieve.stream.base.settings.model import LOOK_AT_RULE, Settings
from spotsieve.stream.base.startup import freeze_loaded_objects, keep_freed_memory
from spotsieve.stream.base.tasks import TaskScope, first_of, race
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.engine import open_engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.kafka.topics import TopicFacts, check_topics
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.health import BEAT_SECONDS, HealthServer, Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.signature_log import SignatureLog
from spotsieve.stream.service.worker import Worker
from spotsieve.stream.sign.schemes.registry import scheme_of

STATE_SECONDS = 10.0
"""Between two looks at the state's size, which ask RocksDB for properties."""
LASTING_SECONDS = 60.0
"""After a worker that lasted so long before its clients failed, the wait for the next one is short again."""
WRITER_BYTES = 16
EXIT_HARD_SECONDS = 1.5
"""Time for closing after service.shutdown_timeout_ms. With its default the process ends within 10 s, whatever the
broker does."""


class ProcessPart(Protocol):
    """What a process does: with one set of Kafka clients, and anew with others where these fail."""

    step: str

    def problems(self) -> list[str]:
        """What keeps it from its work now, in words for a person. Any thread may call this."""

    def stop(self) -> None:
        """Ask for a clean stop."""

    async def run(self) -> None:
        """Work until stop(). Raises BrokerTrouble where a new one can go on, and other SpotsieveErrors."""


class ProcessState(NamedTuple):
    """What a process holds as long as it lives. state: None where it has none

    begin(facts of the topics, metrics, heartbeats): makes what works with it
    """

    state: State | None
    begin: Callable[[Mapping[str, TopicFacts], Metrics, Heartbeats], ProcessPart]


def open_worker(settings: Settings) -> ProcessState:
    """A worker that judges every page itself, and holds the whole state. Raises SpotsieveError."""
    engine = open_engine(settings, settings.topics.log)

    def begin(facts: Mapping[str, TopicFacts], metrics: Metrics, heartbeats: Heartbeats) -> Worker:
        def log_of(waits: Waits) -> SignatureLog:
            return SignatureLog(settings, engine, os.urandom(WRITER_BYTES), metrics, waits, heartbeats)

        return Worker(settings, engine.scheme, log_of, facts, metrics, heartbeats)

    return ProcessState(engine.state, begin)


class Service:
    """The parts of a running process, and the answers of its health port."""

    def __init__(self, settings: Settings, open_: Callable[[Settings], ProcessState] = open_worker) -> None:
        """open_(settings): opens what the process holds; by default that of a worker that judges alone"""
        self._settings = settings
        self._open = open_
        self._metrics = Metrics()
        self._heartbeats = Heartbeats()
        self._failed = False
        self._starting = "compiling kernels"
        self._stopping = False
        self._worker: ProcessPart | None = None

    def run(self) -> int:
        """Work until SIGTERM or SIGINT, or an error; returns the exit code. Raises SpotsieveError."""
        keep_freed_memory()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # doubles the series and says nothing new
        self._metrics.ready.set_function(lambda: float(not self._problems()))
        health = None
        try:
            if self._settings.metrics.enabled:
                health = HealthServer(self._settings.metrics, self._metrics.registry, self._failures, self._problems)
                logger().info("serving metrics and health", host=self._settings.metrics.host, port=health.port)
            logger().info("compiling kernels: tens of seconds at the very first start, then read from a cache")
            compile_kernels(scheme_of(self._settings.scheme))
            self._metrics.build.info({"version": spotsieve.__version__, "scheme": self._settings.scheme.name})
            self._starting = "opening the state"
            opened = self._open(self._settings)
            freeze_loaded_objects()
            wide = readable_by_others(self._settings.index.directory) if opened.state is not None else None
            for told in filter(None, (wide, self._settings.scheme.caution())):
                logger().warning(told)
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(self._serve(opened))
            finally:
                if opened.state is not None:
                    opened.state.close()
        except SpotsieveError:
            self._failed = True
            raise
        finally:
            if health is not None:
                health.close()
        return EXIT_OK

    def _failures(self) -> list[str]:
        return self._heartbeats.problems() + (["the worker has failed; see its log"] if self._failed else [])

    def _problems(self) -> list[str]:
        if self._worker is None or self._stopping:
            return ["stopping" if self._stopping else self._starting]
        return self._worker.problems()

    async def _serve(self, opened: ProcessState) -> None:
        loop = asyncio.get_running_loop()
        self._starting = "checking the topics"
        stopped = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        async with TaskScope() as tasks:
            starting = tasks.create_task(check_topics(self._settings))
            await first_of(starting, tasks.create_task(stopped.wait()))
            if not starting.done():
                return
            tasks.start(self._beat())
            reporting = tasks.create_task(self._report_or_stop(opened.state, stopped))
            try:
                await self._work(opened, starting.result(), stopped)
            finally:
                self._heartbeats.stop()
            if reporting.done():
                raise reporting.result()
        held = {} if opened.state is None else {"log_position": opened.state.position}
        rules = self._metrics.rules_without_pages() if any(self._metrics.pages_by_kind().values()) else []
        if rules:
            logger().warning("rules matched no page", rules=rules, advice=LOOK_AT_RULE)
        logger().info("stopped", **held)

    async def _work(self, opened: ProcessState, facts: Mapping[str, TopicFacts], stopped: asyncio.Event) -> None:
        """Work until `stopped` is set. A worker whose clients have failed is followed by a new one.

        The broker has everything that a worker knows of it: like a process that was started again, a new worker reads
        on at the state's position and at the committed offsets.
        """
        backoff = Backoff()
        while True:
            worker = self._worker = opened.begin(facts, self._metrics, self._heartbeats)
            began = time.monotonic()
            try:
                async with TaskScope() as tasks:
                    working = tasks.create_task(worker.run())
                    await first_of(working, tasks.create_task(stopped.wait()))
                    if not working.done():
                        self._stopping = True
                        logger().info("stopping: finishing what was fetched")
                        _exit_hard_after(self._settings.service.shutdown_timeout_ms / 1000 + EXIT_HARD_SECONDS)
                        worker.stop()
                    await working
                return
            except BrokerTrouble as trouble:
                self._metrics.retries.labels("begin_anew").inc()
                logger().warning("beginning anew with new clients", error=str(trouble))
                worker.step = f"beginning anew: {trouble}"
            if time.monotonic() - began > LASTING_SECONDS:
                backoff.reset()
            await race(backoff.wait(), stopped.wait())
            if stopped.is_set():
                return

    async def _beat(self) -> None:
        """Show the health port that the event loop turns, and measure how late it comes back, for ever."""
        while True:
            self._heartbeats.beat()
            asked = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)
            self._metrics.loop_delay.observe(time.monotonic() - asked - BEAT_SECONDS)

    async def _report_or_stop(self, state: State | None, stopped: asyncio.Event) -> Exception:
        """Report until an error, and ask for a stop then: the worker still commits the fetched pages. Returns it."""
        try:
            await self._report(state)
        except Exception as error:
            stopped.set()
            return error

    async def _report(self, state: State | None) -> NoReturn:
        """Log a summary line a minute, and give the state's size to the gauges."""
        summary = ServiceSummary(self._metrics, logger())
        every = self._settings.log.summary_seconds
        due = time.monotonic() + every
        while True:
            if state is not None:
                self._metrics.observe_state(state.stats(), _disk_of(self._settings.index.directory))
            if every and time.monotonic() >= due:
                due += every
                summary.say()
            await asyncio.sleep(min(STATE_SECONDS, every) if every else STATE_SECONDS)


class ServiceSummary:
    """Counts what has happened since the last summary line."""

    def __init__(self, metrics: Metrics, log: BoundLogger) -> None:
        self._metrics = metrics
        self._log = log
        self._last = dict.fromkeys(Kind, 0)
        self._reasons: dict[str, int] = {}
        self._since = time.monotonic()

    def say(self) -> None:
        """Log pages a second, the share dropped and the totals; a warning where the topic seems to be misread."""
        totals, reasons = self._metrics.pages_by_kind(), self._metrics.rejected()
        seconds = time.monotonic() - self._since
        new = {kind: totals[kind] - self._last[kind] for kind in Kind}
        pages = sum(new.values())
        new_reasons = {reason: count - self._reasons.get(reason, 0) for reason, count in reasons.items()}
        misread = _misread(pages, new_reasons)
        (self._log.warning if misread else self._log.info)(
            "summary",
            pages=pages,
            pages_per_second=round(pages / seconds, 1),
            dropped_share=round(new[Kind.DUPLICATE] / pages, 4) if pages else 0.0,
            **{kind.name.lower(): number for kind, number in new.items()},
            rejected=sum(new_reasons.values()),
            **misread,
        )
        self._last, self._reasons, self._since = totals, reasons, time.monotonic()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the event loop: uvloop where it is installed (the extra `fast`), else asyncio's own.

    uvloop writes what a socket does not take at once without copying it, and turns with less Python.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _disk_of(directory: Path) -> tuple[int, int]:
    """Bytes of the file system of a directory, and the free ones; (0, 0) where the system does not say."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return 0, 0  # What is wrong with the disk is for the state to say.
    return usage.total, usage.free


def _misread(pages: int, reasons: Mapping[str, int]) -> dict[str, object]:
    """What the summary line says more where over a tenth of the messages are no pages. reasons: how many for each"""
    rejected = sum(reasons.values())
    if rejected <= MOST_REJECTED_SHARE * (pages + rejected):
        return {}
    worst = max(reasons, key=lambda reason: reasons[reason])
    return {
        "rejected_share": round(rejected / (pages + rejected), 4),
        "rejected_most": worst,
        "advice": f"so many messages are no pages: compare one with {REJECTIONS[RejectReason(worst)].setting}",
    }


def _exit_hard_after(seconds: float) -> None:
    """End the process even where a client hangs on a dead broker: the next start reads again what is not committed."""
    say = "stopping takes too long: leaving without a clean end; what is not committed is read again"
    # There are two timers, because a log that nobody reads can block its writer.
    for wait, act in ((seconds - 0.1, lambda: logger().error(say)), (seconds, lambda: os._exit(1))):
        timer = threading.Timer(wait, act)
        timer.daemon = True
        timer.start()
