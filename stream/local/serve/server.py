"""Runs the HTTP port until a signal: binds, serves, stops taking work, and ends what is in hand.

Routes HTTP requests: verdicts, health, metrics and the OpenAPI document.
"""

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
from spotsieve.stream.local.serve.wire import JSON, document, error_response, read_page, read_pages
from spotsieve.stream.observe.health import listen
from spotsieve.stream.observe.logs import logger


class Port:
    """The answers of the port. adds: whether pages can be added"""

    def __init__(self, settings: ServeSettings, answering: JudgeThread, metrics: ServeMetrics, adds: bool) -> None:
        self._answering = answering
        self._metrics = metrics
        room = Capacity(settings.waiting_bytes, "bytes")
        metrics.watch("spotsieve_serve_waiting_bytes", "Bytes of requests in hand.", lambda: room.used)
        self._openapi = orjson.dumps(document(settings, adds))
        self._judging = {
            path: JudgeEndpoint(path, settings, answering, metrics, room, read)
            for act in ("lookup", "add")
            for path, read in ((f"/v1/{act}", read_page), (f"/v1/{act}/batch", read_pages))
            if act == "lookup" or adds
        }

    def app(self) -> ASGIApp:
        """The ASGI application. Requests for verdicts go past the layers of Starlette, which none of them needs."""
        rest, judging = self._rest(), self._judging

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            asked = judging.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
            await (rest if asked is None else asked)(scope, receive, send)

        return answer

    def _rest(self) -> Starlette:
        """What Starlette answers: all but verdicts. It knows their paths, to refuse another method."""
        routes = [
            *(Route(path, judging, methods=["POST"]) for path, judging in self._judging.items()),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._scrape),
            Route("/openapi.json", self._describe),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: self._no_route, Exception: _defect})

    async def _health(self, _: Request) -> Response:
        failure = self._answering.failure
        return PlainTextResponse(f"{failure or 'ok'}\n", 503 if failure else 200)

    async def _readiness(self, request: Request) -> Response:
        return PlainTextResponse("stopping\n", 503) if self._answering.stopping else await self._health(request)

    async def _scrape(self, _: Request) -> Response:
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _describe(self, _: Request) -> Response:
        return Response(self._openapi, media_type=JSON)

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        self._metrics.requests.labels("other", str(error.status_code)).inc()
        say = {404: "there is no such path", 405: "this path has another method"}.get(error.status_code, error.detail)
        then = "GET /openapi.json says what there is"
        if request.url.path.startswith("/v1/add"):
            then = "pages are added where `spotsieve serve` was started with --add"
        return Response(
            orjson.dumps(error_response(f"{say}; {then}")), error.status_code, error.headers, media_type=JSON
        )


async def _defect(_: Request, __: Exception) -> Response:
    return Response(orjson.dumps(error_response(DEFECT)), 500, media_type=JSON)


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
