"""`python -m bench.large_state.growth` measures what a page costs in states of 0.1 to 100 million pages.

It writes docs/measured/growth.md, growth.json and a plot. A run that was killed continues: it keeps each finished row
and each written table file in its directory.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.command import MEASURED
from bench.large_state.cost_model import GrowthRow, fit
from bench.large_state.filling import KEYS, fill, is_filled
from bench.large_state.growth_page import broken_bound, draw, growth_page
from bench.large_state.judging import MIB, judge_on
from bench.large_state.variants import DIRECT, LargeStatePlan, copy_state
from bench.speed.report import machine
from spotsieve.state.store.rocks_options import TUNING, Tuning
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.sign.fingerprints.permuted_tables import tagged

SIZES = (100_000, 1_000_000, 4_000_000, 30_000_000)
LARGEST, LESS = 100_000_000, 60_000_000
"""The pages of the largest state, and those where the disk is too small for it."""
DISK_BYTES = 90 * 10**9
JUDGED, BATCH_PAGES = 80_000, 512
COLD_SHARE = 0.5
"""The first half of the records fills the caches."""
MOST_IN_MEMORY = 4_000_000
PROCESS_MIB = 600
"""Memory of Python, its libraries, the kernels and the write buffers: the cache takes the rest of a tenth."""
_LOOKED_UP_AT_ONCE = 2**16


class CacheShare(NamedTuple):
    """How much of a state is in memory. share: of its bytes on disk"""

    name: str
    share: float
    tuning: Tuning

    def settings(self, disk: int) -> IndexSettings:
        """The settings for a state. disk: its bytes"""
        wanted = self.share * disk / MIB
        return IndexSettings(cache_mb=max(8, round(max(wanted - PROCESS_MIB, wanted / 2))))


ALL, TENTH = CacheShare("all", 2.0, TUNING), CacheShare("a tenth", 0.1, DIRECT)


def sizes_for(directory: Path) -> tuple[int, ...]:
    """The sizes of the states that the disk has room for, beside what an earlier run has written to the folder."""
    written = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    room = shutil.disk_usage(directory).free + written
    return (*SIZES, LARGEST if room >= DISK_BYTES else LESS)


def warm_up(state: State, pages: int) -> None:
    """Read all filters: look up absent keys, three for each part of a filter, and as many entries for their indexes.

    A service has read them after some days. Without it, most reads of the measurement would be first reads.
    """
    dice = np.random.default_rng(pages)
    keys_of_page, filter_bytes = sum(keys for _, keys, _ in KEYS), TUNING.filter_bits / 8
    looked_up = int(3 * pages * keys_of_page * filter_bytes / TUNING.block_bytes)
    for tag, keys, bits in KEYS:
        left = looked_up * keys // keys_of_page
        while left > 0:
            count = min(left, _LOOKED_UP_AT_ONCE)
            state.buckets(np.unique(tagged(tag, dice.integers(0, 2**bits, count, np.uint64))))
            left -= count
    for _ in range(0, looked_up // 3, _LOOKED_UP_AT_ONCE):
        state.indexed(np.unique(dice.integers(0, pages, _LOOKED_UP_AT_ONCE, np.uint64)))


def measure(directory: Path, pages: int, judged: int, kept: list[GrowthRow], keep: Path) -> None:
    """Fill a state, judge over it with each share of memory, add a row for each to `kept`, and delete the state."""
    memories = (ALL, TENTH) if pages <= MOST_IN_MEMORY else (TENTH,)
    done = {(row["pages_filled"], row["memory"]) for row in kept}
    missing = [memory for memory in memories if (pages, memory.name) not in done]
    if not missing:
        return
    plan = LargeStatePlan(pages, judged, BATCH_PAGES, IndexSettings().write_buffer_mb)
    load, old = plan.load()
    filled, used = directory / str(pages), directory / "used"
    if not is_filled(filled):
        fill(filled, pages, load, old, TUNING)
    disk = sum(file.stat().st_size for file in filled.rglob("*.sst"))
    for memory in missing:
        shutil.rmtree(used, ignore_errors=True)
        copy_state(filled, used)
        settings = memory.settings(disk)
        costs = judge_on(
            used, load, old, plan.batch, settings, memory.tuning, lambda state: warm_up(state, pages), COLD_SHARE
        )
        row: GrowthRow = {
            "pages_filled": pages,
            "memory": memory.name,
            "cache_mb": settings.cache_mb,
            "filled_bytes": disk,
            "load_average": os.getloadavg()[0],
            "on": datetime.now(UTC).date().isoformat(),
            **asdict(costs),
        }
        kept.append(row)
        keep.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        print(f"{pages:,} pages, {memory.name} in memory: {costs}", file=sys.stderr, flush=True)
    shutil.rmtree(used)
    shutil.rmtree(filled)


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, and write the page. Returns 0 if the large states keep their memory bound, else 1."""
    parser = argparse.ArgumentParser("python -m bench.large_state.growth", description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path("build/growth"), help="where states and rows are kept")
    parser.add_argument("--sizes", type=int, nargs="*", help="pages of the states (default: as many as the disk holds)")
    parser.add_argument("--judged", type=int, default=JUDGED, help=f"pages that are judged (default {JUDGED:,})")
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page from growth.json")
    options = parser.parse_args(arguments)
    if not options.page:
        options.directory.mkdir(parents=True, exist_ok=True)
        keep = options.directory / "rows.json"
        rows: list[GrowthRow] = json.loads(keep.read_text("utf-8")) if keep.exists() else []
        for pages in options.sizes or sizes_for(options.directory):
            measure(options.directory, pages, options.judged, rows, keep)
        if options.sizes:
            return 0
        figures: dict[str, Any] = {"machine": machine(), "rows": rows}
        (MEASURED / "growth.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    figures = json.loads((MEASURED / "growth.json").read_text("utf-8"))
    model = fit(figures["rows"])
    draw(figures["rows"], model, MEASURED / "images" / "growth.svg")
    (MEASURED / "growth.md").write_text(growth_page(figures, model), "utf-8")
    wrong = broken_bound(figures["rows"])
    print(wrong or (MEASURED / "growth.md").read_text("utf-8"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
