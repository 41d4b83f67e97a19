"""`python -m bench.partitions` measures a worker with 1,000 partitions and writes docs/measured/partitions.md."""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.command import MEASURED, command_line, prepare_service, publish, reports_errors, say
from bench.partitions.report import broken, document
from bench.partitions.run import PartitionsPlan, measure
from bench.speed.report import machine

DOCUMENT = MEASURED / "partitions.md"
LONG = PartitionsPlan(partitions=1_000, partition_bytes=4 * 2**20, page_bytes=50_000, watch_seconds=45.0)


@reports_errors
def main(arguments: list[str] | None = None) -> int:
    """Measure and write the document. Returns 0 if all bounds hold, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.partitions", description="One worker with many partitions and a backlog, over TLS."
    )
    parser.add_argument("--partitions", type=int, default=LONG.partitions, help="other than 1,000: docs stay")
    parser.add_argument("--mib", type=float, default=LONG.partition_bytes / 2**20, help="a partition; default 4")
    options = parser.parse_args(arguments)
    plan = replace(LONG, partitions=options.partitions, partition_bytes=int(options.mib * 2**20))
    load = os.getloadavg()[0]
    prepare_service()
    with tempfile.TemporaryDirectory() as scratch:
        found = measure(Path(scratch), plan, say)
    text = document(found, plan, command_line("bench.partitions", arguments), machine(), load)
    publish(DOCUMENT, text, whole=plan == LONG)
    return 1 if broken(found) else 0


if __name__ == "__main__":
    sys.exit(main())
