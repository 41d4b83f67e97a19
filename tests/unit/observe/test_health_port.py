"""The HTTP port serves three paths and rejects all others. A slow client does not block it."""

import http.client
import socket
from collections.abc import Iterator

import pytest

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import MetricsSettings
from spotsieve.stream.observe.health import HealthServer
from spotsieve.stream.observe.metrics import Metrics


class Worker:
    """What the port asks of a worker."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.problems: list[str] = []


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def port(worker: Worker) -> Iterator[int]:
    settings = MetricsSettings(host="127.0.0.1", port=0)
    server = HealthServer(settings, Metrics().registry, lambda: worker.failures, lambda: worker.problems)
    yield server.port
    server.close()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


def test_health_is_200_while_alive_and_503_after_a_failure(port: int, worker: Worker) -> None:
    assert ask(port, "/healthz")[0] == 200
    worker.failures = ["the worker has failed"]
    status, text, _ = ask(port, "/healthz")
    assert status == 503
    assert "failed" in text


def test_not_ready_says_what_is_waited_for(port: int, worker: Worker) -> None:
    worker.problems = ["catching up with the log"]
    assert ask(port, "/readyz")[:2] == (503, "catching up with the log\n")
    worker.problems = []
    assert ask(port, "/readyz")[:2] == (200, "ok\n")


def test_a_problem_that_quotes_a_broker_is_shown_without_control_characters(port: int, worker: Worker) -> None:
    worker.problems = ["no answer: \x1b[2J\r\nevil: 1", "\ud800"]
    status, text, headers = ask(port, "/readyz")
    assert status == 503
    assert len(text.splitlines()) == 2
    assert "\x1b" not in text
    assert headers["evil"] is None


def test_metrics_are_served_in_the_format_of_prometheus(port: int) -> None:
    status, text, headers = ask(port, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert "# TYPE spotsieve_pages_total counter" in text


def test_a_query_string_does_not_change_the_path(port: int) -> None:
    assert ask(port, "/healthz?verbose=1")[0] == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz2", "/..//metrics", "/%2e%2e/etc/passwd"])
def test_any_other_path_is_404_and_not_echoed(port: int, path: str) -> None:
    status, text, _ = ask(port, path)
    assert status == 404
    assert text == "the paths are /metrics, /healthz and /readyz\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_methods_that_change_something_are_405(port: int, method: str) -> None:
    status, _, headers = ask(port, "/metrics", method)
    assert status == 405
    assert headers["Allow"] == "GET, HEAD"


def test_head_has_no_body(port: int) -> None:
    assert ask(port, "/healthz", "HEAD")[:2] == (200, "")


def test_a_body_is_not_waited_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert connection.recv(64).startswith(b"HTTP/1.0 405 ")


def test_a_silent_client_holds_up_nobody_and_is_cut_off(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as silent:
        assert ask(port, "/healthz")[0] == 200
        assert silent.recv(1) == b"", "it is cut off before the reader here gives up"


def test_a_line_without_end_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(b"GET /" + b"a" * 70_000)
        assert b" 414 " in connection.recv(64)


def test_a_port_in_use_is_refused_with_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        settings = MetricsSettings(host="127.0.0.1", port=number)
        with pytest.raises(
            SettingError,
            match=rf"^metrics\.port cannot be bound on 127.0.0.1: Address already in use, got {number}; choose",
        ):
            HealthServer(settings, Metrics().registry, list, list)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.9", "a..b"])
def test_an_address_that_is_not_ours_is_refused_with_the_setting(host: str) -> None:
    with pytest.raises(SettingError, match=r"metrics\."):
        HealthServer(MetricsSettings(host=host, port=0), Metrics().registry, list, list)


def test_ipv6_is_served() -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    server = HealthServer(MetricsSettings(host="::1", port=0), Metrics().registry, list, list)
    try:
        connection = http.client.HTTPConnection("::1", server.port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
    finally:
        server.close()


def test_starting_asks_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # http.server looks its own name up on binding: seconds, in a container without a name server.
    def fail(*_: object) -> None:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "gethostbyaddr", fail)
    monkeypatch.setattr(socket, "getfqdn", fail)
    HealthServer(MetricsSettings(host="127.0.0.1", port=0), Metrics().registry, list, list).close()
