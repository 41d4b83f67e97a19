"""Readers and shards as actors on a real Ray of this machine: some are killed, and no verdict changes."""

import contextlib
import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spotsieve.state.log.local import LocalLog
from spotsieve.state.store.state import State
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files import check_inputs
from spotsieve.stream.local.backfill.outcomes import OutcomeStore
from spotsieve.stream.local.backfill.ray_cluster import RayReaders, RayShards, connect_ray
from spotsieve.stream.local.backfill.run import Backfill, BackfillProgress
from spotsieve.stream.sign.schemes.registry import scheme_in_scope
from tests.fixtures.backfills import backfilled, records_out, verdict_rows, write_inputs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with connect_ray(None, 4) as started:
        yield started
    with warnings.catch_warnings():
        # Ray kills its processes and waits for none, which Popen tells when it is collected.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.guarantee(
    "a backfill gives the verdicts and the state of `spotsieve filter`", fault="a reader and a shard on Ray are killed"
)
def test_actors_that_are_killed_change_no_verdict(tmp_path: Path, ray: Any) -> None:
    names, settings = write_inputs(tmp_path, "warc", files=4), Settings()
    backfilled(names, tmp_path / "alone", settings)
    directory = tmp_path / "on-ray"
    outputs = {name: str(directory / name) for name in ("out", "verdicts", "rejected")}
    for name in outputs.values():
        Path(name).mkdir(parents=True)
    clusters, batches, messages = list[RayShards](), list[BackfillProgress](), list[str]()

    def make_shards(state: State, log: LocalLog, outcomes: OutcomeStore) -> RayShards:
        clusters.append(RayShards(ray, 2, settings, state, log, outcomes, messages.append))
        return clusters[-1]

    def kill(so_far: BackfillProgress) -> None:
        batches.append(so_far)
        if len(batches) == 1:
            ray.kill(clusters[0].actors[1])
        if len(batches) == 2:
            ray.kill(readers.actors[0])

    with contextlib.ExitStack() as stack:
        scheme = scheme_in_scope(settings)
        backfill = stack.enter_context(Backfill(directory / "state", settings, scheme, check_inputs(names), outputs))
        backfill.open(lambda *_: None, make_shards)
        readers = RayReaders(ray, 2, settings)
        before = [*readers.actors, *clusters[0].actors]
        summary = backfill.run(readers, lambda: False, kill, messages.append)
    assert not summary.interrupted
    assert verdict_rows(directory) == verdict_rows(tmp_path / "alone")
    assert records_out(directory) == records_out(tmp_path / "alone")
    after = [*readers.actors, *clusters[0].actors]
    assert sorted(text.split(",")[0] for text in messages) == ["reader 0 is lost", "shard 1 is lost"]
    assert [one is other for one, other in zip(before, after, strict=True)] == [False, True, True, False]
