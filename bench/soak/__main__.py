"""`python -m bench.soak` runs the long soak and writes docs/measured/soak.md."""

import argparse
import logging
import os
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.soak.report import broken, document
from bench.soak.run import SoakPlan, soak
from bench.speed.report import machine
from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.services.oracle import settings_from

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "measured" / "soak.md"
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
    # While the broker creates topics, or a partition briefly has no leader, aiokafka retries.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    load = os.getloadavg()[0]
    try:
        prepare()
        compile_kernels(scheme_of(settings_from("").scheme))
        with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
            soaked = soak(kafka.bootstrap_servers, Path(scratch), plan, _say)
    except SpotsieveError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given = sys.argv[1:] if arguments is None else arguments
    text = document(soaked, plan, shlex.join(["python", "-m", "bench.soak", *given]), machine(), load)
    if plan == LONG:
        DOCUMENT.write_text(text, "utf-8")
    print(text)
    return 1 if broken(soaked) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
