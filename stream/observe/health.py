"""Serves /metrics, /healthz and /readyz over HTTP, and detects a hung event loop or worker thread.

The server runs in its own thread, so it answers while the event loop of the service hangs. It speaks HTTP/1.0: one
request per connection, bounded in bytes, time and number of connections.
"""

import asyncio
import contextlib
import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar

from prometheus_client import CollectorRegistry, make_wsgi_app

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import MetricsSettings
from spotsieve.stream.base.terminal import escape_control_characters

MOST_CONNECTIONS = 64
"""Open connections at a time. A new one closes the oldest, so silent clients can neither block a scrape nor fill
memory."""
CONNECTION_SECONDS = 5.0
"""Limit for a whole connection, however slowly the client sends or reads."""
HEAD_BYTES = 8192
"""Limit for request line and headers. The request body is not read."""
LINGER_SECONDS = 0.2
"""Time for a client that still sends a body to read the response before the connection closes."""
BACKLOG = 128
PLAIN_TEXT = "text/plain; charset=utf-8"
BEAT_SECONDS = 1.0
LOOP_SECONDS = 30.0
"""An event loop without a beat for this time hangs: no step of the service blocks it for more than a fraction of a
second."""
TASK_SECONDS = 120.0
"""A thread with one task for this time hangs: a log record or a micro-batch takes seconds at most, even on a busy
disk."""
P = ParamSpec("P")
T = TypeVar("T")


def listen(section: str, host: str, port: int, backlog: int) -> socket.socket:
    """Open a listening socket. Raises SettingError if it cannot be bound.

    section: the section of the settings host and port, for errors
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # reuse_port is off: a second process on the same port is a mistake and must be reported.
        return socket.create_server((host, port), family=family, backlog=backlog)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number is None or number < 0 or number in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
            then = "name an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"
            raise SettingError(f"{section}.host", "must be an address that this machine has", host, then) from None
        # str(error) repeats host and port.
        rule, then = f"cannot be bound on {host}: {os.strerror(number)}", "choose a free port, or 0 for any free port"
        raise SettingError(f"{section}.port", rule, port, then) from None


@dataclass(frozen=True, slots=True)
class HealthRequest:
    """A request without its body. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def has_body(self) -> bool:
        """Whether the headers announce a body."""
        return "transfer-encoding" in self.headers or self.headers.get("content-length", "0") != "0"


@dataclass(frozen=True, slots=True)
class HealthResponse:
    """A status such as "200 OK", the headers without Content-Length, and the body."""

    status: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", PLAIN_TEXT),)

    def encode(self, with_body: bool) -> bytes:
        """The response as HTTP/1.0 bytes. with_body: False for HEAD"""
        headers = (*self.headers, ("Content-Length", str(len(self.body))), ("Connection", "close"))
        lines = [f"HTTP/1.0 {self.status}", *(f"{name}: {value}" for name, value in headers), "", ""]
        return "\r\n".join(lines).encode("latin-1") + (self.body if with_body else b"")


BAD_REQUEST = HealthResponse("400 Bad Request", b"this is not an HTTP request\n")
LONG_LINE = HealthResponse("414 URI Too Long", b"the request line is too long\n")
LONG_HEADERS = HealthResponse("431 Request Header Fields Too Large", b"the headers are too long\n")
OTHER_PATH = HealthResponse("404 Not Found", b"the paths are /metrics, /healthz and /readyz\n")
OTHER_METHOD = HealthResponse(
    "405 Method Not Allowed", b"the methods are GET and HEAD\n", (("Content-Type", PLAIN_TEXT), ("Allow", "GET, HEAD"))
)


class HealthServer:
    """Serves metrics, health and readiness from its own thread.

    failures() lists the faults that need a restart of the process (/healthz). problems() lists the reasons why the
    worker is not ready (/readyz). The server thread calls both.
    """

    def __init__(
        self,
        settings: MetricsSettings,
        registry: CollectorRegistry,
        failures: Callable[[], list[str]],
        problems: Callable[[], list[str]],
    ) -> None:
        self._failures = failures
        self._problems = problems
        self._metrics = make_wsgi_app(registry)
        self._socket = listen("metrics", settings.host, settings.port, BACKLOG)
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._connections: dict[asyncio.Task[Any], None] = {}
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port and all connections."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=HEAD_BYTES)
        await self._closing.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        self._connections[task] = None
        try:
            async with asyncio.timeout(CONNECTION_SECONDS):
                await self._converse(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # The client is gone, too slow (a TimeoutError) or the oldest of too many; or the server closes.
        finally:
            writer.transport.abort()  # The response is sent.
            self._connections.pop(task, None)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and send its response."""
        request = await _read_request(reader)
        if request is None:
            return
        assert isinstance(writer.transport, asyncio.Transport)
        with contextlib.suppress(RuntimeError):  # The client has closed its side already.
            writer.transport.pause_reading()
        response = self._respond(request) if isinstance(request, HealthRequest) else request
        is_head = isinstance(request, HealthRequest) and request.method == "HEAD"
        writer.write(response.encode(with_body=not is_head))
        if not isinstance(request, HealthRequest) or request.has_body:
            await asyncio.sleep(LINGER_SECONDS)
        writer.close()
        await writer.wait_closed()

    def _respond(self, request: HealthRequest) -> HealthResponse:
        if request.method not in {"GET", "HEAD"}:
            return OTHER_METHOD
        if request.path == "/metrics":
            return self._scrape(request)
        if request.path == "/healthz":
            return _state(self._failures())
        if request.path == "/readyz":
            return _state(self._problems())
        return OTHER_PATH

    def _scrape(self, request: HealthRequest) -> HealthResponse:
        """The response of prometheus_client, in the format and compression that the headers request."""
        started: list[tuple[str, list[tuple[str, str]]]] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/metrics",
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept", ""),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
        }
        body = b"".join(self._metrics(environ, lambda status, headers: started.append((status, headers))))
        status, headers = started[0]
        return HealthResponse(status, body, tuple(headers))


def _state(problems: list[str]) -> HealthResponse:
    # A problem may quote the broker, so its control characters are escaped.
    lines = [escape_control_characters(problem) for problem in problems] or ["ok"]
    status = "503 Service Unavailable" if problems else "200 OK"
    return HealthResponse(status, "\n".join(lines).encode("utf-8", "backslashreplace") + b"\n")


async def _read_request(reader: asyncio.StreamReader) -> HealthRequest | HealthResponse | None:
    """Read one request. Returns an error response for a bad request, and None if the client closed the connection."""
    head, end = bytearray(), -1
    while end < 0 and len(head) <= HEAD_BYTES:
        part = await reader.read(HEAD_BYTES)
        if not part:
            return None
        head += part
        end = min((place for mark in (b"\r\n\r\n", b"\n\n") if (place := head.find(mark)) >= 0), default=-1)
    if not 0 <= end <= HEAD_BYTES:
        return LONG_HEADERS if b"\n" in head[:HEAD_BYTES] else LONG_LINE
    # HTTP/1 headers may hold any byte, and Latin-1 decodes any byte.
    first, *lines = head[:end].decode("latin-1").replace("\r\n", "\n").split("\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    pairs = [line.partition(":") for line in lines]
    if not version.startswith("HTTP/1.") or not all(name and colon for name, colon, _ in pairs):
        return BAD_REQUEST
    path, _, query = target.partition("?")
    return HealthRequest(method, path, query, {name.strip().lower(): value.strip() for name, _, value in pairs})


class _Task(NamedTuple):
    """A running task. since: start time on the clock. thread: identifier of its thread."""

    since: float
    thread: int


class Heartbeats:
    """Tracks the event loop and the running tasks. Any thread may call any method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat: float | None = None
        self._loop_thread: int | None = None
        self._tasks: dict[str, _Task] = {}
        self._lock = threading.Lock()

    def beat(self) -> None:
        """Record a turn of the event loop, from its thread. After the first call, missing calls are a problem."""
        self._beat, self._loop_thread = self._clock(), threading.get_ident()

    def stop(self) -> None:
        """Record that the event loop has ended normally."""
        self._beat = None

    def watched(self, name: str, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run work in the caller's thread and track it under this name while it runs. Returns its result."""
        with self._lock:
            self._tasks[name] = _Task(self._clock(), threading.get_ident())
        try:
            return work(*arguments, **named)
        finally:
            with self._lock:
                del self._tasks[name]

    def problems(self) -> list[str]:
        """One sentence per hung event loop or thread; empty if all make progress."""
        now, found = self._clock(), list[str]()
        with self._lock:
            beat, tasks = self._beat, dict(self._tasks)
        if beat is not None and now - beat > LOOP_SECONDS:
            place = "".join(f" in step `{name}`" for name, task in tasks.items() if task.thread == self._loop_thread)
            found.append(f"the event loop has not run for {now - beat:.0f} s{place}; restart the process")
        found += [
            f"the thread of step `{name}` has worked on one task for {now - task.since:.0f} s; restart the process"
            for name, task in tasks.items()
            if now - task.since > TASK_SECONDS
        ]
        return found
