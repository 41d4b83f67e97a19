"""Limits of `spotsieve serve` before its application runs: slow, huge and many requests, names, token and TLS."""

import asyncio
import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.base.settings.runtime import ServeSettings
from spotsieve.stream.cli import main
from spotsieve.stream.local.serve.connections import Connections, GuardedProtocol, client_of
from spotsieve.stream.local.serve.fairness import (
    FLOOD_TURNS,
    RECENT_SECONDS,
    SLICE_SECONDS,
    BusyError,
    Capacity,
    DisconnectedError,
    FairQueue,
    ReadQueue,
    RecentClients,
    Turns,
)
from spotsieve.stream.local.serve.judge_thread import ServeMetrics
from spotsieve.stream.local.serve.server import Access, tls_context
from spotsieve.stream.local.serve.wire import BatchTooLargeError, read_page, read_pages
from tests.conftest import REPOSITORY
from tests.fixtures.brokers.certificates import Authority, locked
from tests.fixtures.cpu_time import assert_cpu_ratio
from tests.fixtures.filter_crawl import article, write_crawl
from tests.fixtures.hostile_clients import ATTACKS
from tests.fixtures.http_port import JSON, HttpPort, http_port
from tests.fixtures.waiting import SECONDS, wait_until

TOKEN = "a-token-of-more-than-16-characters"
FEW = ("--set", "serve.connections=40", "--set", "serve.head_seconds=1", "--set", "serve.body_seconds=2")
HEAD = b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAGE = {"url": "https://copy.example/", "body": f"<p>{article(1)}</p>"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    write_crawl(folder / "crawl.jsonl")
    assert main(["filter", str(folder / "crawl.jsonl"), "--state", str(folder / "state")]) == 0
    return folder / "state"


@pytest.fixture(scope="module")
def port(state: Path) -> Iterator[HttpPort]:
    """A port of few connections and short times."""
    with http_port(state, *FEW) as port:
        yield port


def refused(port: HttpPort, reason: str) -> float:
    """Connections that were refused for a reason."""
    lines = port.ask("/metrics")[1].splitlines()
    name = f'spotsieve_serve_refused_connections_total{{reason="{reason}"}} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def response(port: HttpPort, *parts: bytes) -> tuple[int, str]:
    """Send bytes, and read the status and the error of the response."""
    with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
        for part in parts:
            client.sendall(part)
        response = http.client.HTTPResponse(client)
        response.begin()
        return response.status, json.loads(response.read())["error"]


@pytest.mark.parametrize(
    ("parts", "status", "says", "reason"),
    [
        ((HEAD + b"X: " + b"x" * 20_000,), 431, "serve.head_bytes", "long_head"),
        ((HEAD + b"X: ", *[b"x" * 4_000] * 6), 431, "serve.head_bytes", "long_head"),
        ((b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n",), 431, "serve.head_bytes", "long_head"),
        ((HEAD + b"X: y\r\n" * 64,), 431, "serve.max_headers", "many_headers"),
        ((HEAD + b"X-Slow: ",), 408, "serve.head_seconds", "slow_head"),
        ((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",), 400, "http:// against https://", "not_http"),
    ],
    ids=["long", "long in parts", "long line", "many", "slow", "TLS"],
)
def test_a_head_beyond_a_limit_is_refused_in_one_sentence(
    port: HttpPort, parts: tuple[bytes, ...], status: int, says: str, reason: str
) -> None:
    before = refused(port, reason)
    got, error = response(port, *parts)
    assert got == status
    assert says in error
    assert refused(port, reason) == before + 1


def test_requests_behind_each_other_are_answered_up_to_a_limit(port: HttpPort) -> None:
    body = json.dumps(PAGE).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
        client.sendall(request * 5)
        received = b""
        while received.count(b'"duplicate_of":"p1"') < 5:
            part = client.recv(65_536)
            assert part, received
            received += part
        assert received.count(b"HTTP/1.1 200") == 5
    before = refused(port, "pipelined")
    with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
        client.sendall(request * 50)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(65_536):
                pass
    assert refused(port, "pipelined") == before + 1


def test_a_trailer_that_never_ends_is_cut_off(port: HttpPort) -> None:
    with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            client.sendall(b"x" * 2**26)


def test_a_client_that_sends_a_body_to_a_path_without_one_is_cut_off(port: HttpPort) -> None:
    with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx")
        received = b""
        while part := client.recv(65_536):
            received += part
    assert received.startswith(b"HTTP/1.1 200")


async def _refuse(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("parts", [[b"x" * 9], [b"x" * 4, b"x" * 5]], ids=len)
async def test_a_connection_that_is_idle_after_a_refused_body_is_closed(parts: list[bytes]) -> None:
    config = uvicorn.Config(_refuse, http="httptools", lifespan="off", ws="none", log_config=None, timeout_keep_alive=1)
    state, connections = ServerState(), Connections(ServeSettings(), ServeMetrics().refused_connections)
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: GuardedProtocol(config, state, connections), "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(HEAD + b"Content-Length: 9\r\n\r\n")
        for part in parts:
            if part is parts[0]:
                response = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
                assert response.startswith(b"HTTP/1.1 413")
            assert connections.open == 1
            writer.write(part)
            await asyncio.sleep(0.1)  # Time itself: the parts must arrive apart.
        assert await asyncio.wait_for(reader.read(), SECONDS / 4) == b""
        writer.close()


@pytest.mark.guarantee("ordinary look-ups are answered", fault="connections of hostile clients")
@pytest.mark.parametrize("kind", ATTACKS)
def test_look_ups_are_answered_while_more_hostile_connections_come_than_there_may_be(port: HttpPort, kind: str) -> None:
    seconds, connections = 2.5, 80
    command = [sys.executable, "-m", "tests.fixtures.hostile_clients", str(port.number), kind, str(connections)]
    with subprocess.Popen(
        [*command, str(seconds), "127.0.0.2"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as attacking:
        assert attacking.stdout is not None
        assert attacking.stdout.readline() == "ready\n"
        answered = 0
        while attacking.poll() is None:
            status, found = port.ask("/v1/lookup", PAGE)
            assert (status, found["duplicate_of"]) == (200, "p1")
            answered += 1
        assert int(attacking.stdout.read()) >= connections
    assert answered >= 5
    assert psutil.Process(port.process.pid).memory_info().rss < 2**30
    wait_until(lambda: port.metric("spotsieve_serve_connections") <= 2, SECONDS, "the connections to end")
    assert port.metric("spotsieve_serve_waiting_bytes") == port.metric("spotsieve_serve_waiting_pages") == 0


def test_silent_connections_of_the_same_client_make_room_for_new_ones(port: HttpPort) -> None:
    before = refused(port, "made_room")
    silent = [socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) for _ in range(30)]
    try:
        assert port.ask("/v1/lookup", PAGE)[0] == 200
        assert refused(port, "made_room") > before
    finally:
        for client in silent:
            client.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:7768"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:7768", "Origin": "http://localhost:3000"}, 200),
        ({"Host": "evil.example:7768"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1@evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/v1/lookup", "/metrics", "/openapi.json", "/healthz"])
def test_a_port_on_loopback_answers_only_to_its_own_names(
    port: HttpPort, headers: dict[str, str], status: int, path: str
) -> None:
    got, found = port.ask(path, PAGE if path == "/v1/lookup" else None, {**JSON, **headers})
    assert got == status
    assert status == 200 or "serve.allowed_hosts" in found["error"]


def test_further_names_are_a_setting_and_other_addresses_accept_any_name_without_it() -> None:
    def allows(host: str, address: str, *names: str) -> bool:
        access = Access(ServeSettings(allowed_hosts=names), address)
        return access.check("/v1/lookup", [(b"host", host.encode())]) is None

    assert allows("Filter.Example.:80", "127.0.0.1", "filter.example")
    assert not allows("other.example", "::1", "filter.example")
    assert allows("anything.example", "0.0.0.0")
    assert allows("filter.example", "0.0.0.0", "filter.example")
    assert not allows("anything.example", "0.0.0.0", "filter.example")
    twice = [(b"host", b"localhost"), (b"host", b"evil.example")]
    assert Access(ServeSettings(), "127.0.0.1").check("/metrics", twice) is not None


@pytest.mark.parametrize(
    "name",
    [
        "filter.example:443",
        "https://filter.example",
        "[2001:db8::1]",
        "*",
        "*.example",
        "a@b.example",
        "f\u00fc",
        " ",
        "",
    ],
)
def test_a_name_of_the_port_that_no_request_can_have_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=r"serve\.allowed_hosts must hold host names or addresses alone"):
        Access(ServeSettings(allowed_hosts=("filter.example", "2001:db8::1", name)), "127.0.0.1")


def test_a_token_and_tls_are_needed_where_they_are_set_and_never_told(state: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n", "utf-8")
    authority = Authority(tmp_path / "ca", "test")
    files = authority.sign("port", "IP:127.0.0.1")
    given = (
        ("serve.token_file", tmp_path / "token"),
        ("serve.tls_certfile", files.certificate),
        ("serve.tls_keyfile", files.key),
    )
    arguments = [word for name, value in given for word in ("--set", f"{name}={value}")]
    context = ssl.create_default_context(cafile=authority.certificate)

    def ask(number: int, path: str, headers: dict[str, str]) -> int:
        connection = http.client.HTTPSConnection("127.0.0.1", number, timeout=SECONDS, context=context)
        try:
            body = None if path != "/v1/lookup" else json.dumps(PAGE)
            connection.request("GET" if body is None else "POST", path, body, {**JSON, **headers})
            response = connection.getresponse()
            assert TOKEN not in response.read().decode()
            return response.status
        finally:
            connection.close()

    command = [sys.executable, "-m", "spotsieve.stream", "serve", "--state", str(state), "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = list[str]()
        for line in iter(process.stderr.readline, ""):
            lines.append(line)
            if '"serving"' in line:
                break
        number = int(json.loads(lines[-1])["url"].rpartition(":")[2])
        login = {"Authorization": f"Bearer {TOKEN}"}
        for path in ("/v1/lookup", "/metrics", "/openapi.json"):
            assert ask(number, path, {}) == 401
            assert ask(number, path, {"Authorization": f"Bearer {TOKEN}x"}) == 401
            assert ask(number, path, {"Authorization": f"Basic {TOKEN}"}) == 401
            assert ask(number, path, login) == 200
        assert ask(number, "/healthz", {}) == ask(number, "/readyz", {}) == 200
        process.terminate()
        assert TOKEN not in "".join(lines) + process.stderr.read()


def test_wrong_tokens_and_tls_files_are_told_in_one_sentence(tmp_path: Path) -> None:
    for token in ("short", "with a space in the middle of it", "ü" * 20):
        with pytest.raises(SettingError, match="openssl rand -hex 32") as caught:
            Access(load_settings(None, {"SPOTSIEVE_SERVE__TOKEN": token}, {}).serve, "127.0.0.1")
        assert token not in str(caught.value)
    authority = Authority(tmp_path / "ca", "test")
    one, other = authority.sign("one"), authority.sign("other")
    assert tls_context(ServeSettings()) is None
    assert tls_context(ServeSettings(tls_certfile=str(one.certificate), tls_keyfile=str(one.key))) is not None
    for files, says in (
        ({"tls_certfile": str(one.certificate)}, "must be set if tls_certfile is set"),
        ({"tls_keyfile": str(one.key)}, "must be set if tls_keyfile is set"),
        ({"tls_certfile": str(one.certificate), "tls_keyfile": str(other.key)}, "key values mismatch"),
        ({"tls_certfile": str(tmp_path / "none"), "tls_keyfile": str(one.key)}, "no such file"),
        ({"tls_certfile": str(one.key), "tls_keyfile": str(one.key)}, "must be readable PEM files"),
        ({"tls_certfile": str(one.certificate), "tls_keyfile": str(locked(one.key, "secret"))}, "without a password"),
    ):
        with pytest.raises(SettingError, match=says) as refusal:
            tls_context(ServeSettings(**files))
        assert "\n" not in str(refusal.value)


def test_clients_are_ipv4_addresses_and_ipv6_networks() -> None:
    assert client_of(None) == ""
    assert client_of(("192.0.2.1", 5)) == "192.0.2.1" == client_of(("::ffff:192.0.2.1", 5))
    assert client_of(("2001:db8::1", 5)) == client_of(("2001:db8::ffff%eth0", 6)) != client_of(("2001:db8:0:1::1", 5))


def test_one_client_gets_a_share_and_the_largest_slow_request_gives_way() -> None:
    capacity, lost = Capacity(100, 0.5, "bytes"), list[str]()
    with capacity.claim("a") as slow, capacity.claim("a") as small, capacity.claim("b") as other:
        slow.grow(45)
        slow.gives_way = lambda: lost.append("slow")
        other.grow(50)
        small.grow(5)
        small.grow(1)
        assert (lost, slow.lost, slow.amount, capacity.used) == (["slow"], True, 0, 56)
        small.grow(44)
        with pytest.raises(BusyError, match="retry in a second"), capacity.claim("a") as more:
            more.grow(1)
        with pytest.raises(BusyError), capacity.claim("c") as third:
            third.grow(1)
    assert capacity.used == 0
    with capacity.claim("a") as alone:
        alone.grow(500)
        assert capacity.used == 500


class Requests:
    """Requests of clients that take turns. They note their names as they begin, and end together."""

    def __init__(self, most: int) -> None:
        self.turns, self.begun = Turns(most, RecentClients()), list[str]()
        self._end = asyncio.Event()
        self.tasks = list[asyncio.Task[None]]()

    async def send(self, client: str, count: int, is_gone: Callable[[], bool] = lambda: False) -> None:
        """Begin requests of a client, as far as it gets turns."""

        async def work(name: str) -> None:
            async with self.turns.turn(client, is_gone):
                self.begun.append(name)
                await self._end.wait()

        self.tasks += [asyncio.create_task(work(f"{client}{number}")) for number in range(count)]
        await asyncio.sleep(0)

    async def end(self) -> list[BaseException | None]:
        """Let all requests end."""
        self._end.set()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        assert not self.turns._running
        assert not self.turns._waiting
        return ended


async def test_requests_of_one_client_take_turns_and_others_do_not_wait() -> None:
    requests = Requests(2)
    await requests.send("a", 4)
    await requests.send("b", 1)
    assert requests.begun == ["a0", "a1", "b0"]
    requests.tasks[2].cancel()
    await requests.end()
    assert requests.begun == ["a0", "a1", "b0", "a3"]


async def test_several_clients_share_the_turns_and_one_that_floods_gets_few() -> None:
    requests = Requests(64)
    await requests.send("a", 2)
    await requests.send("b", 100)
    assert len(requests.begun) == 2 + 32
    await requests.end()

    requests = Requests(1)
    await requests.send("a", 1)
    await requests.send("b", 3)
    assert len(requests.begun) == 2
    await requests.end()

    requests = Requests(64)
    await requests.send("flood", 64 + 65)
    assert len(requests.begun) == 64, "a client that is alone has all turns"
    await requests.send("b", 1)
    for task in requests.tasks[:61]:
        task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(requests.begun) == 64 + 1 + FLOOD_TURNS - 3
    await requests.end()


async def test_a_client_counts_for_a_short_time_after_its_last_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now, clients = 100.0, RecentClients()
    monkeypatch.setattr("spotsieve.stream.local.serve.fairness.time.monotonic", lambda: now)
    clients.note("a")
    now += RECENT_SECONDS / 2
    clients.note("b")
    clients.note("a")
    assert len(clients) == 2
    now += RECENT_SECONDS * 0.9
    clients.note("a")
    assert len(clients) == 2
    now += RECENT_SECONDS * 0.2
    assert len(clients) == 1


async def test_requests_of_clients_that_left_get_no_turn() -> None:
    requests, gone = Requests(1), False
    await requests.send("a", 1)
    await requests.send("a", 3, lambda: gone)
    await requests.send("a", 1)
    gone = True
    ended = await requests.end()
    assert requests.begun == ["a0", "a0"], "the first, and the one that came last"
    assert [type(error) for error in ended] == [type(None), *[DisconnectedError] * 3, type(None)]


class SlowReader:
    """A connection whose parts take a time to read. It notes the parts, and that it waits (-) or goes on (+)."""

    def __init__(self, read: list[bytes], seconds: float) -> None:
        self._seconds = seconds
        self._read = read
        self.paused = ""

    def read(self, data: bytes) -> None:
        self._read.append(data)
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            pass
        if data == b"fault":
            raise ValueError(data)

    def wait(self) -> None:
        self.paused += "-"

    def go_on(self) -> None:
        self.paused += "+"


async def test_bytes_of_one_client_are_not_read_before_those_of_others() -> None:
    queue, read = ReadQueue(), list[bytes]()
    many = [SlowReader(read, SLICE_SECONDS) for _ in range(4)]
    few = SlowReader(read, 0)
    for number, reader in enumerate(many):
        queue.receive("a", reader, b"a%d" % number)
    queue.receive("b", few, b"b0")
    assert read == [b"a0", b"b0"], "a client that used its share of a turn waits, and another does not"
    await asyncio.sleep(0)
    queue.receive("a", many[0], b"a4")
    queue.receive("b", few, b"b1")
    assert read == [b"a0", b"b0", b"a1", b"b1"]
    for _ in range(5):
        await asyncio.sleep(0)
    assert read == [b"a0", b"b0", b"a1", b"b1", b"a2", b"a3", b"a4"], "the parts of a connection keep their order"
    assert [reader.paused for reader in many] == ["-+"] * 4
    assert few.paused == ""


async def test_a_client_that_is_alone_is_read_at_once_in_each_turn() -> None:
    queue, read = ReadQueue(), list[bytes]()
    reader = SlowReader(read, SLICE_SECONDS / 2)
    for number in range(3):
        queue.receive("a", reader, b"%d" % number)
        await asyncio.sleep(0)
        assert len(read) == number + 1
    assert reader.paused == ""


async def test_a_fault_in_a_read_keeps_no_other_bytes_waiting() -> None:
    queue, read, faults = ReadQueue(), list[bytes](), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    readers = [SlowReader(read, SLICE_SECONDS) for _ in range(3)]
    for reader, data in zip(readers, (b"first", b"fault", b"last"), strict=True):
        queue.receive("a", reader, data)
    for _ in range(4):
        await asyncio.sleep(0)
    assert read == [b"first", b"fault", b"last"]
    assert len(faults) == 1
    assert [reader.paused for reader in readers] == ["", "-+", "-+"]


def test_jobs_of_clients_are_taken_in_turn() -> None:
    queue = FairQueue[str](len)
    for client, job in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1...")):
        queue.put(client, job)
    assert queue.first == "a1"
    assert queue.take(4, 4) == ["a1", "b1"]
    assert queue.take(4, 4) == ["c1..."]
    queue.put("d", "d1")
    assert queue.take(100, 2) == ["a2", "d1"], "a client has its turn where others wait"
    assert queue.take(100, 2) == ["a3"]
    for number in range(5):
        queue.put("a", f"{number}")
    assert len(queue.take(100, 100)) == 5
    assert len(queue) == 0


def test_a_batch_of_too_many_pages_is_refused_before_they_are_built() -> None:
    body = b'{"pages": [' + b"{}," * 1_500_000 + b"{}]}"

    def refuse() -> None:
        with pytest.raises(BatchTooLargeError, match="at most 1,000 pages"):
            read_pages(body, 1_000)

    assert_cpu_ratio(refuse, lambda: json.loads(body), most=1)


@pytest.mark.parametrize(
    "body",
    [
        b'{"url": "u", "body": [' + b'"",' * 1_100_000 + b'""]}',
        b"{" + b",".join(b'"a%d":1' % number for number in range(200_000)) + b"}",
    ],
    ids=["values", "fields"],
)
def test_a_request_of_too_many_values_is_refused_before_they_are_built(body: bytes) -> None:
    with pytest.raises(BatchTooLargeError, match="values"):
        read_page(body, 1_000)


def test_texts_with_braces_quotes_and_backslashes_are_counted_as_texts() -> None:
    text = '{"a":\\\\"{{{::,,}' * 2_000 + "\\"
    pages = [{"url": f"u{number}", "body": text} for number in range(10)]
    for body in (json.dumps({"pages": pages}), json.dumps({"pages": pages}, indent=3)):
        assert [page.body for page in read_pages(body.encode(), 10)] == [text] * 10
        with pytest.raises(BatchTooLargeError, match="at most 8 pages"):
            read_pages(body.encode(), 8)


def test_deep_nesting_is_refused_while_parsing(port: HttpPort) -> None:
    for opening in (b"[", b'{"pages":['):
        status, found = port.ask("/v1/lookup/batch", opening * 100_000)
        assert status in {400, 413, 422}
        assert "error" in found


def test_one_wrong_value_of_many_is_the_only_error(port: HttpPort) -> None:
    with ThreadPoolExecutor(1) as clients:
        body = b'{"url": "u", "body": [' + b"1," * 900_000 + b"1]}"
        pending = clients.submit(port.ask, "/v1/lookup", body)
        assert pending.result(SECONDS)[0] == 422
