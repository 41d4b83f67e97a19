"""A shard continues behind the last outcome in its state, or reports that `verdicts` was recreated."""

from typing import Any

import pytest

from spotsieve.state.index import OutcomeRef
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME, RoundRecord
from spotsieve.stream.sharding.shard_steps import SeekVerdicts, ShardSteps, VerdictsPosition
from spotsieve.stream.sharding.shares import ClusterSize, Share
from spotsieve.stream.sharding.steps import Action, Fetch
from tests.fixtures.states.round_records import RANGE, SHARE

END = 12


class Verdicts:
    """A topic with records at some offsets below its end; at the others there are markers of transactions."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = offsets
        self.position = 0
        self._is_first = True

    def perform(self, action: Action[Any]) -> Any:
        match action:
            case SeekVerdicts(offset):
                self.position = offset
                return None
            case VerdictsPosition():
                return self.position
            case Fetch():
                return self._fetch()
        raise AssertionError(action)

    def _fetch(self) -> list[RoundMessage]:
        if self._is_first:
            # The broker has not answered yet.
            self._is_first = False
            return []
        offsets = [offset for offset in self._offsets if offset >= self.position]
        self.position = END
        return [
            RoundMessage(RoundRecord(KIND_OUTCOME, bytes(16), SHARE, RANGE, b""), "verdicts", offset, 5)
            for offset in offsets
        ]


def place(verdicts: Verdicts, indexed_by: OutcomeRef | None, begin: int = 0, shards: int = 2) -> int:
    """The offset at which shard 1 of 2 goes on, if `shards` respond."""
    steps = ShardSteps(Share(1, 2), True, "verdicts", 1000)._continue(indexed_by, begin, END, ClusterSize(shards))
    result: Any = None
    try:
        while True:
            result = verdicts.perform(steps.send(result))
    except StopIteration:
        return verdicts.position


def test_a_shard_goes_on_behind_its_last_outcome() -> None:
    assert place(Verdicts(10), OutcomeRef(10, 5)) == 11
    assert place(Verdicts(10), None) == 0


@pytest.mark.parametrize(
    ("shards", "advice"),
    [(2, r"restore a snapshot of this shard"), (3, r"cancel the resize .* the present shards keep working")],
)
def test_an_empty_shard_that_cannot_be_filled_advises_nothing_that_harms_others(shards: int, advice: str) -> None:
    with pytest.raises(StateError, match=r"begins at offset 7") as caught:
        place(Verdicts(10), None, 7, shards)
    assert "empty state directory" not in str(caught.value)
    with pytest.raises(StateError, match=advice):
        place(Verdicts(10), None, 7, shards)


def test_a_new_shard_from_snapshots_that_are_too_old_advises_new_ones() -> None:
    with pytest.raises(StateError, match=r"begins at 7; cancel the resize .*take snapshots") as caught:
        place(Verdicts(10), OutcomeRef(5, 5), 7, 3)
    assert "recreated" not in str(caught.value)
    with pytest.raises(StateError, match="was recreated or lost it"):
        place(Verdicts(10), OutcomeRef(5, 5), 7, 2)


@pytest.mark.parametrize("offsets", [(), (10,), (8, 9)])
def test_verdicts_that_were_recreated_are_told_even_where_they_end_in_a_marker(offsets: tuple[int, ...]) -> None:
    with pytest.raises(
        StateError, match=r"does not hold outcome 11, by which this shard was indexed last: the topic was recreated"
    ):
        place(Verdicts(*offsets), OutcomeRef(11, 5))
