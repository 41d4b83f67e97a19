"""Measures the whole filter against a plain pass-through of the same pages on the same broker."""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata

from bench.speed.pages import bench_messages
from spotsieve.stream.demo.filter_process import FilterProcess
from spotsieve.stream.demo.localkafka import LocalKafka
from spotsieve.stream.kafka.clients import administrator

PARTITIONS = 4
POLL_S = 0.05
TIMEOUT_S = 180.0
GUARANTEES = ("exactly_once", "at_least_once")
SYSTEMS = ("passthrough", "filter")


@dataclass(frozen=True, slots=True)
class Pace:
    """One round, from the first observed commit to the last. CPU in microseconds per page."""

    pages_per_s: float
    client_cpu_us: float
    broker_cpu_us: float
    dropped_share: float


def measure_pipeline(
    rounds: int = 5, pages: int = 15_000, progress: Callable[[str], None] = print
) -> dict[str, dict[str, float]]:
    """Medians by "guarantee" and system, over alternating rounds of the same pages; start-up is left out.

    Keys: "exactly_once.filter" and so on -> pages_per_s, client_cpu_us, broker_cpu_us, dropped_share; and
    "exactly_once" -> ratio (the median of the rounds' ratios), ratio_least, ratio_most.
    """
    paces: dict[str, list[Pace]] = {f"{guarantee}.{system}": [] for guarantee in GUARANTEES for system in SYSTEMS}
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        asyncio.run(_fill(kafka.bootstrap_servers, pages))
        for number in range(rounds):
            for guarantee in GUARANTEES:
                for system in SYSTEMS:
                    pace = _run(kafka, Path(scratch), system, guarantee, number, pages)
                    paces[f"{guarantee}.{system}"].append(pace)
                    progress(
                        f"  round {number + 1}, {guarantee}, {system}: {pace.pages_per_s:.0f} pages/s, "
                        f"{pace.client_cpu_us:.0f} us CPU a page, broker {pace.broker_cpu_us:.0f} us"
                    )
    return _summary(paces)


def _summary(paces: dict[str, list[Pace]]) -> dict[str, dict[str, float]]:
    figures = {
        name: {
            field: round(statistics.median(getattr(pace, field) for pace in several), 3)
            for field in ("pages_per_s", "client_cpu_us", "broker_cpu_us", "dropped_share")
        }
        for name, several in paces.items()
    }
    for guarantee in GUARANTEES:
        pairs = zip(paces[f"{guarantee}.filter"], paces[f"{guarantee}.passthrough"], strict=True)
        ratios = [ours.pages_per_s / theirs.pages_per_s for ours, theirs in pairs]
        figures[guarantee] = {
            "ratio": round(statistics.median(ratios), 3),
            "ratio_least": round(min(ratios), 3),
            "ratio_most": round(max(ratios), 3),
        }
    return figures


async def _fill(servers: str, pages: int) -> None:
    await make_topics(servers, {"pages": PARTITIONS})
    await send(servers, "pages", bench_messages(pages, 1))


async def make_topics(servers: str, topics: dict[str, int]) -> None:
    """Create topics. counts: topic -> number of partitions"""
    async with administrator(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()])


async def send(servers: str, topic: str, messages: Iterable[tuple[bytes, bytes]]) -> None:
    """Produce pages, (key, value) of each, spread over the partitions by number."""
    async with AIOKafkaProducer(
        bootstrap_servers=servers, max_batch_size=2**19, linger_ms=5, max_request_size=2**22
    ) as producer:
        for number, (key, value) in enumerate(messages):
            await producer.send(topic, value, key=key, partition=number % PARTITIONS)
        await producer.flush()


def _run(kafka: LocalKafka, scratch: Path, system: str, guarantee: str, number: int, pages: int) -> Pace:
    servers, name = kafka.bootstrap_servers, f"{system}-{guarantee}-{number}"
    topics = {role: f"{name}-{role}" for role in ("novel", "duplicates", "rejected", "log")}
    asyncio.run(make_topics(servers, {topic: 1 if role == "log" else PARTITIONS for role, topic in topics.items()}))
    try:
        if system == "passthrough":
            with passthrough(servers, "pages", topics["novel"], name, guarantee) as pid:
                return asyncio.run(_watch(servers, name, pages, pid, kafka.pid or 0, None))
        settings = {f"topics.{role}": topic for role, topic in topics.items()} | {
            "kafka.bootstrap_servers": servers,
            "kafka.group_id": name,
            "topics.input": "pages",
            "index.directory": str(scratch / name),
            "service.guarantee": guarantee,
        }
        with FilterProcess(settings, scratch / f"{name}.log") as running:
            running.await_ready(TIMEOUT_S)
            return asyncio.run(_watch(servers, name, pages, running.pid, kafka.pid or 0, running))
    finally:
        asyncio.run(_delete(servers, list(topics.values())))


@contextmanager
def passthrough(servers: str, source: str, target: str, group: str, guarantee: str) -> Iterator[int]:
    """Run a process that copies a topic to another while the block runs; yields its process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.speed.passthrough", servers, source, target, group, guarantee]
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


async def _watch(servers: str, group: str, pages: int, client: int, broker: int, running: FilterProcess | None) -> Pace:
    """Poll the group's committed offsets until they reach the end: the same clock for both systems."""
    partitions = [TopicPartition("pages", number) for number in range(PARTITIONS)]
    client_process, broker_process = psutil.Process(client), psutil.Process(broker)
    async with administrator(bootstrap_servers=servers) as admin:
        first: tuple[float, int, float, float] | None = None
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            committed = await _committed(admin, group, partitions)
            done = sum(max(0, committed[partition].offset) for partition in partitions if partition in committed)
            now = (time.monotonic(), done, _cpu(client_process), _cpu(broker_process))
            if done and first is None:
                first = now
            if done >= pages:
                break
            if time.monotonic() > deadline:
                slow = f"had committed {done} of {pages} pages after {TIMEOUT_S:.0f} s"
                raise running.failure(slow) if running else TimeoutError(f"{group} {slow}")
            await asyncio.sleep(POLL_S)
    assert first is not None
    counted = done - first[1]
    dropped = 0.0
    if running is not None:
        dropped = running.metric("spotsieve_pages_total", {"verdict": "duplicate"}) / pages
    return Pace(
        counted / (now[0] - first[0]), (now[2] - first[2]) / counted * 1e6, (now[3] - first[3]) / counted * 1e6, dropped
    )


async def _committed(
    admin: AIOKafkaAdminClient, group: str, partitions: list[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    try:
        return await admin.list_consumer_group_offsets(group, partitions=partitions)  # type: ignore[no-any-return]
    except GroupCoordinatorNotAvailableError:
        return {}  # The broker creates its offsets topic for the first group.


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def _delete(servers: str, names: list[str]) -> None:
    async with administrator(bootstrap_servers=servers) as admin:
        await admin.delete_topics(names)
