"""A `spotsieve run` process of a test: start, watch, freeze, kill and stop it, and read its log."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from spotsieve.stream.base.terminal import show
from tests.conftest import REPOSITORY
from tests.worlds.brokers.topics import STOP_SECONDS, TopicSet
from tests.worlds.pages.crawls import PageMessage
from tests.worlds.waiting import SECONDS, START_SECONDS, wait_until

LAST_LINES = 40


@dataclass
class Spotsieve:
    """One `spotsieve` process, its settings and its log. As a context manager it never outlives the block."""

    directory: Path
    toml: str
    name: str = "worker"
    command: tuple[str, ...] = ("run",)
    environment: Mapping[str, str] = field(default_factory=dict)
    python_options: tuple[str, ...] = ()
    module: str = "spotsieve.stream"
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / f"{self.name}.toml"
        self.log = self.directory / f"{self.name}.log"
        self.state = self.directory / f"{self.name}-state"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is not None and self.log.exists():
            # pytest shows it with the failure; the directory is gone when somebody looks.
            show(f"The end of {self.log}:", *self.log.read_text("utf-8", "replace").splitlines()[-LAST_LINES:])
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self) -> Self:
        """Start the process; its output is appended to the log."""
        settings = self.toml
        if "index.directory" not in settings:
            settings += f'\nindex.directory = "{self.state}"\n'
        self.config.write_text(settings, "utf-8")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPOTSIEVE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    "faulthandler",
                    *self.python_options,
                    "-m",
                    self.module,
                    *self.command,
                    "-c",
                    str(self.config),
                ],
                cwd=REPOSITORY,
                env={**inherited, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def run_to_end(self, seconds: float = SECONDS) -> int:
        """Start, and wait until the process ends by itself. Returns the exit code."""
        return self.start().wait(seconds)

    def text(self) -> str:
        """The output of the last started process."""
        return self.log.read_bytes()[self._log_start :].decode("utf-8", "replace")

    def lines(self) -> Iterator[dict[str, Any]]:
        """Its log lines that are JSON."""
        for line in self.text().splitlines():
            with contextlib.suppress(ValueError):
                parsed = json.loads(line)
                if isinstance(parsed, dict):
                    yield parsed

    def error(self) -> str:
        """The one line that explains the error to a person."""
        lines = [line for line in self.text().splitlines() if line.startswith("spotsieve: ")]
        assert len(lines) == 1, self.text()
        assert "Traceback" not in self.text(), self.text()
        return lines[0]

    @property
    def alive(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def port(self) -> int:
        """The port of metrics and health."""

        def said() -> int | None:
            assert self.alive.poll() is None, self.text()
            return next((int(line["port"]) for line in self.lines() if "port" in line), None)

        return wait_until(said, START_SECONDS, f"the port of {self.name}")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an HTTP response."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port()}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def until_ready(self) -> Self:
        """Wait until /readyz returns 200."""

        def ready() -> bool:
            assert self.alive.poll() is None, f"{self.name} ended with {self.alive.returncode}:\n{self.text()}"
            with contextlib.suppress(OSError):
                return self.get("/readyz")[0] == 200
            return False

        wait_until(ready, START_SECONDS, f"{self.name} to be ready")
        return self

    def begin(self, topics: TopicSet, pages: Sequence[PageMessage], committed: int = 100) -> Self:
        """Start, send pages, and wait until the first of them are committed: from here on it is in mid-run."""
        self.start().until_ready()
        topics.send(pages)
        self.until_committed(committed)
        return self

    def until_waiting(self) -> None:
        """Wait until /readyz reports that the worker waits for the broker: it is alive, and its metrics agree."""

        def told() -> bool:
            status, text = self.get("/readyz")
            return status == 503 and "waiting for the broker: " in text

        wait_until(told, SECONDS, f"/readyz of {self.name} to say what is waited for")
        assert self.get("/healthz")[0] == 200
        assert self.metric("spotsieve_broker_retries_total") > 0
        assert self.metric("spotsieve_ready") == 0

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        from prometheus_client.parser import text_string_to_metric_families

        total = 0.0
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    def until_metric(self, name: str, least: float, seconds: float = SECONDS, **labels: str) -> None:
        """Wait until a metric has at least this value."""
        wait_until(lambda: self.metric(name, **labels) >= least, seconds, f"{name} >= {least}")

    def committed(self) -> int:
        """Messages that this process has committed, with any verdict."""
        names = ("spotsieve_pages_total", "spotsieve_tombstones_total", "spotsieve_dead_letters_total")
        return int(sum(self.metric(name) for name in names))

    def until_committed(self, count: int, seconds: float = SECONDS) -> None:
        """Wait until the process has committed `count` messages."""
        wait_until(lambda: self.committed() >= count, seconds, f"{self.name} to commit {count} messages")

    def freeze(self) -> None:
        """Stop the process in place (SIGSTOP)."""
        self.alive.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume it (SIGCONT)."""
        self.alive.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it at once (SIGKILL)."""
        self.alive.kill()
        self.alive.wait()

    def terminate(self, seconds: float = STOP_SECONDS + 30.0) -> int:
        """SIGTERM, and wait for the end; returns the exit code."""
        self.alive.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for the end; returns the exit code."""
        try:
            return self.alive.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s:\n{self.text()}") from None
