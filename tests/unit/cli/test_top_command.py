"""`spotsieve top` shows the workers that respond, names the others, and ends in one line if none responds."""

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from spotsieve.stream.base.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_SETTING, SettingError
from spotsieve.stream.base.settings.runtime import MetricsSettings
from spotsieve.stream.cli import main
from spotsieve.stream.insight.top.figures import lines_of, sample_worker, tables
from spotsieve.stream.insight.top.scrape import MAX_BYTES, Scrape, metrics_url
from spotsieve.stream.observe.health import HealthServer
from spotsieve.stream.observe.metrics import Metrics
from tests.conftest import REPOSITORY
from tests.fixtures.brokers.listeners import NOBODY

ODD = b"https://odd[red].example/"
"""A host that rich would take for its own markup."""
Serve = Callable[[Metrics], str]
PAGES = {"verdict": "novel", "reason": "no_match"}, {"verdict": "duplicate", "reason": "near"}


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves the metrics of a made-up worker; -> HOST:PORT."""
    with ExitStack() as stack:

        def start(metrics: Metrics) -> str:
            settings = MetricsSettings(host="127.0.0.1", port=0)
            server = HealthServer(settings, metrics.registry, list, list)
            stack.callback(server.close)
            return f"127.0.0.1:{server.port}"

        yield start


def worker(novel: int, dropped: int, *, host: bytes = b"https://shop.example/") -> Metrics:
    metrics = Metrics()
    metrics.ready.set(1)
    for labels, number in zip(PAGES, (novel, dropped), strict=True):
        metrics.pages.labels(**labels).inc(number)
    metrics.lag.labels("pages", 0).set(7)
    metrics.disk_size.set(100)
    metrics.disk_free.set(25)
    metrics.hosts.count([host] * (novel + dropped), [False] * novel + [True] * dropped)
    return metrics


def once(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["top", "--once", "--every", ".1", *arguments]) == EXIT_OK
    return [re.sub(" +", " ", line) for line in capsys.readouterr().out.splitlines()]


def test_a_snapshot_sums_the_workers_and_their_hosts(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    shown = once(capsys, serve(worker(150, 50)), serve(worker(90, 110)))
    assert "pages 0.0/s 400" in shown
    assert "dropped - 40.0%" in shown
    assert "waiting 14" in shown
    assert "workers ready 2 of 2" in shown
    assert "shop.example 0.0/s 160 400 40.0%" in shown
    assert sum(" yes 0.0/s - 7 0 0 25.0% " in line for line in shown) == 2


def test_a_silent_worker_is_shown_beside_a_responding_one(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    shown = once(capsys, serve(worker(1, 1)), NOBODY)
    assert "workers ready 1 of 2" in shown
    assert f"{NOBODY} no reply{' -' * 7}" in shown
    assert " no host has 100 pages yet" in shown


def test_a_hostile_host_name_cannot_control_the_terminal(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    odd = b"https://a[red]\x1b[2J" + b"x" * 100 + b".example/"
    shown = once(capsys, serve(worker(0, 100, host=odd)))
    (host,) = [line.split()[0] for line in shown if line.startswith("a[")]
    assert host == "a[red]\\x1b[2j" + "x" * 34 + "\N{HORIZONTAL ELLIPSIS}"


def test_a_closed_port_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", NOBODY]) == EXIT_NOT_FOUND
    (line,) = capsys.readouterr().err.splitlines()
    assert "must respond with the metrics of a worker" in line
    assert "refused" in line


@pytest.mark.parametrize(
    "body", [b"<html>", b"up 1\n", b"spotsieve_ready{ 1", b"x" * (MAX_BYTES + 2)], ids=["html", "other", "cut", "long"]
)
def test_a_port_of_another_program_is_one_line(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def response() -> None:
            with listening.accept()[0] as connection, contextlib.suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

        answering = threading.Thread(target=response)
        answering.start()
        assert main(["top", f"127.0.0.1:{listening.getsockname()[1]}"]) == EXIT_NOT_FOUND
        answering.join()
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("worker", "http://worker:9464/metrics"),
        ("worker:80", "http://worker:80/metrics"),
        ("[::1]:9464", "http://[::1]:9464/metrics"),
        ("https://worker/", "https://worker:443/metrics"),
        ("http://worker:1/spotsieve/metrics", "http://worker:1/spotsieve/metrics"),
    ],
)
def test_an_address_is_completed(given: str, url: str) -> None:
    assert metrics_url(given) == url


@pytest.mark.parametrize("given", ["", "file:///etc/passwd", "http://", "worker:port", "a b", "http://w\n/x", "[::1"])
def test_an_invalid_address_is_rejected(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingError, match="must be the address"):
        metrics_url(given)
    assert main(["top", given]) == EXIT_SETTING
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_rates_are_the_increase_between_two_scrapes() -> None:
    def at(seconds: float, pages: float, busy: float) -> Scrape:
        stage = "spotsieve_stage_duration_seconds"
        samples: dict[str, list[tuple[dict[str, str], float]]] = {
            "spotsieve_ready": [({}, 1.0)],
            "spotsieve_pages_total": [(PAGES[0], pages), (PAGES[1], pages / 2)],
            f"{stage}_sum": [({"stage": "judge"}, busy)],
            f"{stage}_count": [({"stage": "judge"}, 10 * busy)],
            "spotsieve_host_pages_total": [({"host": "a.example"}, 10 * seconds), ({"host": "b.example"}, 4.0)],
            "spotsieve_host_dropped_pages_total": [({"host": "a.example"}, seconds), ({"host": "b.example"}, 4.0)],
        }
        return Scrape("http://w:9464/metrics", seconds, samples)

    service, workers, stages, hosts = tables([sample_worker(at(10, 1000, 1), at(12, 1200, 2))], [], 1)
    assert service.lines[0] == ("pages", "150.0/s", "1,800")
    assert service.lines[1] == ("dropped", "33.3%", "33.3%")
    assert workers.lines[0][:4] == ("w:9464", "yes", "150.0/s", "33.3%")
    assert stages.lines[3] == ("judge", "50%", "100.0 ms", "5.0/s")
    assert hosts.lines == (("a.example", "1.0/s", "12", "120", "10.0%"),)
    restarted = tables([sample_worker(at(10, 1000, 1), at(12, 5, 0))], [], 1)
    assert restarted[0].lines[0] == ("pages", "-", "8"), "a restarted worker has no rate yet"
    assert all(len(line) < 120 for line in lines_of(restarted))


@pytest.mark.parametrize(
    ("waiting", "shown"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (999_999, "1M"),
        (1_234_567, "1.23M"),
        (123_456_789, "123M"),
        (5e12, "5,000G"),
    ],
)
def test_a_large_number_is_short(waiting: float, shown: str) -> None:
    only = Scrape("http://w:9464/metrics", 1, {"spotsieve_consumer_lag": [({}, waiting)]})
    assert tables([sample_worker(None, only)], [], 1)[1].lines[0][4] == shown


def test_the_live_view_is_drawn_on_a_terminal_and_ends_by_ctrl_c(serve: Serve) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "spotsieve.stream", "top", "--every", ".1", serve(worker(150, 50, host=ODD))]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "140", "LINES": "50"}
    running = subprocess.Popen(command, cwd=REPOSITORY, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while b"odd[red].example" not in shown or b"Press Ctrl-C to quit" not in shown:
        shown += os.read(ours, 65536)
    running.send_signal(signal.SIGINT)
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:
        pass  # Linux says so where the other side of a terminal is closed.
    os.close(ours)
    assert running.wait(60) == EXIT_OK
    assert b"Traceback" not in shown
    assert b"\x1b[?1049l" in shown, "the terminal is as it was"
    assert b"\x1b[?25h" in shown, "its cursor is seen"
