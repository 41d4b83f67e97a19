"""`python -m bench.index_memory` fills a state with synthetic postings and writes docs/measured/index-memory.md.

It measures RocksDB under the options of the state, with the keys of the default scheme. Nearly all lookups are for
absent keys.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rocksdict import IngestExternalFileOptions, SstFileWriter

from bench.command import MEASURED, command_line, date_and_machine, outcome, publish
from bench.speed.report import machine
from spotsieve.state.format.buckets import encode_buckets, encode_keys
from spotsieve.state.index import Buckets
from spotsieve.state.store.backend import Batch
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks import RocksBackend
from spotsieve.state.store.rocks_options import column_families
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from tests.fixtures.states.local_states import families_of

DOCUMENT = MEASURED / "index-memory.md"
PAGES = 20_000_000
DEFAULT_CACHE_MB = IndexSettings().cache_mb
KEYS_A_PAGE = 14
"""2 digests, 4 tables and 8 MinHash values, as in the default scheme."""
BATCH_PAGES = 512
BATCHES = 20
"""Micro-batches that are looked up and indexed before each sample."""
PAGES_A_FILE = 100_000
"""1.4 million keys, 20 MB."""
MOST_BESIDE_CACHE_MIB = 250.0
"""Bound of the memory outside of the cache and of Python: memtables, lists of table parts, RocksDB itself."""


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory of the process and the state after `pages` pages, in bytes. file_us, probe_us: per page, all keys"""

    pages: int
    rss: int
    cache: int
    pinned: int
    memtables: int
    tables: int
    disk: int
    file_us: float
    probe_us: float


def fill(directory: Path, pages: int, looks: int, cache_mb: int) -> Iterator[MemorySample]:
    """Index pages in `looks` parts. After each part, look up and index some micro-batches and yield a sample.

    The keys of a part lie between those of the parts before and after it. They are written as whole table files, which
    RocksDB ingests unchanged: 280 million keys take minutes instead of hours.
    """
    settings = IndexSettings(cache_mb=cache_mb)
    dice = np.random.default_rng(1)
    with disk_state(directory, "measured", "log", settings) as state:
        for number in range(looks):
            first, last = (2**64 // looks * edge for edge in (number, number + 1))
            files = max(1, pages // looks // PAGES_A_FILE)
            width = (last - first) // files
            for at in range(files):
                _ingest(state, directory, _sorted_keys(dice, first + at * width, width, pages // looks // files))
            probed, indexed = _probe_and_index(state, dice, last)
            yield _look(state, pages // looks * (number + 1), indexed, probed)


def _sorted_keys(dice: np.random.Generator, first: int, width: int, pages: int) -> NDArray[np.uint64]:
    """Distinct random keys of `pages` pages, from `first` on."""
    return np.unique(dice.integers(first, first + width, pages * KEYS_A_PAGE, np.uint64))


def _ingest(state: State, directory: Path, keys: NDArray[np.uint64]) -> None:
    """Write a table file with the options of the family, and hand it over."""
    path = str(directory / "part.sst")
    writer = SstFileWriter(column_families(IndexSettings())["buckets"])
    writer.open(path)
    for name, value in zip(encode_keys(keys), _values(keys), strict=True):
        writer[name] = value
    writer.finish()
    choice = IngestExternalFileOptions()
    choice.set_move_files(True)
    families_of(state)["buckets"].ingest_external_file([path], choice)


def _probe_and_index(state: State, dice: np.random.Generator, end: int) -> tuple[float, float]:
    """Ask for keys, nearly all absent, and file them -> (seconds of CPU a page for asking, for filing)."""
    backend = state.backend
    assert isinstance(backend, RocksBackend)
    asking = index_update = 0.0
    for _ in range(BATCHES):
        keys = np.sort(dice.integers(0, end, BATCH_PAGES * KEYS_A_PAGE, np.uint64))
        began = time.thread_time()
        backend.get("buckets", encode_keys(keys))
        probed = time.thread_time()
        batch = Batch()
        batch.put("buckets", encode_keys(keys), _values(keys))
        backend.write(batch)
        index_update += time.thread_time() - probed
        asking += probed - began
    return asking / BATCHES / BATCH_PAGES, index_update / BATCHES / BATCH_PAGES


def _values(keys: NDArray[np.uint64]) -> list[bytes]:
    """One posting for each key."""
    bounds = np.arange(len(keys) + 1, dtype=np.int64)
    return encode_buckets(keys, Buckets(bounds, bounds[:-1].astype(np.uint64), np.zeros(len(keys), np.uint64)))


def _look(state: State, pages: int, file_seconds: float, probe_seconds: float) -> MemorySample:
    figures = state.stats()
    return MemorySample(
        pages=pages,
        rss=resident(),
        cache=figures["cache_bytes"],
        pinned=figures["cache_pinned_bytes"],
        memtables=figures["memtable_bytes"],
        tables=figures["table_reader_bytes"],
        disk=figures["bytes_on_disk"],
        file_us=file_seconds * 1e6,
        probe_us=probe_seconds * 1e6,
    )


def resident() -> int:
    """Resident memory of this process, bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def broken(looks: list[MemorySample], bare: int, cache_mb: int = DEFAULT_CACHE_MB) -> list[str]:
    """A sentence for each bound that does not hold. bare: resident memory before the state was opened"""
    cache = cache_mb * 2**20
    last = looks[-1]
    beside = (last.rss - bare - cache) / 2**20
    kept = {
        f"the cache holds {last.cache / 2**20:.0f} MiB": last.cache <= 1.1 * cache,
        f"{beside:.0f} MiB lie beside the cache": beside <= MOST_BESIDE_CACHE_MIB,
    }
    return [what for what, well in kept.items() if not well]


def document(
    looks: list[MemorySample],
    bare: int,
    command: str,
    host: dict[str, Any],
    load: float,
    cache_mb: int = DEFAULT_CACHE_MB,
) -> str:
    """The text of the document. load: the load average of the minute before, a sign of other programs"""
    rows = "\n".join(
        f"| {look.pages:,} | {look.disk / 2**30:.2f} GiB | {look.rss / 2**20:.0f} | {look.cache / 2**20:.0f} | "
        f"{look.pinned / 2**20:.1f} | {look.memtables / 2**20:.0f} | {look.tables / 2**20:.1f} | {look.probe_us:.0f} | "
        f"{look.file_us:.0f} |"
        for look in looks
    )
    return f"""# Memory of the index

{outcome(broken(looks, bare, cache_mb))} Measured by `{command}` {date_and_machine(host)};
before the start the load average was {load:.1f}.

A state with `index.cache_mb` {cache_mb} and `index.write_buffer_mb` 32 is filled with made-up postings:
{KEYS_A_PAGE} random keys a page, as the default scheme indexes them. They come as whole table files, a range of keys
after the other. Before each row {BATCHES} micro-batches of {BATCH_PAGES} pages with random keys are looked up and then
indexed, as in judging, and timed. The process had {bare / 2**20:.0f} MiB before. Resident memory may
exceed that and the cache by {MOST_BESIDE_CACHE_MIB:.0f} MiB, however many pages there are. {_reached(looks[-1].pages)}
Microseconds of CPU are for all keys of a page, with Python's part. MiB where nothing else is said.

| pages | on disk | resident | cache | of it pinned | memtables | tables | look-up, us a page | indexing, us a page |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}

Filters and indexes are in the cache: whole, or in parts of 16 KiB once the table files take four times the cache.
They take {KEYS_A_PAGE * 10 / 8:.0f} bytes a page: with the default cache they fit up to about 14 million pages. Of
files that are open 0.02 bytes a page are held beside the cache, and of the cache 0.3 bytes a page cannot be evicted.
Beyond 14 million an absent key costs a read of a part, mostly from the system's page cache; `index.cache_mb` of 18 MiB
for a million pages avoids it.

This document is written by `make memory`; do not edit it.
"""


def _reached(pages: int) -> str:
    return (
        f"All {pages:,} were reached."
        if pages >= PAGES
        else f"The time given ended after {pages:,} of {PAGES:,}: what is said of more is worked out from the rows."
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the document. Returns 0 if memory is bounded, else 1."""
    parser = argparse.ArgumentParser("python -m bench.index_memory", description="Memory of a large state.")
    parser.add_argument(
        "--pages", type=int, default=PAGES, help=f"default {PAGES:,}; with fewer the document is not written"
    )
    parser.add_argument("--looks", type=int, default=10, help="rows of the table (default 10)")
    parser.add_argument(
        "--cache-mb",
        type=int,
        default=DEFAULT_CACHE_MB,
        help="index.cache_mb; with another value the document is not written",
    )
    parser.add_argument(
        "--most-minutes", type=float, default=float("inf"), help="stop after the first row that ends later"
    )
    options = parser.parse_args(arguments)
    load, bare, looks = os.getloadavg()[0], resident(), list[MemorySample]()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        for look in fill(Path(scratch), options.pages, options.looks, options.cache_mb):
            looks.append(look)
            print(look, file=sys.stderr, flush=True)
            if time.monotonic() - began > 60 * options.most_minutes:
                break
    command = command_line("bench.index_memory", arguments)
    text = document(looks, bare, command, machine(), load, options.cache_mb)
    publish(DOCUMENT, text, whole=options.pages >= PAGES and options.cache_mb == DEFAULT_CACHE_MB)
    return 1 if broken(looks, bare, options.cache_mb) else 0


if __name__ == "__main__":
    sys.exit(main())
