"""Measures `spotsieve explain` on a large state: find a page by its URL, and explain its verdict."""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.peers.cost import measure
from bench.speed.index_load import CandidateLoad
from spotsieve.state.still.reading import read_only_state
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.insight.explain.context import ExplainContext, ExplainSubject, explain, find_subject
from spotsieve.stream.insight.explain.page_lookup import find_in_entries
from spotsieve.stream.local.engines import LocalEngine
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

BATCH_PAGES = 2_048
EXPLAINED = 5
"""Number of pages that are explained."""


def measure_explaining(pages: int) -> dict[str, float]:
    """Judge pages of the default scheme over a directory, then explain some of them by URL.

    entries: pages that the state knows  cpu_s, seconds: of one explanation, by the state's own log, a mean
    by_entries_cpu_s: of finding a page among the entries, as in the state of a service, a mean
    command_cpu_s: of the whole command, the least of some runs  numpy_cpu_s: of a process that only imports NumPy, the
    same way: what the machine gives just now
    """
    settings = Settings()
    scheme, load = scheme_in_scope(settings), CandidateLoad(pages, np.random.default_rng(pages))
    with tempfile.TemporaryDirectory() as folder:
        with LocalEngine(Path(folder), settings, scheme) as engine:
            for first in range(0, pages, BATCH_PAGES):
                for _ in engine.judge_signed(load.signatures(first, min(first + BATCH_PAGES, pages))):
                    pass
        with read_only_state(Path(folder)) as state:
            view = state
            judged = ExplainContext(settings, scheme, view, state.clock, folder, view.entry_count)
            chosen = np.linspace(0, view.entry_count - 1, EXPLAINED + 1).astype(np.uint64)
            names = [entry.url for entry in view.indexed(chosen).entries(np.arange(len(chosen)))]

            def ask(name: str) -> None:
                found = find_subject(state, name, settings)
                assert isinstance(found, ExplainSubject), "the state has a log of its own"
                explain(name, found, judged)

            ask(names[0])  # The first run compiles or loads the kernels.
            entries = float(view.entry_count)
            seconds, cpu = _mean(ask, names[1:])
            _, by_entries = _mean(lambda name: find_in_entries(state, name), names[1:])
        command = ["-m", "spotsieve.stream", "explain", "--state", folder]
        _cpu_of(*command, names[0])  # The first run writes the modules' byte code.
        return {
            "entries": entries,
            "seconds": seconds,
            "cpu_s": cpu,
            "by_entries_cpu_s": by_entries,
            "command_cpu_s": min(_cpu_of(*command, name) for name in names[1:]),
            "numpy_cpu_s": min(_cpu_of("-c", "import numpy") for _ in names[1:]),
        }


def _mean(act: Callable[[str], object], names: list[str]) -> tuple[float, float]:
    """Seconds, and CPU seconds, per explanation."""
    began, cpu = time.perf_counter(), time.process_time()
    for name in names:
        act(name)
    return (time.perf_counter() - began) / len(names), (time.process_time() - cpu) / len(names)


def _cpu_of(*arguments: str) -> float:
    """CPU seconds of a Python process. It may write byte code, as an installation does."""
    return measure(["env", "--unset=PYTHONDONTWRITEBYTECODE", sys.executable, *arguments]).cpu_s


if __name__ == "__main__":
    print(json.dumps(measure_explaining(int(sys.argv[1]) if len(sys.argv) > 1 else 1_450_000), indent=2))
