"""Writes docs/sizing.md: what each role costs, how far shards go, and how many machines a crawl needs."""

from collections.abc import Sequence
from statistics import median
from textwrap import fill
from typing import Any

from tests.measure.scale import tables
from tests.measure.scale.cases import AWAY_S, LOST_SHARDS, Cases
from tests.measure.scale.costs import Costs
from tests.measure.scale.sizing import DISK_BYTES, LOAD

Figures = dict[str, Any]


def text(figures: Figures, costs: Costs, cases: Cases, client_us: float, machine: Figures) -> str:
    """The document. figures: docs/scale.json  client_us: CPU of the Kafka client a page"""
    large = max(figures["roles"], key=lambda run: run["round"])
    parts = [
        "# How many machines",
        *_opening(figures, machine),
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
        "## How many machines for which crawl",
        fill(
            f"A process is one core. No role is busy for more than {LOAD:.0%} of the time, and p99 is at "
            "most 1 s. Workers "
            "sign; shards hold the state; one resolver works and one stands by. Without shards (S = 0) "
            "each process does "
            "all. Broker traffic is without replication: each copy adds what is written once more. GB a "
            "day are those of "
            "`signatures`, `matches` and `verdicts`.",
            120,
        ),
        tables.sizes_table(figures, costs, cases),
        "### Disk of the state",
        fill(
            "For so many pages that were let through. The disk of a shard has "
            f"{DISK_BYTES / 1e12:.0f} TB, of which {LOAD:.0%} are filled. What RocksDB costs at this size "
            "was not measured: "
            "these are bytes alone, and the CPU above is that of states that fit memory.",
            120,
        ),
        tables.disk_table(figures),
        "## Targets",
        tables.targets_table(large, costs, cases, figures),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(figures: Figures, machine: Figures) -> list[str]:
    told = [(name, figures[f"{name}_measured"]) for name in ("roles", "worker", "hops", "real")]
    loads = "; ".join(f"{name} on {one['on']} at load {one['load']}, nice {one['nice']}" for name, one in told)
    return [
        fill(
            "`make scale` measures the parts, simulates a cluster of them and writes this page; do not edit it. "
            "`docs/scale.md` says what the parts do. What is simulated is a design: one process that "
            "does all was compared "
            "with real runs, and of the three roles what the table below names.",
            120,
        ),
        fill(
            f"Measured on {machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, Kafka "
            f"{machine['kafka']}, which other programs used too: {loads}. CPU is process time; it grows "
            "by a quarter and "
            "more where cores are fought for. Hops grow tenfold. So compare figures of one table.",
            120,
        ),
    ]


def _left_out(figures: Figures, costs: Costs) -> list[str]:
    """Which hops the simulation does not draw."""
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
    worker, rounds = figures["worker"], sorted(run["round"] for run in figures["roles"])
    every_us = sum(step.every for step in (costs.answer, costs.walk, costs.file)) * 1e6
    return [
        fill(
            f"{large['pages']:,} made-up pages of the index benchmark, the default scheme, "
            f"{large['round']:,} pages a round, "
            "states in memory. One role runs after the other. CPU in us a page. State is what the table "
            "files of the same states take on disk, once they are compacted, for each page that is let through.",
            120,
        ),
        tables.costs_table(large),
        fill(
            f"A worker takes {(costs.intake + costs.commit) * 1e6:.0f} us for a page of 20 KB: "
            f"{worker['decode_us']:.0f} us "
            f"to decode, {worker['sign_us']:.0f} us to sign, {worker['log_us']:.1f} us to write the "
            "record of the log, "
            f"{client_us:.0f} us of the Kafka client (the pass-through of `docs/bench.json`, exactly "
            "once), and the rest to "
            f"read originals. For the verdict of any page of the cluster it takes {costs.seen * 1e6:.2f} us.",
            120,
        ),
        f"Fitted over rounds of {' and '.join(f'{pages:,}' for pages in rounds)} pages, a step's CPU has three parts:",
        tables.steps_table(costs),
        fill(
            "What every shard does for every page bounds the cluster, however many shards there are: at "
            f"{1e6 / every_us:,.0f} pages/s a shard does nothing else.",
            120,
        ),
    ]


def _simulation(figures: Figures, costs: Costs, cases: Cases) -> list[str]:
    rebuild_us = cases.lost.rebuild_us
    return [
        fill(
            "`tests/measure/scale/simulation.py`, with simpy: events of workers, shards, resolver and "
            "broker. Costs and "
            "hops are those above. Each process has a core of its own. Workers batch up to 512 pages or "
            "50 ms, and rounds "
            "take up to 4,096 pages of what the log has. With overlap, shards answer a round while the "
            "one before is "
            "resolved. What the resolver then does more is not built: it is taken to cost the same once "
            "more. The broker "
            "has no limit here, so provide for its CPU and network.",
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
            "since each judges all pages. p50 and p99 are those of a page at half of the pages/s, from "
            "its producer to a "
            "read_committed reader.",
            120,
        ),
        "![Pages a second and latency by the number of shards](images/sizing.svg)",
        tables.reach_table(cases),
        "### A machine is lost",
        fill(
            f"{LOST_SHARDS} shards at half load, {cases.lost.pages_per_s:,.0f} pages/s; the role is away "
            f"for {AWAY_S:.0f} s.",
            120,
        ),
        tables.loss_table(cases),
        fill(
            "A shard whose disk is lost reads the log again and files, without judging. In memory this takes "
            f"{rebuild_us:.0f} us a page of the log at S = {LOST_SHARDS}, which is "
            f"{1e6 / rebuild_us:,.0f} pages/s a core; "
            f"100 million pages take {1e8 * rebuild_us / 3.6e9:.1f} hours. Where a second process has the "
            "same number, it "
            "answers meanwhile and nothing waits.",
            120,
        ),
    ]


def _compared(real: Sequence[Figures]) -> str:
    sharded = [f"{one['workers']} x {one['shards']}" for one in real if one["shards"]]
    told = (
        f"Of three roles, W x S = {', '.join(sharded)} were compared."
        if sharded
        else ("Of three roles none was compared: `spotsieve run` did not know `--role` when this was measured.")
    )
    return (
        f"Compared was one process that does all. {told} Broker, client and process share the cores of "
        "this machine and "
        "wait for other programs, which the simulation leaves out. So a real run is slower the higher "
        "the load; CPU a page "
        "is what can be compared at any load."
    )
