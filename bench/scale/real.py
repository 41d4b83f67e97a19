"""Runs real processes on a real broker and measures what the simulation predicts: throughput and latency.

The single-process service runs as it is deployed. W workers, S shards and a resolver run if `spotsieve run` knows
`--role`.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.speed.pages import json_messages
from bench.speed.pipeline import PARTITIONS, make_topics
from spotsieve.stream.demo.filter_process import FilterProcess
from spotsieve.stream.demo.localkafka import LocalKafka

TIMEOUT_S = 180.0
PAGE_BYTES = 16_000
ROLES = ("input", "novel", "duplicates", "rejected", "log", "matches", "verdicts")
SENT = tuple[dict[bytes, float], dict[bytes, float]]


class RealRun(NamedTuple):
    """Figures of real processes. pages_per_s: on a backlog  p50_ms, p99_ms: at `rate` pages/s  cpu_us: all, per page

    load: the load average of the minute before
    """

    workers: int
    shards: int
    rate: float
    pages_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    load: float


def has_roles() -> bool:
    """Whether `spotsieve run` can be started as one role of several."""
    shown = subprocess.run([sys.executable, "-m", "spotsieve.stream", "run", "--help"], capture_output=True, check=True)
    return b"--role" in shown.stdout


def run_real(workers: int, shards: int, rate: float, seconds: float, backlog: int) -> RealRun:
    """Run processes over a backlog, and then at a rate. Raises BrokerError if a process does not start."""
    load = psutil.getloadavg()[0]
    with LocalKafka(heap_mb=512) as kafka, tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        servers, spread = kafka.bootstrap_servers, max(PARTITIONS, workers)
        kept = {"log": 1, "matches": max(shards, 1), "verdicts": 1}
        asyncio.run(make_topics(servers, {role: kept.get(role, spread) for role in ROLES}))
        processes = [
            running.enter_context(
                FilterProcess(settings_of(servers, Path(scratch) / name, shards), Path(scratch) / f"{name}.log", given)
            )
            for name, given in processes_of(workers, shards)
        ]
        for process in processes:
            process.await_ready(TIMEOUT_S)
        asyncio.run(
            _send_and_read(servers, 200, rate=200.0)
        )  # Clients connect, and the JVM compiles the broker's code.
        before = cpu_of(processes)
        sent, read = asyncio.run(_send_and_read(servers, backlog, rate=0.0))
        cpu_us = (cpu_of(processes) - before) / backlog * 1e6
        arrived = np.sort(np.array(list(read.values())))
        quarter = len(arrived) // 4
        pages_per_s = (len(arrived) - quarter) / (arrived[-1] - arrived[quarter])
        sent, read = asyncio.run(_send_and_read(servers, int(rate * seconds), rate=rate))
        waited = np.array([(read[key] - sent[key]) * 1e3 for key in read])
    p50, p99 = np.percentile(waited, [50, 99]).tolist()
    return RealRun(workers, shards, rate, float(pages_per_s), p50, p99, cpu_us, load)


def processes_of(workers: int, shards: int) -> list[tuple[str, Sequence[str]]]:
    """The processes to start: a name, and arguments of `spotsieve run`."""
    if not shards:
        return [(f"one-{number}", ()) for number in range(workers)]
    return [
        *((f"worker-{number}", ("--role", "worker")) for number in range(workers)),
        *((f"shard-{number}", ("--role", "shard", "--shard", str(number))) for number in range(shards)),
        ("resolver", ("--role", "resolver")),
    ]


def settings_of(servers: str, directory: Path, shards: int) -> dict[str, str]:
    """Environment of the processes: topics, the broker, and the folder of a state."""
    found = {
        **{f"topics.{role}": role for role in ROLES[:5]},
        "kafka.bootstrap_servers": servers,
        "kafka.group_id": "scale",
        "index.directory": str(directory),
        "service.guarantee": "exactly_once",
    }
    if shards:
        found |= {"topics.matches": "matches", "topics.verdicts": "verdicts", "cluster.shards": str(shards)}
    return found


async def _send_and_read(servers: str, pages: int, rate: float) -> SENT:
    """Send pages, at a rate or all at once, and read the outputs. Returns the times of sending and reading by key."""
    sent, read = dict[bytes, float](), dict[bytes, float]()
    messages = list(json_messages(pages, int(time.time() * 1e3), PAGE_BYTES))
    every: dict[str, Any] = {"bootstrap_servers": servers, "max_request_size": 2**21}
    async with (
        AIOKafkaProducer(**every, linger_ms=0 if rate else 5, max_batch_size=2**19) as producer,
        AIOKafkaConsumer("novel", "duplicates", bootstrap_servers=servers, isolation_level="read_committed") as outputs,
    ):
        await outputs.seek_to_end()

        async def read_all() -> None:
            while len(read) < len(messages):
                for records in (await outputs.getmany(timeout_ms=1_000)).values():
                    now = time.perf_counter()
                    read.update((record.key, now) for record in records)

        reading, began = asyncio.create_task(read_all()), time.perf_counter()
        for number, (key, value) in enumerate(messages):
            if rate:
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            sent[key] = time.perf_counter()
            await producer.send("input", value, key=key)
        await producer.flush()
        await asyncio.wait_for(reading, TIMEOUT_S)
    return sent, read


def cpu_of(processes: Sequence[FilterProcess]) -> float:
    """CPU seconds of the processes."""
    times = [psutil.Process(process.pid).cpu_times() for process in processes]
    return float(sum(one.user + one.system for one in times))
