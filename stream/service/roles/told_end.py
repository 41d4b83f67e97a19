"""Finds where `verdicts` ends: what a resolver that takes over goes on with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock
from spotsieve.stream.errors import StateError
from spotsieve.stream.service.roles.told import MAKE_ANEW, Heard, RoundReader
from spotsieve.stream.sharding.records.frame import (
    KIND_BROKEN,
    KIND_GUESS,
    KIND_OUTCOME,
    KIND_RANGE,
    Range,
)
from spotsieve.stream.sharding.records.range import Named
from spotsieve.stream.sharding.resizing import Sizing
from spotsieve.stream.sharding.rounds import Place

TAIL = 64
"""So many offsets are looked at first; a round takes four or more."""


class ToldEnd(NamedTuple):
    """Where all rounds that are over end, and the one that is not. guess: under which its shards walk, None: the first

    broken: the pages that it goes on without, by row, with the texts of their errors

    place, next_number: behind the last round that is over  clock: of that round, or of the open one
    sizing: the shards now
    answers: by shard, up to where `matches` was read when the last round was named
    last_record: checksum of the last record that ended rounds have pages of; None where a round is open, since the
    records of that one are compared
    """

    place: Place
    clock: Clock
    next_number: int
    open: tuple[Range, Named] | None
    guess: NDArray[np.bool_] | None
    sizing: Sizing = Sizing()
    answers: tuple[int, ...] = ()
    broken: Mapping[int, str] = MappingProxyType({})
    last_record: int | None = None


async def find_end(reader: RoundReader, topic: str) -> ToldEnd:
    """Read the last rounds of `verdicts`. Raises StateError where it holds none although it has begun, KafkaError."""
    begin, end = await reader.verdicts_span()
    told, first = list[Heard](), end
    while first > begin:
        first = max(begin, end - max(TAIL, 2 * (end - first)))
        reader.seek_verdicts(first)
        told = []
        while await reader.verdicts_position() < end:
            told += [one for one in await reader.fetch() if one.topic == topic]
        if any(one.told.kind == KIND_RANGE for one in told):
            return _end_of(told)
    if begin:
        raise StateError(
            f"topics.verdicts {topic!r}", "must hold the last round, and its retention has removed it", None, MAKE_ANEW
        )
    return ToldEnd(Place(0, 0), Clock(), 0, None, None, _sizing_of(told))


def _end_of(told: list[Heard]) -> ToldEnd:
    at = max(number for number, one in enumerate(told) if one.told.kind == KIND_RANGE)
    range_, named, sizing = told[at].told.range, told[at].named(), _sizing_of(told[at:])
    clock, guess, broken = Clock(range_.watermark_ms, named.marks), None, dict[int, str]()
    for one in told[at + 1 :]:
        if one.told.kind == KIND_BROKEN:
            # The shards walk anew, under their first guess.
            broken, guess = dict(one.broken().errors), None
        elif one.told.kind == KIND_GUESS:
            guess = one.guess()
        elif one.told.kind == KIND_OUTCOME:
            resolved = one.outcome()
            return ToldEnd(
                range_.end,
                clock,
                resolved.next_number,
                None,
                None,
                sizing,
                named.answers,
                last_record=named.last_record,
            )
    return ToldEnd(range_.start, clock, range_.first_number, (range_, named), guess, sizing, named.answers, broken)


def _sizing_of(told: list[Heard]) -> Sizing:
    """The shards behind these records, of which the first one is the last range where there is any."""
    sizing = Sizing()
    for one in told:
        sizing = one.sizing(sizing)
    return sizing
