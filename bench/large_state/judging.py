"""Judges records over a filled state and measures time, CPU, reads of the judging thread, and the longest write."""

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from bench.index_memory import resident
from bench.speed.horizon import engine_over
from bench.speed.index_load import CandidateLoad
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store import rocks
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks_options import Tuning, column_families, database_options
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.engine.warmup import compile_kernels

MIB = 2**20
_NO_SETTINGS = bytes(16)


@dataclass(frozen=True, slots=True)
class JudgingCosts:
    """The costs of judging. us: per page, all threads  ms: per record  reads: read calls of the judging thread

    cold_ms: median of the first tenth of the records, whose caches are empty; the other figures exclude that tenth
    write_ms: the longest index update of a record, during any work of RocksDB  disk, resident: bytes, at the end
    compacted: bytes per page that all threads read and wrote, without the reads of the judging thread
    verdicts: of all pages, the numbers of novel pages and of copies found
    """

    pages: int
    cpu_us: float
    wall_us: float
    p50_ms: float
    p99_ms: float
    most_ms: float
    cold_ms: float
    reads: float
    read_bytes: float
    write_ms: float
    compacted: float
    disk: int
    resident: int
    novel: int
    copies: int


class WatchedState:
    """A state that remembers its longest filing. seconds: of it"""

    def __init__(self, state: State) -> None:
        self._state = state
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def file(self, *index_update: Any, **more: Any) -> None:
        """File, and take the time."""
        began = time.perf_counter()
        self._state.file(*index_update, **more)
        self.seconds = max(self.seconds, time.perf_counter() - began)


def judge_on(
    directory: Path, load: CandidateLoad, first: int, batch: int, settings: IndexSettings, tuning: Tuning
) -> JudgingCosts:
    """Judge the load from page `first` on, and index the novel pages, by records of `batch` pages."""
    with (
        patch.object(rocks, "column_families", lambda given, _: column_families(given, tuning)),
        patch.object(rocks, "database_options", partial(database_options, tuning)),
        disk_state(directory, "{}", "bench", settings) as state,
    ):
        return _judge(WatchedState(state), load, first, batch, settings)


def _judge(state: WatchedState, load: CandidateLoad, first: int, batch: int, settings: IndexSettings) -> JudgingCosts:
    engine, indexed = engine_over(cast("State", state), settings), state.entry_count
    compile_kernels(engine.scheme)
    rows = [(at, min(at + batch, len(load))) for at in range(first, len(load), batch)]
    cold = len(rows) // 10
    seconds, kinds = list[float](), np.zeros(max(Kind) + 1, np.int64)
    cpu, own, whole = 0.0, np.zeros(2), np.zeros(2)
    for number, (start, end) in enumerate(rows):
        signatures = load.signatures(start, end)
        # All pages are new: no id equals that of an old page or of an earlier run.
        moved = indexed + (signatures.offset - first)
        record = LogRecord(bytes(16), 0, _NO_SETTINGS, replace(signatures, offset=moved), 0)
        if number == cold:
            own, whole = _reads("thread-self"), _traffic()
            state.seconds = 0.0
        before, spent = time.perf_counter(), time.process_time()
        applied = engine.apply(record, state.position)
        seconds.append(time.perf_counter() - before)
        cpu += (time.process_time() - spent) * (number >= cold)
        kinds += np.bincount(applied.verdicts.kind, minlength=len(kinds))
    pages = rows[-1][1] - rows[cold][0]
    own, whole = _reads("thread-self") - own, _traffic() - whole
    steady = np.array(seconds[cold:]) * 1e3
    return JudgingCosts(
        pages=pages,
        cpu_us=cpu / pages * 1e6,
        wall_us=float(steady.sum()) / pages * 1e3,
        p50_ms=float(np.percentile(steady, 50)),
        p99_ms=float(np.percentile(steady, 99)),
        most_ms=float(steady.max()),
        cold_ms=float(np.median(seconds[: cold or 1])) * 1e3,
        reads=float(own[0]) / pages,
        read_bytes=float(own[1]) / pages,
        write_ms=state.seconds * 1e3,
        compacted=float(whole.sum() - own[1]) / pages,
        disk=state.stats()["bytes_on_disk"],
        resident=resident(),
        novel=int(kinds[Kind.NOVEL]),
        copies=int(kinds[Kind.DUPLICATE]),
    )


def _figures(process: str) -> dict[str, int]:
    lines = Path(f"/proc/{process}/io").read_text("ascii").splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def _reads(process: str) -> Any:
    """Read calls, and bytes read from the disk."""
    figures = _figures(process)
    return np.array([figures["syscr"], figures["read_bytes"]], float)


def _traffic() -> Any:
    """Bytes that the process read from the disk and wrote to it."""
    figures = _figures("self")
    return np.array([figures["read_bytes"], figures["write_bytes"]], float)
