"""Routes HTTP requests: verdicts, health, metrics and the OpenAPI document."""

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from spotsieve.stream.serving.answering import JudgeThread
from spotsieve.stream.serving.judging import DEFECT, JudgeEndpoint
from spotsieve.stream.serving.metrics import ServeMetrics
from spotsieve.stream.serving.openapi import JSON, document
from spotsieve.stream.serving.room import Capacity
from spotsieve.stream.serving.wire import error_response, read_page, read_pages
from spotsieve.stream.settings.edges import ServeSettings


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
