"""Removes a shard's disk on a real broker, and measures how fast the shard rebuilds its state from the log.

A resolver and its shards judge a synthetic log. Then shard 0 is stopped, its state is removed, and it starts again.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

from bench.scale.real import ROLES, cpu_of, processes_of, settings_of
from bench.shards import LOG_PAGES, made_log
from bench.speed.pipeline import make_topics
from spotsieve.state.log.record import encode_configuration
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.load import load_settings
from spotsieve.stream.demo.filter_process import FilterProcess
from spotsieve.stream.demo.localkafka import LocalKafka

TIMEOUT_S, POLL_S = 300.0, 0.02
BEGUN = 0.1
"""Share of the log that is indexed before the clock runs, so that starting and connecting do not count."""


class Refill(NamedTuple):
    """A rebuild. pages: timed pages  cpu_us: of the process, per page of the log"""

    shards: int
    pages: int
    pages_per_s: float
    cpu_us: float


def measure_refill(shards: int, pages: int) -> Refill:
    """Judge `pages` pages, lose a shard and time its rebuild. Raises BrokerError if a process gets stuck."""
    with LocalKafka(heap_mb=512) as kafka, tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        kept = {"matches": shards}
        asyncio.run(make_topics(kafka.bootstrap_servers, {role: kept.get(role, 1) for role in ROLES}))

        commands = dict(processes_of(0, shards))

        def begun(name: str) -> FilterProcess:
            settings = settings_of(kafka.bootstrap_servers, Path(scratch) / name, shards)
            return running.enter_context(FilterProcess(settings, Path(scratch) / f"{name}.log", commands[name]))

        given = settings_of(kafka.bootstrap_servers, Path(scratch), shards)
        text = verdict_settings_text(load_settings(None, {}, given))
        records = asyncio.run(_log(kafka.bootstrap_servers, text, pages))
        roles = {name: begun(name) for name in commands}
        resolver, lost = roles["resolver"], roles["shard-0"]
        for _ in _positions(resolver, records):
            pass
        for _ in _positions(lost, records):
            pass
        lost.stop()
        shutil.rmtree(Path(scratch) / "shard-0")
        again = begun("shard-0")
        first = first_at = first_cpu = 0.0
        for position in _positions(again, records):
            if not first and position > BEGUN * records:
                first, first_at, first_cpu = position, time.perf_counter(), cpu_of([again])
            last, last_at, last_cpu = position, time.perf_counter(), cpu_of([again])
    timed = round((last - first) * LOG_PAGES)
    return Refill(shards, timed, timed / (last_at - first_at), (last_cpu - first_cpu) / timed * 1e6)


async def _log(servers: str, text: str, pages: int) -> int:
    """Write a log of synthetic pages; returns its end offset."""
    records = made_log(pages, LOG_PAGES, settings_digest(text))
    async with AIOKafkaProducer(bootstrap_servers=servers, max_request_size=2**21) as producer:
        for record in (encode_configuration(text, bytes(16)), *records):
            last = await producer.send_and_wait("log", record, partition=0)
    return int(last.offset) + 1


def _positions(process: FilterProcess, end: int) -> Iterator[float]:
    """The position of a process in the log, polled until it is at the end. Raises BrokerError."""
    process.await_metrics(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        process.check()
        position = process.metric("spotsieve_log_position")
        yield position
        if position >= end:
            return
        time.sleep(POLL_S)
    raise process.failure(f"did not come to record {end} of the log within {TIMEOUT_S:.0f} s")
