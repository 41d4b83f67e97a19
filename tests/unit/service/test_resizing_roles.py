"""A resolver hands the rounds to new shards when all are ready; a shard knows whether it is wanted."""

import pytest

from spotsieve.stream.base.errors import StateError
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.records.frame import KIND_FILL_PROGRESS, KIND_REQUEST, RoundRange, RoundRecord
from spotsieve.stream.sharding.records.resolver import write_fill_progress, write_request
from spotsieve.stream.sharding.rounds import LogPlace
from spotsieve.stream.sharding.shard_steps import check_wanted
from spotsieve.stream.sharding.shares import ClusterSize, FillProgress, Resize, ResizeEvent, Share
from spotsieve.stream.sharding.steps import READY_MS, ResizeState, RoleEnd

NOWHERE = RoundRange(LogPlace(0, 0), LogPlace(0, 0), 0, 0, 0)


def ask(shards: int, offset: int, number: int = 0) -> RoundMessage:
    return RoundMessage(
        RoundRecord(KIND_REQUEST, bytes(16), Share(number, 1), NOWHERE, write_request(shards)), "matches", offset, 0
    )


def filled(number: int, time_ms: int, is_ready: bool = True, shards: int = 2, next_offset: int = 5) -> RoundMessage:
    body = write_fill_progress(FillProgress(is_ready, next_offset))
    return RoundMessage(
        RoundRecord(KIND_FILL_PROGRESS, bytes(16), Share(number, shards), NOWHERE, body), "matches", 100, 0, time_ms
    )


def growing() -> ResizeState:
    """The request is at offset 4 of `verdicts`."""
    resizing = ResizeState(ClusterSize(1))
    resizing.take(ask(2, 3))
    assert [one.shards for one in resizing.responses(True)] == [2]
    resizing.requested_at = 4
    return resizing


def test_the_new_shards_take_over_when_all_are_ready_of_late() -> None:
    resizing = growing()
    assert not resizing.due(0)
    resizing.take(filled(0, 1000))
    resizing.take(filled(1, 1000, is_ready=False))
    resizing.take(filled(1, 1000, shards=3))
    resizing.take(filled(1, 1000, next_offset=4))
    assert not resizing.due(1000), "one lags, is of another number, or had not read the request"
    resizing.take(filled(1, 2000))
    assert resizing.due(1000 + READY_MS)
    assert not resizing.due(1001 + READY_MS), "the first one has been silent"
    resizing.take(filled(1, 3000, is_ready=False))
    assert not resizing.due(3000)
    resizing.take(filled(1, 4000))
    assert resizing.switch().shards == 2
    assert (resizing.cluster_size, resizing.due(4000)) == (ClusterSize(2, 0, 4), False)


def test_reports_that_a_frozen_resolver_reads_late_count_by_their_record_time() -> None:
    resizing = growing()
    for number in range(2):
        resizing.take(filled(number, 1000))
    assert not resizing.due(1001 + READY_MS), "they are received now, and were written long ago"


def test_an_end_of_the_resize_forgets_who_was_ready() -> None:
    resizing = growing()
    for number in range(2):
        resizing.take(filled(number, 1000))
    resizing.take(ask(5, 4, number=1))
    resizing.take(ask(0, 5))
    resizing.take(ask(2, 6))
    assert [int(one.change) for one in resizing.responses(True)] == [2, 0]
    assert (resizing.cluster_size, resizing.due(1000)) == (ClusterSize(1, 2, 7), False)


def test_a_resize_that_cannot_end_is_refused() -> None:
    resizing = ResizeState(ClusterSize(1))
    resizing.take(ask(2, 3))
    assert list(resizing.responses(False)) == [Resize(ResizeEvent.REFUSED, 0, 4)]
    assert resizing.cluster_size == ClusterSize(1, 0, 4)


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
