"""Answers one kind of request for verdicts: reads its body within bounds, and gives each page its verdict."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import orjson
from starlette.types import Receive, Scope, Send

from spotsieve.stream.base.errors import PageError, RejectReason, StateError
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.base.terminal import escape_json
from spotsieve.stream.local.library import CrawledPage
from spotsieve.stream.local.serve.connections import CONNECTION, GuardedProtocol
from spotsieve.stream.local.serve.fairness import BusyError, Capacity, Claim, DisconnectedError, Turns
from spotsieve.stream.local.serve.judge_thread import OPENING, JudgeThread, ServeMetrics
from spotsieve.stream.local.serve.wire import JSON, BatchTooLargeError, error_response, verdict_response
from spotsieve.stream.observe.logs import logger

_LATER = (b"retry-after", b"1")
_CLOSE = (b"connection", b"close")
"""For clients that are too slow, and while the service stops."""
_REQUEST_BYTES = 4_096
"""Bytes of the capacity that a request takes in addition to its body."""
_PARSED_HERE_BYTES = 2**20
"""A longer body is parsed in a thread: 32 MiB take up to 0.3 s, and 1 MiB takes 2 ms."""
_PARSER = ThreadPoolExecutor(1, "spotsieve-parser")
"""One thread for all requests: parsing holds the GIL, so the event loop would wait behind several."""
DEFECT = "an internal error of Spotsieve; see its log"
"""Response to a client for an error that it did not cause."""


class _Refusal(Exception):
    """A response without a verdict. status: HTTP status  headers: in addition to the usual ones"""

    def __init__(self, status: int, error: object, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(str(error))
        self.status = status
        self.headers = headers


class JudgeEndpoint:
    """ASGI application of one path.

    read: parses the pages of a body, at most a number of them  capacity: bytes of bodies, shared by all paths
    turns: turns of the clients, shared by all paths
    """

    def __init__(
        self,
        path: str,
        settings: ServeSettings,
        judge_thread: JudgeThread,
        metrics: ServeMetrics,
        capacity: Capacity,
        turns: Turns,
        read: Callable[[bytes, int], list[CrawledPage]],
    ) -> None:
        self._act = "add" if path.startswith("/v1/add") else "lookup"
        self._many = path.endswith("/batch")
        self._settings = settings
        self._judge_thread = judge_thread
        self._capacity = capacity
        self._turns = turns
        self._read = read
        self._seconds = metrics.seconds.labels(path)
        self._requests = {status: metrics.requests.labels(path, str(status)) for status in _STATUSES}
        self._pages = {kind: metrics.pages.labels(self._act, kind) for kind in ("novel", "duplicate", "unchecked")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        began = time.perf_counter()
        headers: tuple[tuple[bytes, bytes], ...] = ()
        try:
            status, body = 200, await self._respond(scope, receive)
        except _Refusal as refusal:
            status, body, headers = refusal.status, orjson.dumps(error_response(refusal)), refusal.headers
        except DisconnectedError:
            return
        except Exception:
            logger().exception("internal error of Spotsieve")
            status, body = 500, orjson.dumps(error_response(DEFECT))
        length = (b"content-length", str(len(body)).encode())
        start = {"status": status, "headers": [(b"content-type", JSON.encode()), length, *headers]}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": body})
        self._requests[status].inc()
        self._seconds.observe(time.perf_counter() - began)

    async def _respond(self, scope: Scope, receive: Receive) -> bytes:
        """Body of the response. Raises _Refusal, DisconnectedError."""
        self._check_headers(dict(scope["headers"]))
        connection: GuardedProtocol = scope[CONNECTION]
        client = connection.address
        try:
            with self._capacity.claim(client) as claim:
                claim.grow(_REQUEST_BYTES)
                body = await self._body(receive, claim)
                async with self._turns.turn(client, lambda: connection.is_lost):
                    return await self._judged(body, client)
        except BusyError as busy:
            raise _Refusal(503, busy, _LATER) from None
        except StateError as error:
            raise _Refusal(503, error, _LATER) from None

    def _check_headers(self, headers: dict[bytes, bytes]) -> None:
        """Raise _Refusal for faults that need no reading of the body."""
        if self._judge_thread.stopping:
            raise _Refusal(503, "the service is stopping; retry in a second", _LATER, _CLOSE)
        if self._judge_thread.is_opening:
            raise _Refusal(503, f"{OPENING}; retry in a second", _LATER)
        if self._judge_thread.failure:
            raise _Refusal(503, self._judge_thread.failure, _LATER)
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        if kind != JSON:
            # Browsers send a preflight request before JSON to another site, so no web page can add pages here.
            raise _Refusal(415, f"the request must be {JSON}, got {kind[:80]!r}; set its Content-Type")
        if b"content-encoding" in headers:
            raise _Refusal(415, "the request must not be compressed; remove Content-Encoding")
        if int(headers.get(b"content-length", b"0")) > self._settings.max_body_bytes:
            raise self._too_large()

    async def _body(self, receive: Receive, claim: Claim) -> bytes:
        parts, size = list[bytes](), 0
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.body_seconds) as limit:

                def interrupt() -> None:
                    if not limit.expired():
                        limit.reschedule(loop.time())

                claim.gives_way = interrupt
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise DisconnectedError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._settings.max_body_bytes:
                        raise self._too_large()
                    claim.grow(len(parts[-1]))
                    more = message.get("more_body", False)
                claim.gives_way = None
        except TimeoutError:
            if claim.lost:
                raise BusyError("too many bytes of requests are in progress; send fewer pages at a time") from None
            rule = f"the request must arrive within {self._settings.body_seconds:g} s (serve.body_seconds)"
            raise _Refusal(408, f"{rule}; send less at a time", _CLOSE) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _judged(self, body: bytes, client: str) -> bytes:
        try:
            if len(body) <= _PARSED_HERE_BYTES:
                pages = self._read(body, self._settings.max_pages)
            else:
                loop = asyncio.get_running_loop()
                pages = await loop.run_in_executor(_PARSER, self._read, body, self._settings.max_pages)
        except BatchTooLargeError as error:
            raise _Refusal(413, error) from None
        except PageError as error:
            raise _Refusal(400 if error.reason is RejectReason.NOT_JSON else 422, error) from None
        verdicts = await self._judge_thread.verdicts(pages, self._act == "add", client) if pages else []
        for verdict in verdicts:
            self._pages[verdict.kind].inc()
        fields = [verdict_response(verdict, self._judge_thread.scheme) for verdict in verdicts]
        return escape_json(orjson.dumps({"verdicts": fields} if self._many else fields[0]))

    def _too_large(self) -> _Refusal:
        rule = f"a request must have at most {self._settings.max_body_bytes:,} bytes (serve.max_body_bytes)"
        return _Refusal(413, f"{rule}; send fewer pages at a time")


_STATUSES = (200, 400, 408, 413, 415, 422, 500, 503)
