"""The HTTP server: routes for verdicts, health, metrics and the OpenAPI document, and its lifetime until a signal."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import orjson
import uvicorn
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.base.tasks import TaskScope
from spotsieve.stream.local.library import Deduplicator
from spotsieve.stream.local.serve.endpoint import DEFECT, JudgeEndpoint
from spotsieve.stream.local.serve.judge_thread import Capacity, JudgeThread, ServeMetrics
from spotsieve.stream.local.serve.wire import JSON, error_response, openapi_document, read_page, read_pages
from spotsieve.stream.observe.health import listen
from spotsieve.stream.observe.logs import logger


class Port:
    """The routes of the port. adds: whether pages can be added"""

    def __init__(self, settings: ServeSettings, judge_thread: JudgeThread, metrics: ServeMetrics, adds: bool) -> None:
        self._judge_thread = judge_thread
        self._metrics = metrics
        capacity = Capacity(settings.waiting_bytes, "bytes")
        metrics.watch("spotsieve_serve_waiting_bytes", "Bytes of requests in progress.", lambda: capacity.used)
        self._openapi = orjson.dumps(openapi_document(settings, adds))
        self._judging = {
            path: JudgeEndpoint(path, settings, judge_thread, metrics, capacity, read)
            for act in ("lookup", "add")
            for path, read in ((f"/v1/{act}", read_page), (f"/v1/{act}/batch", read_pages))
            if act == "lookup" or adds
        }

    def app(self) -> ASGIApp:
        """The ASGI application. Requests for verdicts bypass Starlette, whose layers they do not need."""
        rest, judging = self._rest(), self._judging

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            endpoint = judging.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
            await (rest if endpoint is None else endpoint)(scope, receive, send)

        return route

    def _rest(self) -> Starlette:
        """The Starlette application of all other routes. It knows the verdict paths to refuse other methods."""
        routes = [
            *(Route(path, judging, methods=["POST"]) for path, judging in self._judging.items()),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._scrape),
            Route("/openapi.json", self._describe),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._no_route, Exception: _defect})

    async def _health(self, _: Request) -> Response:
        failure = self._judge_thread.failure
        return PlainTextResponse(f"{failure or 'ok'}\n", 503 if failure else 200)

    async def _readiness(self, request: Request) -> Response:
        return PlainTextResponse("stopping\n", 503) if self._judge_thread.stopping else await self._health(request)

    async def _scrape(self, _: Request) -> Response:
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _describe(self, _: Request) -> Response:
        return Response(self._openapi, media_type=JSON)

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        self._metrics.requests.labels("other", str(error.status_code)).inc()
        fault = {404: "this path does not exist", 405: "this path needs another method"}.get(
            error.status_code, error.detail
        )
        then = "GET /openapi.json lists all paths"
        if request.url.path.startswith("/v1/add"):
            then = "start `spotsieve serve` with --add to add pages"
        return Response(
            orjson.dumps(error_response(f"{fault}; {then}")), error.status_code, error.headers, media_type=JSON
        )


async def _defect(_: Request, __: Exception) -> Response:
    return Response(orjson.dumps(error_response(DEFECT)), 500, media_type=JSON)


SWITCH_SECONDS = 0.0003
"""Longest time that the judging thread may hold the interpreter while the event loop waits. With Python's default of
0.005 s, the 99th percentile at 2,000 look-ups per second was twice as long."""
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


def bind(settings: ServeSettings) -> socket.socket:
    """The listening socket. Raises SettingError if the port is in use."""
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
    """Serve until SIGTERM or SIGINT, then finish the current requests; a second signal ends at once.

    open_state: opens the state  batch_pages: limit on the pages of requests judged together
    adds: whether pages can be added  refreshes: whether to reopen the state every refresh_seconds
    Raises StateError if the state cannot be opened or closed.
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
    judge_thread = JudgeThread(open_state, settings, batch_pages, metrics)
    try:
        server = _Server(
            uvicorn.Config(
                Port(settings, judge_thread, metrics, adds).app(),
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
            judge_thread,
        )
        # Collecting garbage among the compiler's objects would stop all responses for 0.1 s.
        gc.collect()
        gc.freeze()
        async with TaskScope() as tasks:
            tasks.start(judge_thread.work())
            if refreshes and settings.refresh_seconds:
                tasks.start(judge_thread.refresh(settings.refresh_seconds))
            host, number = listening.getsockname()[:2]
            logger().info(
                "serving",
                url=f"http://{f'[{host}]' if ':' in host else host}:{number}",
                adds=adds,
                known_pages=judge_thread.known_pages,
            )
            await server.serve([listening])
    finally:
        judge_thread.close()
    logger().info("stopped", known_pages=judge_thread.known_pages)


class _Server(uvicorn.Server):
    """uvicorn's server ends the process with the signal that stopped it; this one returns."""

    def __init__(self, config: uvicorn.Config, judge_thread: JudgeThread) -> None:
        super().__init__(config)
        self._judge_thread = judge_thread

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully at the first signal, and at once at the second."""
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
            logger().info("stopping after the current requests")
        self.force_exit = self.should_exit
        self._judge_thread.stopping = self.should_exit = True
