"""Judges records over a filled state: time, CPU and reads of the judging thread by phase, and the longest write."""

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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


PHASES = {
    "buckets": "buckets",
    "indexed": "entries",
    "page_ids": "entries",
    "memories": "memories of hosts",
    "file": "filing",
}
"""The methods of a state that the judge calls, with the phase that each belongs to. The rest is the judge itself."""
JUDGE, BACKGROUND = "judge", "threads of RocksDB"


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """CPU in us per page, and read calls per page, of one phase."""

    cpu_us: float
    reads: float


@dataclass(frozen=True, slots=True)
class JudgingCosts:
    """The costs of judging. us: per page, all threads  ms: per record  reads: read calls of the judging thread

    system_us: the part of cpu_us in the kernel of the system, which is nearly all for reads and writes of the disk
    cold_ms: median of the first records, whose caches are empty; the other figures exclude them
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
    system_us: float = 0.0
    phases: Mapping[str, PhaseCosts] = field(default_factory=dict)


class MeteredState:
    """A state that measures the calls of the judge.

    spent: seconds of CPU and read calls of the judging thread in each phase  longest: seconds of the longest filing
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self.reset()

    def reset(self) -> None:
        """Forget what was measured so far."""
        self.spent = {phase: np.zeros(2) for phase in PHASES.values()}
        self.longest = 0.0

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._state, name)
        return partial(self._measure, name, called) if name in PHASES else called

    def _measure(self, name: str, called: Callable[..., Any], *given: Any, **more: Any) -> Any:
        began, cpu, reads = time.perf_counter(), time.thread_time(), _reads("thread-self")[0]
        result = called(*given, **more)
        self.spent[PHASES[name]] += time.thread_time() - cpu, _reads("thread-self")[0] - reads
        if name == "file":
            self.longest = max(self.longest, time.perf_counter() - began)
        return result


def judge_on(
    directory: Path,
    load: CandidateLoad,
    first: int,
    batch: int,
    settings: IndexSettings,
    tuning: Tuning,
    warm_up: Callable[[State], None] = lambda _: None,
    cold_share: float = 0.1,
) -> JudgingCosts:
    """Judge the load from page `first` on, and index the novel pages, by records of `batch` pages.

    warm_up: called with the opened state before the first record  cold_share: this share of the records is not measured
    """
    with (
        patch.object(rocks, "column_families", lambda given, _: column_families(given, tuning)),
        patch.object(rocks, "database_options", partial(database_options, tuning)),
        disk_state(directory, "{}", "bench", settings) as state,
    ):
        warm_up(state)
        return _judge(MeteredState(state), load, first, batch, settings, cold_share)


def _judge(
    state: MeteredState, load: CandidateLoad, first: int, batch: int, settings: IndexSettings, cold_share: float
) -> JudgingCosts:
    engine, indexed = engine_over(cast("State", state), settings), state.entry_count
    compile_kernels(engine.scheme)
    rows = [(at, min(at + batch, len(load))) for at in range(first, len(load), batch)]
    cold = int(len(rows) * cold_share)
    seconds, kinds = list[float](), np.zeros(max(Kind) + 1, np.int64)
    spent = np.zeros(3)
    own = whole = np.zeros(2)
    for number, (start, end) in enumerate(rows):
        signatures = load.signatures(start, end)
        # All pages are new: no id equals that of an old page or of an earlier run.
        moved = indexed + (signatures.offset - first)
        record = LogRecord(bytes(16), 0, _NO_SETTINGS, replace(signatures, offset=moved), 0)
        if number == cold:
            own, whole = _reads("thread-self"), _traffic()
            state.reset()
            spent = np.zeros(3)
        before, used = time.perf_counter(), _cpu()
        applied = engine.apply(record, state.position)
        seconds.append(time.perf_counter() - before)
        spent += _cpu() - used
        kinds += np.bincount(applied.verdicts.kind, minlength=len(kinds))
    pages = rows[-1][1] - rows[cold][0]
    own, whole = _reads("thread-self") - own, _traffic() - whole
    steady = np.array(seconds[cold:]) * 1e3
    whole_us, system_us, judging_us = spent / pages * 1e6
    phases = {phase: PhaseCosts(cpu / pages * 1e6, reads / pages) for phase, (cpu, reads) in state.spent.items()}
    phases[JUDGE] = PhaseCosts(judging_us - sum(phase.cpu_us for phase in phases.values()), 0.0)
    phases[BACKGROUND] = PhaseCosts(whole_us - judging_us, 0.0)
    return JudgingCosts(
        pages=pages,
        cpu_us=float(whole_us),
        wall_us=float(steady.sum()) / pages * 1e3,
        p50_ms=float(np.percentile(steady, 50)),
        p99_ms=float(np.percentile(steady, 99)),
        most_ms=float(steady.max()),
        cold_ms=float(np.median(seconds[: cold or 1])) * 1e3,
        reads=float(own[0]) / pages,
        read_bytes=float(own[1]) / pages,
        write_ms=state.longest * 1e3,
        compacted=float(whole.sum() - own[1]) / pages,
        disk=state.stats()["bytes_on_disk"],
        resident=resident(),
        novel=int(kinds[Kind.NOVEL]),
        copies=int(kinds[Kind.DUPLICATE]),
        system_us=float(system_us),
        phases=phases,
    )


def _cpu() -> Any:
    """Seconds of CPU: of the process, of it in the kernel of the system, and of this thread."""
    system = resource.getrusage(resource.RUSAGE_SELF).ru_stime
    return np.array([time.process_time(), system, time.thread_time()])


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
