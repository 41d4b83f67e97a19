"""`python -m bench.roles.steps` ends every role after each step of its loop, and writes docs/measured/role-steps.md."""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.command import MEASURED, date_and_machine, prepare_service, publish, reports_errors, say
from bench.speed.report import machine
from spotsieve.stream.demo.localkafka import LocalKafka
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.matrix import Outcome
from tests.fixtures.services.role_matrix import WAVE, Wave, run_waves, waves_of
from tests.fixtures.services.role_steps import SIGNALS, STEPS

DOCUMENT = MEASURED / "role-steps.md"


@reports_errors
def main(arguments: list[str] | None = None) -> int:
    """End the roles and write the document. Returns 0 if all waves hold, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser(
        "python -m bench.roles.steps", description="Every step of every role is the last one once."
    )
    parser.add_argument("--how", choices=SIGNALS, help="only this way of ending; the document is not written")
    parser.add_argument("--waves", type=int, help="only the first steps; the document is not written")
    options = parser.parse_args(arguments)
    waves, load = waves_of(hows=[options.how] if options.how else SIGNALS), os.getloadavg()[0]
    waves = waves[: options.waves]
    prepare_service()
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        pages = crawl(WAVE * (1 + len(waves)), seed=6).messages
        outcomes = run_waves(kafka.bootstrap_servers, Path(scratch), waves, pages, say)
    text = document(waves, outcomes, machine(), load)
    publish(DOCUMENT, text, whole=not options.how and options.waves is None)
    return 0 if all(_holds(found) for found in outcomes) else 1


def document(waves: Sequence[Wave], outcomes: Sequence[Outcome], machine: Mapping[str, object], load: float) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    found = {
        (role, point.name, wave.how): outcome
        for wave, outcome in zip(waves, outcomes, strict=True)
        for role, point in wave.points.items()
    }
    rows = [
        f"| {role} | {point.name} | {point.about} | "
        + " | ".join(_cell(found.get((role, point.name, how))) for how in SIGNALS)
        + " |"
        for role, points in STEPS.items()
        for point in points
    ]
    wrong = sum(not _holds(outcome) for outcome in outcomes)
    kills = sum(len(wave.points) for wave in waves)
    return f"""# Roles that end at each step

{"All holds" if not wrong else f"{wrong} WAVES DO NOT HOLD"}: {kills} ends among {sum(one.pages for one in outcomes):,}
pages, {sum(one.missing for one in outcomes)} without a verdict, {sum(one.repeats for one in outcomes)} verdicts beyond
a page's first, {sum(one.differing for one in outcomes)} verdicts other than those of one process. Measured by
`python -m bench.roles.steps` {date_and_machine(machine)}, Kafka {machine["kafka"]}. Before the start the load
average was {load:.1f}.

Two workers, two shards and two resolvers run on a real broker, under exactly_once. Pages come in waves of {WAVE}. In
each a worker, a shard and the resolver at work end right after a step of their loops: killed (SIGKILL) and started
again, or frozen (SIGSTOP) for longer than their sessions. The roles of one wave share its pages, so a cell says
what became of the pages of its wave. Every verdict is compared with the log judged again by one process.

| role | step | what was done | killed after it | frozen after it |
| --- | --- | --- | ---: | ---: |
{chr(10).join(rows)}

`make rolesteps` writes this document; do not edit it.
"""


def _holds(found: Outcome) -> bool:
    return not (found.missing or found.repeats or found.differing)


def _cell(found: Outcome | None) -> str:
    return "-" if found is None else f"{found.missing} missing, {found.repeats} doubled, {found.differing} differ"


if __name__ == "__main__":
    sys.exit(main())
