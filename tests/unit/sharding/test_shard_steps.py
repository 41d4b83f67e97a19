"""What a shard does when its resize is cancelled, and when a round is announced again."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from spotsieve.state.horizon import NO_TIME
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_CANDIDATES, KIND_RANGE, RoundRange, RoundRecord
from spotsieve.stream.sharding.records.resolver import AnnouncedRecord, RoundAnnouncement, write_announcement
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shard_steps import (
    CutRound,
    FindCandidates,
    PresentSize,
    Send,
    ShardResponse,
    ShardSteps,
    VerdictsPosition,
)
from spotsieve.stream.sharding.shares import ClusterSize, Share
from spotsieve.stream.sharding.steps import Action, Fetch, MatchesSpans, RoleEnd, Steps, VerdictsSpan

RANGE = RoundRange(LogPlace(0, 0), LogPlace(1, 0), 0, 0, NO_TIME)


class Driver:
    """Performs the actions of a shard by fixed results, and records the actions."""

    def __init__(self, fetches: Sequence[Sequence[RoundMessage]], sizes: Sequence[ClusterSize]) -> None:
        self.actions = list[Action[Any]]()
        self._fetches, self._sizes = list(fetches), list(sizes)
        self.sent = list[int]()

    def run(self, steps: Steps[Any]) -> None:
        """Perform the actions until there are no more messages."""
        result: Any = None
        while True:
            action = steps.send(result)
            self.actions.append(action)
            if isinstance(action, Fetch) and not self._fetches:
                return
            result = self._perform(action)

    def _perform(self, action: Action[Any]) -> Any:
        match action:
            case Fetch():
                return self._fetches.pop(0)
            case PresentSize():
                return self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
            case VerdictsSpan():
                return 0, 1000
            case VerdictsPosition():
                return 5
            case MatchesSpans():
                return [(0, 1 + len(self.sent))]
            case CutRound():
                return cast("Any", object())
            case FindCandidates():
                return ShardResponse(cast("Any", object()), b"candidates", {})
            case Send(draft):
                self.sent.append(draft.kind)
                return len(self.sent)
        return None

    def count(self, kind: type[Action[Any]]) -> int:
        return sum(isinstance(action, kind) for action in self.actions)


def announced(responses: int) -> RoundMessage:
    """The announcement of one round, whose responses follow this offset."""
    body = write_announcement(RoundAnnouncement(7, (), (responses,), (AnnouncedRecord(0, 4, 0),)))
    return RoundMessage(RoundRecord(KIND_RANGE, bytes(16), Share(0, 1), RANGE, body), "verdicts", 0, 0)


def test_a_new_shard_stops_at_a_cancellation_that_is_far_ahead_of_it() -> None:
    steps = ShardSteps(Share(0, 3), False, "verdicts", 1000)
    driver = Driver([[], [], []], [ClusterSize(2, 3, 1), ClusterSize(2, 3, 1), ClusterSize(2)])
    with pytest.raises(RoleEnd, match="the number of shards is now 2"):
        driver.run(steps.start(None))
    assert driver.count(Fetch) == 2, "it stops within the records that it has still to read"


@pytest.mark.parametrize(("responses", "sent"), [(0, 1), (1, 1), (2, 2)])
def test_a_round_that_is_announced_again_is_computed_once(responses: int, sent: int) -> None:
    """The response is at offset 1 of `matches`. It is sent again only if the announced offset is behind it."""
    driver = Driver([[announced(0)], [announced(responses)]], [ClusterSize(1)])
    driver.run(ShardSteps(Share(0, 1), False, "verdicts", 1000).work())
    assert driver.count(FindCandidates) == 1
    assert driver.sent == [KIND_CANDIDATES] * sent
