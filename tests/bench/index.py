"""Owns the index benchmark: CPU a page from signatures to verdicts, RocksDB's threads included, and bytes a page."""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from state.rocks import RocksState
from stream.config import IndexSettings, SchemeSettings, SpotsSection
from stream.judge import judge
from stream.schemes.chain import ChainScheme
from stream.signature import Signatures, Status, unused_columns
from stream.verdict import Kind
from stream.warm import compile_kernels

BATCH_PAGES = 512
WINDOW_PAGES = 10_240
DUPLICATES = 0.3
MIB = 2**20


def measure_index(
    fingerprints: int,
    tables: int,
    directory: Path | None = None,
    cap: int = 256,
    progress: Callable[[str], None] = print,
) -> dict[str, float]:
    """File this many random fingerprints, 30 % of them copies of earlier ones at distance 0..3; -> figures.

    cpu_us_per_page: median, over windows of 10,240 pages within the last 100,000, of the process's CPU time (all
    threads, so RocksDB's flushes and compactions too); cpu_us_per_page_mean: the mean over the run's second half, so
    that whole compactions are in it. wall_us_per_page: mean of the whole run. bytes_per_page: on disk after closing.
    rss_mib: at the end.
    """
    scheme = ChainScheme(SchemeSettings(tables=tables), SpotsSection())
    compile_kernels(scheme)
    pages = plant(fingerprints, np.random.default_rng(fingerprints + tables))
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        state = RocksState.open(Path(scratch), "{}", "bench", IndexSettings())
        windows, duplicates, wall = [], 0, time.perf_counter()
        for start in range(0, fingerprints, WINDOW_PAGES):
            window = time.process_time()
            signing = 0.0
            for first in range(start, min(start + WINDOW_PAGES, fingerprints), BATCH_PAGES):
                before = time.process_time()
                batch = signatures_of(pages[first : min(first + BATCH_PAGES, fingerprints)], first)
                signing += time.process_time() - before
                verdicts, filing = judge(batch, scheme, state, cap, 64)
                state.file(filing, first + 1)
                duplicates += int((verdicts.kind == Kind.DUPLICATE).sum())
            size = min(WINDOW_PAGES, fingerprints - start)
            windows.append((time.process_time() - window - signing) / size * 1e6)
            if start // WINDOW_PAGES % 25 == 24:
                progress(f"  {start + size:,} pages, {windows[-1]:.1f} us a page")
        wall = time.perf_counter() - wall
        rss, figures = psutil.Process().memory_info().rss, state.stats()
        state.close()
        on_disk = sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())
    last = windows[-max(1, 100_000 // WINDOW_PAGES) :]
    return {
        "fingerprints": fingerprints,
        "tables": tables,
        "cpu_us_per_page": statistics.median(last),
        "cpu_us_per_page_mean": statistics.fmean(windows[len(windows) // 2 :]),
        "wall_us_per_page": wall / fingerprints * 1e6,
        "bytes_per_page": on_disk / fingerprints,
        "rss_mib": rss / MIB,
        "entries": figures["entries"],
        "duplicates": duplicates,
    }


def plant(count: int, random: np.random.Generator) -> NDArray[np.uint64]:
    """Fingerprints: uint64[count], a share of them copies of an earlier original with 0..3 bits changed."""
    pages = random.integers(0, 2**64, count, np.uint64)
    is_copy = random.random(count) < DUPLICATES
    is_copy[0] = False
    originals = np.flatnonzero(~is_copy)
    copies = np.flatnonzero(is_copy)
    earlier = np.searchsorted(originals, copies)
    pages[copies] = pages[originals[(random.random(len(copies)) * earlier).astype(np.int64)]]
    for least in range(3):
        changed = copies[random.random(len(copies)) < (3 - least) / 4]
        pages[changed] ^= np.uint64(1) << random.integers(0, 64, len(changed)).astype(np.uint64)
    return pages


def signatures_of(fingerprints: NDArray[np.uint64], first: int) -> Signatures:
    """A micro-batch of pages with these fingerprints and 60-byte addresses, at offsets first, first + 1, ..."""
    count = len(fingerprints)
    return Signatures(
        ("pages",),
        np.zeros(count, np.uint16),
        np.zeros(count, np.int32),
        np.arange(first, first + count),
        np.full(count, 1_700_000_000_000),
        np.zeros((count, 2), np.uint64),
        fingerprints,
        np.full(count, Status.FINGERPRINTED, np.uint8),
        np.full(count, 300, np.uint32),
        tuple([b"https://news.example.org/2024/05/17/a-longer-headline-%09d.html" % (first + i) for i in range(count)]),
        (b"",) * count,
        **unused_columns(count),
    )


def main() -> None:
    """`python -m tests.bench.index [fingerprints] [tables]`: one run as JSON."""
    fingerprints, tables = (int(text) for text in (*sys.argv[1:], "1000000", "10")[:2])
    figures = measure_index(fingerprints, tables, progress=lambda line: print(line, file=sys.stderr))
    print(json.dumps({**figures, "cores": os.cpu_count()}, indent=1))


if __name__ == "__main__":
    main()
