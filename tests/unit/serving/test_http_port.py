"""`spotsieve serve`: look-ups and additions over HTTP, what it refuses, and how it stops."""

import base64
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spotsieve import Deduplicator
from spotsieve.stream.cli import main
from spotsieve.stream.local.serve.server import KEEP_ALIVE_SECONDS
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article, filter_json, read_json, write_crawl
from tests.fixtures.http_port import JSON, HttpPort, http_port
from tests.fixtures.waiting import SECONDS, wait_until

SMALL = ("--set", "serve.max_body_bytes=20000", "--set", "serve.max_pages=6", "--set", "serve.body_seconds=1")


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crawl") / "crawl.jsonl"
    write_crawl(path)
    return path


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, crawl: Path) -> Iterator[HttpPort]:
    """A port over the state of a filter, with small bounds."""
    state = tmp_path_factory.mktemp("asking") / "state"
    assert main(["filter", str(crawl), "--state", str(state)]) == 0
    with http_port(state, *SMALL) as port:
        yield port


@pytest.fixture(scope="module")
def adding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpPort]:
    """A port that owns a new state."""
    with http_port(tmp_path_factory.mktemp("adding") / "state", "--add") as port:
        yield port


def pages_of(crawl: Path) -> list[dict[str, Any]]:
    names = ("id", "url", "body", "content_type", "fetched_at")
    return [{name: one[name] for name in names} for one in read_json(crawl)]


def test_a_look_up_names_the_original_and_remembers_nothing(asking: HttpPort) -> None:
    copy = {"url": "https://copy.example/", "body": f"<h2>A note</h2><p>{article(1)}</p>"}
    other = {"url": "https://other.example/", "body": f"<p>{article(77)}</p>"}
    for _ in range(2):
        status, found = asking.ask("/v1/lookup", copy)
        assert (status, found["known"], found["verdict"], found["reason"]) == (200, True, "duplicate", "contained")
        assert (found["id"], found["duplicate_of"], found["original_url"]) == (
            copy["url"],
            "p1",
            "https://example.com/1",
        )
        assert 0.9 < found["score"] <= 1
        status, found = asking.ask("/v1/lookup", other)
        assert (status, found["known"], found["verdict"], found["duplicate_of"]) == (200, False, "novel", None)


def test_a_body_that_is_a_list_is_joined_by_line_ends(asking: HttpPort) -> None:
    page = {"url": "https://list.example/", "body": ["<h2>A note</h2>", *f"<p>{article(1)}</p>".split(" ", 5)]}
    joined = page | {"body": "\n".join(page["body"])}
    status, found = asking.ask("/v1/lookup", page)
    assert (status, found) == asking.ask("/v1/lookup", joined)
    assert found["duplicate_of"] == "p1"


def test_bytes_in_base64_are_read_in_their_character_set(asking: HttpPort) -> None:
    body = base64.b64encode(f"<p>é {article(2)}</p>".encode("latin-1")).decode()
    page = {"id": 7, "url": "", "body_base64": body, "content_type": "text/html; charset=latin-1", "status": 200}
    status, found = asking.ask("/v1/lookup", page)
    assert (status, found["id"], found["duplicate_of"]) == (200, "7", "p2")


def test_a_batch_has_the_verdicts_of_the_filter_in_its_order(
    adding: HttpPort, crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filter_json(capsys, crawl, "--verdicts", tmp_path / "v.jsonl")
    status, first = adding.ask("/v1/add/batch", {"pages": pages_of(crawl)})
    assert status == 200
    rows = [{name: value for name, value in one.items() if name != "known"} for one in first["verdicts"]]
    assert rows == read_json(tmp_path / "v.jsonl")
    assert [one["known"] for one in first["verdicts"]] == [False, False, True, False, True]

    # Sent again, as after a response that was lost: the same verdicts, and now the state has them all.
    status, again = adding.ask("/v1/add/batch", {"pages": pages_of(crawl)})
    assert [one["verdict"] for one in again["verdicts"]] == [one["verdict"] for one in first["verdicts"]]
    assert [one["known"] for one in again["verdicts"]] == [True, True, True, False, True]
    status, looked_up = adding.ask("/v1/lookup/batch", {"pages": pages_of(crawl)})
    assert looked_up == again
    assert adding.ask("/v1/lookup/batch", {"pages": []}) == (200, {"verdicts": []})


def test_what_was_added_is_known_to_the_next_request(adding: HttpPort) -> None:
    page = {"url": "https://new.example/", "body": f"<p>{article(500)}</p>"}
    assert adding.ask("/v1/lookup", page)[1]["known"] is False
    assert adding.ask("/v1/add", page)[1]["known"] is False
    for url in ("https://new.example/", "https://mirror.example/"):
        assert adding.ask("/v1/lookup", page | {"url": url})[1]["known"] is True


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "says"),
    [
        ("/v1/lookup", b"{", JSON, 400, "must be JSON"),
        ("/v1/lookup", b"\xff", JSON, 400, "must be JSON"),
        ("/v1/lookup", {"body": "x"}, JSON, 422, "url is missing"),
        ("/v1/lookup", {"url": "u"}, JSON, 422, "body or body_base64 is missing"),
        ("/v1/lookup", {"url": "u", "body": "x", "body_base64": "eA=="}, JSON, 422, "must not be sent together with"),
        ("/v1/lookup", {"url": "u", "body_base64": "%"}, JSON, 422, "body_base64 must be base64"),
        ("/v1/lookup", {"url": "", "body": "x"}, JSON, 422, "id is missing, and the url is empty"),
        ("/v1/lookup", {"url": "u", "body": "x", "id": 1.5}, JSON, 422, "id must be text that is not empty"),
        ("/v1/lookup", {"url": "u", "body": ["x", 1]}, JSON, 422, "body must be text or a list of texts"),
        ("/v1/lookup", {"url": "u", "body": []}, JSON, 422, "body must be text or a list of texts that is not empty"),
        ("/v1/lookup", {"url": "u", "body": {"a": "x"}}, JSON, 422, "body must be text or a list of texts"),
        ("/v1/lookup", {"url": "u", "body": "x", "html": ""}, JSON, 422, "html is not a field of a page"),
        ("/v1/lookup", {"url": "u", "body": "x", "fetched_at": "noon"}, JSON, 422, "fetched_at"),
        (
            "/v1/lookup/batch",
            {"pages": [{"url": "u", "body": "x"}, {"url": "u"}]},
            JSON,
            422,
            "pages.1.body or body_base64",
        ),
        ("/v1/lookup/batch", {"pages": [{"url": "u", "body": "x"}] * 7}, JSON, 413, "at most 6 pages"),
        ("/v1/lookup", {"url": "u", "body": "x" * 20_000}, JSON, 413, "at most 20,000 bytes"),
        ("/v1/lookup", {"url": "u", "body": "x"}, {}, 415, "application/json"),
        ("/v1/lookup", b"", {**JSON, "Content-Encoding": "gzip"}, 415, "must not be compressed"),
        ("/v1/add", {"url": "u", "body": "x"}, JSON, 404, "with --add"),
        ("/v2/lookup", {"url": "u", "body": "x"}, JSON, 404, "this path does not exist"),
        ("/v1/lookup/", {"url": "u", "body": "x"}, JSON, 404, "this path does not exist"),
        ("/v1/lookup", None, JSON, 405, "another method"),
    ],
)
def test_a_bad_request_is_told_what_to_change(
    asking: HttpPort, path: str, body: object, headers: dict[str, str], status: int, says: str
) -> None:
    got, found = asking.ask(path, body, headers)
    assert (got, list(found)) == (status, ["error"])
    assert says in found["error"]
    assert "\n" not in found["error"]


def test_a_body_that_does_not_come_or_never_ends_is_refused(asking: HttpPort) -> None:
    head = b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    for rest, status in (
        (b"Content-Length: 100\r\n\r\n{", b"HTTP/1.1 408"),
        (b"Transfer-Encoding: chunked\r\n\r\n" + b"4e20\r\n" + b"x" * 20_000 + b"\r\n4e20\r\nx", b"HTTP/1.1 413"),
    ):
        with socket.create_connection(("127.0.0.1", asking.number), timeout=SECONDS) as client:
            client.sendall(head + rest)
            assert client.recv(4096).startswith(status)
    assert asking.metric("spotsieve_serve_waiting_bytes") == 0


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_request_that_offers_another_protocol_is_answered_with_its_body(asking: HttpPort, parts: int) -> None:
    body = json.dumps({"url": "https://copy.example/", "body": f"<p>{article(1)}</p>"}).encode()
    head = b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    offers = (
        head % len(body) + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    )
    sent = {1: [offers + body], 2: [offers, body], 3: [offers[:50], offers[50:] + body[:9], body[9:]]}[parts]
    with socket.create_connection(("127.0.0.1", asking.number), timeout=SECONDS) as client:
        for data in [*sent, offers + body]:  # Java's HttpClient offers h2c, and sends its body at once.
            client.sendall(data)
            time.sleep(0.1)  # Time itself: the parts must arrive apart.
        received = b""
        while received.count(b'"duplicate_of":"p1"') < 2:
            part = client.recv(65_536)
            assert part, received
            received += part


@pytest.mark.parametrize("path", ["/healthz", "/v1/lookup"])
@pytest.mark.parametrize("rest", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01"])
def test_connect_to_a_path_gets_one_response_and_the_connection_closes(
    asking: HttpPort, path: str, rest: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", asking.number), timeout=SECONDS / 4) as client:
        client.sendall(b"CONNECT %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path.encode() + rest)
        received = b""
        while part := client.recv(65_536):
            received += part
    assert received.startswith(b"HTTP/1.1 405")
    assert received.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/lookup", JSON, 413),
        ("/v1/lookup", {**JSON, "Connection": "close"}, 413),
        ("/v1/lookup", {}, 415),
        ("/v1/lookup", {**JSON, "Host": "evil.example"}, 403),
        ("/healthz", JSON, 405),
        ("/v1/lookup/", JSON, 404),
    ],
)
def test_a_client_reads_its_refusal_after_it_has_sent_a_large_body(
    asking: HttpPort, path: str, headers: dict[str, str], status: int
) -> None:
    assert asking.ask(path, bytes(2**25), headers)[0] == status
    assert asking.metric("spotsieve_serve_waiting_bytes") == 0


def test_the_connection_is_open_after_a_refusal_unless_the_client_closes_it(asking: HttpPort) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", asking.number, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/lookup", bytes(30_000), JSON)
        response = connection.getresponse()
        response.read()
        assert (response.status, response.will_close) == (413, False)
        connection.request("POST", "/v1/lookup", b"{", JSON)
        assert connection.getresponse().status == 400
    head = b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    # An idle connection closes, too, but later.
    with socket.create_connection(("127.0.0.1", asking.number), timeout=KEEP_ALIVE_SECONDS / 2) as client:
        client.sendall(head + b"Content-Length: 30000\r\n\r\n")
        response = http.client.HTTPResponse(client)
        response.begin()
        assert (response.status, response.will_close) == (413, True)
        client.sendall(bytes(30_000))
        assert response.read().endswith(b"}")
        assert client.recv(1) == b""


def test_a_client_that_waits_for_leave_to_send_its_body_is_refused_before_it(asking: HttpPort) -> None:
    head = b"POST /v1/lookup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    with socket.create_connection(("127.0.0.1", asking.number), timeout=SECONDS) as client:
        client.sendall(head + b"Content-Length: 30000\r\n\r\n")
        received = b""
        while part := client.recv(65_536):
            received += part
    assert received.startswith(b"HTTP/1.1 413")


def test_requests_that_come_together_are_judged_together(asking: HttpPort) -> None:
    before = asking.metric("spotsieve_serve_batch_pages_count")
    pages = [{"url": f"https://a.example/{number}", "body": f"<p>{article(number)}</p>"} for number in range(60)]
    with ThreadPoolExecutor(20) as clients:
        responses = list(clients.map(lambda page: asking.ask("/v1/lookup", page)[1], pages))
    assert [one["url"] for one in responses] == [page["url"] for page in pages]
    assert [one["known"] for one in responses] == [number in (1, 2) for number in range(60)]
    assert asking.metric("spotsieve_serve_batch_pages_count") - before < 60
    assert asking.metric("spotsieve_serve_waiting_pages") == 0


def test_health_readiness_and_metrics_tell_of_the_port(asking: HttpPort) -> None:
    assert asking.ask("/healthz") == (200, "ok\n")
    assert asking.ask("/readyz") == (200, "ok\n")
    assert asking.ask("/healthz", method="HEAD")[0] == 200
    assert asking.metric("spotsieve_serve_indexed_pages") == 3
    asking.ask("/v1/lookup", {"url": "u", "body": "x"})
    assert asking.metric('spotsieve_serve_requests_total{path="/v1/lookup",status="200"}') >= 1
    asking.ask("/made-up-by-a-stranger")
    assert "stranger" not in asking.ask("/metrics")[1]


def test_look_ups_see_what_the_owner_filed_since(tmp_path: Path) -> None:
    page = {"url": "https://later.example/", "body": f"<p>{article(9)}</p>"}
    with Deduplicator(tmp_path / "state") as seen:
        seen.add("first", "", f"<p>{article(8)}</p>")
        with http_port(tmp_path / "state", "--set", "serve.refresh_seconds=0.2") as port:
            assert port.ask("/v1/lookup", page)[1]["known"] is False
            seen.add("later", page["url"], page["body"])
            wait_until(lambda: port.ask("/v1/lookup", page)[1]["known"], SECONDS, "the page that was indexed since")
            port.process.terminate()
            assert port.process.wait(SECONDS) == 0


def test_the_port_answers_while_its_state_is_opened_and_stops_without_it(tmp_path: Path) -> None:
    page = {"url": "https://a.example/", "body": f"<p>{article(8)}</p>"}
    with http_port(tmp_path / "state", "--add") as owner:
        assert owner.ask("/v1/add", page)[0] == 200
        owner.process.send_signal(signal.SIGSTOP)
        with socket.create_server(("127.0.0.1", 0)) as free:
            number = free.getsockname()[1]
        command = [sys.executable, "-m", "spotsieve.stream", "serve", "--state", str(tmp_path / "state")]
        command += ["--port", str(number), "--set", "serve.refresh_seconds=0.1"]
        with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                port = HttpPort(number, process)
                wait_until(lambda: not _closed(port), SECONDS, "the port to listen")
                assert port.ask("/healthz") == (200, "ok\n")
                assert port.ask("/readyz") == (503, "the state is being opened\n")
                status, found = port.ask("/v1/lookup", page)
                assert (status, found["error"]) == (503, "the state is being opened; retry in a second")
                owner.process.send_signal(signal.SIGCONT)
                wait_until(lambda: port.ask("/readyz")[0] == 200, SECONDS, "the state to be open")
                assert port.ask("/v1/lookup", page)[1]["known"] is True
                # The next refreshes wait for the owner, and stopping does not wait for them.
                owner.process.send_signal(signal.SIGSTOP)
                request = tmp_path / "state" / "snapshot" / "request"
                wait_until(request.exists, SECONDS, "a refresh to wait for the owner")
                assert port.ask("/v1/lookup", page)[1]["known"] is True
                process.terminate()
                assert process.wait(SECONDS / 4) == 0
            finally:
                process.kill()
                owner.process.send_signal(signal.SIGCONT)


def test_sigterm_answers_what_is_in_hand_and_keeps_it(tmp_path: Path) -> None:
    body = json.dumps({"url": "https://last.example/", "body": f"<p>{article(3)}</p>"}).encode()
    head = "POST /v1/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with http_port(tmp_path / "state", "--add") as port:
        with socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS) as client:
            client.sendall(head.encode() + body[:10])
            wait_until(lambda: port.metric("spotsieve_serve_waiting_bytes"), SECONDS, "the request to be in hand")
            port.process.terminate()
            wait_until(lambda: _closed(port), SECONDS, "the port to take no more")
            client.sendall(body[10:])
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        assert port.process.wait(SECONDS) == 0
    with Deduplicator(tmp_path / "state", read_only=True) as seen:
        assert seen.query("x", "", f"<p>{article(3)}</p>").original is not None


def _closed(port: HttpPort) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port.number), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 4, "must hold a state"),
        (["--port", "seven"], 2, "serve.port"),
        (["--port", "TAKEN"], 2, "choose a free port"),
        (["--set", "serve.hots=::1"], 2, "did you mean serve.host?"),
        (["--host", "no such host"], 2, "serve.host must be an address that this machine has"),
        (["--host", "192.0.2.1"], 2, "serve.host must be an address that this machine has"),
        (["--host", "a" * 70], 2, "serve.host must be an address that this machine has"),
    ],
)
def test_a_wrong_start_is_one_line(
    tmp_path: Path, arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        given = [number if word == "TAKEN" else word for word in arguments] or ["--port", "0"]
        assert main(["serve", "--state", str(tmp_path), *given, "--set", "log.format=text"]) == code
    error = [line for line in capsys.readouterr().err.splitlines() if line.startswith("spotsieve:")]
    assert len(error) == 1
    assert says in error[0]


def test_without_its_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "spotsieve.stream.local.serve.server", raising=False)
    assert main(["serve", "--state", str(tmp_path), "--port", "0"]) == 2
    assert "pip install 'spotsieve[serve]'" in capsys.readouterr().err
