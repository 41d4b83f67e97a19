"""`spotsieve demo` works on a real Kafka, says the truth, and leaves nothing behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import orjson
import psutil
import pytest

from spotsieve.stream.kafka.clients import administrator
from tests.conftest import REPOSITORY, Broker
from tests.fixtures.brokers.listeners import NOBODY
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.waiting import SECONDS, wait_until

DEMO = [sys.executable, "-m", "spotsieve.stream", "demo"]
pytestmark = [pytest.mark.timeout(900)]


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def await_gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    return psutil.wait_procs(processes, seconds)[1]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*DEMO, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def read_until(demo: subprocess.Popen[bytes], what: bytes) -> list[bytes]:
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if what in line:
            return lines
    raise AssertionError(b"".join(lines).decode())


def test_the_demo_tells_a_person_what_was_dropped_and_why() -> None:
    done = subprocess.run(DEMO, cwd=REPOSITORY, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No novel page was lost" in done.stdout
    assert "Every message came out exactly once" in done.stdout
    headings = [line.partition(":")[0] for line in done.stdout.splitlines() if line.startswith("Why it was dropped")]
    assert [heading.rpartition(" ")[2] for heading in headings] == ["(clear-cut)", "(clear-cut)", "(borderline)"]
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    assert all(character == "\n" or character.isprintable() for character in done.stdout)
    assert done.stdout.isascii()


async def test_on_a_broker_of_ones_own_the_demo_removes_its_topics(kafka: Broker) -> None:
    demo = await asyncio.create_subprocess_exec(
        *DEMO,
        "--json",
        "--bootstrap-servers",
        kafka.bootstrap_servers,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    printed, errors = await demo.communicate()
    assert demo.returncode == 0, errors.decode()
    report = orjson.loads(printed)
    assert report["good"] is True
    assert sum(report["messages_out"].values()) == report["messages_in"]
    assert sum(kind["found"] for kind in report["copies"].values()) > 160
    async with administrator(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert [name for name in await admin.list_topics() if name.startswith("spotsieve-demo-")] == []


@pytest.mark.parametrize("number", mostly_long([signal.SIGINT, signal.SIGKILL, signal.SIGTERM], 2))
def test_a_demo_that_is_kept_or_killed_leaves_no_process_behind(number: signal.Signals) -> None:
    demo = start("--keep")
    try:
        read_until(demo, b"keep running until Ctrl-C")
        processes = descendants(demo.pid)
        assert any("kafka.Kafka" in process.cmdline() for process in processes)
        os.kill(demo.pid, number)
        assert demo.wait(SECONDS) == (-9 if number == signal.SIGKILL else 0)
        assert await_gone(processes, SECONDS) == []
    finally:
        demo.kill()
        demo.communicate()


def with_a_broker(processes: list[psutil.Process]) -> list[psutil.Process]:
    """These processes once a Kafka is among them; none before."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if any("kafka.Kafka" in process.cmdline() for process in processes):
            return processes
    return []


def test_ctrl_c_while_the_broker_starts_leaves_no_process_behind() -> None:
    demo = start()
    try:
        read_until(demo, b"starting Apache Kafka")
        processes = wait_until(lambda: with_a_broker(descendants(demo.pid)), SECONDS, "the broker's process")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(SECONDS) == 130
        assert await_gone(processes, SECONDS) == []
    finally:
        demo.kill()
        demo.communicate()


def test_a_broker_that_is_not_there_is_one_line_and_its_exit_code() -> None:
    demo = [*DEMO, "--bootstrap-servers", NOBODY]
    done = subprocess.run(demo, cwd=REPOSITORY, capture_output=True, check=False, text=True)
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert NOBODY in done.stderr
