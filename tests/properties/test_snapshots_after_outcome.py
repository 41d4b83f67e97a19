"""Snapshots that shards take after one outcome, each at its own time, are of one place and can be split."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from spotsieve.state.format.meta import StatePart
from spotsieve.state.horizon import step_of
from spotsieve.state.portable.merging import place_of_snapshots, snapshots_in, split_states
from spotsieve.state.snapshot.checkpoints import Requests
from spotsieve.state.snapshot.snapshots import take_snapshot
from spotsieve.state.store.state import State
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.sharding.bucket_prefetch import BucketPrefetch
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.shares import Share
from tests.fixtures.long_cases import mostly_long
from tests.fixtures.states.shard_directories import contents, opened, with_hosts, without_hosts, without_leftovers
from tests.fixtures.states.shards import OneProcess, Shards
from tests.fixtures.waiting import wait_until


class SnapshotRequest:
    """A request for a snapshot of a state after an outcome, in a thread of its own."""

    def __init__(self, directory: Path, target: Path, outcome: int) -> None:
        self.error: StateError | None = None
        self._arguments = directory, target, outcome
        self._thread = Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        directory, target, outcome = self._arguments
        try:
            take_snapshot(directory, target, 60.0, after_outcome=outcome)
        except StateError as error:
            self.error = error

    def wait(self) -> None:
        """Wait for the end of the request."""
        self._thread.join()


class ShardHistory:
    """One shard that indexes the rounds which other shards have judged, at its own pace."""

    def __init__(self, one: OneProcess, judged: Shards, share: Share, state: State) -> None:
        self._shards = Shards(one, share.shards)
        self._shards.shares, self._shards.states = [share], [state]
        self._shards._ahead = [BucketPrefetch(state)]
        self.rest = list(judged._history)
        self.outcome = -1

    def index(self) -> bool:
        """Index the next record that removes pages, or the next round. Returns whether it was a round."""
        entry = self.rest.pop(0)
        if not isinstance(entry[0], Round):
            self._shards._remove(*entry)
            return False
        self._shards._file(*entry)
        self.outcome += 1
        return True


@contextmanager
def shard_of(one: OneProcess, judged: Shards, share: Share, folder: Path) -> Iterator[tuple[ShardHistory, Requests]]:
    """A shard with an empty state on disk."""
    directory = folder / f"shard-{share.number}"
    with opened(directory, StatePart(*share)) as state:
        yield ShardHistory(one, judged, share, state), Requests(directory, state)


def assert_snapshots_are_of_one_place(one: OneProcess, dice: random.Random, folder: Path) -> None:
    """Shards take snapshots after any outcome, and go on to any other one."""
    before, after = dice.randrange(1, 5), dice.choice([1, 2, 3, 5])
    judged, snapshots = Shards(one, before), folder / "snapshots"
    judged.apply(one.log, [dice.choice([3, 7, 30])])
    rounds = sum(isinstance(entry[0], Round) for entry in judged._history)
    wanted = dice.randrange(rounds)
    for number in dice.sample(range(before), before):
        with shard_of(one, judged, Share(number, before), folder) as (shard, requests):
            for _ in range(dice.randrange(wanted + 1)):
                while not shard.index():
                    pass
            request = SnapshotRequest(folder / f"shard-{number}", snapshots / f"of-{number}", wanted)
            wait_until(requests.waiting, 60, "the request")
            while shard.outcome < wanted:
                assert requests.answer() is None, "it is not due yet"
                if shard.index():
                    taken = requests.answer(shard.outcome - 1)
                    assert (taken is not None) == (shard.outcome == wanted)
            request.wait()
            assert request.error is None
            while shard.rest and dice.random() < 0.8:
                shard.index()
            late = SnapshotRequest(folder / f"shard-{number}", folder / "late", wanted)
            wait_until(requests.waiting, 60, "the request")
            assert requests.answer() is not None
            late.wait()
            assert f"this shard has indexed outcome {shard.outcome} already" in str(late.error)
            assert not (folder / "late").exists()
    assert place_of_snapshots(snapshots_in(snapshots))[1] == (wanted, 0)
    split_states(dice.sample(snapshots_in(snapshots), before), after, folder / "split")
    for number in range(after):
        part = StatePart(number, after)
        with opened(folder / "split" / f"shard-{number}", part) as state:
            stayed = ShardHistory(one, judged, Share(number, after), opened(folder / f"stayed-{number}", part))
            while stayed.outcome < wanted:
                stayed.index()
            (other,) = stayed._shards.states
            step_ms = step_of(one.settings.index.horizon_hours)
            assert (state.progress[:5], state.clock, state.last_outcome) == (
                other.progress[:5],
                other.clock,
                other.last_outcome,
            )
            assert without_leftovers(state, contents(state, step_ms)) == without_leftovers(
                other, contents(other, step_ms)
            )
            other.close()


@pytest.mark.guarantee(
    "shards and a resolver give the verdicts of one process",
    fault="their snapshots are taken during rounds, and split for another number of shards",
)
@pytest.mark.parametrize("seed", mostly_long(range(8400, 8404), 2))
def test_snapshots_of_shards_that_remember_hosts_are_of_one_place(seed: int, tmp_path: Path) -> None:
    one, dice = with_hosts(seed)
    assert_snapshots_are_of_one_place(one, dice, tmp_path)


@pytest.mark.parametrize("name", ["minhash", "manku"])
def test_snapshots_of_shards_that_remember_no_hosts_are_of_one_place(name: str, tmp_path: Path) -> None:
    one, dice = without_hosts(name)
    assert_snapshots_are_of_one_place(one, dice, tmp_path)
