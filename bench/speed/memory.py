"""Measures the filter's resident memory while it reads 200,000 pages."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from bench.speed.pages import json_messages
from bench.speed.pipeline import PARTITIONS, make_topics, send
from spotsieve.stream.demo.filter_process import MESSAGE_COUNTERS, FilterProcess
from spotsieve.stream.demo.localkafka import LocalKafka

PAGES = 200_000
EARLY_PAGES = 50_000
PAGE_BYTES = 4_500
TIMEOUT_S = 900.0
MIB = 2**20


def measure_memory(pages: int = PAGES, progress: Callable[[str], None] = print) -> dict[str, float]:
    """RSS in MiB when a quarter of the pages (50,000 of 200,000) is done, and at the end; growth: their ratio less one.

    The index cache has its least size (8 MiB), so that what grows there by design is left out of the figure.
    """
    early = pages * EARLY_PAGES // PAGES
    with LocalKafka(heap_mb=1024) as kafka, tempfile.TemporaryDirectory() as scratch:
        topics = {"pages": PARTITIONS, "pages.novel": PARTITIONS, "pages.duplicates": PARTITIONS}
        asyncio.run(make_topics(kafka.bootstrap_servers, {**topics, "pages.rejected": 1, "signatures": 1}))
        asyncio.run(send(kafka.bootstrap_servers, "pages", json_messages(pages, 1, PAGE_BYTES)))
        settings = {
            "kafka.bootstrap_servers": kafka.bootstrap_servers,
            "index.directory": str(Path(scratch) / "state"),
            "index.cache_mb": "8",
        }
        with FilterProcess(settings, Path(scratch) / "filter.log") as running:
            running.await_ready(TIMEOUT_S)
            return _watch(running, pages, early, progress)


def _watch(running: FilterProcess, pages: int, early: int, progress: Callable[[str], None]) -> dict[str, float]:
    process = psutil.Process(running.pid)
    deadline = time.monotonic() + TIMEOUT_S
    first, reported, began = 0.0, 0.0, time.monotonic()
    while time.monotonic() < deadline:
        running.check()
        done = sum(running.metric(name) for name in MESSAGE_COUNTERS)
        resident = process.memory_info().rss / MIB
        if done >= early and not first:
            first = resident
        if done >= reported + pages / 8:
            reported = done
            progress(f"  {done:,.0f} pages, RSS {resident:.0f} MiB")
        if done >= pages:
            return {
                "pages": pages,
                "early_pages": early,
                "rss_early_mib": round(first, 1),
                "rss_mib": round(resident, 1),
                "growth": round(resident / first - 1, 4),
                "pages_per_s": round(pages / (time.monotonic() - began)),
            }
        time.sleep(0.25)
    raise TimeoutError(f"{done:.0f} of {pages} pages after {TIMEOUT_S:.0f} s")
