"""Writes the tables of docs/measured/sizing.md."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bench.scale.cases import EFFICIENT, LOST_SHARDS, SHARDS, Cases
from bench.scale.costs import Costs, published_bytes, state_bytes
from bench.scale.outcomes import SimulationResult
from bench.scale.simulation import SimulationPlan, simulate
from bench.scale.sizing import LOAD, PAGES, RATES, disk_of_shard, shards_by_disk, traffic
from bench.targets import met

Figures = dict[str, Any]
MEASURED = (1, 2, 4, 8)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def costs_table(large: Figures) -> str:
    """The costs of a page, role by role."""
    runs = [large[f"S={shards}"] for shards in MEASURED]
    one = large["judge_us"]

    def row(name: str, alone: str, *keys: str, form: str = ".1f") -> list[str]:
        return [name, alone, *(format(sum(run[key] for key in keys), form) for run in runs)]

    return _table(
        ["what", "one process", *(f"S = {shards}" for shards in MEASURED)],
        [
            row("resolver", "-", "resolver_read_us", "resolver_us"),
            row("shards, sum", f"{one:.1f}", "shards_us"),
            ["of one process", "1", *(f"{run['shards_us'] / one:.2f}" for run in runs)],
            row("of it the log and buckets, ahead", "", "shard_read_us", "shard_ahead_us"),
            row("of it keys and buckets", "", "shard_keys and buckets_us"),
            row("of it answers", "", "shard_answer_us"),
            row("of it confirming", "", "shard_confirm_us"),
            row("of it walks", "", "shard_walk_us"),
            row("of it filing", "", "shard_file_us"),
            row("walks a round", "", "walks_a_round", form=".2f"),
            row("a worker: any page's verdict", "-", "worker_outcomes_us"),
            ["`signatures`, bytes", *[f"{large['log_bytes']:.0f}"] * 5],
            row("`matches`, bytes", "-", "meetings_bytes", "confirms_bytes", "walks_bytes", form=".0f"),
            row("`verdicts`, bytes", "-", "outcome_bytes", form=".0f"),
            row("state, bytes of a page in all shards", f"{large['state_bytes']:.0f}", "state_bytes", form=".0f"),
            row("shards that hold an entry", "1", "entries_held"),
        ],
    )


def steps_table(costs: Costs) -> str:
    """The parts of each step."""
    steps = {
        "log and buckets, ahead": costs.ahead,
        "answer": costs.response,
        "log, buckets and answer, nothing ahead": costs.alone,
        "confirm": costs.confirm,
        "walk": costs.resolution,
        "file": costs.file,
        "file, without having judged": costs.rebuild,
        "resolver, the log and answers": costs.resolver_read,
        "resolver, the outcome": costs.resolver,
    }
    return _table(
        ["step", "once for a page, us", "each shard for each page, us", "each shard for each round, us"],
        [
            [name, f"{step.once * 1e6:.1f}", f"{step.every * 1e6:.2f}", f"{step.round * 1e6:.0f}"]
            for name, step in steps.items()
        ],
    )


def hops_table(hops: dict[str, list[float]]) -> str:
    """The latency of records."""
    sizes = {"small": "200 B", "meetings": "100 KB", "outcome": "250 KB"}
    rows = []
    for name, taken in hops.items():
        kind, size = name.split(".")
        rows.append([f"{kind}, {sizes[size]}", *(f"{one:.1f}" for one in np.percentile(taken, [5, 50, 90, 99]))])
    return _table(["hop", "p5", "p50", "p90", "p99"], rows)


def real_table(real: Sequence[Figures], costs: Costs) -> str:
    """Real runs beside simulated ones."""
    rows = []
    for one in real:
        plan = SimulationPlan(one["workers"], one["shards"], seconds=10.0)
        full, at_rate = simulate(plan, costs), simulate(plan._replace(pages_per_s=one["rate"]), costs)
        rows.append(
            [
                f"{one['workers']} x {one['shards']}",
                f"{one['pages_per_s']:,.0f}",
                f"{full.pages_per_s:,.0f}",
                f"{one['p50_ms']:.0f} / {one['p99_ms']:.0f}",
                f"{at_rate.p50_ms:.0f} / {at_rate.p99_ms:.0f}",
                f"{one['cpu_us']:.0f}",
                f"{(costs.intake + costs.commit + costs.judge) * 1e6:.0f}" if not one["shards"] else "-",
                f"{one['load']:.0f}",
            ]
        )
    head = ["W x S", "pages/s, real", "simulated", "p50 / p99 ms at 200/s, real", "simulated"]
    return _table([*head, "CPU us a page, real", "simulated", "load"], rows)


def reach_table(cases: Cases) -> str:
    """The reach of W workers and S shards."""
    rows = []
    for ahead in (False, True):
        for shards in SHARDS:
            reach = cases.reached[shards, ahead]
            rows.append(
                [
                    f"{reach.workers} x {shards}" + ("" if ahead else ", nothing ahead"),
                    f"{reach.full.pages_per_s:,.0f}",
                    _busy(reach.full),
                    reach.full.bottleneck,
                    f"{reach.efficiency:.2f}",
                    f"{reach.half.p50_ms:.0f} / {reach.half.p99_ms:.0f}",
                ]
            )
    return _table(
        ["W x S", "pages/s", "busy: worker, shard, resolver", "bottleneck", "efficiency", "p50 / p99, ms"], rows
    )


def _busy(outcome: SimulationResult) -> str:
    return ", ".join(f"{share:.0%}" for share in outcome.busy.values())


def loss_table(cases: Cases) -> str:
    """Waiting times while a role is away."""
    return _table(
        ["lost", "longest wait of a page, s", "until pages wait no longer than before, s"],
        [
            [name, f"{one.most_ms / 1e3:.1f}", f"{one.recovered_s:.0f}" if one.recovered_s else "not within the run"]
            for name, one in cases.lost.outcomes.items()
        ],
    )


def sizes_table(figures: Figures, costs: Costs, cases: Cases) -> str:
    """The size that each rate needs."""
    rows = []
    for size in cases.sizes:
        carried = traffic(size.rate, size.workers, size.shards, figures["roles"], costs.message)
        enough = size.reached or f"no: {size.outcome.pages_per_s * LOAD:,.0f} at most"
        rows.append(
            [
                f"{size.rate:,}",
                "yes" if enough is True else str(enough),
                f"{size.workers} x {size.shards}",
                f"{size.processes}",
                f"{size.outcome.p50_ms:.0f} / {size.outcome.p99_ms:.0f}" if size.reached else "-",
                f"{carried.written / 1e6:,.0f} / {carried.read / 1e6:,.0f}",
                f"{carried.own_written / 1e6:,.1f} / {carried.own_read / 1e6:,.1f}",
                f"{carried.own_written * 86_400 / 1e9:,.0f}",
            ]
        )
    head = ["pages/s", "kept up", "W x S", "processes", "p50 / p99, ms", "broker: written / read, MB/s"]
    return _table([*head, "of it our topics", "GB a day"], rows)


def disk_table(figures: Figures) -> str:
    """The disks of shards that a number of pages needs."""
    roles, rows = figures["roles"], []
    for pages in PAGES:
        fewest = shards_by_disk(pages, roles)
        columns = [f"{disk_of_shard(pages, shards, roles) / 1e12:,.2f} TB" for shards in (0, 4, 16, 64)]
        rows.append([f"{pages / 1e9:g} billion", *columns, "one process" if not fewest else f"{fewest} shards"])
    head = ["pages", "each of S = 0", "each of 4", "each of 16", "each of 64", "fits from"]
    return _table(head, rows)


def targets_table(large: Figures, costs: Costs, cases: Cases, figures: Figures) -> str:
    """The targets of shards."""
    four, larger, worker_us = large["S=4"], figures["larger"], (costs.intake + costs.commit) * 1e6
    published, state = published_bytes(figures["roles"], 8), state_bytes(figures["roles"], 8)
    ratio = larger["shards_us"] / larger["judge_us"]
    resolver_us = four["resolver_read_us"] + four["resolver_us"]
    again = 1e6 / figures["refill"]["cpu_us"]
    best = max(cases.reached.values(), key=lambda reach: reach.full.pages_per_s)
    efficient = cases.efficient
    top = cases.sizes[RATES.index(100_000)]
    p99 = cases.reached[4, True].half.p99_ms

    return _table(
        ["what", "figure", "target", "met"],
        [
            ["resolver, CPU a page, S = 4", f"{resolver_us:.1f} us", "<= 8 us", met(resolver_us <= 8)],
            [
                f"shards, sum over S = {larger['shards']}, of one process, {larger['pages']:,} pages",
                f"{ratio:.2f}",
                "<= 1.3",
                met(ratio <= 1.3),
            ],
            ["worker, CPU a page of 20 KB", f"{worker_us:.0f} us", "<= 120 us", met(worker_us <= 120)],
            [
                f"a lost shard of {LOST_SHARDS} files again, on a real broker",
                f"{again:,.0f} pages/s a core",
                ">= 100,000",
                met(again >= 100_000),
            ],
            ["state, bytes a page, S = 8", f"{state:.0f}", "<= 900", met(state <= 900)],
            [
                "`signatures`, `matches` and `verdicts`, bytes a page, S = 8",
                f"{published:.0f}",
                "<= 600",
                met(published <= 600),
            ],
            [
                f"the most simulated pages/s with an efficiency of {EFFICIENT:g}",
                f"{efficient.pages_per_s:,.0f}, {efficient.workers} x {efficient.shards}"
                if efficient.workers
                else "none",
                ">= 100,000",
                met(efficient.pages_per_s >= 100_000),
            ],
            [
                "the most of any S; efficiency there",
                f"{best.full.pages_per_s:,.0f}; {best.efficiency:.2f}",
                "",
                "",
            ],
            ["100,000 pages/s kept up at a load of .7", "yes" if top.reached else "no", "", ""],
            ["p99 of a page, S = 4, half load", f"{p99:.0f} ms", "<= 250 ms", met(p99 <= 250)],
        ],
    )
