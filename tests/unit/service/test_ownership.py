"""An owned partition makes every legal move of its table, and refuses every other."""

from collections.abc import Callable
from itertools import product

import pytest
from aiokafka import TopicPartition

from spotsieve.stream.service.pages.ownership import MOVES, IllegalMove, OwnedPartition, Phase

REACHED_BY = {
    Phase.OPENING: (),
    Phase.SEEKING: (Phase.SEEKING,),
    Phase.ACCEPTING: (Phase.SEEKING, Phase.ACCEPTING),
    Phase.LEAVING: (Phase.LEAVING,),
    Phase.LOST: (Phase.LOST,),
}
"""The moves that lead a new partition to each phase."""

MOVE: dict[Phase, Callable[[OwnedPartition], object]] = {
    Phase.OPENING: OwnedPartition.begin_opening,
    Phase.SEEKING: lambda owned: owned.seek(7),
    Phase.ACCEPTING: OwnedPartition.accept,
    Phase.LEAVING: OwnedPartition.leave,
    Phase.LOST: OwnedPartition.lose,
}

DROPPING = {Phase.OPENING, Phase.LOST}


def partition_in(phase: Phase) -> OwnedPartition:
    owned = OwnedPartition(TopicPartition("pages", 3))
    for step in REACHED_BY[phase]:
        MOVE[step](owned)
    assert owned.phase is phase
    return owned


LEGAL = [(before, after) for before, after in product(Phase, Phase) if after in MOVES[before]]
ILLEGAL = [(before, after) for before, after in product(Phase, Phase) if after not in MOVES[before]]


def name(phase: object) -> str:
    return phase.name if isinstance(phase, Phase) else ""


def test_every_phase_has_its_moves_and_only_a_lost_partition_has_none() -> None:
    assert MOVES.keys() == set(Phase)
    assert [phase for phase, after in MOVES.items() if not after] == [Phase.LOST]
    assert all(Phase.LOST in after for phase, after in MOVES.items() if phase is not Phase.LOST)


@pytest.mark.parametrize(("before", "after"), LEGAL, ids=name)
async def test_a_legal_move_is_made_and_drops_what_is_in_flight_where_it_must(before: Phase, after: Phase) -> None:
    owned = partition_in(before)
    epoch, dropped = owned.epoch, owned.dropped
    MOVE[after](owned)
    assert owned.phase is after
    assert owned.epoch - epoch == (after in DROPPING)
    assert owned.accepting == (after is Phase.ACCEPTING)
    assert dropped.is_set() == (after in DROPPING)
    assert not owned.dropped.is_set(), "pages of the new epoch are in flight"


@pytest.mark.parametrize(("before", "after"), ILLEGAL, ids=name)
async def test_an_illegal_move_is_refused_and_changes_nothing(before: Phase, after: Phase) -> None:
    owned = partition_in(before)
    fields = (owned.epoch, owned.seek_to, owned.dropped)
    with pytest.raises(IllegalMove, match=f"pages/3 cannot move from {before.name} to {after.name}"):
        MOVE[after](owned)
    assert owned.phase is before
    assert (owned.epoch, owned.seek_to, owned.dropped) == fields


async def test_a_page_is_taken_only_between_a_seek_and_what_ends_it() -> None:
    """Only SEEKING leads to ACCEPTING, and only the intake loop makes that move."""
    assert [phase for phase, after in MOVES.items() if Phase.ACCEPTING in after] == [Phase.SEEKING]


async def test_an_opening_no_longer_counts_after_a_later_one_or_a_hand_over() -> None:
    owned = partition_in(Phase.OPENING)
    first = owned.begin_opening()
    assert owned.is_opening(first)
    second = owned.begin_opening()
    assert not owned.is_opening(first)
    owned.leave()
    assert not owned.is_opening(second)
