"""Writes docs/measured/roles.md: machine and results of the last run of `make roles`."""

from collections import Counter
from statistics import median
from typing import Any

from bench.command import date_and_machine, outcome
from bench.roles.run import RolesPlan, RolesResult

MOST_SILENT_SECONDS = 10.0
"""Bound of the time from the kill of the active resolver to the next outcome."""


def broken(ran: RolesResult) -> list[str]:
    """A sentence for each guarantee that a run broke."""
    checked, silent = ran.checked, max(_silences(ran, "killed"))
    kept = {
        f"{checked.missing} pages have no verdict": not checked.missing,
        f"{checked.strange} verdicts are of pages that were not sent": not checked.strange,
        f"{checked.doubled} verdicts are beyond their page's first": not checked.doubled,
        f"{checked.differing} verdicts are not those of the log": not checked.differing,
        f"{silent:.1f} s without an outcome after a resolver was killed": silent <= MOST_SILENT_SECONDS,
    }
    return [what for what, well in kept.items() if not well]


def document(ran: RolesResult, plan: RolesPlan, command: str, machine: dict[str, Any], load: float) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    checked, harms = ran.checked, Counter((harm.role, harm.kind) for harm in ran.harms)
    rows = [
        ("pages", f"{checked.pages:,}, {checked.duplicate:,} of them duplicates"),
        ("pages without a verdict", f"{checked.missing}"),
        ("pages with two verdicts", f"{checked.doubled}"),
        ("verdicts other than those of the log, judged again by one process", f"{checked.differing}"),
        ("pages submitted to the log again", f"{checked.submitted_again:,}"),
        *((f"{role}, {kind}", f"{count} times") for (role, kind), count in sorted(harms.items())),
        *(
            (f"no outcome after a resolver was {kind}", _median_and_longest(_silences(ran, kind)))
            for kind in ("killed", "frozen")
        ),
        ("time", f"{ran.seconds:.0f} s"),
    ]
    return f"""# Harm to workers, shards and resolvers

{outcome(broken(ran))} Measured by `{command}` {date_and_machine(machine)}, Kafka
{machine["kafka"]}. Broker, producer and all roles share them; before the start the load average was {load:.1f}.

- **Roles**: {plan.workers} workers, {plan.shards} shards, and two resolvers of which one stands by, on a real broker.
- **Load**: {plan.rate:.0f} pages a second, three in ten of them copies.
- **Harm**: one process at a time, and {plan.pause:.0f} s between. It is killed (SIGKILL) and started again, or frozen
  (SIGSTOP) for {plan.frozen:.0f} s, which is longer than any session, or a killed shard also loses its disk.
- **Check**: afterwards every page id of the input is looked for in the outputs (read_committed). Every verdict is
  compared with the log judged again by one process.
- **Silence**: the longest time without an outcome on `verdicts` from the harm on. After a kill it may be
  {MOST_SILENT_SECONDS:.0f} s.

| what | figure |
| --- | --- |
{chr(10).join(f"| {what} | {figure} |" for what, figure in rows)}

`make roles` writes this document; do not edit it.
"""


def _silences(ran: RolesResult, kind: str) -> list[float]:
    return [harm.silent for harm in ran.harms if harm.silent is not None and harm.kind == kind]


def _median_and_longest(seconds: list[float]) -> str:
    return f"{median(seconds):.1f} s (median), {max(seconds):.1f} s at most"
