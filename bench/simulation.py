"""Simulates clusters by one seed after the other, and writes what was found to docs/measured/simulation.md.

    python -m bench.simulation [--minutes 120] [--first-seed 0]

The run ends at the first violation, whose seed replays it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fixtures.simulation.run import Counterexample, RunCounts, search

PAGE = Path(__file__).parent.parent / "docs" / "measured" / "simulation.md"


def main(arguments: Sequence[str]) -> int:
    """Simulate, write the page, and return the exit code: 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description="simulate clusters by seeds")
    parser.add_argument("--minutes", type=float, default=120.0, help="CPU time (default: 120)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed (default: 0)")
    options = parser.parse_args(arguments)
    counts, found = search(options.first_seed, 60 * options.minutes)
    PAGE.write_text(page(options.minutes, options.first_seed, counts, found), encoding="utf-8")
    print(f"{len(counts)} runs, {'no violation' if found is None else found}; {PAGE}")
    return 0 if found is None else 1


def page(minutes: float, first_seed: int, counts: Sequence[RunCounts], found: Counterexample | None) -> str:
    """The page of the document. counts: of the runs without a violation"""
    sums = [sum(getattr(one, name) for one in counts) for name in ("pages", "records", "switches", "steps")]
    hours = sum(one.seconds for one in counts) / 3600
    row = f"| {len(counts):,} | {' | '.join(f'{number:,}' for number in sums)} | {hours:.1f} |"
    result = "no run violated an invariant" if found is None else f"seed {found.seed} violated one: {found.text}"
    return f"""# Simulated clusters

Written by `make simulation` (`python -m bench.simulation`): up to {minutes:g} minutes of CPU time, seeds from
{first_seed} on. Result: {result}.

| runs | pages | log records | resizes that ended | steps | simulated hours |
|---:|---:|---:|---:|---:|---:|
{row}

Each run has two workers, two resolvers, up to four shards with hot standbys, and an operator who resizes. Processes are
killed and frozen, disks lose unsynced writes, responses of brokers are lost, and retention removes responses. No page
may be lost or emitted twice, verdicts must equal those of one process, all pages must be committed once the faults end,
no advice may harm good data, and shards take over only if all were there of late.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
