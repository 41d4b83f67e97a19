"""Writes docs/measured/partitions.md: what a worker with 1,000 partitions needs, and which bounds hold."""

import os
from typing import Any

from bench.command import date_and_machine, outcome
from bench.partitions.run import PartitionsPlan, PartitionsResult

MOST_RSS_MIB = 1.2 * 1024
MOST_OPENING_SECONDS = 60.0
MOST_SOCKETS = 60


def broken(found: PartitionsResult) -> list[str]:
    """A sentence for each broken bound; empty if all hold."""
    kept = {
        f"resident memory reached {found.most_rss_mib:.0f} MiB": found.most_rss_mib <= MOST_RSS_MIB,
        f"opening took {found.opened_seconds:.0f} s": found.opened_seconds <= MOST_OPENING_SECONDS,
        f"{found.rebalances} rebalances of one worker alone": found.rebalances == 1,
        f"the event loop was late for a heartbeat {found.late_loops} times": not found.late_loops,
        f"{found.most_sockets} connections": found.most_sockets <= MOST_SOCKETS,
        f"only {found.stayed} of {found.movable} partitions stayed": found.stayed == found.movable,
        "nothing was committed": found.pages > 0,
    }
    return [what for what, well in kept.items() if not well]


def document(found: PartitionsResult, plan: PartitionsPlan, command: str, machine: dict[str, Any], load: float) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    rows = [
        ("backlog", f"{found.sent_bytes / 2**30:.2f} GiB on {plan.partitions:,} partitions"),
        ("resident memory, largest", f"{found.most_rss_mib:.0f} MiB (at most {MOST_RSS_MIB:.0f})"),
        ("all partitions open after", f"{found.opened_seconds:.1f} s (at most {MOST_OPENING_SECONDS:.0f})"),
        ("connections to the broker and of scrapes, most at a time", f"{found.most_sockets}"),
        ("rebalances while it was alone", f"{found.rebalances} (its own joining)"),
        ("turns of the event loop more than 2.5 s late", f"{found.late_loops}; a heartbeat is due every 3 s"),
        ("slowest turn of the event loop", f"below {found.worst_loop_seconds:g} s"),
        ("pages committed meanwhile", f"{found.pages:,}, {found.pages_per_second:,.0f} a second"),
        ("a second worker: ready and all partitions open again after", f"{found.reopened_seconds:.1f} s"),
        ("of the first worker's new half, its own before", f"{found.stayed} of {found.movable}"),
    ]
    table = "\n".join(f"| {what} | {figure} |" for what, figure in rows)
    return f"""# Many partitions

{outcome(broken(found))} Measured by `{command}` {date_and_machine(machine)}, Kafka
{machine["kafka"]}. Broker and workers share them; before the start the load average was {load:.1f}, and
all of them ran at nice {os.nice(0)}.

A topic of {plan.partitions:,} partitions is filled with pages of {plan.page_bytes:,} bytes, {plan.partition_bytes:,}
bytes a partition. The outputs have as many partitions. Then one worker starts, over TLS, under exactly_once, with the
default settings. It opens 8 partitions at a time and reads the backlog when all are open, or after 45 s. After
{plan.watch_seconds:.0f} s more a second worker joins. Without the bounds a worker fetched 4 MiB of each partition (4.3
GB here) and held two connections and a copy of the cluster's metadata for each.

| what | figure |
| --- | --- |
{table}

This document is written by `make partitions`; do not edit it.
"""
