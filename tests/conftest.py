"""Fixtures and options of all tests: a real Kafka, fresh topics on it, and the labelled data."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.fixtures.debian import skip_notice

# Without byte code each process of a run would compile its tests again, and each command the package: 30 s of CPU.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
REPOSITORY = Path(__file__).resolve().parents[1]
pytest_plugins = ["tests.guarantees"]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
WAITING = (REPOSITORY / "tests" / "broker", REPOSITORY / "tests" / "faults")
"""The folders of tests that mostly wait for a broker and for processes of the service."""


class Broker(Protocol):
    """The interface of a broker for tests: the local one, or one that the user named."""

    @property
    def bootstrap_servers(self) -> str: ...


@dataclass(frozen=True)
class NamedBroker:
    """The broker of --bootstrap-servers."""

    bootstrap_servers: str


class Topics(Protocol):
    """Creates a topic with a unique name and returns that name."""

    def __call__(self, name: str = "pages", partitions: int = 1, config: dict[str, str] | None = None) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bootstrap-servers",
        default=None,
        metavar="HOST:PORT",
        help="run the broker tests against this Kafka instead of a local one (its topics are created and deleted)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels before several processes (-n) need them: numba's cache has no lock, and each takes 40 s."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's `&` ignores SIGINT, and children inherit that; a handled signal is reset to its default for them.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if getattr(config.option, "numprocesses", None):
        print("compiling the kernels that are not cached yet", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "tests.fixtures.warm_kernels"], cwd=REPOSITORY, check=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Spread the files that wait for a broker evenly among those that compute, where several processes share the files.

    In the order of their names all processes would first wait together, and then compete for the cores.
    """
    if not hasattr(config, "workerinput"):
        return
    files = list(dict.fromkeys(item.path for item in items))
    waiting = [path for path in files if path.parent in WAITING]
    computing = [path for path in files if path.parent not in WAITING]
    place = {path: (at + 0.5) / len(group) for group in (waiting, computing) for at, path in enumerate(group)}
    items.sort(key=lambda item: place[item.path])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the tests that were skipped without a Debian package, and the command that installs all packages."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for number, line in enumerate(skip_notice(reasons)):
        if number == 0:
            terminalreporter.section("Debian packages")
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Give the root logger its handlers back: a command run in this process writes to output that pytest closes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The labelled data beside the repository; without it the test is skipped."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the labelled data in ../shared/data, which is not part of the repository")
    return SHARED_DATA


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One real broker for the whole session. Do not stop it: tests of faults use `own_kafka`."""
    named = request.config.getoption("--bootstrap-servers")
    if named:
        yield NamedBroker(named)
        return
    from spotsieve.stream.demo.localkafka import LocalKafka, prepare

    prepare()
    # A late heartbeat on a busy machine must not fence it: no test kills or stops this broker. Few save CPU time.
    settings = {"broker.session.timeout.ms": "120000", "broker.heartbeat.interval.ms": "5000"}
    with LocalKafka(settings=settings) as broker:
        yield broker


@pytest.fixture
def own_kafka() -> Iterator[Any]:
    """A separate LocalKafka for one test, to kill, pause and restart (2 s)."""
    from spotsieve.stream.demo.localkafka import LocalKafka, prepare

    prepare()
    with LocalKafka() as broker:
        yield broker


@pytest.fixture
def topics(kafka: Broker) -> Iterator[Topics]:
    """Creates uniquely named topics on the session's broker; they are deleted when the test ends.

    Works from plain and from async tests: topics("pages", partitions=4, config={"max.message.bytes": "60000000"}).
    """
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    from spotsieve.stream.kafka.clients import administrator
    from tests.fixtures.brokers.topics import make_topics

    made: list[str] = []

    async def with_admin(act: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, Any]]) -> None:
        async with administrator(bootstrap_servers=kafka.bootstrap_servers) as admin:
            await act(admin)

    def make(name: str = "pages", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        topic = NewTopic(unique, partitions, 1, topic_configs=config or {})
        _run_beside(with_admin(lambda admin: make_topics(admin, [topic])))
        made.append(unique)
        return unique

    yield make
    if made:
        _run_beside(with_admin(lambda admin: admin.delete_topics(made)))


def _run_beside(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a separate thread and wait for it, since the caller may be inside an event loop."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
