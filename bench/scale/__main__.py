"""`python -m bench.scale` measures the roles of a cluster, simulates it and writes docs/measured/sizing.md."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bench.command import MEASURED, reports_errors, say
from bench.scale import document
from bench.scale.cases import LOST_SHARDS, run_cases
from bench.scale.costs import client_us, costs_of
from bench.scale.hops import measure_hops, undisturbed
from bench.scale.plots import draw
from bench.scale.real import has_roles, run_real
from bench.scale.refill import measure_refill
from bench.scale.workers import measure_worker
from bench.shards import made_log, measure, measure_one, measure_shards
from bench.speed.report import machine
from bench.targets import exit_code
from spotsieve.stream.demo.localkafka import prepare

FIGURES, DOCUMENT, PLOT = MEASURED / "scale.json", MEASURED / "sizing.md", MEASURED / "images" / "sizing.svg"
ROUNDS = ((98_304, 4_096), (24_576, 512))
"""Pages, and pages of a round. Two sizes separate the cost of a round from the cost of a page."""
LARGER = (1_048_576, 16_384)
"""The size of the single-process measurement that shards were planned with, in rounds of the default maximum."""


@reports_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure, simulate, write. Returns 1 if a target is missed, 2 if a part was never measured, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.scale",
        description="Measure the roles of a cluster, simulate it, write docs/measured/sizing.md.",
    )
    parser.add_argument(
        "what",
        nargs="*",
        choices=[*MEASUREMENTS, "all", "simulate"],
        default="all",
        metavar="WHAT",
        help=f"{', '.join(MEASUREMENTS)}, all (default), or simulate: by what docs/measured/scale.json holds",
    )
    options = parser.parse_args(arguments)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    chosen = [name for name in MEASUREMENTS if "all" in options.what or name in options.what]
    if {"hops", "real", "refill"} & set(chosen):
        prepare()
    for name in chosen:
        say(f"{name} ...")
        figures[name] = MEASUREMENTS[name]()
        figures[f"{name}_measured"] = _now()
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", "utf-8")
    if missing := [name for name in MEASUREMENTS if name not in figures]:
        lacks = f"docs/measured/scale.json: must hold {', '.join(missing)}"
        print(f"{lacks}; measure them first: make scale", file=sys.stderr)
        return 2
    found = machine()
    hops = undisturbed(figures["hops"], figures["hops_measured"]["load"], found["cores"])
    costs = costs_of({**figures, "client_us": client_us(), "hops": hops})
    say("simulating ...")
    cases = run_cases(costs)
    draw(cases, PLOT)
    text = document.text(figures, costs, cases, client_us(), found)
    DOCUMENT.write_text(text, "utf-8")
    say(f"wrote {DOCUMENT.relative_to(MEASURED.parents[1])}")
    return exit_code(text)


def _roles() -> list[dict[str, Any]]:
    return [measure(pages, a_round) for pages, a_round in ROUNDS]


def _larger() -> dict[str, Any]:
    """One process and LOST_SHARDS shards over states that RocksDB compacts during the run."""
    pages, a_round = LARGER
    *log, coming = made_log(pages + a_round, a_round)
    one, shards = measure_one(log, pages // 2), measure_shards(log, coming, pages // 2, LOST_SHARDS)
    return {
        "pages": pages,
        "round": a_round,
        "judge_us": one["judge_us"],
        "shards": LOST_SHARDS,
        "shards_us": shards["shards_us"],
        "walks_a_round": shards["walks_a_round"],
    }


def _hops() -> dict[str, list[float]]:
    return measure_hops(200)


def _real() -> list[dict[str, Any]]:
    """One process, and a few sizes of three roles if this release can start them."""
    planned = [(1, 0, 200.0), *([(1, 1, 200.0), (2, 2, 200.0)] if has_roles() else [])]
    return [run_real(workers, shards, rate, 15.0, 10_000)._asdict() for workers, shards, rate in planned]


def _refill() -> dict[str, Any]:
    return measure_refill(LOST_SHARDS, 600_000)._asdict()


def _now() -> dict[str, Any]:
    return {"on": datetime.now(UTC).date().isoformat(), "load": round(os.getloadavg()[0], 1), "nice": os.nice(0)}


MEASUREMENTS: dict[str, Callable[[], Any]] = {
    "roles": _roles,
    "larger": _larger,
    "worker": measure_worker,
    "hops": _hops,
    "real": _real,
    "refill": _refill,
}

if __name__ == "__main__":
    sys.exit(main())
