"""`python -m bench.large_state` fills and judges, and writes docs/measured/large-state.md."""

import argparse
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

from bench.large_state.report import PAGES, Ran, broken, document
from bench.large_state.variants import LARGE, VARIANTS, Plan, compare
from bench.speed.report import machine
from spotsieve.stream.base.settings.model import IndexSettings

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "measured" / "large-state.md"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the document. 0 where all holds, 1 where it does not."""
    parser = argparse.ArgumentParser("python -m bench.large_state", description="A state larger than memory.")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"of the large state (default {PAGES:,}; 400 B each)")
    parser.add_argument("--small", type=int, default=3_000_000, help="pages of the state that options are compared on")
    parser.add_argument("--judged", type=int, default=400_000, help="pages that are judged over each (default 400,000)")
    parser.add_argument("--batch", type=int, default=512, help="pages of a record (default 512)")
    parser.add_argument("--buffer-mb", type=int, default=8, help="write buffer over the smaller state (default 8)")
    parser.add_argument("--most-minutes", type=float, default=float("inf"), help="then no further variant begins")
    parser.add_argument("--only", default="", help="only variants whose names contain this; the document stays")
    parser.add_argument("--directory", type=Path, help="where the states are made for a while (default: of the system)")
    parser.add_argument("--write", action="store_true", help="write the document, whatever the sizes are")
    options = parser.parse_args(arguments)
    loads, began = os.getloadavg()[0], time.monotonic()
    ran = list[Ran]()
    plans = (
        (Plan(options.small, options.judged, options.batch, options.buffer_mb), VARIANTS),
        (Plan(options.pages, options.judged, options.batch, IndexSettings().write_buffer_mb), LARGE),
    )
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        for plan, variants in plans:
            ran.append(Ran(plan, []))
            late = time.monotonic() - began > 60 * options.most_minutes
            wanted = [variant for variant in variants if options.only in variant.name and not late]
            for variant, judged in compare(Path(scratch), plan, wanted):
                ran[-1].runs.append((variant, judged))
                print(f"{plan.pages:,} pages, {variant.name}: {judged}", file=sys.stderr, flush=True)
                if time.monotonic() - began > 60 * options.most_minutes:
                    break
    told = ("pages", "small", "judged", "batch", "buffer_mb", "most_minutes")
    given = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in told]
    command = shlex.join(["python", "-m", "bench.large_state", *given])
    small, large = ran
    text = document(small, large, command, machine(), (loads, os.getloadavg()[0]))
    whole = options.pages >= PAGES and not options.only and len(large.runs) == len(LARGE)
    if options.write or whole:
        DOCUMENT.write_text(text, "utf-8")
    print(text)
    return 1 if broken(large) else 0


if __name__ == "__main__":
    sys.exit(main())
