"""`python -m bench.roles` injects faults into the roles of a cluster and writes docs/measured/roles.md."""

import argparse
import logging
import os
import shlex
import sys
import tempfile
from pathlib import Path

from bench.roles.report import broken, document
from bench.roles.run import RolesPlan, run
from bench.speed.report import machine
from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.services.oracle import settings_from

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "measured" / "roles.md"


def main(arguments: list[str] | None = None) -> int:
    """Inject faults and write the document. Returns 0 if all guarantees hold, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.roles", description="Workers, shards and resolvers that are killed and frozen."
    )
    parser.add_argument(
        "--pages", type=int, default=RolesPlan().pages, help="with other than 50,000 the document is not written"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=RolesPlan().rounds,
        help="of all kinds of faults; with another number the document is not written",
    )
    options = parser.parse_args(arguments)
    plan = RolesPlan(pages=options.pages, rounds=options.rounds)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    load = os.getloadavg()[0]
    try:
        prepare()
        compile_kernels(scheme_of(settings_from("").scheme))
        with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
            ran = run(kafka.bootstrap_servers, Path(scratch), plan, _say)
    except SpotsieveError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given = sys.argv[1:] if arguments is None else arguments
    text = document(ran, plan, shlex.join(["python", "-m", "bench.roles", *given]), machine(), load)
    if plan == RolesPlan():
        DOCUMENT.write_text(text, "utf-8")
    print(text)
    return 1 if broken(ran) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
