"""`python -m bench.large_state` fills a state, judges over it, and writes docs/measured/large-state.md."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.command import MEASURED, command_line, publish
from bench.large_state.report import PAGES, VariantRuns, broken, document
from bench.large_state.variants import LARGE, VARIANTS, LargeStatePlan, compare
from bench.speed.report import machine
from spotsieve.stream.base.settings.model import IndexSettings

DOCUMENT = MEASURED / "large-state.md"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the document. Returns 0 if all bounds hold, else 1."""
    parser = argparse.ArgumentParser("python -m bench.large_state", description="A state larger than memory.")
    parser.add_argument(
        "--pages", type=int, default=PAGES, help=f"pages of the large state (default {PAGES:,}; 400 B each)"
    )
    parser.add_argument(
        "--small", type=int, default=3_000_000, help="pages of the smaller state, on which options are compared"
    )
    parser.add_argument(
        "--judged", type=int, default=400_000, help="pages that are judged over each state (default 400,000)"
    )
    parser.add_argument("--batch", type=int, default=512, help="pages of a record (default 512)")
    parser.add_argument("--buffer-mb", type=int, default=8, help="write buffer over the smaller state (default 8)")
    parser.add_argument(
        "--most-minutes", type=float, default=float("inf"), help="start no further variant after this time"
    )
    parser.add_argument(
        "--only", default="", help="only variants whose names contain this text; the document is not written"
    )
    parser.add_argument("--directory", type=Path, help="folder for the temporary states (default: that of the system)")
    parser.add_argument("--write", action="store_true", help="write the document even for other sizes")
    options = parser.parse_args(arguments)
    loads, began = os.getloadavg()[0], time.monotonic()
    ran = list[VariantRuns]()
    plans = (
        (LargeStatePlan(options.small, options.judged, options.batch, options.buffer_mb), VARIANTS),
        (LargeStatePlan(options.pages, options.judged, options.batch, IndexSettings().write_buffer_mb), LARGE),
    )
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        for plan, variants in plans:
            ran.append(VariantRuns(plan, []))
            late = time.monotonic() - began > 60 * options.most_minutes
            wanted = [variant for variant in variants if options.only in variant.name and not late]
            for variant, judged in compare(Path(scratch), plan, wanted):
                ran[-1].runs.append((variant, judged))
                print(f"{plan.pages:,} pages, {variant.name}: {judged}", file=sys.stderr, flush=True)
                if time.monotonic() - began > 60 * options.most_minutes:
                    break
    passed = ("pages", "small", "judged", "batch", "buffer_mb", "most_minutes")
    given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in passed]
    command = command_line("bench.large_state", given)
    small, large = ran
    text = document(small, large, command, machine(), (loads, os.getloadavg()[0]))
    whole = options.pages >= PAGES and not options.only and len(large.runs) == len(LARGE)
    publish(DOCUMENT, text, whole=options.write or whole)
    return 1 if broken(large) else 0


if __name__ == "__main__":
    sys.exit(main())
