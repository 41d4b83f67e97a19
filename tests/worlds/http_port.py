"""Fixtures of the tests of `spotsieve serve`: a server in a separate process, and requests to it."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import REPOSITORY
from tests.worlds.waiting import START_SECONDS

JSON = {"Content-Type": "application/json"}


class HttpPort(NamedTuple):
    """A running server."""

    number: int
    process: "subprocess.Popen[str]"

    def ask(
        self, path: str, body: object = None, headers: Mapping[str, str] = JSON, method: str = ""
    ) -> tuple[int, Any]:
        """Send a request; returns status and response body. body: bytes are sent unchanged, anything else as JSON"""
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=START_SECONDS)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), path, data, dict(headers))
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = (answer.headers["content-type"] or "").startswith("application/json")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """The value of a metric that has no labels, or all labels written out."""
        return float(re.search(rf"^{re.escape(name)} (\S+)$", self.ask("/metrics")[1], re.MULTILINE)[1])  # type: ignore[index]


@contextmanager
def http_port(state: Path, *arguments: str) -> Iterator[HttpPort]:
    """Run `spotsieve serve` on a free port until the block ends."""
    command = [sys.executable, "-m", "spotsieve.stream", "serve", "--state", str(state), "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = list[str]()
            for line in iter(process.stderr.readline, ""):
                lines.append(line)
                if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                    yield HttpPort(int(found[1]), process)
                    return
            raise AssertionError(f"the port did not start: {lines}")
        finally:
            process.terminate()
            process.stderr.read()
