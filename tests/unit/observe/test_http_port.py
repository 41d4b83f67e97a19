"""No client of the HTTP port can hold it up or make it grow, and it reads nothing after the headers."""

import contextlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from spotsieve.stream.base.settings.runtime import MetricsSettings
from spotsieve.stream.observe.health import CONNECTION_SECONDS, HEAD_BYTES, MOST_CONNECTIONS, HealthServer
from spotsieve.stream.observe.metrics import Metrics

HOST = "127.0.0.1"
POST = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
ASYNCIO_READS_BYTES = 256 * 1024
LATE_SECONDS = 16 * CONNECTION_SECONDS
"""A busy machine cuts off late, but it does."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HealthServer(MetricsSettings(host=HOST, port=0), Metrics().registry, list, list)
    yield server.port
    server.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), LATE_SECONDS)


def response(connection: socket.socket) -> bytes:
    """Everything that the server sends until it ends the connection in any way."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def ask(port: int, request: bytes) -> bytes:
    with connect(port) as connection:
        connection.sendall(request)
        return response(connection)


def status(response: bytes) -> bytes:
    return response.partition(b"\r\n")[0]


def check_healthy(port: int) -> None:
    assert status(ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")) == b"HTTP/1.0 200 OK"


@pytest.mark.guarantee("no client blocks the HTTP port or makes its memory grow", fault="a body of a gigabyte")
def test_a_huge_body_is_answered_and_not_read(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(POST)
        connection.settimeout(1)
        sent = 0
        with contextlib.suppress(OSError):  # Full buffers, or a connection that the server has ended.
            while sent < 2**28:
                sent += connection.send(bytes(2**20))
        assert sent < 2**26, "only the buffers between the two took any of it"
    assert status(ask(port, POST)) == b"HTTP/1.0 405 Method Not Allowed"
    check_healthy(port)


def test_a_body_that_trickles_in_is_not_waited_for(port: int) -> None:
    chunked = b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"
    assert status(ask(port, chunked)) == b"HTTP/1.0 200 OK"


@pytest.mark.guarantee(
    "no client blocks the HTTP port or makes its memory grow", fault="300 clients that send incomplete requests"
)
def test_hundreds_of_slow_connections_keep_no_scrape_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "spotsieve.stream.observe.health.CONNECTION_SECONDS", 600.0
    )  # Not the time: their number ends them.
    threads = threading.active_count()
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(port)) for _ in range(300)]
        for number, connection in enumerate(slow):
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"x" * (number % 50))
        for _ in range(5):
            check_healthy(port)
        assert threading.active_count() == threads, "no thread a connection"
        ended = sum(response(connection) == b"" for connection in slow[: -MOST_CONNECTIONS - 1])
        assert ended == 300 - MOST_CONNECTIONS - 1, "the oldest make room"


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off(port: int) -> None:
    with connect(port) as connection:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < LATE_SECONDS:
                connection.sendall(b"x")
                time.sleep(0.1)  # Time itself: a client is slow by waiting.
        assert time.monotonic() - began < LATE_SECONDS


def test_a_client_that_does_not_read_is_cut_off(port: int) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(LATE_SECONDS)
        connection.connect((HOST, port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        check_healthy(port)
        time.sleep(CONNECTION_SECONDS + 1)  # Time itself: what a client may take has passed.
        check_healthy(port)
        response(connection)


@pytest.mark.guarantee("no client blocks the HTTP port or makes its memory grow", fault="endless headers, 400 times")
def test_headers_without_end_take_no_memory(port: int) -> None:
    check_healthy(port)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        junk = b"GET /metrics HTTP/1.1\r\n" + b"X-Junk: " + b"j" * 2**20
        for _ in range(400):
            with connect(port) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(junk)
        check_healthy(port)
        # 400 MiB were sent; a connection holds what asyncio reads at a time.
        most = len(junk) + MOST_CONNECTIONS * ASYNCIO_READS_BYTES + 16 * 2**20
        assert tracemalloc.get_traced_memory()[1] - before < most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("request_bytes", "status_line"),
    [
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES + b"\r\n\r\n", b"HTTP/1.0 431 "),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * (HEAD_BYTES // 6) + b"\r\n", b"HTTP/1.0 431 "),
        (b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\n\r\n", b"HTTP/1.0 414 "),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HTTP/1.0 400 "),
        (b"GET /healthz\r\n\r\n", b"HTTP/1.0 400 "),
        (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", b"HTTP/1.0 400 "),
        (b"\r\n\r\n", b"HTTP/1.0 400 "),
        (b"get /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.0 405 "),
        (b"CONNECT example.org:443 HTTP/1.1\r\n\r\n", b"HTTP/1.0 405 "),
        (b"GET http://example.org/metrics HTTP/1.1\r\n\r\n", b"HTTP/1.0 404 "),
        (b"GET /healthz HTTP/1.1\n\n", b"HTTP/1.0 200 "),
    ],
)
def test_what_is_no_request_of_ours_is_refused(port: int, request_bytes: bytes, status_line: bytes) -> None:
    response = ask(port, request_bytes)
    assert response.startswith(status_line)
    assert b"example" not in response
    check_healthy(port)


def test_a_second_request_on_the_connection_is_not_answered(port: int) -> None:
    request = b"GET /healthz HTTP/1.1\r\n\r\n"
    assert ask(port, request * 3).count(b"HTTP/1.0 200 OK") == 1


def test_nothing_tells_what_serves(port: int) -> None:
    response = ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").lower()
    assert b"server:" not in response
    assert b"python" not in response


def test_a_scrape_is_compressed_where_the_client_takes_it(port: int) -> None:
    response = ask(port, b"GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip\r\n\r\n")
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert body.startswith(b"\x1f\x8b")
    assert f"Content-Length: {len(body)}".encode() in head


def test_the_port_is_bound_on_the_address_that_is_configured_alone(port: int) -> None:
    with socket.socket() as connection:
        connection.settimeout(LATE_SECONDS)
        assert connection.connect_ex(("127.0.0.2", port)) != 0


def test_closing_waits_for_no_client() -> None:
    server = HealthServer(MetricsSettings(host=HOST, port=0), Metrics().registry, list, list)
    with connect(server.port) as silent:
        check_healthy(server.port)
        began = time.process_time()
        server.close()
        assert time.process_time() - began < CONNECTION_SECONDS
        assert response(silent) == b""
