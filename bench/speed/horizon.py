"""Measures the deduplication window: CPU per page from signatures to verdicts, with and without a window."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.speed.index_load import CandidateLoad
from spotsieve.state.index import CommitMark
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.engine import Engine
from spotsieve.stream.engine.warmup import compile_kernels
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme

PAGE_MS = 1000
"""Event time between two pages."""
HOUR_MS = 3_600_000
_NO_SETTINGS = bytes(16)


def horizon_of(pages: int) -> float:
    """The hours of event time that `pages` pages take."""
    return pages * PAGE_MS / HOUR_MS


def horizon_load(pages: int, horizons: int, batch_pages: int) -> Iterator[LogRecord]:
    """Records of a stream in steady state, pages PAGE_MS apart; copies are at most half a window old."""
    load = CandidateLoad(pages * horizons, np.random.default_rng(pages), pages // 2)
    for number, first in enumerate(range(0, len(load), batch_pages)):
        signatures = load.signatures(first, min(first + batch_pages, len(load)))
        signatures = replace(signatures, event_time_ms=signatures.offset * PAGE_MS)
        # As in a service, everything judged before this record is committed by now.
        marks = (CommitMark(signatures.sources[0], 0, first),)
        yield LogRecord(bytes(16), number, _NO_SETTINGS, signatures, number, committed=marks)


def engine_over(state: State, limits: IndexSettings) -> Engine:
    """The default scheme over a state."""
    return Engine(SpotsieveScheme(SpotsieveSettings()), state, limits, _NO_SETTINGS, "bench")


def measure_horizon(pages: int, horizons: int = 6, directory: Path | None = None) -> dict[str, float]:
    """Judge a stream twice, alternating by record: with a window of `pages` pages, and without.

    cpu_us_per_page: of all threads, so RocksDB's too, over the second half of the horizons  ratio: with by without
    """
    spent, counted = [0.0, 0.0], 0
    with ExitStack() as closing:
        engines = []
        for hours in (horizon_of(pages), 0.0):
            limits = IndexSettings(horizon_hours=hours)
            scratch = closing.enter_context(tempfile.TemporaryDirectory(dir=directory))
            state = closing.enter_context(disk_state(Path(scratch), "{}", "bench", limits))
            engines.append(engine_over(state, limits))
        compile_kernels(engines[0].scheme)
        for record in horizon_load(pages, horizons, 512):
            steady = record.signatures.offset[0] >= pages * horizons // 2
            counted += len(record.signatures) if steady else 0
            for place, engine in enumerate(engines):
                before = time.process_time()
                engine.apply(record, record.sequence)
                spent[place] += time.process_time() - before if steady else 0
        entries = [engine.state.stats()["entries"] for engine in engines]
    return {
        "pages_per_horizon": pages,
        "horizons": horizons,
        "cpu_us_per_page_with": spent[0] / counted * 1e6,
        "cpu_us_per_page_without": spent[1] / counted * 1e6,
        "ratio": spent[0] / spent[1],
        "entries_with": entries[0],
        "entries_without": entries[1],
    }


def main() -> None:
    """`python -m bench.speed.horizon [pages of a window]` prints one run as JSON."""
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    print(json.dumps({**measure_horizon(pages), "cores": os.cpu_count()}, indent=1))


if __name__ == "__main__":
    main()
