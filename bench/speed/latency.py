"""Measures the latency of a page from the producer to a reader of committed outputs, at a steady rate."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.speed.pages import bench_messages
from bench.speed.pipeline import GUARANTEES, PARTITIONS, POLL_S, SYSTEMS, TIMEOUT_S, make_topics, passthrough
from spotsieve.stream.demo.filter_process import FilterProcess
from spotsieve.stream.demo.localkafka import LocalKafka

RATES = (200, 1_000, 2_000)
WARM_S = 2.0
OUTPUTS = ("novel", "duplicates")


def measure_latency(
    seconds: float = 10.0, rounds: int = 3, progress: Callable[[str], None] = print
) -> dict[str, dict[str, float]]:
    """Medians over rounds by "guarantee.rate" -> p50_ms and p99_ms of pages of about 20 KB, each sent when it is due
    passthrough_p50_ms and passthrough_p99_ms: of the plain pass-through, in turn.

    A page has arrived when a consumer with read_committed has it, or its report. The first two seconds do not count.
    """
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds):
            for guarantee in GUARANTEES:
                for rate in RATES:
                    pages = list(bench_messages(round(rate * (WARM_S + seconds)), 1 + number))
                    for system in SYSTEMS:
                        taken = _run(kafka, Path(scratch), system, guarantee, rate, number, pages)
                        named = figures.setdefault(f"{guarantee}.{rate}", {})
                        named.setdefault(system, []).append(taken)
                        p50, p99 = taken
                        progress(
                            f"  round {number + 1}, {guarantee}, {rate}/s, {system}: p50 {p50:.0f} ms, p99 {p99:.0f} ms"
                        )
    return {
        name: {
            f"{'' if system == 'filter' else 'passthrough_'}{figure}_ms": round(statistics.median(values), 1)
            for system, several in systems.items()
            for figure, values in zip(("p50", "p99"), zip(*several, strict=True), strict=True)
        }
        for name, systems in figures.items()
    }


def _run(
    kafka: LocalKafka,
    scratch: Path,
    system: str,
    guarantee: str,
    rate: int,
    number: int,
    pages: list[tuple[bytes, bytes]],
) -> tuple[float, float]:
    servers, name = kafka.bootstrap_servers, f"latency-{system}-{guarantee}-{rate}-{number}"
    topics = {role: f"{name}-{role}" for role in ("input", *OUTPUTS, "rejected", "log")}
    asyncio.run(make_topics(servers, {topic: 1 if role == "log" else PARTITIONS for role, topic in topics.items()}))
    if system == "passthrough":
        with passthrough(servers, topics["input"], topics["novel"], name, guarantee):
            return asyncio.run(_drive(servers, topics, rate, pages))
    settings = {f"topics.{role}": topic for role, topic in topics.items()} | {
        "kafka.bootstrap_servers": servers,
        "kafka.group_id": name,
        "index.directory": str(scratch / name),
        "service.guarantee": guarantee,
    }
    with FilterProcess(settings, scratch / f"{name}.log") as running:
        running.await_ready(TIMEOUT_S)
        return asyncio.run(_drive(servers, topics, rate, pages))


async def _drive(
    servers: str, topics: dict[str, str], rate: int, pages: list[tuple[bytes, bytes]]
) -> tuple[float, float]:
    """Send the pages when they are due, read the outputs; returns p50 and p99 in ms, counted from the due times.

    The first one is sent alone, and the others when it has arrived: then the group is joined.
    """
    due, taken = dict[bytes, float](), list[float]()
    consumer = AIOKafkaConsumer(
        *(topics[role] for role in OUTPUTS),
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
    )
    async with (
        consumer,
        AIOKafkaProducer(bootstrap_servers=servers, linger_ms=0) as producer,
        asyncio.timeout(TIMEOUT_S),
    ):
        reading = asyncio.create_task(_read(consumer, due, taken, len(pages)))
        began = time.perf_counter()
        for number, (key, value) in enumerate(pages):
            at = began + number / rate
            if (early := at - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            due[key] = at
            await producer.send(topics["input"], value, key=key, partition=number % PARTITIONS)
            while not taken:
                await asyncio.sleep(POLL_S)
                began = time.perf_counter()
        await reading
    counted = sorted(taken[round(rate * WARM_S) :])
    return counted[len(counted) // 2] * 1000, counted[len(counted) * 99 // 100] * 1000


async def _read(consumer: AIOKafkaConsumer, due: dict[bytes, float], taken: list[float], most: int) -> None:
    while len(taken) < most:
        for messages in (await consumer.getmany(timeout_ms=200)).values():
            now = time.perf_counter()
            taken += [now - due[message.key] for message in messages]
