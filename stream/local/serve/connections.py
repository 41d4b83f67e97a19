"""Limits the connections of the HTTP port and what is read from each before the application runs.

uvicorn and httptools keep a request line and headers of any size, any number of requests behind each other, and a
connection that never finishes its headers. GuardedProtocol is uvicorn's protocol with limits on all of these.
"""

import asyncio
import ipaddress
import time
from enum import Enum, auto
from typing import NamedTuple

import httptools
import orjson
import uvicorn
from prometheus_client import Counter
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.local.serve.fairness import ReadQueue

MOST_PIPELINED = 8
"""Requests that one connection may send before it has the response to the first."""
PART_BYTES = 2**14
"""The parser gets so much at a time until the headers are complete, so that counting stops it early."""
SWEEP_SECONDS = 1.0
LINGER_SECONDS = 1.0
"""Time for a client to read a refusal before its connection closes."""
BODY_MARGIN_SECONDS = 5.0
"""The endpoint answers a slow body; a body of a request without an endpoint is cut off this much later."""


CONNECTION = "spotsieve.connection"
"""Key of the ASGI scope of a request: its connection, a GuardedProtocol."""


class _Refusal(NamedTuple):
    """Why a connection is closed. reason: label of the metric"""

    reason: str
    status: int
    error: str


class ConnectionPhase(Enum):
    """Where a connection is. GuardedProtocol.room_rank derives from it which one makes room for a new one."""

    HEAD = auto()
    """Waits for a request line, or receives it and its headers."""
    BODY = auto()
    """Receives a body."""
    BUSY = auto()
    """The request is complete, and its response is not."""
    LINGER = auto()
    """Refused; the client may read why."""


class Connections:
    """The open connections of a port, by client address. One client holds at most a share of them.

    A new connection beyond a limit takes the place of one that has no complete request: first of one that never had a
    response, then of an idle one, then of one that still sends a body; of several, the one that is so the longest.
    """

    def __init__(self, settings: ServeSettings, refused: Counter) -> None:
        """refused: counter with the label `reason`"""
        self.settings = settings
        self._most = settings.connections
        self._client_most = max(1, int(settings.connections * settings.client_share))
        self._by_client = dict[str, tuple[dict[GuardedProtocol, None], ...]]()
        """Client -> its connections by room_rank, each since when it has this rank, the longest first."""
        self._refused = refused
        self.open = 0
        self.reads = ReadQueue()

    def count_refusal(self, reason: str) -> None:
        """Count a closed connection."""
        self._refused.labels(reason).inc()

    def admit(self, new: "GuardedProtocol") -> bool:
        """Add a connection, if there is room or another one makes room."""
        crowd = self._by_client.get(new.address, ())
        if _size(crowd) < self._client_most:
            crowd = max(self._by_client.values(), key=_size) if self.open >= self._most else ()
        if crowd and not self._make_room(crowd):
            return False
        self._by_client.setdefault(new.address, tuple({} for _ in range(_NEVER + 1)))[new.rank][new] = None
        self.open += 1
        return True

    def note_rank(self, connection: "GuardedProtocol") -> None:
        """Note that the room_rank of a connection may have changed."""
        crowd, rank = self._by_client.get(connection.address, ()), connection.room_rank
        if rank != connection.rank and crowd and connection in crowd[connection.rank]:
            del crowd[connection.rank][connection]
            crowd[rank][connection] = None
            connection.rank = rank

    def remove(self, connection: "GuardedProtocol") -> None:
        """Remove a connection, if it is here."""
        crowd = self._by_client.get(connection.address, ())
        if crowd and connection in crowd[connection.rank]:
            del crowd[connection.rank][connection]
            self.open -= 1
            if not _size(crowd):
                del self._by_client[connection.address]

    async def sweep(self) -> None:
        """Close connections that are too slow, forever."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self.settings.head_seconds / 4))
            now = time.monotonic()
            connections = [one for crowd in self._by_client.values() for ranked in crowd for one in ranked]
            for connection in connections:
                connection.check_time(now)

    def _make_room(self, crowd: "tuple[dict[GuardedProtocol, None], ...]") -> bool:
        chosen = next((next(iter(ranked)) for ranked in crowd[:_NEVER] if ranked), None)
        if chosen is None:
            return False
        if chosen.phase is not ConnectionPhase.LINGER:
            self.count_refusal("made_room")
        self.remove(chosen)
        chosen.transport.abort()
        return True


def _size(crowd: "tuple[dict[GuardedProtocol, None], ...]") -> int:
    """The number of connections of a client."""
    return sum(map(len, crowd))


class GuardedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's HTTP protocol within the limits of the settings."""

    def __init__(self, config: uvicorn.Config, state: ServerState, connections: Connections) -> None:
        super().__init__(config, state, {})
        self.address = ""
        self.phase = ConnectionPhase.HEAD
        self.rank = 0
        """The room_rank that the connections of the port have noted."""
        self.is_lost = False
        self._connections = connections
        self._settings = connections.settings
        self._since: float | None = time.monotonic()
        """When the current head or body began; None while the connection is idle."""
        self._unwritable_since: float | None = None
        self._waits = False
        """Received bytes wait for their turn in the read queue."""
        self._served = False
        self._unread = 0
        """Bytes of the current message that the parser has, since its beginning or its latest body bytes."""
        self._head_bytes = self._headers = 0
        self._has_body = False
        """A byte of the current body has arrived."""
        self._closes = False
        """The connection closes behind the current body."""
        self._fault: _Refusal | None = None
        self._cycles = list[RequestResponseCycle]()
        """Requests without a complete response, the first of which is being answered."""

    @property
    def room_rank(self) -> int:
        """How soon this connection makes room for a new one; 0 is first, and _NEVER never."""
        if self._waits or self.phase is ConnectionPhase.BUSY:
            return _NEVER
        if self.phase is ConnectionPhase.BODY:
            cycle: RequestResponseCycle | None = self.cycle
            return 0 if cycle is not None and cycle.response_complete else 2
        return int(self._served and self.phase is ConnectionPhase.HEAD)

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = client_of(self.client)
        if not self._connections.admit(self):
            self._connections.count_refusal("connections")
            transport.write(self._response(_NO_ROOM))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        # uvicorn tells this to the latest request alone. The others would write to a closed connection.
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        # Requests refer to their connection. Without these references both are freed at once: thousands of lost
        # connections would wait for the garbage collector, which would then stop all responses for 0.1 s.
        self.is_lost = True
        self.cycle = None  # type: ignore[assignment]  # As before the first request.
        self._cycles.clear()
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._since is None:
            self._since = time.monotonic()
        self._connections.reads.receive(self.address, self, data)

    def pause_writing(self) -> None:
        self._unwritable_since = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._unwritable_since = None
        super().resume_writing()

    # Callbacks of the read queue

    def wait(self) -> None:
        """Receive nothing more until go_on()."""
        self._waits = True
        self._connections.note_rank(self)
        self.transport.pause_reading()

    def go_on(self) -> None:
        """Receive again, unless the application or a refusal stopped that."""
        self._waits = False
        self._connections.note_rank(self)
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def read(self, data: bytes) -> None:
        """Give received bytes to the parser, within the limits."""
        at = 0
        while at < len(data) and self.phase is not ConnectionPhase.LINGER and not self.transport.is_closing():
            part = data[at : at + PART_BYTES] if self.phase is ConnectionPhase.HEAD else data[at:]
            at += len(part)
            # The part may begin a message, or be body: then what it leaves unread is shorter, and counts from the next.
            self._unread += len(part)
            try:
                self._parse(part)
            except httptools.HttpParserError:
                self._refuse(self._fault or _NOT_HTTP)
                break
            if self._unread > self._settings.head_bytes:
                self._refuse(_LONG_HEAD)
        self._connections.note_rank(self)

    def _parse(self, part: bytes) -> None:
        """Give bytes to the parser. Raises httptools.HttpParserError.

        A client may offer another protocol, as Java's HttpClient offers h2c with its first request. The parser then
        ends the message behind its headers. No response accepts the offer, so the message goes on in HTTP/1.1: a new
        parser gets its headers without the offer, and then its body.
        """
        while part:
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    self.cycle.keep_alive = False  # The application answers 405. No HTTP follows the headers.
                    return
                (end,) = upgrade.args
                head = [
                    b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
                ]
                head += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
                part = b"\r\n".join([*head, b"", part[end:]])
                self.parser = httptools.HttpRequestParser(self)
            else:
                return

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            self._fail(_PIPELINED)
        super().on_message_begin()
        self._unset_keepalive_if_required()  # The message may be behind a body in the same data.
        self.scope[CONNECTION] = self  # type: ignore[literal-required]  # An extension of ASGI's keys.
        if self.phase is not ConnectionPhase.HEAD:
            self.phase, self._since, self._unread = ConnectionPhase.HEAD, time.monotonic(), 0
        self._head_bytes = self._headers = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers += 1
        if self._headers > self._settings.max_headers:
            self._fail(_MANY_HEADERS)
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._offers_upgrade():
            return
        self._has_body = False
        self.phase, self._since, self._unread = ConnectionPhase.BODY, time.monotonic(), 0
        super().on_headers_complete()
        if not self.cycle.keep_alive:
            self.cycle.transport = _LastTransport(self)  # type: ignore[assignment]
        self._cycles.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._has_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._offers_upgrade():
            return
        self._unread = 0
        super().on_message_complete()
        self.phase, self._since = ConnectionPhase.BUSY, None
        if self._closes:
            self.transport.close()
        elif self.cycle.response_complete:
            self._rest()
            # uvicorn started this timer at the response, and the rest of the body stopped it.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        if self.is_lost:
            return
        self._served = True
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        super().on_response_complete()
        if self.cycle.response_complete and self.phase is ConnectionPhase.BUSY:
            self._rest()
        elif self.expect_100_continue and self.phase is ConnectionPhase.BODY and not self._has_body:
            self.transport.close()  # After this response the client does not send its body.
        # Otherwise the rest of a body is read and dropped: a client that still sends could not read the response if
        # the connection closed.
        self._connections.note_rank(self)

    def close_behind_body(self) -> None:
        """Close the connection when the current body has arrived. Until then a client could not read the response."""
        self._closes = self.phase is ConnectionPhase.BODY
        if not self._closes:
            self.transport.close()

    def _offers_upgrade(self) -> bool:
        """Whether _parse() gives the current message to a new parser. CONNECT is no offer, and is answered."""
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    # Limits

    def check_time(self, now: float) -> None:
        """Close the connection if its client is too slow. now: time.monotonic()"""
        settings = self._settings
        spent = 0.0 if self._since is None else now - self._since
        if self._unwritable_since is not None and now - self._unwritable_since > settings.body_seconds:
            self._connections.count_refusal("slow_reader")
            self.transport.abort()
        elif self._waits:
            return  # The time passes here, and the client is not slow.
        elif self.phase is ConnectionPhase.LINGER and spent > LINGER_SECONDS:
            self.transport.abort()
        elif self.phase is ConnectionPhase.HEAD and spent > settings.head_seconds:
            self._refuse(_SLOW_HEAD)
        elif self.phase is ConnectionPhase.BODY and spent > settings.body_seconds + BODY_MARGIN_SECONDS:
            self._connections.count_refusal("slow_body")
            self.transport.abort()

    def _rest(self) -> None:
        self.phase, self._since = ConnectionPhase.HEAD, None

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._settings.head_bytes:
            self._fail(_LONG_HEAD)

    def _fail(self, refusal: _Refusal) -> None:
        """Stop the parser, which does not pass errors of callbacks on."""
        self._fault = refusal
        raise ValueError(refusal.reason)

    def _refuse(self, refusal: _Refusal) -> None:
        """Send a refusal, and close the connection soon: a client that still sends could not read it otherwise."""
        self._connections.count_refusal(refusal.reason)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()  # The refusal would be taken for the response to an earlier request.
            return
        self.phase, self._since = ConnectionPhase.LINGER, time.monotonic()
        self.flow.pause_reading()
        self.transport.write(self._response(refusal))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _response(self, refusal: _Refusal) -> bytes:
        body = orjson.dumps({"error": refusal.error})
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
        later = b"retry-after: 1\r\n" if refusal.status == 503 else b""
        return b"".join((STATUS_LINE[refusal.status], head, later, b"\r\n", body))


class _LastTransport:
    """The transport of a request after which the client wants the connection closed, as uvicorn uses it."""

    def __init__(self, connection: GuardedProtocol) -> None:
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing
        self.close = connection.close_behind_body


_NEVER = 3
"""The room_rank of a connection that makes no room."""
_LONG_HEAD = _Refusal(
    "long_head", 431, "request line and headers are too long (serve.head_bytes); send fewer or shorter headers"
)
_MANY_HEADERS = _Refusal("many_headers", 431, "the request has too many headers (serve.max_headers); send fewer")
_SLOW_HEAD = _Refusal(
    "slow_head", 408, "request line and headers took too long (serve.head_seconds); send them at once"
)
_PIPELINED = _Refusal("pipelined", 429, "too many requests wait for responses; wait for responses before sending more")
_NOT_HTTP = _Refusal("not_http", 400, "this is not an HTTP/1.1 request; check the client, and http:// against https://")
_NO_ROOM = _Refusal(
    "connections", 503, "too many connections are open (serve.connections, serve.client_share); retry in a second"
)


def client_of(address: tuple[str, int] | None) -> str:
    """The name under which the requests of a client count: its IPv4 address, or the /64 network of its IPv6 address."""
    host = address[0] if address else ""
    if ":" not in host:
        return host
    parsed = ipaddress.IPv6Address(host.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
