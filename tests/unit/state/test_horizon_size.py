"""The state of a stream that never ends stays as large as a horizon of it: shown over 20 horizons.

The table of common text and the memories of hosts are bounded by themselves. The table fills up within the first
horizons, a memory as its host's pages come.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from bench.speed.horizon import engine_over, horizon_load, horizon_of, measure_horizon
from spotsieve.state.index import COMMON_SLOTS
from spotsieve.state.log.record import LogRecord
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.settings.model import IndexSettings
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.local_states import families_of

PAGES, HORIZONS, BATCH = 500, 20, 50
SETTINGS = IndexSettings(horizon_hours=horizon_of(PAGES), write_buffer_mb=1)


def open_state(directory: Path) -> State:
    return disk_state(directory, "{}", "log", SETTINGS)


def bytes_of_tables(state: State) -> dict[str, int]:
    """The bytes of the live table files of each family."""
    return {
        name: family.property_int_value("rocksdb.live-sst-files-size") or 0
        for name, family in families_of(state).items()
    }


def apply(state: State, log: Iterable[LogRecord]) -> None:
    engine = engine_over(state, SETTINGS)
    for record in log:
        engine.apply(record, record.sequence)


@pytest.mark.guarantee(
    "the state has the size of one deduplication window, however long it runs",
    fault="20 deduplication windows of pages",
)
def test_entries_buckets_and_bytes_stay_flat_over_20_horizons_and_replay_equal(tmp_path: Path) -> None:
    log = list(horizon_load(PAGES, HORIZONS, BATCH))
    a_horizon = PAGES // BATCH
    sizes, host_bytes = [], []
    with open_state(tmp_path / "one") as state:
        for start in range(0, len(log), a_horizon):
            apply(state, log[start : start + a_horizon])
            keys = sum(name.startswith(b"buckets/") for name, _ in state.items())
            state.compact()
            table_bytes = bytes_of_tables(state)
            common_text = table_bytes.pop("common")
            host_bytes.append(table_bytes.pop("hosts"))
            # A base, and changes that take as many bytes at most, and once more those of the last update.
            assert common_text < 2.2 * 8 * COMMON_SLOTS
            sizes.append((state.stats()["entries"], keys, sum(table_bytes.values())))
    measured = np.array(sizes, float)
    early, late = measured[5:10].mean(axis=0), measured[-5:].mean(axis=0)
    # entries, keys of buckets, bytes without common text and hosts after compaction
    assert (np.abs(late / early - 1) < 0.04).all(), sizes
    assert (measured[5:].max(axis=0) / early < 1.1).all(), sizes
    assert np.mean(host_bytes[-5:]) < 1.1 * np.mean(host_bytes[10:15]), host_bytes
    # Without the sweep there would be as many keys again with each horizon.
    assert measured[-1][1] < 1.6 * measured[0][1]
    for start in range(0, len(log), 7 * a_horizon):
        with open_state(tmp_path / "other") as other:
            apply(other, log[start : start + 7 * a_horizon])
    with open_state(tmp_path / "one") as state, open_state(tmp_path / "other") as other:
        assert other.clock.floor > 10 * other.stats()["entries"]
        assert first_difference(state, other) is None
    assert verify(tmp_path / "one").damaged == 0


def test_the_benchmark_compares_a_full_horizon_with_all_that_was_ever_filed(tmp_path: Path) -> None:
    figures = measure_horizon(512, 4, tmp_path)
    assert figures["entries_without"] > 3 * figures["entries_with"] > 512
    assert figures["ratio"] > 0
