"""A worker, a shard and a resolver end at steps of their loops: nothing is lost or doubled, all verdicts are right."""

from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.killed_at import owner_of
from tests.fixtures.services.matrix import Outcome
from tests.fixtures.services.role_matrix import WAVE, run_waves, waves_of
from tests.fixtures.services.role_steps import STEPS

TRIED = {"worker": "commit asked", "shard": "filed", "resolver": "commit asked"}
"""The step of each role where what it has done is known to no other. `make rolesteps` does all of them."""


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="kill -9 of a worker and a resolver that have requested a commit, and of a shard that has updated its state",
)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_roles_that_end_where_nobody_knows_what_they_did_lose_nothing(kafka: Broker, tmp_path: Path) -> None:
    steps = {role: [point for point in points if point.name == TRIED[role]] for role, points in STEPS.items()}
    waves = waves_of(steps, ["killed"])
    assert len(waves) == 1
    assert waves[0].points.keys() == STEPS.keys()
    found = run_waves(kafka.bootstrap_servers, tmp_path, waves, crawl(2 * WAVE, seed=6).messages, print)
    assert found == [Outcome(pages=WAVE, missing=0, repeats=0, differing=0)]


def test_every_step_of_the_roles_is_there_under_its_name() -> None:
    for point in [point for points in STEPS.values() for point in points]:
        owner, name = owner_of(point.exactly_once or "")
        assert callable(getattr(owner, name)), point.name
