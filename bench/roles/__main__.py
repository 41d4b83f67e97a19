"""`python -m bench.roles` injects faults into the roles of a cluster and writes docs/measured/roles.md."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench.command import MEASURED, command_line, prepare_service, publish, reports_errors, say
from bench.roles.report import broken, document
from bench.roles.run import RolesPlan, run
from bench.speed.report import machine
from spotsieve.stream.demo.localkafka import LocalKafka

DOCUMENT = MEASURED / "roles.md"


@reports_errors
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
    load = os.getloadavg()[0]
    prepare_service()
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        ran = run(kafka.bootstrap_servers, Path(scratch), plan, say)
    text = document(ran, plan, command_line("bench.roles", arguments), machine(), load)
    publish(DOCUMENT, text, whole=plan == RolesPlan())
    return 1 if broken(ran) else 0


if __name__ == "__main__":
    sys.exit(main())
