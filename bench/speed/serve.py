"""Measures `spotsieve serve` under a steady load from a second process: `python -m bench.speed serve`."""

import asyncio
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import orjson
import psutil
import uvloop

from bench.speed.pages import bench_messages

RATE = 2_000
CONNECTIONS = 64
WARM_SECONDS = 2.0
REQUESTED = 500


def measure_serve(
    rounds: int = 3, pages: int = 20_000, seconds: float = 10.0, progress: Callable[[str], None] = print
) -> dict[str, float | int]:
    """Medians of rounds over a state on disk, with look-ups of pages of 20 KB, one per request, half of them indexed.

    lookups_per_s, p50_ms, p99_ms: at a steady RATE, each from the moment at which it was due to its response;
    server_cpu_us: CPU of the server a look-up then; most_lookups_per_s: with CONNECTIONS waiting clients
    """
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        file, state = Path(scratch) / "pages.jsonl", Path(scratch) / "state"
        with file.open("wb") as writing:
            for _, value in bench_messages(pages, 1):
                writing.write(value + b"\n")
        requests_file = Path(scratch) / "requests.jsonl"
        _write_requests(file, requests_file)
        filtering = [sys.executable, "-m", "spotsieve.stream", "filter", str(file), "--state", str(state)]
        subprocess.run(filtering, check=True, capture_output=True)
        for number in range(rounds):
            found.append(_round(state, requests_file, seconds))
            progress(f"  round {number + 1}: " + ", ".join(f"{name} {value:.1f}" for name, value in found[-1].items()))
    medians = {name: round(sorted(one[name] for one in found)[len(found) // 2], 2) for name in found[0]}
    worst = round(max(one["p99_ms"] for one in found), 2)
    return {**medians, "p99_ms_most": worst, "rate": RATE, "pages": pages, "connections": CONNECTIONS}


def _write_requests(file: Path, requests_file: Path) -> None:
    """Write the pages to look up, alternating: a page of the file, and a page of other articles."""
    with file.open("rb") as lines, requests_file.open("wb") as writing:
        some = list(islice(lines, REQUESTED))
        for known, (_, other) in zip(some, bench_messages(len(some), 2), strict=True):
            writing.write(known + other + b"\n")


def _round(state: Path, requests_file: Path, seconds: float) -> dict[str, float]:
    """One server, and one client in a separate process."""
    command = [sys.executable, "-m", "spotsieve.stream", "serve", "--state", str(state), "--port", "0"]
    with subprocess.Popen([*command, "--set", "log.format=json"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            lines = iter(server.stderr.readline, "")
            port = next(int(match[1]) for line in lines if (match := re.search(r"http://127\.0\.0\.1:(\d+)", line)))
            asking = [sys.executable, "-m", "bench.speed.serve", str(port), str(requests_file)]
            _client([*asking, str(min(WARM_SECONDS, seconds)), str(RATE)])
            began = _cpu(server.pid)
            steady = _client([*asking, str(seconds), str(RATE)])
            cpu = _cpu(server.pid) - began
            most = _client([*asking, str(seconds), "0"])
        finally:
            server.terminate()
            server.stderr.read()
    figures = {name: steady[name] for name in ("lookups_per_s", "p50_ms", "p99_ms")}
    return {
        **figures,
        "server_cpu_us": cpu / steady["lookups"] * 1e6,
        "most_lookups_per_s": most["lookups_per_s"],
        "most_p99_ms": most["p99_ms"],
    }


def _client(command: list[str]) -> dict[str, float]:
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return result


def _cpu(process: int) -> float:
    times = psutil.Process(process).cpu_times()
    return times.user + times.system


def _requests(requests_file: Path, port: int) -> Iterator[bytes]:
    """An endless sequence of requests for the pages of the file."""
    made = []
    with requests_file.open("rb") as lines:
        for line in lines:
            fields = orjson.loads(line)
            body = orjson.dumps({"url": fields["url"], "body": fields["body"]})
            head = f"POST /v1/lookup HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            made.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    while True:
        yield from made


class _Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[None] | None = None
        self._read = b""
        self._lost: RuntimeError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        if not end or len(body) < int(re.search(rb"content-length: (\d+)", head)[1]):  # type: ignore[index]
            return
        self._read = b""
        if self.answered is None or self.answered.done():
            return  # A response without a request, before the service closes the connection.
        if head.startswith(b"HTTP/1.1 200"):
            self.answered.set_result(None)
        else:
            self.answered.set_exception(RuntimeError(f"refused: {(head + body)[:300]!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = RuntimeError(f"the service closed the connection: {exc}")
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(self._lost)

    async def ask(self, request: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self.answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)  # type: ignore[attr-defined]
        await self.answered


async def _load(port: int, requests_file: Path, seconds: float, rate: float) -> dict[str, float]:
    """Send requests at a steady rate or, at a rate of 0, as fast as responses come."""
    loop, now = asyncio.get_running_loop(), time.perf_counter  # uvloop's own time stands still while code runs.
    requests, spans = _requests(requests_file, port), list[float]()
    next(requests)  # Makes all of them. The service closes connections that send nothing meanwhile.
    clients = [(await loop.create_connection(_Client, "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    began = now() + 0.1
    numbers = iter(range(int(rate * seconds) if rate else sys.maxsize))

    async def ask(client: _Client) -> None:
        # Each connection takes the next number, and is late if all were busy: time counts from the due time.
        for number in numbers:
            due = began + number / rate if rate else now()
            wait = due - now()
            if wait > 0:
                await asyncio.sleep(wait)
            if due > began + seconds:
                return
            await client.ask(next(requests))
            spans.append(now() - due)

    await asyncio.gather(*map(ask, clients))
    spent = now() - began
    ordered = sorted(spans)
    at = {share: ordered[math.ceil(share * len(ordered)) - 1] * 1000 for share in (0.5, 0.99)}
    return {"lookups": len(spans), "lookups_per_s": len(spans) / spent, "p50_ms": at[0.5], "p99_ms": at[0.99]}


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(_load(int(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:5])))))
