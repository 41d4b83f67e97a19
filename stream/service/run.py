"""Runs a service process: compiles kernels, opens the state, checks the topics, works, and closes in order."""

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
from spotsieve.state.store.opening import state_warnings
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
from spotsieve.stream.kafka.driver.patches import PERFORMANCE, left_out
from spotsieve.stream.kafka.topics import TopicFacts, check_topics
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.health import BEAT_SECONDS, HealthServer, Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.signature_log import SignatureLog
from spotsieve.stream.service.worker import Worker
from spotsieve.stream.sign.schemes.registry import scheme_of

STATE_SECONDS = 10.0
"""Interval between two readings of the state size, which query RocksDB properties."""
LASTING_SECONDS = 60.0
"""If a worker ran this long before its clients failed, the backoff before its successor starts from the minimum."""
WRITER_BYTES = 16
EXIT_HARD_SECONDS = 1.5
"""Time for closing after service.shutdown_timeout_ms. With the default of that setting, the process ends within 10 s,
whatever the broker does."""


class ProcessPart(Protocol):
    """The work of a process with one set of Kafka clients. If they fail, a new part starts with new clients."""

    step: str

    def problems(self) -> list[str]:
        """One sentence per reason why it does not work now. Any thread may call this."""

    def stop(self) -> None:
        """Request a clean stop."""

    async def run(self) -> None:
        """Work until stop(). Raises BrokerTrouble if a new part can continue, and other SpotsieveErrors if not."""


class ProcessState(NamedTuple):
    """The resources that a process holds until it ends.

    state: None for a role without a state
    begin(topic facts by role, metrics, heartbeats): makes the ProcessPart that works with them
    """

    state: State | None
    begin: Callable[[Mapping[str, TopicFacts], Metrics, Heartbeats], ProcessPart]


def open_worker(settings: Settings) -> ProcessState:
    """Open a worker without shards: it holds the whole state and judges all its pages. Raises SpotsieveError."""
    engine = open_engine(settings, settings.topics.log)

    def begin(facts: Mapping[str, TopicFacts], metrics: Metrics, heartbeats: Heartbeats) -> Worker:
        def log_of(waits: Waits) -> SignatureLog:
            return SignatureLog(settings, engine, os.urandom(WRITER_BYTES), metrics, waits, heartbeats)

        return Worker(settings, engine.scheme, log_of, facts, metrics, heartbeats)

    return ProcessState(engine.state, begin)


class Service:
    """A running process and its health port."""

    def __init__(self, settings: Settings, open_: Callable[[Settings], ProcessState] = open_worker) -> None:
        """open_(settings): opens the resources of the process; the default is a worker without shards"""
        self._settings = settings
        self._open = open_
        self._metrics = Metrics()
        self._heartbeats = Heartbeats()
        self._failed = False
        self._starting = "compiling kernels"
        self._stopping = False
        self._worker: ProcessPart | None = None

    def run(self) -> int:
        """Work until SIGTERM, SIGINT or an error. Returns the exit code. Raises SpotsieveError."""
        keep_freed_memory()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # doubles the number of series
        self._metrics.ready.set_function(lambda: float(not self._problems()))
        health = None
        try:
            if self._settings.metrics.enabled:
                health = HealthServer(self._settings.metrics, self._metrics.registry, self._failures, self._problems)
                logger().info("serving metrics and health", host=self._settings.metrics.host, port=health.port)
            logger().info("compiling kernels; the first start takes one to four minutes, later starts read the cache")
            compile_kernels(scheme_of(self._settings.scheme))
            self._metrics.build.info({"version": spotsieve.__version__, "scheme": self._settings.scheme.name})
            self._report_driver()
            self._starting = "opening the state"
            opened = self._open(self._settings)
            freeze_loaded_objects()
            found = state_warnings(self._settings.index.directory) if opened.state is not None else ()
            for warning in filter(None, (*found, self._settings.scheme.caution())):
                logger().warning(warning)
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

    def _report_driver(self) -> None:
        """Report the performance patches of the Kafka driver that the installed aiokafka does not fit."""
        for patch in PERFORMANCE:
            why = left_out().get(patch.name)
            self._metrics.driver_patches.labels(patch.name).set(why is None)
            if why is not None:
                logger().warning("a performance patch of the Kafka driver is left out", patch=patch.name, reason=why)

    def _failures(self) -> list[str]:
        return self._heartbeats.problems() + (
            ["the worker has failed and the process ends; its log names the error"] if self._failed else []
        )

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
        position = {} if opened.state is None else {"log_position": opened.state.position}
        rules = self._metrics.rules_without_pages() if any(self._metrics.pages_by_kind().values()) else []
        if rules:
            logger().warning("these rules matched no page since the start", rules=rules, advice=LOOK_AT_RULE)
        logger().info("stopped", **position)

    async def _work(self, opened: ProcessState, facts: Mapping[str, TopicFacts], stopped: asyncio.Event) -> None:
        """Work until `stopped` is set. If the clients of a worker fail, start a new worker.

        Like a restarted process, the new worker continues at the position of the state and at the committed offsets.
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
                        logger().info("stopping; the pages that were fetched are finished and committed first")
                        _exit_hard_after(self._settings.service.shutdown_timeout_ms / 1000 + EXIT_HARD_SECONDS)
                        worker.stop()
                    await working
                return
            except BrokerTrouble as trouble:
                self._metrics.retries.labels("begin_anew").inc()
                logger().warning("the Kafka clients failed; the worker restarts with new clients", error=str(trouble))
                worker.step = f"restarting with new Kafka clients: {trouble}"
            if time.monotonic() - began > LASTING_SECONDS:
                backoff.reset()
            await race(backoff.wait(), stopped.wait())
            if stopped.is_set():
                return

    async def _beat(self) -> None:
        """Record a heartbeat of the event loop every second, and measure its delay. Never returns."""
        while True:
            self._heartbeats.beat()
            start = time.monotonic()
            await asyncio.sleep(BEAT_SECONDS)
            self._metrics.loop_delay.observe(time.monotonic() - start - BEAT_SECONDS)

    async def _report_or_stop(self, state: State | None, stopped: asyncio.Event) -> Exception:
        """Report until an error, then request a stop and return the error.

        The worker still commits the fetched pages.
        """
        try:
            await self._report(state)
        except Exception as error:
            stopped.set()
            return error

    async def _report(self, state: State | None) -> NoReturn:
        """Log a summary line per service interval, and set the gauges of the state."""
        summary = ServiceSummary(self._metrics, logger())
        every = self._settings.log.summary_seconds
        due = time.monotonic() + every
        while True:
            if state is not None:
                self._metrics.observe_state(state.stats(), _disk_of(self._settings.index.directory))
            if every and time.monotonic() >= due:
                due += every
                summary.log()
            await asyncio.sleep(min(STATE_SECONDS, every) if every else STATE_SECONDS)


class ServiceSummary:
    """Logs the verdicts since the previous summary line."""

    def __init__(self, metrics: Metrics, log: BoundLogger) -> None:
        self._metrics = metrics
        self._logger = log
        self._last = dict.fromkeys(Kind, 0)
        self._reasons: dict[str, int] = {}
        self._since = time.monotonic()

    def log(self) -> None:
        """Log pages per second, the dropped share and the totals. Warn if [input] seems not to fit the topic."""
        totals, reasons = self._metrics.pages_by_kind(), self._metrics.rejected()
        seconds = time.monotonic() - self._since
        new = {kind: totals[kind] - self._last[kind] for kind in Kind}
        pages = sum(new.values())
        new_reasons = {reason: count - self._reasons.get(reason, 0) for reason, count in reasons.items()}
        misread = _misread(pages, new_reasons)
        (self._logger.warning if misread else self._logger.info)(
            "summary",
            pages=pages,
            pages_per_second=round(pages / seconds, 1),
            dropped_share=round(new[Kind.DUPLICATE] / pages, 4) if pages else 0.0,
            **{kind.label: number for kind, number in new.items()},
            rejected=sum(new_reasons.values()),
            **misread,
        )
        self._last, self._reasons, self._since = totals, reasons, time.monotonic()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of the event loop: uvloop if it is installed (the extra `fast`), else None for asyncio.

    uvloop does not copy data that a socket cannot take at once, and runs less Python per turn.
    """
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _disk_of(directory: Path) -> tuple[int, int]:
    """Total and free bytes of the file system of a directory; (0, 0) if they cannot be read."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return 0, 0  # The state reports errors of the disk.
    return usage.total, usage.free


def _misread(pages: int, reasons: Mapping[str, int]) -> dict[str, object]:
    """Extra fields of the summary line if over a tenth of the messages are not pages. reasons: rejections by reason"""
    rejected = sum(reasons.values())
    if rejected <= MOST_REJECTED_SHARE * (pages + rejected):
        return {}
    worst = max(reasons, key=lambda reason: reasons[reason])
    return {
        "rejected_share": round(rejected / (pages + rejected), 4),
        "rejected_most": worst,
        "advice": f"many messages are not pages: compare one with {REJECTIONS[RejectReason(worst)].setting}",
    }


def _exit_hard_after(seconds: float) -> None:
    """End the process after this time even if a client hangs. The next start reads uncommitted pages again."""
    message = "the stop took too long; the process exits now, and the next start reads uncommitted pages again"
    # Two timers, because a write to a full log pipe can block.
    for wait, act in ((seconds - 0.1, lambda: logger().error(message)), (seconds, lambda: os._exit(1))):
        timer = threading.Timer(wait, act)
        timer.daemon = True
        timer.start()
