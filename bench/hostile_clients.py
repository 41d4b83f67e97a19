"""Measures `spotsieve serve` under attack, and writes docs/measured/hostile-clients.md: `make hostile`.

For each kind of hostile client (tests/fixtures/hostile_clients.py): ordinary look-ups at a steady rate from another
process, without and with the attack, and the most memory of the server meanwhile. All traffic stays on this machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.command import MEASURED
from bench.speed.pages import json_messages
from spotsieve.stream.research.evaluation.report import machine
from tests.fixtures.hostile_clients import ATTACKS, SECONDS_BETWEEN
from tests.fixtures.http_port import http_port

DOCUMENT = MEASURED / "hostile-clients.md"
HOSTILE = "127.0.0.2"
RATE = 20
MOST_RATIO, MOST_RSS = 5.0, 2**30


class Outcome(NamedTuple):
    """One attack. before, during: p50 and p99 of ordinary look-ups in ms  opened: hostile connections  rss: bytes"""

    kind: str
    before: tuple[float, float]
    during: tuple[float, float]
    opened: int
    rss: int

    @property
    def ratio(self) -> float:
        """How many times as long the p99 is."""
        return self.during[1] / self.before[1]

    @property
    def met(self) -> bool:
        """Whether the targets of the document are met."""
        return self.ratio <= MOST_RATIO and self.rss <= MOST_RSS


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the document. Returns 0 if all targets are met, else 1."""
    parser = argparse.ArgumentParser("python -m bench.hostile_clients", description="`serve` under attack.")
    parser.add_argument("--connections", type=int, default=2_000, help="hostile connections of each kind (2,000)")
    parser.add_argument("--seconds", type=float, default=20.0, help="time of each measurement (20)")
    parser.add_argument("--only", default="", help="only kinds whose names contain this; the document is not written")
    options = parser.parse_args(arguments)
    outcomes = list[Outcome]()
    with tempfile.TemporaryDirectory() as scratch:
        file, state = Path(scratch) / "pages.jsonl", Path(scratch) / "state"
        file.write_bytes(b"".join(value + b"\n" for _, value in json_messages(1_000, 1)))
        filtering = [sys.executable, "-m", "spotsieve.stream", "filter", str(file), "--state", str(state)]
        subprocess.run(filtering, check=True, capture_output=True)
        for kind in ATTACKS:
            if options.only in kind:
                outcomes.append(_measure(kind, state, file, options.connections, options.seconds))
                print(_row(outcomes[-1]), flush=True)
    if not options.only:
        DOCUMENT.write_text(_document(outcomes, options.connections, options.seconds), "utf-8")
    missed = [one.kind for one in outcomes if not one.met]
    if missed:
        print(f"missed: {', '.join(missed)}")
    return 1 if missed else 0


def _measure(kind: str, state: Path, file: Path, connections: int, seconds: float) -> Outcome:
    """One server, first without and then with the attack."""
    with http_port(state, "--set", "log.format=json") as port:
        server = psutil.Process(port.process.pid)
        asking = [sys.executable, "-m", "bench.speed.serve", str(port.number), str(file)]
        subprocess.run([*asking, "3", str(RATE)], check=True, capture_output=True)
        before = subprocess.run([*asking, str(seconds), str(RATE)], check=True, capture_output=True, text=True).stdout
        attack_seconds = seconds + 15
        given = [str(port.number), kind, str(connections), str(attack_seconds), HOSTILE]
        command = [sys.executable, "-m", "tests.fixtures.hostile_clients", *given]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacking:
            assert attacking.stdout is not None
            attacking.stdout.readline()
            time.sleep(5)  # The attack is to be at its height: all connections were opened once.
            looking = subprocess.Popen([*asking, str(seconds), str(RATE)], stdout=subprocess.PIPE, text=True)
            rss = 0
            while looking.poll() is None:
                rss = max(rss, server.memory_info().rss)
                time.sleep(0.1)
            assert looking.stdout is not None
            during = looking.stdout.read()
            opened = int(attacking.stdout.read())
    return Outcome(kind, _percentiles(before), _percentiles(during), opened, rss)


def _percentiles(figures: str) -> tuple[float, float]:
    """p50 and p99 in the output of the ordinary clients, which is empty if a look-up was refused."""
    found = json.loads(figures or '{"p50_ms": Infinity, "p99_ms": Infinity}')
    return found["p50_ms"], found["p99_ms"]


def _row(one: Outcome) -> str:
    met = "met" if one.met else "missed"
    figures = (*one.before, *one.during)
    shown = " | ".join(f"{figure:.1f}" for figure in figures)
    return f"| {one.kind} | {one.opened:,} | {shown} | {one.ratio:.1f} | {one.rss / 2**20:.0f} MiB | {met} |"


def _document(outcomes: list[Outcome], connections: int, seconds: float) -> str:
    about = machine()
    return f"""# `spotsieve serve` and hostile clients

Written by `make hostile` on {about["cores"]} cores of {about["cpu"]}, Python {about["python"]}, at a load of
{os.getloadavg()[0]:.1f} at the end.

{connections:,} hostile connections of one kind from {HOSTILE}, each opened again up to {SECONDS_BETWEEN:g} s after it
was closed, against a server with default settings. Ordinary clients at 127.0.0.1 send {RATE} look-ups of 20 KB a second
for {seconds:g} s, over connections of their own; one that is refused would stop the measurement. Times are p50 and p99
in ms, from the moment at which a look-up was due. Server, hostile and ordinary clients share this machine.

Target: p99 at most {MOST_RATIO:g} times as long as without the attack, RSS below 1 GiB.

| hostile connections | opened | p50 before | p99 before | p50 | p99 | ratio of p99 | most RSS | target |
|---|---:|---:|---:|---:|---:|---:|---:|---|
{chr(10).join(map(_row, outcomes))}
"""


if __name__ == "__main__":
    sys.exit(main())
