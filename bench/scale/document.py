"""Writes docs/measured/sizing.md: the costs of each role, the reach of shards, and the machines that a crawl needs."""

from collections.abc import Sequence
from statistics import median
from textwrap import fill
from typing import Any

from bench.scale import tables
from bench.scale.cases import AWAY_S, LOST_SHARDS, NEARLY, Cases
from bench.scale.costs import Costs
from bench.scale.simulation import SimulationPlan
from bench.scale.sizing import DISK_BYTES, LOAD

Figures = dict[str, Any]


def text(figures: Figures, costs: Costs, cases: Cases, client_us: float, machine: Figures) -> str:
    """The text of the document. figures: docs/measured/scale.json  client_us: CPU of the Kafka client per page"""
    large = max(figures["roles"], key=lambda run: run["round"])
    parts = [
        "# How many machines",
        *_opening(figures, machine),
        "## How many machines for which crawl",
        fill(
            "Simulated. A process has one core, and is busy for at most "
            f"{LOAD:.0%} of the time; p99 is at most 1 s. One resolver works and one stands by. With S = 0 each "
            "process does all. Broker traffic is for one replica: each further replica writes the same again. "
            "GB a day count `signatures`, `matches` and `verdicts`.",
            120,
        ),
        tables.sizes_table(figures, costs, cases),
        "### Disk of the state",
        fill(
            "Only indexed pages are counted. A disk has "
            f"{DISK_BYTES / 1e12:.0f} TB, and {LOAD:.0%} of it may be filled. These are bytes alone: the CPU of "
            "RocksDB at this size was not measured with shards. [Growth](growth.md) measures it in one process, and "
            "computes what a billion pages cost. All CPU on this page is that of states that fit memory.",
            120,
        ),
        tables.disk_table(figures),
        "## What a page costs",
        *_costs(figures, large, costs, client_us),
        "## Hops",
        fill(
            "Milliseconds from the call that produces until a consumer has the record, on one broker of "
            "this machine. A "
            "plain hop is an idempotent producer's; a fenced one is a transaction, read under read_committed.",
            120,
        ),
        tables.hops_table(figures["hops"]),
        *_left_out(figures, costs),
        "## The simulation",
        *_simulation(figures, costs, cases),
        "## Targets",
        tables.targets_table(large, costs, cases, figures),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(figures: Figures, machine: Figures) -> list[str]:
    measured = [(name, figures[f"{name}_measured"]) for name in ("roles", "larger", "worker", "hops", "real", "refill")]
    loads = "; ".join(f"{name} on {one['on']} at a load of {one['load']}, nice {one['nice']}" for name, one in measured)
    return [
        fill(
            "`make scale` measures the parts, simulates a cluster of them and writes this page; do not edit it. "
            "[Scale](../scale.md) describes workers, shards and the resolver. W is the number of workers, S the "
            "number of shards.",
            120,
        ),
        fill(
            "CPU, bytes and hops are measured. Pages a second, latency and numbers of machines are simulated from "
            'them: no cluster was at hand. "Checked against real runs" compares the simulation with what this '
            "machine can run.",
            120,
        ),
        fill(
            f"The machine: {machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, Kafka "
            f"{machine['kafka']}. Other programs used it meanwhile: {loads}. CPU is process time. Where programs "
            "compete for cores it grows by a quarter and more, and hops take up to ten times as long. So compare "
            "figures of one table only.",
            120,
        ),
    ]


def _left_out(figures: Figures, costs: Costs) -> list[str]:
    """A paragraph about the hops that the simulation does not draw."""
    if len(costs.hops["plain.small"]) == len(figures["hops"]["plain.small"]):
        return []
    drawn = ", ".join(f"{name.replace('.', ' ')} {median(taken):.1f}" for name, taken in sorted(costs.hops.items()))
    return [
        fill(
            "Other programs kept the machine busy, and most hops waited for them. The simulation draws from the "
            f"fastest quarter alone, with these medians in ms: {drawn}. So its p99 leaves out slow hops; `make scale "
            "ARGS='hops real'` on a free machine measures them all.",
            120,
        )
    ]


def _costs(figures: Figures, large: Figures, costs: Costs, client_us: float) -> list[str]:
    worker, larger, rounds = figures["worker"], figures["larger"], sorted(run["round"] for run in figures["roles"])
    every_us = (
        sum(step.every for step in (costs.ahead, costs.response, costs.confirm, costs.resolution, costs.file)) * 1e6
    )
    return [
        fill(
            f"{large['pages']:,} made-up pages of the index benchmark, the default scheme, "
            f"{large['round']:,} pages a round, "
            "states on disk. One role runs after the other. CPU is in us a page, and that of RocksDB's own "
            "threads counts as indexing. State is the size of the compacted table files for each emitted page.",
            120,
        ),
        tables.costs_table(large),
        fill(
            f"Over {larger['pages']:,} pages RocksDB reads more from files, and compacts them: one process takes "
            f"{larger['judge_us']:.0f} us a page there, and {larger['shards']} shards together, in rounds of "
            f"{larger['round']:,} pages, {larger['shards_us']:.0f} us, {larger['shards_us'] / larger['judge_us']:.2f} "
            f"of it. They walk over a round {larger['walks_a_round']:.2f} times.",
            120,
        ),
        fill(
            f"A worker takes {(costs.intake + costs.commit) * 1e6:.0f} us for a page of 20 KB: "
            f"{worker['decode_us']:.0f} us "
            f"to decode, {worker['sign_us']:.0f} us to sign, {worker['log_us']:.1f} us to write the "
            "record of the log, "
            f"{client_us:.0f} us of the Kafka client (the pass-through of `docs/measured/bench.json`, exactly "
            "once), and the rest to "
            f"read originals. For the verdict of any page of the cluster it takes {costs.seen * 1e6:.2f} us.",
            120,
        ),
        f"Fitted over rounds of {' and '.join(f'{pages:,}' for pages in rounds)} pages, a step's CPU has three parts:",
        tables.steps_table(costs),
        fill(
            "Every shard does a part of its work for every page of the cluster. At "
            f"{1e6 / every_us:,.0f} pages/s this part alone fills a core, so no number of shards goes beyond.",
            120,
        ),
    ]


def _simulation(figures: Figures, costs: Costs, cases: Cases) -> list[str]:
    rebuild_us, refill = cases.lost.rebuild_us, figures["refill"]
    return [
        fill(
            "`bench/scale/simulation.py`, with simpy: events of workers, shards, resolver and "
            "broker. Costs and "
            "hops are those above. Each process has a core of its own. Workers batch up to 512 pages or "
            "50 ms, and rounds "
            f"take up to {SimulationPlan(1, 1).round_pages:,} pages of what the log has. Shards read the log and its "
            "buckets ahead; the rows with nothing ahead say what they reach without it. The "
            "broker has no limit here, so provide for its CPU and network.",
            120,
        ),
        "### Checked against real runs",
        tables.real_table(figures["real"], costs),
        fill(_compared(figures["real"]), 120),
        "### W workers, S shards",
        fill(
            "Efficiency is pages/s a process, resolver and all, over those of the one process that does all "
            f"({cases.alone.pages_per_s:,.0f} pages/s). Any number of such processes ends at "
            f"{cases.ceiling:,.0f} pages/s, "
            "since each judges all pages. p50 and p99 are the latencies of a page at half of the pages/s, from "
            "its producer to a "
            f"read_committed reader. W is the fewest workers that take {NEARLY:.0%} of what any number of them takes.",
            120,
        ),
        "![Pages a second and latency by the number of shards](images/sizing.svg)",
        tables.reach_table(cases),
        "### A machine is lost",
        fill(
            f"{LOST_SHARDS} shards are at half load ({cases.lost.pages_per_s:,.0f} pages/s), and one process is away "
            f"for {AWAY_S:.0f} s.",
            120,
        ),
        tables.loss_table(cases),
        fill(
            "A shard whose disk is lost reads the log again and indexes its pages, without judging. Measured as above "
            f"this takes {rebuild_us:.1f} us a page of the log at S = {LOST_SHARDS}, which is {1e6 / rebuild_us:,.0f} "
            f"pages/s a core. On a real broker one of {refill['shards']} shards indexed "
            f"{refill['pages']:,} pages at {refill['pages_per_s']:,.0f} pages/s, with {refill['cpu_us']:.1f} us of CPU "
            f"a page ({1e6 / refill['cpu_us']:,.0f} pages/s a core); 100 million pages take "
            f"{1e8 / refill['pages_per_s'] / 3600:.1f} hours at this pace. Where a second process has the same number, "
            "it answers meanwhile and nothing waits.",
            120,
        ),
    ]


def _compared(real: Sequence[Figures]) -> str:
    sharded = [f"{one['workers']} x {one['shards']}" for one in real if one["shards"]]
    compared = (
        f"Of three roles, W x S = {', '.join(sharded)} were compared."
        if sharded
        else ("Of three roles none was compared: `spotsieve run` did not know `--role` when this was measured.")
    )
    return (
        f"One process that does all was compared. {compared} Broker, client and process share the cores of this "
        "machine and wait for other programs, which the simulation leaves out. So the higher the load, the slower a "
        "real run. CPU a page can be compared at any load."
    )
