"""`python -m bench.soak` runs the long soak and writes docs/measured/soak.md."""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.command import MEASURED, command_line, prepare_service, publish, reports_errors, say
from bench.soak.report import broken, document
from bench.soak.run import SoakPlan, soak
from bench.speed.report import machine
from spotsieve.stream.demo.localkafka import LocalKafka

DOCUMENT = MEASURED / "soak.md"
LONG = SoakPlan(
    pages=100_000,
    wave=500,
    kill_every=(5.0, 18.0),
    least_kills=334,
    most_seconds=14_400.0,
    pause_seconds=4.0,
    workers=3,
    spared_seconds=1_200.0,
    lanes=3,
)


@reports_errors
def main(arguments: list[str] | None = None) -> int:
    """Soak and write the document. Returns 0 if all guarantees hold, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.soak", description="Many pages through workers that are killed again and again."
    )
    parser.add_argument(
        "--kills",
        type=int,
        default=LONG.least_kills,
        help=f"of each of {LONG.lanes} services (default {LONG.least_kills}); other: docs stay as they are",
    )
    options = parser.parse_args(arguments)
    plan = replace(LONG, least_kills=options.kills, pages=LONG.pages * options.kills // LONG.least_kills)
    load = os.getloadavg()[0]
    prepare_service()
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        soaked = soak(kafka.bootstrap_servers, Path(scratch), plan, say)
    text = document(soaked, plan, command_line("bench.soak", arguments), machine(), load)
    publish(DOCUMENT, text, whole=plan == LONG)
    return 1 if broken(soaked) else 0


if __name__ == "__main__":
    sys.exit(main())
