"""Owns how broker tests run the service: topics of their own, a `spotsieve` process, messages in and out."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import for_code
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.kafka.cluster import administrator, create, retry_without_brokers
from spotsieve.stream.kafka.topics import until_told
from tests.conftest import REPOSITORY
from tests.worlds.crawls import PageMessage

ROLES = ("input", "novel", "duplicates", "rejected", "log")
START_SECONDS = 240.0
SECONDS = 240.0
"""Deadlines are for a machine ten times as slow, which stands still for 20 s now and then: they cost time only where
something is wrong."""
STOP_SECONDS = 120
"""A worker may finish what it fetched for so long; where a test is about the 10 s, it says so."""
SESSION_MS = 60_000
"""Nobody is taken for dead because the machine is busy; tests that kill a worker say a shorter one."""
KILLED_SESSION_MS = 3_000
"""A killed member holds its partitions until its session ends."""
ABANDON_SECONDS = 5.0
"""For removing topics after a failure."""
T = TypeVar("T")


# The broker.


def wait_for(what: Callable[[], T | None], seconds: float, about: str, every: float = 0.05) -> T:
    """Ask until the answer is true; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {about}"
        time.sleep(every)


class TopicSet:
    """The five topics of one service, uniquely named; deleted when the block ends."""

    def __init__(
        self,
        servers: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        leave_out: Iterable[str] = (),
        replication: int = 1,
        **client: Any,
    ) -> None:
        self.servers = servers
        self.suffix = uuid.uuid4().hex[:8]
        self.group = f"group-{self.suffix}"
        self._replication = replication
        self._partitions = partitions
        self._config = dict(config or {})
        self._client = client
        self.names = {role: f"{role}-{self.suffix}" for role in ROLES}
        self.made = [role for role in ROLES if role not in leave_out]
        retry_without_brokers()  # Clients of the harness are made at such moments too.

    def __enter__(self) -> Self:
        new = [
            NewTopic(
                self.names[role],
                1 if role == "log" else self._partitions,
                self._replication,
                topic_configs=self._config,
            )
            for role in self.made
        ]
        asyncio.run(self._admin(lambda admin: make_topics(admin, new)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What went wrong in the block is told, and not that its broker no longer answers.
        with contextlib.suppress(*[Exception] * (kind is not None)):
            seconds = None if kind is None else ABANDON_SECONDS
            names = [self.names[role] for role in self.made]
            asyncio.run(asyncio.wait_for(self._admin(lambda admin: admin.delete_topics(names)), seconds))

    async def _admin(self, act: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, Any]]) -> None:
        async with administrator(bootstrap_servers=self.servers, **self._client) as admin:
            await act(admin)

    def delete(self, role: str) -> None:
        """Delete a topic, if it is there, and wait until the broker that is asked no longer tells of it."""

        async def delete(admin: AIOKafkaAdminClient) -> None:
            await admin.delete_topics([self.names[role]])
            while self.names[role] in await admin.list_topics():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)

        asyncio.run(asyncio.wait_for(self._admin(delete), SECONDS))

    def make_anew(self, role: str) -> None:
        """Delete a topic and make it again, empty."""
        name = self.names[role]
        self.delete(role)
        new = NewTopic(name, 1 if role == "log" else self._partitions, 1, topic_configs=self._config)

        async def make(admin: AIOKafkaAdminClient) -> None:
            # Deleting takes the broker a moment.
            while (await create(admin, new))[0]:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)
            await until_told(admin, [name])

        asyncio.run(asyncio.wait_for(self._admin(make), START_SECONDS))

    def delete_before(self, role: str, offset: int) -> None:
        """Remove the first messages, as retention does."""
        records = {TopicPartition(self.names[role], 0): RecordsToDelete(before_offset=offset)}
        asyncio.run(self._admin(lambda admin: admin.delete_records(records)))

    def toml(self, session_ms: int = SESSION_MS) -> str:
        """The settings of this service's topics and group."""
        lines = [f'topics.{role} = "{name}"' for role, name in self.names.items()]
        return "\n".join(
            [
                *lines,
                f'kafka.bootstrap_servers = "{self.servers}"',
                f'kafka.group_id = "{self.group}"',
                f"kafka.session_timeout_ms = {session_ms}",
                f"service.shutdown_timeout_ms = {STOP_SECONDS * 1000}",
                'metrics.host = "127.0.0.1"',
                "metrics.port = 0",
                "",
            ]
        )

    def send(self, messages: Iterable[PageMessage], role: str = "input", **client: Any) -> None:
        """Produce to a topic, in order for each partition, and wait until all are acknowledged."""
        asyncio.run(send(self.servers, self.names[role], messages, **client))

    def read(
        self,
        role: str,
        count: int | None = None,
        quiet_seconds: float = SECONDS,
        keep: Callable[[ConsumerRecord], Any] = lambda record: record,
    ) -> list[Any]:
        """Committed messages of a topic from its beginning: all that are there, or until there are so many.

        keep: what is kept of a message, where all of them are too much
        """
        return asyncio.run(receive(self.servers, self._partitions_of(role), count, quiet_seconds, keep))

    def ends(self, role: str) -> dict[int, int]:
        """Partition -> the offset that its next message gets."""
        return asyncio.run(self._ends(self._partitions_of(role)))

    async def _ends(self, partitions: list[TopicPartition]) -> dict[int, int]:
        async with AIOKafkaConsumer(bootstrap_servers=self.servers) as consumer:
            return {end.partition: offset for end, offset in (await consumer.end_offsets(partitions)).items()}

    def _partitions_of(self, role: str) -> list[TopicPartition]:
        number_of = 1 if role == "log" else self._partitions
        return [TopicPartition(self.names[role], number) for number in range(number_of)]

    def uncommitted(self) -> int:
        """Input messages beyond the group's committed offsets."""
        return asyncio.run(self._uncommitted())

    async def _uncommitted(self) -> int:
        partitions = [TopicPartition(self.names["input"], number) for number in range(self._partitions)]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, group_id=self.group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            return sum([ends[partition] - (await consumer.committed(partition) or 0) for partition in partitions])
        finally:
            await consumer.stop()

    def in_transaction(self) -> bool:
        """Whether messages of a transaction that is not over lie in the output topics."""
        return asyncio.run(self._unstable()) > 0

    async def _unstable(self) -> int:
        roles = ("novel", "duplicates")
        partitions = [TopicPartition(self.names[role], number) for role in roles for number in range(self._partitions)]
        ends: list[int] = []
        for isolation in ("read_uncommitted", "read_committed"):
            consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, isolation_level=isolation)
            await consumer.start()
            try:
                ends.append(sum((await consumer.end_offsets(partitions)).values()))
            finally:
                await consumer.stop()
        return ends[0] - ends[1]

    def until_all_committed(self, seconds: float = SECONDS) -> None:
        """Wait until the group has committed the whole input topic."""
        wait_for(lambda: self.uncommitted() == 0, seconds, "the whole input to be committed", every=0.3)


async def make_topics(admin: AIOKafkaAdminClient, new: Sequence[NewTopic]) -> None:
    """Create topics, and wait until the broker that is asked tells of them."""
    for topic in new:
        code, said = await create(admin, topic)
        assert code == 0, f"{topic.name}: {for_code(code).__name__}: {said}"
    await until_told(admin, [topic.name for topic in new])


async def send(servers: str, topic: str, messages: Iterable[PageMessage], **client: Any) -> None:
    """Produce messages; large ones too."""
    async with AIOKafkaProducer(
        bootstrap_servers=servers, max_request_size=2**28, max_batch_size=2**18, linger_ms=5, **client
    ) as producer:
        waiting = []
        for message in messages:
            place = (message.partition, message.timestamp_ms, list(message.headers))
            waiting.append(await producer.send(topic, message.value, message.key, *place))
        await asyncio.gather(*waiting)


async def receive(
    servers: str,
    partitions: list[TopicPartition],
    count: int | None,
    quiet_seconds: float,
    keep: Callable[[ConsumerRecord], Any] = lambda record: record,
) -> list[Any]:
    """Read committed messages from the beginning; with a count, fail after quiet_seconds without a new message."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=2**26,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        consumer.assign(partitions)
        ends = await written_ends(servers, partitions)
        found: list[Any] = []
        heard = time.monotonic()
        while True:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend(map(keep, records))
                heard = time.monotonic()
            if count is None:
                # Positions pass transaction markers too, so the end is reached also where the last record is one.
                if all([await consumer.position(partition) >= ends[partition] for partition in partitions]):
                    return found
            elif len(found) >= count:
                return found
            if time.monotonic() - heard > quiet_seconds:
                raise AssertionError(f"{partitions[0].topic}: {len(found)} messages, waited for {count}")
    finally:
        await consumer.stop()


async def written_ends(servers: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the partitions end, with what is not readable yet.

    A commit is answered before its markers are written: for a moment a read_committed consumer is told an end that lies
    before messages that are committed.
    """
    async with AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False) as consumer:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return ends


def header(record: ConsumerRecord, name: str) -> bytes | None:
    """A header's last value, or None."""
    return next((value for key, value in reversed(record.headers) if key == name), None)


# The service.


@dataclass
class Spotsieve:
    """One `spotsieve` process, its settings and all it wrote; as a context manager it never outlives the block."""

    directory: Path
    toml: str
    name: str = "worker"
    command: tuple[str, ...] = ("run",)
    environment: Mapping[str, str] = field(default_factory=dict)
    python_options: tuple[str, ...] = ()
    module: str = "stream"
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / f"{self.name}.toml"
        self.log = self.directory / f"{self.name}.log"
        self.state = self.directory / f"{self.name}-state"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self) -> Self:
        """Start the process; what it writes is appended to the log."""
        settings = self.toml
        if "index.directory" not in settings:
            settings += f'\nindex.directory = "{self.state}"\n'
        self.config.write_text(settings, "utf-8")
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPOTSIEVE_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-X",
                    "faulthandler",
                    *self.python_options,
                    "-m",
                    self.module,
                    *self.command,
                    "-c",
                    str(self.config),
                ],
                cwd=REPOSITORY,
                env={**inherited, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def run_to_end(self, seconds: float = SECONDS) -> int:
        """Start, and wait for an end of its own; returns the exit code."""
        return self.start().wait(seconds)

    def text(self) -> str:
        """What the last started process wrote."""
        return self.log.read_bytes()[self._log_start :].decode("utf-8", "replace")

    def lines(self) -> Iterator[dict[str, Any]]:
        """Its log lines that are JSON."""
        for line in self.text().splitlines():
            with contextlib.suppress(ValueError):
                parsed = json.loads(line)
                if isinstance(parsed, dict):
                    yield parsed

    def error(self) -> str:
        """The one line that tells a person what went wrong."""
        lines = [line for line in self.text().splitlines() if line.startswith("spotsieve: ")]
        assert len(lines) == 1, self.text()
        assert "Traceback" not in self.text(), self.text()
        return lines[0]

    @property
    def alive(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def port(self) -> int:
        """The port of metrics and health."""

        def said() -> int | None:
            assert self.alive.poll() is None, self.text()
            return next((int(line["port"]) for line in self.lines() if "port" in line), None)

        return wait_for(said, START_SECONDS, f"the port of {self.name}")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of an HTTP answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port()}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def until_ready(self) -> Self:
        """Wait until /readyz says 200."""

        def ready() -> bool:
            assert self.alive.poll() is None, f"{self.name} ended with {self.alive.returncode}:\n{self.text()}"
            with contextlib.suppress(OSError):
                return self.get("/readyz")[0] == 200
            return False

        wait_for(ready, START_SECONDS, f"{self.name} to be ready")
        return self

    def begin(self, topics: TopicSet, pages: Sequence[PageMessage], committed: int = 100) -> Self:
        """Start, send pages, and wait until the first of them are committed: from here on it is in mid-run."""
        self.start().until_ready()
        topics.send(pages)
        self.until_committed(committed)
        return self

    def until_waiting(self) -> None:
        """Wait until /readyz says that the broker is waited for: the worker is alive, and its metrics agree."""

        def told() -> bool:
            status, text = self.get("/readyz")
            return status == 503 and "waiting for the broker: " in text

        wait_for(told, SECONDS, f"/readyz of {self.name} to say what is waited for")
        assert self.get("/healthz")[0] == 200
        assert self.metric("spotsieve_broker_retries_total") > 0
        assert self.metric("spotsieve_ready") == 0

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        from prometheus_client.parser import text_string_to_metric_families

        total = 0.0
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    total += sample.value
        return total

    def until_metric(self, name: str, least: float, seconds: float = SECONDS, **labels: str) -> None:
        """Wait until a metric has at least this value."""
        wait_for(lambda: self.metric(name, **labels) >= least, seconds, f"{name} >= {least}")

    def committed(self) -> int:
        """Messages that this process has committed, whatever became of them."""
        names = ("spotsieve_pages_total", "spotsieve_tombstones_total", "spotsieve_dead_letters_total")
        return int(sum(self.metric(name) for name in names))

    def until_committed(self, count: int, seconds: float = SECONDS) -> None:
        """Wait until the process has committed so many messages."""
        wait_for(lambda: self.committed() >= count, seconds, f"{self.name} to commit {count} messages")

    def freeze(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        self.alive.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        self.alive.send_signal(signal.SIGCONT)

    def freeze_in_transaction(self, topics: TopicSet, tries: int = 100) -> None:
        """Freeze it while the broker holds a transaction of its that is not over."""
        for _ in range(tries):
            self.freeze()
            if topics.in_transaction():
                return
            self.thaw()
            # Looking may have taken longer than its session: only once it commits again can it be in a transaction.
            self.until_committed(self.committed() + 1)
        raise AssertionError(f"{self.name} was never found in a transaction; {topics.uncommitted()} pages are left")

    def kill(self) -> None:
        """End it at once (kill -9)."""
        self.alive.kill()
        self.alive.wait()

    def terminate(self, seconds: float = STOP_SECONDS + 30.0) -> int:
        """SIGTERM, and wait for the end; returns the exit code."""
        self.alive.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = SECONDS) -> int:
        """Wait for the end; returns the exit code."""
        try:
            return self.alive.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s:\n{self.text()}") from None
