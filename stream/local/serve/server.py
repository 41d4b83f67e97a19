"""The HTTP server: routes for verdicts, health, metrics and the OpenAPI document, and its lifetime until a signal.

Access decides who may send requests, by names of the port in Host and Origin, a bearer token, and TLS.
"""

import asyncio
import contextlib
import gc
import hmac
import ipaddress
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

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

from spotsieve.state.store.rocks_options import file_limit, most_open_files, raise_file_limit
from spotsieve.stream.base.errors import EXIT_OK, SettingError
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.base.tasks import TaskScope
from spotsieve.stream.local.library import Deduplicator
from spotsieve.stream.local.serve.connections import Connections, GuardedProtocol
from spotsieve.stream.local.serve.endpoint import DEFECT, JudgeEndpoint
from spotsieve.stream.local.serve.fairness import Capacity, Turns
from spotsieve.stream.local.serve.judge_thread import OPENING, JudgeThread, ServeMetrics
from spotsieve.stream.local.serve.wire import JSON, OPEN_PATHS, error_response, openapi_document, read_page, read_pages
from spotsieve.stream.observe.health import listen
from spotsieve.stream.observe.logs import logger

LEAST_TOKEN = 16
"""Fewest characters of a token. `openssl rand -hex 32` makes a good one."""


class AccessRefusal(NamedTuple):
    """A request that must not be answered. headers: in addition to the usual ones"""

    status: int
    error: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Access:
    """The rules of a port.

    A web page in a browser on this machine can reach the port: by DNS rebinding the page's own host name stands for
    127.0.0.1, so the browser allows its requests. Host and Origin then hold that name. Therefore a port on a loopback
    address accepts only loopback names and serve.allowed_hosts. On any other address, names are checked if there are
    allowed_hosts.
    """

    def __init__(self, settings: ServeSettings, address: str) -> None:
        """address: the address that the socket is bound to.

        Raises SettingError for a weak token, and for names that no request can have.
        """
        for name in settings.allowed_hosts:
            if not is_host(name):
                rule = (
                    "must hold host names or addresses alone, in ASCII (xn--...), without scheme, port, brackets and *"
                )
                raise SettingError("serve.allowed_hosts", rule, name, "write filter.example, or 2001:db8::1")
        self._names = frozenset(name.lower().rstrip(".") for name in settings.allowed_hosts)
        self._checks_names = bool(self._names) or is_loopback(address)
        self._token = settings.token.get_secret_value().encode("utf-8", "replace")
        if self._token and not (len(self._token) >= LEAST_TOKEN and all(0x21 <= byte < 0x7F for byte in self._token)):
            rule = f"must have at least {LEAST_TOKEN} characters, all of them ASCII without spaces"
            raise SettingError("serve.token", rule, None, "make one with `openssl rand -hex 32`")

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return bool(self._token)

    def check(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> AccessRefusal | None:
        """The reason why a request is refused; None if it may be answered. headers: names in lower case"""
        hosts, origins, logins = list[bytes](), list[bytes](), list[bytes]()
        lists = {b"host": hosts, b"origin": origins, b"authorization": logins}
        for name, value in headers:
            if name in lists:
                lists[name].append(value)
        if self._checks_names:
            if len(hosts) != 1 or not self._is_named(f"//{hosts[0].decode('latin-1')}"):
                return _other_name("Host", hosts)
            if origins and not all(self._is_named(origin.decode("latin-1")) for origin in origins):
                return _other_name("Origin", origins)
        if self._token and path not in OPEN_PATHS and not self._is_login(logins):
            rule = "the request must have the header Authorization: Bearer TOKEN"
            return AccessRefusal(
                401, f"{rule}; the token is the one of serve.token_file", ((b"www-authenticate", b"Bearer"),)
            )
        return None

    def _is_named(self, url: str) -> bool:
        """Whether the host of a URL is a name of this port."""
        try:
            name = (urlsplit(url).hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or is_loopback(name)

    def _is_login(self, logins: list[bytes]) -> bool:
        kind, _, token = (logins[0] if len(logins) == 1 else b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _other_name(header: str, values: list[bytes]) -> AccessRefusal:
    got = " ".join(value[:80].decode("latin-1") for value in values) or "none"
    rule = f"{header} must be a name of this port, got {got!r}"
    return AccessRefusal(403, f"{rule}; use http://127.0.0.1, or add the name to serve.allowed_hosts")


def is_host(name: str) -> bool:
    """Whether the host of a URL can be this name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and name.isascii() and not any(character in name for character in "/:*?@[]\\ ")
    return True


def is_loopback(name: str) -> bool:
    """Whether a host name or an address stands for this machine alone."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def tls_context(settings: ServeSettings) -> ssl.SSLContext | None:
    """The TLS context of the port; None without a certificate. Raises SettingError for files that cannot be used."""
    if not settings.tls_certfile and not settings.tls_keyfile:
        return None
    for name, other in (("tls_certfile", "tls_keyfile"), ("tls_keyfile", "tls_certfile")):
        if not getattr(settings, name):
            raise SettingError(f"serve.{name}", f"must be set if {other} is set", None, "name both PEM files")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Never without a password: OpenSSL would prompt for it on the terminal.
        context.load_cert_chain(settings.tls_certfile, settings.tls_keyfile, password="")
    except (OSError, ssl.SSLError) as error:
        reason = str(getattr(error, "reason", "") or getattr(error, "strerror", "") or error)
        rule = f"must be readable PEM files with a matching key without a password ({reason.lower().replace('_', ' ')})"
        files = [settings.tls_certfile, settings.tls_keyfile]
        raise SettingError("serve.tls_certfile and serve.tls_keyfile", rule, files, "check both files") from None
    return context


class Port:
    """The routes of the port. access: who may send requests  adds: whether pages can be added"""

    def __init__(
        self, settings: ServeSettings, access: Access, judge_thread: JudgeThread, metrics: ServeMetrics, adds: bool
    ) -> None:
        self._access = access
        self._judge_thread = judge_thread
        self._metrics = metrics
        capacity = Capacity(settings.waiting_bytes, settings.client_share, "bytes")
        turns = Turns(settings.client_requests, judge_thread.clients)
        metrics.watch("spotsieve_serve_waiting_bytes", "Bytes of requests in progress.", lambda: capacity.used)
        self._openapi = orjson.dumps(openapi_document(settings, adds))
        self._judging = {
            path: JudgeEndpoint(path, settings, judge_thread, metrics, capacity, turns, read)
            for act in ("lookup", "add")
            for path, read in ((f"/v1/{act}", read_page), (f"/v1/{act}/batch", read_pages))
            if act == "lookup" or adds
        }

    def app(self) -> ASGIApp:
        """The ASGI application. Requests for verdicts bypass Starlette, whose layers they do not need."""
        rest, judging = self._rest(), self._judging

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            if (refusal := self._access.check(scope["path"], scope["headers"])) is not None:
                await self._refuse(refusal)(scope, receive, send)
                return
            endpoint = judging.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
            await (rest if endpoint is None else endpoint)(scope, receive, send)

        return route

    def _refuse(self, refusal: AccessRefusal) -> Response:
        self._metrics.requests.labels("other", str(refusal.status)).inc()
        response = Response(orjson.dumps(error_response(refusal.error)), refusal.status, media_type=JSON)
        response.raw_headers += refusal.headers
        return response

    def _rest(self) -> Starlette:
        """The Starlette application of all other routes. It knows the verdict paths to refuse other methods."""
        routes = [
            *(Route(path, judging, methods=["POST"]) for path, judging in self._judging.items()),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/metrics", self._scrape),
            Route("/openapi.json", self._describe),
        ]
        rest = Starlette(routes=routes, exception_handlers={HTTPException: self._no_route, Exception: _defect})
        # A redirect would name http:// behind a proxy with TLS, where the token must not go.
        rest.router.redirect_slashes = False
        return rest

    async def _health(self, _: Request) -> Response:
        failure = self._judge_thread.failure
        return PlainTextResponse(f"{failure or 'ok'}\n", 503 if failure else 200)

    async def _readiness(self, request: Request) -> Response:
        if self._judge_thread.stopping or self._judge_thread.is_opening:
            return PlainTextResponse("stopping\n" if self._judge_thread.stopping else f"{OPENING}\n", 503)
        return await self._health(request)

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
ACCEPTS = 16
"""Connections accepted in a turn of the event loop: libuv accepts one for each handle of the socket. With one handle, a
new connection waited seconds behind those of a flood, although requests on open connections took milliseconds."""


def bind(settings: ServeSettings) -> socket.socket:
    """The listening socket. Raises SettingError if the port is in use, or serve.connections are too many."""
    _check_connections(settings.connections)
    return listen("serve", settings.host, settings.port, BACKLOG)


SPARE_FILES = 128
"""Open files beside connections and table files."""


def _check_connections(connections: int) -> None:
    """Check that the limit of open files allows the connections beside a large state. Raises SettingError."""
    raise_file_limit()
    allowed = file_limit() - most_open_files() - SPARE_FILES
    if connections > allowed:
        rule = f"must be at most {max(0, allowed):,}, because this process may open {file_limit():,} files"
        then = "raise the hard limit of open files (ulimit -Hn, LimitNOFILE of systemd), or lower the setting"
        raise SettingError("serve.connections", rule, connections, then)


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

    The port answers while the state is opened, because probes must tell a slow start from a dead process. Ends the
    process with exit code 0 if a state is still being opened when it stops.

    open_state: opens the state, in another thread  batch_pages: limit on the pages of requests judged together
    adds: whether pages can be added  refreshes: whether to reopen the state every refresh_seconds
    Raises SettingError for a token or TLS files that cannot be used, and StateError if the state cannot be opened or
    closed.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        still_opening = runner.run(_serve(settings, listening, open_state, batch_pages, adds, refreshes))
    if still_opening:
        # Perhaps for minutes: the owner of the state does not respond, or the state is large. It is as after a kill -9.
        os._exit(EXIT_OK)


async def _serve(
    settings: ServeSettings,
    listening: socket.socket,
    open_state: Callable[[], Deduplicator],
    batch_pages: int,
    adds: bool,
    refreshes: bool,
) -> bool:
    """Serve, and return whether a thread still opens a state."""
    access, context = Access(settings, listening.getsockname()[0]), tls_context(settings)
    metrics = ServeMetrics()
    connections = Connections(settings, metrics.refused_connections)
    metrics.watch("spotsieve_serve_connections", "Open connections.", lambda: connections.open)
    judge_thread = JudgeThread(open_state, settings, batch_pages, metrics)
    host, number = listening.getsockname()[:2]
    server = _Server(
        uvicorn.Config(
            Port(settings, access, judge_thread, metrics, adds).app(),
            http="httptools",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.stop_seconds,
        ),
        connections,
        context,
        judge_thread,
    )
    tasks = TaskScope()
    fault: Exception | None = None

    async def open_and_work() -> None:
        nonlocal fault
        try:
            await judge_thread.open()
        except Exception as error:
            # The server ends as after a signal: if it is cancelled before it listens, uvloop does not close.
            fault = error
            judge_thread.stopping = server.should_exit = True
            return
        # A whole collection stops all responses: for 0.1 s among the compiler's objects, for 0.02 s among those of
        # many requests. So the former are left out, and the latter rarely collected: most are freed without it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], 100)
        logger().info(
            "serving",
            url=f"{'http' if context is None else 'https'}://{f'[{host}]' if ':' in host else host}:{number}",
            adds=adds,
            known_pages=judge_thread.known_pages,
        )
        if refreshes and settings.refresh_seconds:
            tasks.start(judge_thread.refresh(settings.refresh_seconds))
        await judge_thread.work()

    try:
        async with tasks:
            tasks.start(connections.sweep())
            tasks.start(open_and_work())
            if not access.needs_token and not is_loopback(host):
                logger().warning("anyone who reaches this port can use it; set serve.token_file, or use a proxy")
            await server.serve([listening])
    finally:
        still_opening = judge_thread.close()
    if fault is not None:
        raise fault
    logger().info("stopped", known_pages=judge_thread.known_pages)
    return still_opening


class _Server(uvicorn.Server):
    """uvicorn's server with guarded connections. It does not end the process with the signal that stopped it."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        context: ssl.SSLContext | None,
        judge_thread: JudgeThread,
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._context = context
        self._judge_thread = judge_thread

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with the limits of the settings on each connection."""
        self.servers = [
            await asyncio.get_running_loop().create_server(
                lambda: GuardedProtocol(self.config, self.server_state, self._connections),
                sock=listening.dup(),
                ssl=self._context,
                ssl_handshake_timeout=self._connections.settings.head_seconds if self._context else None,
                backlog=BACKLOG,
            )
            for listening in sockets or ()
            for _ in range(ACCEPTS)
        ]
        self.started = True

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
