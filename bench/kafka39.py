"""`python -m bench.kafka39` runs the fault tests on Kafka 3.9 with its classic coordinator: docs/measured/kafka39.md.

Kafka 4 has only the new group coordinator. The classic one applies the end of a transaction to the offsets of the
group shortly after the transaction log has it, so the offset that a worker reads there needs its own test.
"""

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.command import date_and_machine, outcome, reports_errors
from bench.speed.report import machine
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.demo.localkafka.jars import CLASSIC_VERSION, RELEASE_VARIABLE
from spotsieve.stream.kafka.driver.requests import stable_committed
from tests.fixtures.brokers.reopening import Ask, Reopened, reopen_often
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.services.oracle import settings_from

REPOSITORY = Path(__file__).resolve().parents[1]
DOCUMENT = REPOSITORY / "docs" / "measured" / "kafka39.md"
FILES = (
    "tests/faults/test_reopening.py",
    "tests/faults/test_crash_matrix.py",
    "tests/faults/test_broker_faults.py",
    "tests/faults/test_transactions.py",
    "tests/faults/test_rebalance.py",
    "tests/broker/test_start_offsets.py",
)
RACERS, TIMES = 8, 250
Row = tuple[str, int, int, int, float]
"""A test file, the number of its tests that passed, failed and were skipped, and the seconds it took."""


@dataclass(frozen=True, slots=True)
class Race:
    """The openings of partitions straight after commits of unknown outcome, and the numbers written to the output.

    openings, unknown: totals  doubled: numbers that are in the output twice  gaps: partitions that lack a number
    """

    openings: int
    unknown: int
    doubled: int
    gaps: int


def race(ask: Ask, times: int) -> Race:
    """Reopen all partitions `times` times, concurrently, and look up the committed offset by `ask`."""
    with LocalKafka() as kafka, TopicSet(kafka.bootstrap_servers, partitions=RACERS) as topics:

        async def all_partitions() -> list[Reopened]:
            runs = []
            for number in range(RACERS):
                settings = settings_from(topics.toml())
                # A separate group that assigns no partitions: this test alone opens them.
                group = settings.kafka.model_copy(update={"group_id": f"{topics.group}-{number}"})
                partition = TopicPartition(topics.names["input"], number)
                runs.append(reopen_often(settings.model_copy(update={"kafka": group}), partition, times, ask, number))
            return await asyncio.gather(*runs)

        taken = asyncio.run(all_partitions())
        written = Counter((record.partition, int(record.value)) for record in topics.read("novel"))
    numbers = [{value for partition, value in written if partition == number} for number in range(RACERS)]
    return Race(
        openings=sum(len(each.began) for each in taken),
        unknown=sum(each.unknown for each in taken),
        doubled=sum(count - 1 for count in written.values()),
        gaps=sum(found != set(range(len(found))) for found in numbers),
    )


async def own_question(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int | None:
    """The committed offset as aiokafka asks for it, without require_stable."""
    offset: int | None = await consumer.committed(partition)
    return offset


def run_tests(chosen: list[str]) -> list[Row]:
    """Run the test files on Kafka 3.9."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *chosen]
        subprocess.run(command, cwd=REPOSITORY, check=False, env={**os.environ, RELEASE_VARIABLE: CLASSIC_VERSION})
        # The report is safe to parse: our own pytest wrote it.
        cases = list(ET.parse(report).getroot().iter("testcase"))
    rows = []
    for file in sorted({case.get("classname", "") for case in cases}):
        mine = [case for case in cases if case.get("classname", "") == file]
        failed = sum(case.find("failure") is not None or case.find("error") is not None for case in mine)
        skipped = sum(case.find("skipped") is not None for case in mine)
        seconds = sum(float(case.get("time", 0)) for case in mine)
        rows.append((file.replace(".", "/") + ".py", len(mine) - failed - skipped, failed, skipped, seconds))
    return rows


def document(
    rows: list[Row],
    stable: Race,
    own: Race,
    command: str,
    host: dict[str, Any],
    load: float,
) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    wrong = [file for file, _, failed, *_ in rows if failed]
    if stable.doubled or stable.gaps:
        wrong.append("the race")
    table = "\n".join(
        f"| `{file}` | {passed} | {failed} | {skipped} | {seconds:.0f} |"
        for file, passed, failed, skipped, seconds in rows
    )
    races = "\n".join(
        f"| {name} | {found.openings:,} | {found.unknown:,} | {found.doubled} | {found.gaps} |"
        for name, found in (("the service's question", stable), ("aiokafka's own question", own))
    )
    return f"""# Kafka 3.9 with the classic group coordinator

{outcome(wrong)} Measured {date_and_machine(host)}, Kafka {CLASSIC_VERSION},
`group.coordinator.rebalance.protocols=classic`, `group.coordinator.new.enable=false`; before the start the load average
was {load:.1f}. The tests are those of `make test`, which runs them on Kafka 4. This was run:

```sh
{command}
```

| tests | passed | failed | skipped | seconds |
| --- | ---: | ---: | ---: | ---: |
{table}

## The race

{RACERS} partitions are reassigned again and again, each right after a transaction whose commit was given up after 0
to 50 ms: a new producer with the same transactional id, then the committed offset, then an output with that offset as
its number, and so on. An offset from before a transaction that has ended doubles an output. "unknown" are commits that
were given up before the broker had answered.

| how the committed offset is asked for | openings | unknown | outputs doubled | partitions with a gap |
| --- | ---: | ---: | ---: | ---: |
{races}

The service asks with `require_stable` (`stream/kafka/driver/requests.py`). `make classic` writes this document; do not
edit it.
"""


@reports_errors
def main(arguments: list[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Run everything and write the document. Returns 0 if all holds, 1 if not, 5 without a broker."""
    parser = argparse.ArgumentParser("python -m bench.kafka39", description="Faults on Kafka 3.9.")
    parser.add_argument("tests", nargs="*", help="test files instead of all; the document names them")
    parser.add_argument("--times", type=int, default=TIMES, help=f"openings of each of {RACERS} partitions ({TIMES})")
    options = parser.parse_args(arguments)
    os.environ[RELEASE_VARIABLE] = CLASSIC_VERSION
    load = os.getloadavg()[0]
    prepare()
    stable = race(stable_committed, options.times)
    say(f"{stable}")
    own = race(own_question, options.times)
    say(f"{own}")
    rows = run_tests(options.tests or list(FILES))
    given = sys.argv[1:] if arguments is None else arguments
    text = document(
        rows,
        stable,
        own,
        " \\\n    ".join(["python -m bench.kafka39", *map(shlex.quote, given)]),
        machine(),
        load,
    )
    DOCUMENT.write_text(text, "utf-8")
    say(text)
    return 1 if "DOES NOT HOLD" in text else 0


if __name__ == "__main__":
    sys.exit(main())
