"""A resolver hands the rounds to new shards when all are ready; a shard knows whether it is wanted."""

import pytest

from spotsieve.stream.errors import StateError
from spotsieve.stream.service.roles.resolver.resizing import READY_SECONDS, Resizing
from spotsieve.stream.service.roles.role import Over
from spotsieve.stream.service.roles.shard.filling import check_wanted
from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.sharding.records.frame import KIND_ASK, KIND_FILLED, Range, Told
from spotsieve.stream.sharding.records.resize import write_ask, write_filled
from spotsieve.stream.sharding.resizing import Filled, Sizing
from spotsieve.stream.sharding.rounds import Place
from spotsieve.stream.sharding.shares import Share

NOWHERE = Range(Place(0, 0), Place(0, 0), 0, 0, 0)


def ask(shards: int, offset: int, number: int = 0) -> Heard:
    return Heard(Told(KIND_ASK, bytes(16), Share(number, 9), NOWHERE, write_ask(shards)), "matches", offset, 0)


def filled(number: int, is_ready: bool = True, shards: int = 2, offset: int = 100) -> Heard:
    body = write_filled(Filled(is_ready, 5))
    return Heard(Told(KIND_FILLED, bytes(16), Share(number, shards), NOWHERE, body), "matches", offset, 0)


def growing() -> Resizing:
    resizing = Resizing(Sizing(1), [10, 10])
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
    assert (resizing.sizing, resizing.due(4.0)) == (Sizing(2, 0, 4), False)


def test_an_end_of_the_resize_forgets_who_was_ready() -> None:
    resizing = growing()
    for number in range(2):
        resizing.hear(filled(number), 1.0)
    resizing.hear(ask(5, 4, number=1), 1.0)
    resizing.hear(ask(0, 5), 1.0)
    resizing.hear(ask(2, 6), 1.0)
    assert [int(one.change) for one in resizing.answers()] == [2, 0]
    assert (resizing.sizing, resizing.due(1.0)) == (Sizing(1, 2, 7), False)


def test_a_shard_that_nobody_wants_stops() -> None:
    for sizing in (Sizing(), Sizing(2), Sizing(3, 2, 1)):
        check_wanted(Share(1, 2), sizing, True)
    with pytest.raises(Over, match="shard 1 of 2 is needed no longer: the number of shards is 3; its state"):
        check_wanted(Share(1, 2), Sizing(3), False)
    with pytest.raises(StateError, match=r"shard 1 of 2 must be one .* there are 3, and 4 are asked for; set cluster"):
        check_wanted(Share(1, 2), Sizing(3, 4, 1), True)
