"""Writes docs/measured/soak.md: machine and results of the last soak."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from bench.command import date_and_machine, outcome
from bench.soak.run import EARLY_SECONDS, PARTITIONS, Kill, Life, SoakPlan, SoakResult

MOST_RSS_MIB = 600.0
MOST_GROWTH = 0.25
"""Bound of the growth of memory: of the largest process from the first to the last third of all lives; and of a long
life from its first two minutes to its end.
"""
LONG_LIFE = 5 * EARLY_SECONDS


def peaks(lives: Sequence[Life]) -> tuple[float, float]:
    """Largest resident memory, MiB, in the first and in the last third of the lives, ordered by their ends."""
    third = max(1, len(lives) // 3)
    return max(life.rss_mib for life in lives[:third]), max(life.rss_mib for life in lives[-third:])


def grown(lives: Sequence[Life]) -> Life | None:
    """The life of LONG_LIFE or more with the largest growth after its first minutes."""
    return max(
        (life for life in lives if life.seconds >= LONG_LIFE),
        key=lambda life: life.rss_mib / life.early_mib,
        default=None,
    )


def broken(soaked: SoakResult) -> list[str]:
    """A sentence for each guarantee that a soak broke; empty if all hold."""
    first, last = peaks(soaked.lives)
    checked, leak = soaked.checked, grown(soaked.lives)
    kept = {
        f"{checked.missing} pages have no verdict": not checked.missing,
        f"{checked.strange} verdicts are of pages that were not sent": not checked.strange,
        f"{checked.doubled} verdicts are beyond their page's first": not checked.doubled,
        f"{checked.differing} verdicts are not those of the log": not checked.differing,
        f"resident memory reached {max(first, last):.0f} MiB": max(life.rss_mib for life in soaked.lives)
        <= MOST_RSS_MIB,
        f"resident memory grew from {first:.0f} to {last:.0f} MiB": last <= first * (1 + MOST_GROWTH),
    }
    if leak is not None:
        rule = f"a worker's memory grew from {leak.early_mib:.0f} to {leak.rss_mib:.0f} MiB in {leak.seconds:.0f} s"
        kept[rule] = leak.rss_mib <= leak.early_mib * (1 + MOST_GROWTH)
    return [what for what, well in kept.items() if not well]


def document(soaked: SoakResult, plan: SoakPlan, command: str, machine: dict[str, Any], load: float) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    checked, kills = soaked.checked, soaked.kills
    first, last = peaks(soaked.lives)
    leak = grown(soaked.lives)
    recovered = sorted(kill.recovered_seconds for kill in kills)
    rows = [
        ("pages", f"{checked.pages:,} ({soaked.sent_bytes / 1e9:.2f} GB), {checked.duplicate:,} of them duplicates"),
        ("pages without a verdict", f"{checked.missing}"),
        ("pages with two verdicts", f"{checked.doubled}"),
        ("verdicts other than those of the log, judged again", f"{checked.differing}"),
        ("workers killed", f"{len(kills):,} times; over all services {_intervals(kills)}"),
        ("pages submitted to the log again after a kill", f"{checked.submitted_again:,}"),
        ("lag 0 again after a kill", f"{median(recovered):.1f} s (median), {recovered[-1]:.1f} s at most"),
        ("largest lag", f"{soaked.most_lag:,} pages; 0 at the end"),
        (
            "time, rate",
            f"{soaked.seconds:.0f} s, {soaked.pages_per_second:,.0f} pages/s with all kills and pauses in it",
        ),
        ("resident memory of a worker, largest", f"{max(life.rss_mib for life in soaked.lives):.0f} MiB"),
        ("the same, first and last third of all lives", f"{first:.0f}, {last:.0f} MiB"),
        ("longest life of a worker", f"{max(life.seconds for life in soaked.lives):.0f} s"),
    ]
    if leak is not None:
        figure = f"{leak.early_mib:.0f}, {leak.rss_mib:.0f} MiB in {leak.seconds:.0f} s"
        rows.append((f"most growth in a life, after {EARLY_SECONDS:.0f} s and at its end", figure))
    table = "\n".join(f"| {what} | {figure} |" for what, figure in rows)
    return f"""# Soak

{outcome(broken(soaked))} Measured by `{command}` {date_and_machine(machine)}, Kafka
{machine["kafka"]}. Broker, producer and workers share them; before the start the load average was {load:.1f}.

What was done:

- **Pages**: 1 to 200 KB (log-normal, median 4 KB), three in ten of them copies.
- **Services**: {plan.lanes} side by side on one real broker. Each has its own topics and log, {plan.workers} workers on
  {PARTITIONS} partitions, and exactly_once.
- **Load**: waves of {plan.wave:,} pages, as fast as the broker takes them. The next wave begins
  {plan.pause_seconds:.0f} s after all before it is committed. So the lag is seen to go back to 0 after every kill.
- **Kills**: every {plan.kill_every[0]:.0f} to {plan.kill_every[1]:.0f} s, later where no page waits, each service has a
  worker killed (SIGKILL) and started again. It is one at random of those that have committed something since their
  start. One worker of each service at a time is spared until it has lived {plan.spared_seconds:,.0f} s, so that a leak
  would show.
- **Check**: afterwards every page id of the input is looked for in the outputs (read_committed). Every verdict is
  compared with the log judged again from its beginning.
- **Memory**: the index cache has its least size, so that other growth would show. A worker may take
  {MOST_RSS_MIB:.0f} MiB. That may grow by {MOST_GROWTH:.0%} from the first to the last third of all lives, and within
  a life of {LONG_LIFE:.0f} s or more after its first {EARLY_SECONDS:.0f} s.

| what | figure |
| --- | --- |
{table}

`make soak` writes this document; do not edit it.
"""


def _intervals(kills: Sequence[Kill]) -> str:
    """The seconds between consecutive kills."""
    at = sorted(kill.at_seconds for kill in kills)
    waits = [later - earlier for earlier, later in pairwise(at)]
    return f"{min(waits):.0f} to {max(waits):.0f} s apart, {median(waits):.0f} s in the median" if waits else "once"
