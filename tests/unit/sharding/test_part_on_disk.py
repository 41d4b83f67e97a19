"""A shard's part of the state lives on disk as it lives in memory, and is taken for nothing else."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spotsieve.state.format.meta import StatePart
from spotsieve.state.index import EntryPlaces, OutcomeRef
from spotsieve.state.log.record import NO_PAGES
from spotsieve.state.still.reading import describe, read_only_state
from spotsieve.state.store.opening import disk_state
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.judge import empty_update
from spotsieve.stream.judge.policy import KEEP_FIRST
from tests.fixtures.pages.hosts import signatures_of
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.host_logs import Log
from tests.fixtures.states.remembering import SCHEME, any_case
from tests.fixtures.states.shards import OneProcess, Shards

PARTS = [StatePart(number, 2) for number in range(2)]


def opened(directory: Path, part: StatePart | None) -> State:
    return disk_state(directory, "{}", "log", IndexSettings(), part)


def test_parts_on_disk_hold_what_parts_in_memory_hold(tmp_path: Path) -> None:
    dice, pages, limits = any_case(8003)
    settings = IndexSettings.model_construct(
        bucket_cap=limits.cap, candidate_limit=limits.candidates, horizon_hours=20 / 3600
    )
    one = OneProcess(SCHEME, settings, KEEP_FIRST)
    timed = [(page._replace(time_ms=1000 * number), number) for number, (page, _) in enumerate(pages)]
    for record in Log(dice, timed).records:
        one.sign(signatures_of(record.pages), record.committed)
        if dice.random() < 0.1:
            one.forget(dice)
    sizes = random.Random(1).choices([1, 7, 30], k=3)
    memory, disk = Shards(one, 2), Shards(one, 2)
    for place, part in enumerate(PARTS):
        disk.put(place, opened(tmp_path / str(place), part))
    memory.apply(one.log, sizes)
    disk.apply(one.log, sizes)
    for place, part in enumerate(PARTS):
        left, right = memory.states[place], disk.states[place]
        assert first_difference(left, right) is None
        right.close()
        with opened(tmp_path / str(place), part) as again:
            assert first_difference(left, again) is None
            assert again.entry_count == one.state.entry_count


def test_a_part_knows_the_outcome_that_it_was_filed_by(tmp_path: Path) -> None:
    outcome, nothing = OutcomeRef(70, 2**63), empty_update(NO_PAGES, 0)
    with opened(tmp_path, PARTS[0]) as state:
        # Pages are indexed elsewhere, and none of them here.
        state.file(replace(nothing, places=EntryPlaces(np.empty(0, np.uint64), 5, outcome)), 1, 7)
        state.file(None, 2, 8)
        assert [state.last_outcome, state.entry_count] == [outcome, 5]
    with opened(tmp_path, PARTS[0]) as state:
        assert [state.last_outcome, state.entry_count, state.position] == [outcome, 5, 2]


def test_a_part_is_refused_as_another_part_and_as_a_whole(tmp_path: Path) -> None:
    opened(tmp_path, PARTS[1]).close()
    for other, part in (
        (StatePart(1, 3), "the part of shard 1 of 3"),
        (PARTS[0], "shard 0 of 2"),
        (None, "all entries"),
    ):
        with pytest.raises(StateError, match=f"must hold .*{part}, and holds the part of shard 1 of 2; choose another"):
            opened(tmp_path, other)
    with pytest.raises(StateError, match=r"must hold all entries, .*shard 1 of 2; .*state merge"):
        read_only_state(tmp_path).__enter__()
    assert describe(tmp_path)["part"] == "shard 1 of 2"
    whole = tmp_path / "whole"
    opened(whole, None).close()
    with pytest.raises(StateError, match="must hold the part of shard 1 of 2, and holds all entries"):
        opened(whole, PARTS[1])
