"""A real Prometheus scrapes the running filter, and that every panel and rule finds data there."""

import asyncio
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.demo.localkafka import LocalKafka
from spotsieve.stream.demo.localkafka.broker import free_port
from tests.conftest import REPOSITORY, Broker, Topics
from tests.fixtures.debian import needs_debian
from tests.fixtures.waiting import wait_until

DEPLOY = REPOSITORY / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "spotsieve.json"
COPIES = 10
WORDS = "mill river fox hill light keeper sack night yard roof song field horse road bridge winter letter".split()
ROUNDS = "Why not? Rounds of shards and resolver"
"""The row of panels that stay empty where one process judges; bench/tests/test_dashboard.py asks each of them."""
VARIABLES = {"$__rate_interval": "60s", "$__interval": "5s", "$__range": "60s", "$instance": ".*"}
RESPONSE_SECONDS = 240


def page(number: int) -> bytes:
    """Every article comes ten times, each time in a frame of its own: one novel page, then nine duplicates."""
    choose = random.Random(number // COPIES)
    chosen = (choose.choices(WORDS, k=4) for _ in range(60))
    sentences = (f"<p>The {a} is at the {b} of a {c} {d}.</p>" for a, b, c, d in chosen)
    fields = {"url": f"https://example.org/{number}", "body": f"<html><h1>{number}</h1>{''.join(sentences)}</html>"}
    return json.dumps(fields).encode()


def dashboard_queries() -> list[tuple[str, str]]:
    """(panel title, PromQL with Grafana's variables replaced), but of panels that only shards and a resolver fill."""
    found = []
    placed = [one for one in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if one["title"] != ROUNDS]
    for panel in (panel for one in placed for panel in (one, *one.get("panels", []))):
        for target in panel.get("targets", []):
            query = target["expr"]
            for variable, value in VARIABLES.items():
                query = query.replace(variable, value)
            found.append((panel["title"], query))
    return found


def ask(port: int, path: str, **parameters: str) -> Any:
    address = f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(address, timeout=60) as response:
        return json.load(response)["data"]


def has_data(port: int, query: str) -> bool:
    """Whether a query gives a number now: an empty response or NaN is a panel that shows nothing."""
    series = ask(port, "/api/v1/query", query=query)["result"]
    return any(not math.isnan(float(one["value"][1])) for one in series)


@contextmanager
def process(command: list[str], log: Path, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        running = subprocess.Popen(command, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def until_answered(url: str, running: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the process responds at this address."""

    def answered() -> bool:
        assert running.poll() is None, escape_control_characters(log.read_text("utf-8"))
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=60).close()
            return True
        return False

    wait_until(answered, RESPONSE_SECONDS, f"a response from {url}")


@contextmanager
def prometheus(directory: Path, target_port: int) -> Iterator[int]:
    """A real Prometheus with our rules and our scrape configuration, but a fixed target and a second's interval."""
    program = needs_debian("prometheus", program="prometheus")
    port = free_port(taken=target_port)
    settings = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text("utf-8"))
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = settings["scrape_configs"][0]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{target_port}"]}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(settings), "utf-8")
    shutil.copy(DEPLOY / "prometheus/alerts.yml", directory)
    command = [
        program,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with process(command, directory / "prometheus.log", directory) as running:
        until_answered(f"http://127.0.0.1:{port}/-/ready", running, directory / "prometheus.log")
        yield port


@contextmanager
def filter_service(directory: Path, servers: str, topics: dict[str, str], port: int) -> Iterator[None]:
    settings = {
        "kafka.bootstrap_servers": servers,
        "kafka.group_id": topics["input"],
        "index.directory": str(directory / "state"),
        "index.horizon_hours": "720",
        "metrics.host": "127.0.0.1",
        "metrics.port": str(port),
        **{f"topics.{role}": name for role, name in topics.items()},
    }
    assignments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    log, rules = directory / "filter.log", directory / "rules.toml"
    rules.write_text('[[rules]]\nhost = "example.org"\nscope = "global"\n', "utf-8")
    command = [sys.executable, "-m", "spotsieve.stream", "run", "-c", str(rules), *assignments]
    with process(command, log, REPOSITORY) as running:
        until_answered(f"http://127.0.0.1:{port}/readyz", running, log)
        yield


@pytest.fixture
async def crawl(kafka: Broker, topics: Topics) -> AsyncIterator[dict[str, str]]:
    """Topics of a running crawl: pages, a tombstone and a message that is no page, again and again."""
    names = {role: topics(role) for role in ("input", "novel", "duplicates", "rejected", "log")}
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()

    async def send_without_end() -> None:
        number = 0
        while True:
            for _ in range(10):
                await producer.send(names["input"], page(number))
                number += 1
            await producer.send(names["input"], None, key=b"gone")
            await producer.send(names["input"], b"{not json")
            await asyncio.sleep(0.2)  # Time itself: the panels show rates.

    sending = asyncio.create_task(send_without_end())
    yield names
    sending.cancel()
    await producer.stop()


@pytest.mark.timeout(900)
async def test_every_panel_of_the_dashboard_shows_data_of_a_running_filter(
    kafka: Broker, crawl: dict[str, str], tmp_path: Path
) -> None:
    await asyncio.to_thread(check_dashboard, kafka.bootstrap_servers, crawl, tmp_path)


def check_dashboard(servers: str, topics: dict[str, str], directory: Path) -> None:
    port = free_port()
    with prometheus(directory, port) as prometheus_port, filter_service(directory, servers, topics, port):
        waiting = dashboard_queries()
        assert len(waiting) > 40

        def all_have_data() -> bool:
            waiting[:] = [(title, query) for title, query in waiting if not has_data(prometheus_port, query)]
            return not waiting

        wait_until(all_have_data, RESPONSE_SECONDS, "data in every panel", every=1.0)
        targets = ask(prometheus_port, "/api/v1/targets")["activeTargets"]
        assert [target["health"] for target in targets] == ["up"]
        rules = [rule for group in ask(prometheus_port, "/api/v1/rules")["groups"] for rule in group["rules"]]
        assert {rule["health"] for rule in rules} == {"ok"}
        firing = ask(prometheus_port, "/api/v1/query", query='ALERTS{alertstate="firing"}')["result"]
        assert firing == []


def test_the_broker_settings_of_the_compose_file_start_a_broker(tmp_path: Path) -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["kafka"]
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in service["environment"].items()
        if name.startswith("KAFKA_")
    }
    inside, outside, controller = free_port(), free_port(), free_port()
    ports = {"19092": inside, "9092": outside, "9093": controller}
    for name in ("listeners", "advertised.listeners", "controller.quorum.voters"):
        for old, new in ports.items():
            given[name] = given[name].replace("kafka:", "127.0.0.1:").replace(f"://:{old}", f"://127.0.0.1:{new}")
            given[name] = given[name].replace(f"localhost:{old}", f"127.0.0.1:{new}")
            given[name] = given[name].replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    given["log.dirs"] = str(tmp_path / "data")
    with LocalKafka(tmp_path, port=outside, settings=given) as broker:
        assert broker.pid is not None
