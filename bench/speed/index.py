"""Measures the index: CPU per page from signatures to verdicts, including RocksDB's threads, and bytes per page."""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import psutil

from bench.command import say
from bench.speed.index_load import URL_BYTES, CandidateLoad, FingerprintLoad, RealLoad
from bench.speed.real_pages import has_real_pages
from spotsieve.state.store.opening import disk_state
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import ChainSettings, SpotsieveSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.simhash import ChainScheme
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

BATCH_PAGES = 512
WINDOW_PAGES = 10_240
MIB = 2**20
INDEX = IndexSettings()


class Load(Protocol):
    """A sequence of pages to judge."""

    def __len__(self) -> int: ...

    def signatures(self, first: int, last: int) -> Signatures:
        """A micro-batch: pages first..last - 1."""


def measure_index(fingerprints: int, tables: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Index this many random fingerprints under `chain`, 30 % of them copies of earlier ones at distance 0..3."""
    scheme = ChainScheme(ChainSettings(tables=tables))
    compile_kernels(scheme)
    load = FingerprintLoad(fingerprints, np.random.default_rng(fingerprints + tables))
    return {"fingerprints": fingerprints, "tables": tables, **measure(scheme, load, INDEX.bucket_cap, progress)}


def measure_candidates(pages: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Index this many pages under the default scheme, with the memories of their hosts.

    The signatures are those of real pages (RealLoad), or generated ones (CandidateLoad) without the labelled sets.
    """
    scheme = SpotsieveScheme(SpotsieveSettings())
    compile_kernels(scheme)
    load: Load
    load = RealLoad(pages, scheme) if has_real_pages() else CandidateLoad(pages, np.random.default_rng(pages))
    figures = measure(scheme, load, INDEX.bucket_cap, progress)
    return {"pages": pages, **figures}


def measure(scheme: Scheme, load: Load, cap: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Judge and index the whole load; returns figures.

    cpu_us_per_page: median, over windows of 10,240 pages within the last 100,000, of the process's CPU time (all
    threads, so RocksDB's flushes and compactions too); cpu_us_per_page_mean: the mean over the run's second half, so
    that whole compactions are in it. wall_us_per_page: mean of the whole run.
    state_bytes_per_entry: RocksDB's live table files after everything is compacted, without the URLs, for each indexed
    page. A URL is URL_BYTES random letters, which LZ4 cannot shorten, so it takes its length.
    bytes_per_page: files on disk after closing, by page of the load. rss_mib: at the end.
    """
    count = len(load)
    with tempfile.TemporaryDirectory() as scratch:
        state = disk_state(Path(scratch), "{}", "bench", IndexSettings())
        windows, duplicates, candidates, wall = [], 0, 0, time.perf_counter()
        for start in range(0, count, WINDOW_PAGES):
            window, signing = time.process_time(), 0.0
            for first in range(start, min(start + WINDOW_PAGES, count), BATCH_PAGES):
                before = time.process_time()
                batch = load.signatures(first, min(first + BATCH_PAGES, count))
                signing += time.process_time() - before
                verdicts, index_update = judge(batch, scheme, state, cap, INDEX.candidate_limit)
                state.file(index_update, first + 1, 0)
                duplicates += int((verdicts.kind == Kind.DUPLICATE).sum())
                candidates += int(verdicts.candidates.sum())
            size = min(WINDOW_PAGES, count - start)
            windows.append((time.process_time() - window - signing) / size * 1e6)
            if start // WINDOW_PAGES % 25 == 24:
                progress(f"  {start + size:,} pages, {windows[-1]:.1f} us a page")
        wall = time.perf_counter() - wall
        rss, entries = psutil.Process().memory_info().rss, state.entry_count
        state_bytes = state.compact() - entries * URL_BYTES
        state.close()
        on_disk = sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file())
    return {
        "cpu_us_per_page": statistics.median(windows[-max(1, 100_000 // WINDOW_PAGES) :]),
        "cpu_us_per_page_mean": statistics.fmean(windows[len(windows) // 2 :]),
        "wall_us_per_page": wall / count * 1e6,
        "state_bytes_per_entry": state_bytes / entries,
        "bytes_per_page": on_disk / count,
        "rss_mib": rss / MIB,
        "entries": entries,
        "duplicates": duplicates,
        "postings_per_page": candidates / count,
    }


def main() -> None:
    """`python -m bench.speed.index [pages] [tables]` prints one run as JSON; 0 tables: the default scheme."""
    arguments = [int(text) for text in sys.argv[1:]]
    pages, tables = [*arguments, *(1_000_000, 10)[len(arguments) :]][:2]
    figures = measure_index(pages, tables, say) if tables else measure_candidates(pages, say)
    print(json.dumps({**figures, "cores": os.cpu_count()}, indent=1))


if __name__ == "__main__":
    main()
