"""A resolver hands the rounds to new shards when all are ready; a shard knows whether it is wanted."""

import pytest

from spotsieve.stream.base.errors import StateError
from spotsieve.stream.service.roles.resolver.publication import READY_SECONDS, ResizeState
from spotsieve.stream.service.roles.role import RoleEnd
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.service.roles.shard.catch_up import check_wanted
from spotsieve.stream.sharding.records.frame import KIND_FILL_PROGRESS, KIND_REQUEST, RoundRange, RoundRecord
from spotsieve.stream.sharding.records.resolver import write_fill_progress, write_request
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Share

NOWHERE = RoundRange(LogPlace(0, 0), LogPlace(0, 0), 0, 0, 0)


def ask(shards: int, offset: int, number: int = 0) -> RoundMessage:
    return RoundMessage(
        RoundRecord(KIND_REQUEST, bytes(16), Share(number, 9), NOWHERE, write_request(shards)), "matches", offset, 0
    )


def filled(number: int, is_ready: bool = True, shards: int = 2, offset: int = 100) -> RoundMessage:
    body = write_fill_progress(FillProgress(is_ready, 5))
    return RoundMessage(
        RoundRecord(KIND_FILL_PROGRESS, bytes(16), Share(number, shards), NOWHERE, body), "matches", offset, 0
    )


def growing() -> ResizeState:
    resizing = ResizeState(ClusterSize(1), [10, 10])
    resizing.hear(ask(2, 3), 0.0)
    assert [one.shards for one in resizing.answers()] == [2]
    return resizing


def test_the_new_shards_take_over_when_all_are_ready_of_late() -> None:
    resizing = growing()
    assert not resizing.due(0.0)
    resizing.hear(filled(0), 1.0)
    resizing.hear(filled(1, is_ready=False), 1.0)
    resizing.hear(filled(1, shards=3), 1.0)
    resizing.hear(filled(1, offset=9), 1.0)
    assert not resizing.due(1.0), "one lags, is of another number, or said so before this resolver came"
    resizing.hear(filled(1), 2.0)
    assert resizing.due(1.0 + READY_SECONDS)
    assert not resizing.due(1.1 + READY_SECONDS), "the first one has been silent"
    resizing.hear(filled(1, is_ready=False), 3.0)
    assert not resizing.due(3.0)
    resizing.hear(filled(1), 4.0)
    assert resizing.switch().shards == 2
    assert (resizing.cluster_size, resizing.due(4.0)) == (ClusterSize(2, 0, 4), False)


def test_an_end_of_the_resize_forgets_who_was_ready() -> None:
    resizing = growing()
    for number in range(2):
        resizing.hear(filled(number), 1.0)
    resizing.hear(ask(5, 4, number=1), 1.0)
    resizing.hear(ask(0, 5), 1.0)
    resizing.hear(ask(2, 6), 1.0)
    assert [int(one.change) for one in resizing.answers()] == [2, 0]
    assert (resizing.cluster_size, resizing.due(1.0)) == (ClusterSize(1, 2, 7), False)


def test_a_shard_that_nobody_wants_stops() -> None:
    for cluster_size in (ClusterSize(), ClusterSize(2), ClusterSize(3, 2, 1)):
        check_wanted(Share(1, 2), cluster_size, True)
    with pytest.raises(
        RoleEnd, match="shard 1 of 2 is not needed any more, because the number of shards is now 3; delete its"
    ):
        check_wanted(Share(1, 2), ClusterSize(3), False)
    with pytest.raises(
        StateError, match=r"shard 1 of 2 does not belong .* there are 3 shards, and 4 are requested; set cluster"
    ):
        check_wanted(Share(1, 2), ClusterSize(3, 4, 1), True)
