"""`python -m bench.partitions` measures a worker with 1,000 partitions and writes docs/measured/partitions.md."""

import argparse
import logging
import os
import shlex
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.partitions.report import broken, document
from bench.partitions.run import PartitionsPlan, measure
from bench.speed.report import machine
from spotsieve.stream.base.errors import SpotsieveError
from spotsieve.stream.demo.localkafka import prepare
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.services.oracle import settings_from

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "measured" / "partitions.md"
LONG = PartitionsPlan(partitions=1_000, partition_bytes=4 * 2**20, page_bytes=50_000, watch_seconds=45.0)


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the document. Returns 0 if all bounds hold, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.partitions", description="One worker with many partitions and a backlog, over TLS."
    )
    parser.add_argument("--partitions", type=int, default=LONG.partitions, help="other than 1,000: docs stay")
    parser.add_argument("--mib", type=float, default=LONG.partition_bytes / 2**20, help="a partition; default 4")
    options = parser.parse_args(arguments)
    plan = replace(LONG, partitions=options.partitions, partition_bytes=int(options.mib * 2**20))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    load = os.getloadavg()[0]
    try:
        prepare()
        compile_kernels(scheme_of(settings_from("").scheme))
        with tempfile.TemporaryDirectory() as scratch:
            found = measure(Path(scratch), plan, _say)
    except SpotsieveError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given = sys.argv[1:] if arguments is None else arguments
    text = document(found, plan, shlex.join(["python", "-m", "bench.partitions", *given]), machine(), load)
    if plan == LONG:
        DOCUMENT.write_text(text, "utf-8")
    print(text)
    return 1 if broken(found) else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
