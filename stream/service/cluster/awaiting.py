"""Says who holds the open round up, by what `verdicts` and `matches` hold of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.service.cluster.reading import TimedMessage
from spotsieve.stream.service.roles.answers import combined_checksum
from spotsieve.stream.service.roles.told import RoundMessage
from spotsieve.stream.sharding.records.confirms import read_combined_checksum
from spotsieve.stream.sharding.records.frame import (
    KIND_POISON_ROWS,
    KIND_CONFIRMATIONS,
    KIND_SPECULATION,
    KIND_CANDIDATES,
    KIND_RANGE,
    KIND_TOO_LARGE,
    KIND_RESOLUTIONS,
    RoundRange,
)


class OpenRoundState(NamedTuple):
    """What the resolver has said of the open round. excluded: rows that it goes on without

    speculation: under which shards walk; None: the first one, which each of them makes by itself
    """

    excluded: frozenset[int] = frozenset()
    speculation: NDArray[np.bool_] | None = None


def awaited_shards(
    verdicts: Sequence[TimedMessage],
    matches: Mapping[int, Sequence[TimedMessage]],
    range_: RoundRange,
    shards: int,
    walks: bool,
) -> list[int]:
    """The shards that the open round waits for; none: it is the resolver's turn.

    matches: by partition, all that was said of the round  range_: its own; an answer to a larger one that was given up
    counts for nothing  shards: so many answer  walks: whether they confirm and walk
    """
    spoken = _open_round_state(verdicts, range_)
    told = {number: _of(matches.get(number, ()), range_, number, shards) for number in range(shards)}
    if any(_awaits_resolver(heard, spoken) for answers in told.values() for heard in answers):
        return []
    met = {number: heard for number, answers in told.items() for heard in answers if heard.told.kind == KIND_CANDIDATES}
    if len(met) < shards or not walks:
        return _all_but(met, shards)
    word = combined_checksum([met[number] for number in range(shards)])
    confirmed = {number for number, answers in told.items() if any(_confirms(heard, word) for heard in answers)}
    if len(confirmed) < shards or (spoken.excluded and spoken.speculation is None):
        # After it has spared pages, the resolver tells all shards under which guess they walk.
        return _all_but(confirmed, shards)
    return _all_but({number for number, answers in told.items() if any(_walks(one, spoken) for one in answers)}, shards)


def _open_round_state(verdicts: Sequence[TimedMessage], range_: RoundRange) -> OpenRoundState:
    spoken = OpenRoundState()
    for heard in [said.heard for said in verdicts if said.heard.told.range == range_]:
        if heard.told.kind == KIND_RANGE:
            spoken = OpenRoundState()
        elif heard.told.kind == KIND_POISON_ROWS:
            spoken = OpenRoundState(frozenset(heard.broken().errors))
        elif heard.told.kind == KIND_SPECULATION:
            spoken = spoken._replace(speculation=heard.speculation())
    return spoken


def _of(said: Sequence[TimedMessage], range_: RoundRange, number: int, shards: int) -> list[RoundMessage]:
    """What this shard has said of the round, in its order."""
    return [one.heard for one in said if one.heard.told.range == range_ and one.heard.told.share == (number, shards)]


def _awaits_resolver(heard: RoundMessage, spoken: OpenRoundState) -> bool:
    """Whether a shard cannot go on before the resolver spares pages or names a smaller round."""
    if heard.told.kind == KIND_POISON_ROWS:
        return not heard.broken().errors.keys() <= spoken.excluded
    return heard.told.kind == KIND_TOO_LARGE and not spoken.excluded


def _confirms(heard: RoundMessage, word: int) -> bool:
    return heard.told.kind == KIND_CONFIRMATIONS and read_combined_checksum(heard.told.body) == word


def _walks(heard: RoundMessage, spoken: OpenRoundState) -> bool:
    """Whether this is what a shard found under the guess that counts, and of no page that is spared."""
    if heard.told.kind != KIND_RESOLUTIONS:
        return False
    walks, under = heard.walks
    is_of_spared = not spoken.excluded.isdisjoint(walks.rows.tolist())
    return (spoken.speculation is None or np.array_equal(under, spoken.speculation)) and not is_of_spared


def _all_but(numbers: Mapping[int, RoundMessage] | set[int], shards: int) -> list[int]:
    return [number for number in range(shards) if number not in numbers]
