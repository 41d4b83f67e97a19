"""Finds where `verdicts` ends: what a resolver that takes over goes on with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock
from spotsieve.stream.errors import StateError
from spotsieve.stream.service.roles.told import MAKE_ANEW, RoundMessage, RoundReader
from spotsieve.stream.sharding.records.frame import (
    KIND_POISON_ROWS,
    KIND_SPECULATION,
    KIND_OUTCOME,
    KIND_RANGE,
    RoundRange,
)
from spotsieve.stream.sharding.records.range import RoundAnnouncement
from spotsieve.stream.sharding.resizing import ClusterSize
from spotsieve.stream.sharding.rounds import LogPlace

TAIL = 64
"""So many offsets are looked at first; a round takes four or more."""


class RoundsEnd(NamedTuple):
    """Where all rounds that are over end, and the one that is not. speculation: under which its shards walk, None: the first

    broken: the pages that it goes on without, by row, with the texts of their errors

    place, next_number: behind the last round that is over  clock: of that round, or of the open one
    cluster_size: the shards now
    answers: by shard, up to where `matches` was read when the last round was named
    last_record: checksum of the last record that ended rounds have pages of; None where a round is open, since the
    records of that one are compared
    """

    place: LogPlace
    clock: Clock
    next_number: int
    open: tuple[RoundRange, RoundAnnouncement] | None
    speculation: NDArray[np.bool_] | None
    cluster_size: ClusterSize = ClusterSize()
    answers: tuple[int, ...] = ()
    broken: Mapping[int, str] = MappingProxyType({})
    last_record: int | None = None


async def find_end(reader: RoundReader, topic: str) -> RoundsEnd:
    """Read the last rounds of `verdicts`. Raises StateError where it holds none although it has begun, KafkaError."""
    begin, end = await reader.verdicts_span()
    told, first = list[RoundMessage](), end
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
    return RoundsEnd(LogPlace(0, 0), Clock(), 0, None, None, _cluster_size_of(told))


def _end_of(told: list[RoundMessage]) -> RoundsEnd:
    at = max(number for number, one in enumerate(told) if one.told.kind == KIND_RANGE)
    range_, named, cluster_size = told[at].told.range, told[at].named(), _cluster_size_of(told[at:])
    clock, speculation, broken = Clock(range_.watermark_ms, named.marks), None, dict[int, str]()
    for one in told[at + 1 :]:
        if one.told.kind == KIND_POISON_ROWS:
            # The shards walk anew, under their first guess.
            broken, speculation = dict(one.broken().errors), None
        elif one.told.kind == KIND_SPECULATION:
            speculation = one.speculation()
        elif one.told.kind == KIND_OUTCOME:
            resolved = one.outcome()
            return RoundsEnd(
                range_.end,
                clock,
                resolved.next_number,
                None,
                None,
                cluster_size,
                named.answers,
                last_record=named.last_record,
            )
    return RoundsEnd(
        range_.start, clock, range_.first_number, (range_, named), speculation, cluster_size, named.answers, broken
    )


def _cluster_size_of(told: list[RoundMessage]) -> ClusterSize:
    """The shards behind these records, of which the first one is the last range where there is any."""
    cluster_size = ClusterSize()
    for one in told:
        cluster_size = one.cluster_size(cluster_size)
    return cluster_size
