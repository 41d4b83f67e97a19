"""Runs `spotsieve run` as a child process that never outlives the demo."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import orjson
from prometheus_client.parser import text_string_to_metric_families

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.demo.localkafka.watchdog import watch

POLL_S = 0.02
STOP_TIMEOUT_S = 12.0
"""`spotsieve run` ends within 10 s after SIGTERM, whatever the broker does."""
LOG_TAIL_LINES = 8
NO_LABELS: Mapping[str, str] = MappingProxyType({})
MESSAGE_COUNTERS = ("spotsieve_pages_total", "spotsieve_tombstones_total", "spotsieve_dead_letters_total")


class FilterProcess:
    """A process of `spotsieve run`, as a context manager.

    settings: setting overrides, by name  log: file for its log  arguments: further command-line arguments
    """

    def __init__(self, settings: Mapping[str, str], log: Path, arguments: Sequence[str] = ()) -> None:
        self._arguments = arguments
        self._settings = {**settings, "metrics.host": "127.0.0.1", "metrics.port": "0", "log.format": "json"}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.metrics_url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process and return at once."""
        overrides = [argument for name, value in self._settings.items() for argument in ("--set", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spotsieve.stream", "run", *self._arguments, *overrides],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C reaches only the demo, which stops the filter before the broker.
                start_new_session=True,
            )
        self._watchdog = watch(self._process)

    def stop(self) -> None:
        """Stop it with SIGTERM, so that it commits its work; with SIGKILL if it does not end in STOP_TIMEOUT_S."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        if self._watchdog is not None:
            self._watchdog.communicate(b"stopped\n")
            self._watchdog = None

    @property
    def pid(self) -> int:
        """The process id; 0 if it is not running."""
        return self._process.pid if self._process else 0

    def await_metrics(self, timeout_s: float) -> None:
        """Block until it serves metrics. It works then, but may still be behind. Raises BrokerError."""
        deadline = time.monotonic() + timeout_s
        while not self.metrics_url:
            self.check()
            if time.monotonic() > deadline:
                raise self.failure(f"served no metrics within {timeout_s:.0f} s")
            self.metrics_url = self._find_port()
            time.sleep(POLL_S)

    def await_ready(self, timeout_s: float) -> None:
        """Block until the filter reports that it is ready. The first compilation of the kernels takes half a minute.

        Raises BrokerError with the end of its log if it ends or is not ready in time.
        """
        deadline = time.monotonic() + timeout_s
        self.await_metrics(timeout_s)
        while self._get("/readyz") is None:
            self.check()
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def await_messages(self, number: int, timeout_s: float) -> None:
        """Block until it has judged and committed this number of messages. Raises BrokerError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check()
            if sum(self.metric(name) for name in MESSAGE_COUNTERS) >= number:
                return
            time.sleep(POLL_S)
        raise self.failure(f"did not finish {number} messages within {timeout_s:.0f} s")

    def metric(self, name: str, labels: Mapping[str, str] = NO_LABELS) -> float:
        """The sum of the samples with this name and these labels."""
        text = (self._get("/metrics") or b"").decode()
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    def check(self) -> None:
        """Raises BrokerError if the filter has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise self.failure(f"ended with exit code {self._process.returncode}")

    def failure(self, rule: str) -> BrokerError:
        """An error about the process, with the end of its log. rule: what went wrong"""
        lines = self._log.read_text("utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return BrokerError("the filter (spotsieve run)", rule, None, "the end of its log:\n" + "\n".join(lines))

    def _find_port(self) -> str:
        for line in self._log.read_bytes().splitlines():
            if line.startswith(b"{") and b'"port"' in line:
                fields = orjson.loads(line)
                return f"http://{fields['host']}:{fields['port']}"
        return ""

    def _get(self, path: str) -> bytes | None:
        try:
            with urllib.request.urlopen(self.metrics_url + path, timeout=5) as answer:
                body: bytes = answer.read()
                return body
        except (urllib.error.URLError, OSError):
            return None
