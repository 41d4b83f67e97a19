"""States of all shards make the state of one process over the same log, and whoever goes on with it judges alike.

Split, they make the states that other shards of any number would have by the same log.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from spotsieve.state.format.entries import FORGOTTEN
from spotsieve.state.format.meta import StatePart
from spotsieve.state.horizon import step_of
from spotsieve.state.log.record import decode
from spotsieve.state.portable.merging import merge_states, split_states
from spotsieve.state.verify.walk import verify
from spotsieve.stream.base.verdict import concatenate
from spotsieve.stream.engine import Engine
from spotsieve.stream.judge.policy import policy_of
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.states.comparison import first_difference
from tests.fixtures.states.shard_directories import contents, opened, with_hosts, without_hosts, without_leftovers
from tests.fixtures.states.sharded_logs import assert_verdicts_equal
from tests.fixtures.states.shards import DIGEST, OneProcess, Shards


def sharded(one: OneProcess, log: Sequence[bytes], shards: int, dice: random.Random, folder: Path) -> list[Path]:
    """The directories of shards that have judged a log."""
    cluster, directories = Shards(one, shards), [folder / f"shard-{number}" for number in range(shards)]
    for number, directory in enumerate(directories):
        cluster.put(number, opened(directory, StatePart(number, shards)))
    cluster.apply(log, dice.choices([1, 2, 3, 7, 30, 200], k=3))
    for state in cluster.states:
        state.close()
    return directories


def assert_merged(one: OneProcess, dice: random.Random, folder: Path, numbers: Sequence[int]) -> None:
    """Shards of these numbers make the state of one process amid the log, by which the rest is judged as before."""
    limits, place = one.settings.index, dice.randrange((len(one.log) + 1) // 2, len(one.log) + 1)
    step_ms = step_of(limits.horizon_hours)
    for number in numbers:
        merged = folder / f"of-{number}"
        directories = sharded(one, one.log[:place], number, dice, folder / str(number))
        for directory in directories:
            found = verify(directory)
            assert (found.damages, found.part[-1]) == ([], str(number))
        counts = merge_states(dice.sample(directories, number), merged)
        assert verify(merged).damages == []
        with opened(merged, None) as state:
            assert (counts.entries, state.position) == (state.entry_count - state.clock.floor, place)
            engine = Engine(one.scheme, state, limits, DIGEST, "log", policy_of(one.settings))
            applied = [engine.apply(record, offset) for offset, record in enumerate(one.log) if offset >= place]
            rest = [judged.verdicts for judged in applied if not judged.record.forgotten]
            if rest:
                assert_verdicts_equal(concatenate(rest), concatenate(one.verdicts[-len(rest) :]))
            assert state.clock == one.state.clock
            assert contents(state, step_ms) == contents(one.state, step_ms)


def assert_split(one: OneProcess, dice: random.Random, folder: Path, before: int, after: int) -> None:
    """States of shards amid the log become those of shards of another number, by which the rest is judged as before."""
    place = dice.randrange((len(one.log) + 1) // 2, len(one.log) + 1)
    step_ms, sizes = step_of(one.settings.index.horizon_hours), [dice.choice([1, 7, 30])]
    directories = sharded(one, one.log[:place], before, dice, folder / "before")
    split, whole = folder / "split", merge_states(directories, folder / "whole")
    counts = split_states(dice.sample(directories, before), after, split)
    assert sorted(path.name for path in split.iterdir()) == [f"shard-{number}" for number in range(after)]
    assert [sum(getattr(one, name) for one in counts) for name in ("hosts", "pending_verdicts")] == [
        whole.hosts,
        whole.pending_verdicts,
    ]
    for number in range(after):
        assert verify(split / f"shard-{number}").damages == []
    cluster = Shards(one, after)
    cluster.apply(one.log[:place], [1000])
    new = [opened(split / f"shard-{number}", StatePart(number, after)) for number in range(after)]
    for stayed, state in zip(cluster.states, new, strict=True):
        stayed.identity = stayed.identity._replace(part=state.identity.part)
        assert (state.progress[:5], state.clock) == (stayed.progress[:5], stayed.clock)
        assert without_leftovers(state, contents(state, step_ms)) == without_leftovers(
            stayed, contents(stayed, step_ms)
        )
    forgotten = [key for state in new for key, value in state.scan("entries") if value == FORGOTTEN]
    assert sorted(forgotten) == sorted(
        {key for state in cluster.states for key, value in state.scan("entries") if value == FORGOTTEN}
    )
    # The rest of the log is judged by these states.
    first = len(cluster.rounds)
    for number, state in enumerate(new):
        cluster.put(number, state)
    cluster.apply(one.log, sizes, place)
    rest = [resolved.verdicts for _, resolved in cluster.rounds[first:]]
    signed = sum(not decode(record).forgotten for record in one.log[place:])
    if signed:
        assert_verdicts_equal(concatenate(rest), concatenate(one.verdicts[-signed:]))
    for state in new:
        state.close()


@pytest.mark.guarantee("shards and a resolver give the verdicts of one process", fault="their states are merged")
# In 9032 a page that replaced another is forgotten, and comes again before it is committed.
@pytest.mark.parametrize("seed", mostly_long([9032, *range(8100, 8104)], 1))
def test_states_of_shards_that_remember_hosts_make_the_state_of_one_process(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    assert_merged(one, dice, tmp_path, [dice.randrange(1, 6)])


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="their states are split for another number of shards",
)
@pytest.mark.parametrize("seed", mostly_long([9032, *range(8200, 8208)], 2))
def test_states_that_remember_hosts_are_split_into_those_of_other_shards(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    assert_split(one, dice, tmp_path, dice.randrange(1, 6), dice.choice([1, 2, 3, 5, 9]))


@pytest.mark.parametrize("name", ["minhash", "manku"])
def test_states_of_shards_that_remember_no_hosts_make_the_state_of_one_process(name: str, tmp_path: Path) -> None:
    one, dice = without_hosts(name)
    assert_merged(one, dice, tmp_path, [3])


@pytest.mark.parametrize("name", ["minhash", "manku", "imatch"])
def test_states_that_remember_no_hosts_are_split_into_those_of_other_shards(name: str, tmp_path: Path) -> None:
    one, dice = without_hosts(name)
    assert_split(one, dice, tmp_path, 3, dice.choice([2, 4, 5]))


@pytest.mark.parametrize("seed", mostly_long(range(8300, 8303), 1))
def test_a_split_into_one_is_the_merged_state_and_splits_can_be_taken_back(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    directories = sharded(one, one.log, 3, dice, tmp_path)
    merge_states(directories, tmp_path / "merged")
    split_states(directories, 1, tmp_path / "single")
    split_states(directories, 10, tmp_path / "ten")
    split_states([tmp_path / "ten" / f"shard-{number}" for number in range(10)], 3, tmp_path / "three")
    merge_states([tmp_path / "three" / f"shard-{number}" for number in range(3)], tmp_path / "again")
    split_states(directories, 3, tmp_path / "same")
    merged, again = opened(tmp_path / "merged", None), opened(tmp_path / "again", None)
    single = opened(tmp_path / "single" / "shard-0", StatePart(0, 1))
    with merged, again, single:
        assert first_difference(single, merged) is None
        assert single.last_outcome is not None
        assert first_difference(again, merged) is None
    for number in range(3):
        same, three = (opened(tmp_path / name / f"shard-{number}", StatePart(number, 3)) for name in ("same", "three"))
        with same, three:
            assert first_difference(same, three) is None
            assert same.last_outcome == three.last_outcome
