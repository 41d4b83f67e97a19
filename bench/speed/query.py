"""Measures batch queries of a state: CPU per bucket by MultiGet in key order, and by a scan of all buckets."""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.speed.horizon import engine_over, horizon_load
from spotsieve.state.format.buckets import decode_keys, encode_keys
from spotsieve.state.still.reading import read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.rocks import CheckpointBackend
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.engine.warmup import compile_kernels

SHARES = (0.01, 0.1, 0.5)
"""Shares of all buckets that are queried."""


def measure_query(pages: int) -> dict[str, float]:
    """Index pages of the default scheme, then read some of their buckets both ways.

    buckets: of the state  asked_us_X: CPU microseconds a bucket by MultiGet, X % of all buckets in key order
    passed_us: a bucket that a pass reads, half of them wanted  ratio: of passed_us by asked_us of 10 %
    """
    with tempfile.TemporaryDirectory() as folder:
        with disk_state(Path(folder), "{}", "bench", IndexSettings()) as state:
            engine = engine_over(state, IndexSettings())
            compile_kernels(engine.scheme)
            for record in horizon_load(pages, 1, 512):
                engine.apply(record, record.sequence)
            state.compact()
        with read_only_state(Path(folder)) as still:
            backend = still.backend
            assert isinstance(backend, CheckpointBackend)
            keys = decode_keys([name for name, _ in still.scan("buckets")])
            figures = {"pages": float(pages), "buckets": float(len(keys))}
            for share in SHARES:
                wanted = _some(keys, share)
                figures[f"asked_us_{share * 100:.0f}"] = _cpu_us(partial(backend.get, "buckets"), wanted, len(wanted))
            figures["passed_us"] = _cpu_us(partial(backend.get_by_pass, "buckets"), _some(keys, 0.5), len(keys))
    return figures | {"ratio": figures["passed_us"] / figures["asked_us_10"]}


def _some(keys: NDArray[np.uint64], share: float) -> NDArray[np.uint64]:
    chosen = np.random.default_rng(1).choice(len(keys), max(1, int(share * len(keys))), replace=False)
    return np.sort(keys[chosen])


def _cpu_us(read: Callable[[list[bytes]], object], keys: NDArray[np.uint64], count: int) -> float:
    began = time.process_time()
    read(encode_keys(keys))
    return (time.process_time() - began) / count * 1e6


if __name__ == "__main__":
    print(json.dumps(measure_query(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), indent=2))
