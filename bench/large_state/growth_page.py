"""Writes docs/measured/growth.md: what a page costs in states of all sizes, the model, and a billion pages."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.command import MEASURED
from bench.large_state.cost_model import MACHINE, MODELLED_FROM, CostModel, Crawl, GrowthRow, Line, crawl
from bench.large_state.judging import MIB
from bench.plots import STYLE, save_svg
from bench.scale.costs import client_us, costs_of, state_bytes

BOUND_FROM, TIMES_MEMORY = 30_000_000, 10
BILLION = 10**9
SHARDS = (0, 4, 16, 64)
_SIZES_HEAD = """\
| pages | in memory | on disk | resident | CPU, us | model | system | on the clock | reads | read, KB | written, KB |
| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""
_CRAWLS_HEAD = """\
| shards | CPU, us a page | CPU hours | days | machines | dollars |
| ---: | ---: | ---: | ---: | ---: | ---: |"""


def broken_bound(rows: Sequence[GrowthRow]) -> str:
    """A sentence if a large state is less than ten times the memory of its process; else nothing."""
    for row in rows:
        times = row["disk"] / row["resident"]
        if row["pages_filled"] >= BOUND_FROM and times < TIMES_MEMORY:
            state = f"the state of {row['pages_filled']:,} pages"
            return f"DOES NOT HOLD: {state} is {times:.1f} times the memory of the process, not {TIMES_MEMORY} times."
    return ""


def draw(rows: Sequence[GrowthRow], model: CostModel, path: Path) -> None:
    """Plot CPU and reads against the size of the state, measured and modelled. The same rows give the same file."""
    largest = max(row["pages_filled"] for row in rows)
    beyond = np.geomspace(largest, BILLION, 20)
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for memory, colour in (("all", "#0072B2"), ("a tenth", "#D55E00")):
            shown = [row for row in rows if row["memory"] == memory]
            modelled = [row for row in shown if row["pages_filled"] >= MODELLED_FROM]
            for axes, name in ((left, "cpu_us"), (right, "reads")):
                values = [row[name] for row in shown]
                label = f"{memory} of the state in memory"
                axes.plot([row["pages_filled"] for row in shown], values, "o", color=colour, label=label)
            costs = [model.cpu_us.at(row["pages_filled"], row["reads"]) for row in modelled]
            label = "the model" if memory == "all" else ""
            left.plot([row["pages_filled"] for row in modelled], costs, "x", color="black", label=label)
        left.plot(beyond, [model.cpu_us.at(size, model.reads) for size in beyond], "--", color="#D55E00")
        right.plot(beyond, np.full(len(beyond), model.reads), "--", color="#D55E00", label="assumed")
        left.set(ylabel="CPU of the judge, us a page", ylim=(0, None))
        right.set(ylabel="reads of the disk a page", ylim=(0, None))
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("pages in the state")
            axes.legend(frameon=False)
        save_svg(figure, path)


def growth_page(figures: Mapping[str, Any], model: CostModel) -> str:
    """The text of growth.md. figures: growth.json  model: fitted to its rows"""
    rows, host = figures["rows"], figures["machine"]
    roles = json.loads((MEASURED / "scale.json").read_text("utf-8"))
    costs = costs_of({**roles, "client_us": client_us()})
    crawls = [crawl(model, costs, state_bytes(roles["roles"], shards), BILLION, shards) for shards in SHARDS]
    return f"""# How the cost grows with the state

{broken_bound(rows) or "All holds: the large states are ten times the memory of their processes, or more."}

Measured by `make growth` (`python -m bench.large_state.growth`), which writes this page; do not edit it.
{host["cores"]} cores of {host["cpu"]}, {host["system"]}, Python {host["python"]}; {_days(rows)}.
[Large state](large-state.md) describes the pages, and how states are filled with table files.

Here all filters are read before the measurement, and the first half of the judged pages warms the caches: a service is
in this condition after some days. "All" holds the whole state in the block cache and in the page cache. With a tenth,
RocksDB reads past the page cache, and the memory of the process is a tenth of the state on disk. In the small states
Python alone needs more than that; there the block cache has a twentieth. "System" is the part of CPU in the kernel of
the system, which is nearly all for the disk. Reads and KB are for each page.

{_sizes_table(rows, model)}

![CPU and reads a page against the size of the state](images/growth.svg)

## By phase

CPU in us a page / reads a page. Filing includes the write-ahead log; flushes and compactions are in the threads of
RocksDB.

{_phases_table(rows)}

## The model

For n pages in the state, m = log2(n / 1,000,000), and r reads a page:

- CPU of the judge: {_formula(model.cpu_us)} us a page
- on the clock: {_formula(model.wall_us)} us a page

The parts are fitted to the rows of a million pages and more. "Model" in the first table is the CPU by the first
formula. Beyond the largest state, r is taken as that of this state, {model.reads:.1f}. It falls as states grow, because
the cache comes nearer to a whole tenth. A read costs much CPU here, because each one leaves the virtual machine of this
measurement.

## A billion pages

Computed, not measured: a state that grows from nothing to a billion pages, with a tenth of it in memory. The CPU of
workers and shards is that of [Sizing](sizing.md); reads and the size of the state add what the model says. The judges
never pause, and wait for each read. Workers have the cores that they need. A machine is an
{MACHINE.name}, with {MACHINE.cores} virtual CPUs, {MACHINE.memory / 2**30:.0f} GiB
and {MACHINE.disk / 1e12:.2f} TB of NVMe, at {MACHINE.dollars_an_hour:.3f} dollars
an hour. Brokers, traffic and a reserve are left out.

{_crawls_table(crawls)}

## What others publish

{_others(rows, crawls)}
"""


def _days(rows: Sequence[GrowthRow]) -> str:
    loads = [row["load_average"] for row in rows]
    days = sorted({row["on"] for row in rows})
    return f"{' and '.join(days)}, at load averages of {min(loads):.1f} to {max(loads):.1f}"


def _formula(line: Line) -> str:
    parts = [f"{line.base:.1f}", f"{line.doubling:.2f} m" if line.doubling else "", f"{line.read:.1f} r"]
    return " + ".join(part for part in parts if part and (part[-1] != "r" or line.read))


def _sizes_table(rows: Sequence[GrowthRow], model: CostModel) -> str:
    lines = [_SIZES_HEAD]
    for row in rows:
        modelled = f"{model.cpu_us.at(row['pages_filled'], row['reads']):.0f}"
        lines.append(
            f"| {row['pages_filled']:,} | {row['memory']} | {row['disk'] / MIB:,.0f} MiB "
            f"| {row['resident'] / MIB:,.0f} MiB | {row['cpu_us']:.0f} "
            f"| {modelled if row['pages_filled'] >= MODELLED_FROM else '-'} | {row['system_us']:.0f} "
            f"| {row['wall_us']:.0f} | {row['reads']:.2f} | {row['read_bytes'] / 1e3:.1f} "
            f"| {row['compacted'] / 1e3:.1f} |"
        )
    return "\n".join(lines)


def _phases_table(rows: Sequence[GrowthRow]) -> str:
    names = list(rows[0]["phases"])
    lines = [f"| pages | in memory | {' | '.join(names)} |", "| ---: | --- |" + " ---: |" * len(names)]
    for row in rows:
        cells = [f"{row['phases'][name]['cpu_us']:.0f} / {row['phases'][name]['reads']:.2f}" for name in names]
        lines.append(f"| {row['pages_filled']:,} | {row['memory']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _crawls_table(crawls: Sequence[Crawl]) -> str:
    rows = (
        f"| {found.shards or 'one process'} | {found.cpu_us:.0f} | {found.cpu_hours:,.0f} "
        f"| {found.days:.1f} | {found.machines} | {found.dollars:,.0f} |"
        for found in crawls
    )
    return "\n".join([_CRAWLS_HEAD, *rows])


def _others(rows: Sequence[GrowthRow], crawls: Sequence[Crawl]) -> str:
    cheapest, largest = min(crawls, key=lambda found: found.dollars), max(rows, key=lambda row: row["pages_filled"])
    size = largest["pages_filled"]
    return f"""\
| system | published | Spotsieve, by this page |
| --- | --- | --- |
| distributed-curator 0.1: MinHash over the text of Common Crawl in one batch, on 63 nodes | 2.53 billion documents \
for 500 to 750 dollars, so 200 to 300 dollars a billion | {cheapest.dollars:,.0f} dollars a billion, from HTML, each \
page judged as it arrives |
| incrededup | 0.9 TB of index for 50 million records, so 18 KB a record | \
{largest["filled_bytes"] / size / 1e3:.2f} KB a page at {size:,} pages, its URL included |
| FOLD (arXiv 2606.03001) | 30 million documents online | {size:,} pages measured |"""
