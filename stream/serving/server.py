"""Runs the HTTP port until a signal: binds, serves, stops taking work, and ends what is in hand."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn
import uvloop

from spotsieve.stream.library import Deduplicator
from spotsieve.stream.observe.listening import listen
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.serving.answering import JudgeThread
from spotsieve.stream.serving.app import Port
from spotsieve.stream.serving.metrics import ServeMetrics
from spotsieve.stream.settings.edges import ServeSettings
from spotsieve.stream.tasks import TaskScope

SWITCH_SECONDS = 0.0003
"""How long the thread that judges may keep the interpreter while the event loop waits for it. Python's own is .005: at
2,000 look-ups a second the 99th percentile was then twice as long."""
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


def bind(settings: ServeSettings) -> socket.socket:
    """The listening socket. Raises SettingError if the port is taken."""
    return listen("serve.port", settings.host, settings.port, BACKLOG)


def serve(
    settings: ServeSettings,
    listening: socket.socket,
    open_state: Callable[[], Deduplicator],
    batch_pages: int,
    *,
    adds: bool,
    refreshes: bool,
) -> None:
    """Answer until SIGTERM or SIGINT. A second signal does not wait for what is in hand.

    open_state: opens the state  batch_pages: requests are judged together up to so many pages
    adds: whether pages can be added  refreshes: whether to open the state every refresh_seconds
    Raises StateError if the state cannot be opened, or closed.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, listening, open_state, batch_pages, adds, refreshes))


async def _serve(
    settings: ServeSettings,
    listening: socket.socket,
    open_state: Callable[[], Deduplicator],
    batch_pages: int,
    adds: bool,
    refreshes: bool,
) -> None:
    metrics = ServeMetrics()
    answering = JudgeThread(open_state, settings, batch_pages, metrics)
    try:
        server = _Server(
            uvicorn.Config(
                Port(settings, answering, metrics, adds).app(),
                http="httptools",
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=settings.connections,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=settings.stop_seconds,
            ),
            answering,
        )
        # Looking through the compiler's objects for garbage takes .1 s, in which nobody is answered.
        gc.collect()
        gc.freeze()
        async with TaskScope() as tasks:
            tasks.start(answering.work())
            if refreshes and settings.refresh_seconds:
                tasks.start(answering.refresh(settings.refresh_seconds))
            host, number = listening.getsockname()[:2]
            logger().info(
                "serving",
                url=f"http://{f'[{host}]' if ':' in host else host}:{number}",
                adds=adds,
                known_pages=answering.known_pages,
            )
            await server.serve([listening])
    finally:
        answering.close()
    logger().info("stopped", known_pages=answering.known_pages)


class _Server(uvicorn.Server):
    """uvicorn's server, which ends the process by the signal that stopped it; this one returns."""

    def __init__(self, config: uvicorn.Config, answering: JudgeThread) -> None:
        super().__init__(config)
        self._answering = answering

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal, and force the end at the second."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if not self.should_exit:
            logger().info("stopping: answering the requests in hand")
        self.force_exit = self.should_exit
        self._answering.stopping = self.should_exit = True
