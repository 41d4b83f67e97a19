"""Says who holds the open round up, by what `verdicts` and `matches` hold of it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.service.cluster.reading import Said
from spotsieve.stream.service.roles.answers import word_of
from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.sharding.records.confirms import confirmed_answers
from spotsieve.stream.sharding.records.frame import (
    KIND_BROKEN,
    KIND_CONFIRMS,
    KIND_GUESS,
    KIND_MEETINGS,
    KIND_RANGE,
    KIND_TOO_LARGE,
    KIND_WALKS,
    Range,
)


class Spoken(NamedTuple):
    """What the resolver has said of the open round. spared: rows that it goes on without

    guess: under which shards walk; None: the first one, which each of them makes by itself
    """

    spared: frozenset[int] = frozenset()
    guess: NDArray[np.bool_] | None = None


def awaited(
    verdicts: Sequence[Said], matches: Mapping[int, Sequence[Said]], range_: Range, shards: int, walks: bool
) -> list[int]:
    """The shards that the open round waits for; none: it is the resolver's turn.

    matches: by partition, all that was said of the round  range_: its own; an answer to a larger one that was given up
    counts for nothing  shards: so many answer  walks: whether they confirm and walk
    """
    spoken = _spoken(verdicts, range_)
    told = {number: _of(matches.get(number, ()), range_, number, shards) for number in range(shards)}
    if any(_waits_for_a_word(heard, spoken) for answers in told.values() for heard in answers):
        return []
    met = {number: heard for number, answers in told.items() for heard in answers if heard.told.kind == KIND_MEETINGS}
    if len(met) < shards or not walks:
        return _all_but(met, shards)
    word = word_of([met[number] for number in range(shards)])
    confirmed = {number for number, answers in told.items() if any(_confirms(heard, word) for heard in answers)}
    if len(confirmed) < shards or (spoken.spared and spoken.guess is None):
        # After it has spared pages, the resolver tells all shards under which guess they walk.
        return _all_but(confirmed, shards)
    return _all_but({number for number, answers in told.items() if any(_walks(one, spoken) for one in answers)}, shards)


def _spoken(verdicts: Sequence[Said], range_: Range) -> Spoken:
    spoken = Spoken()
    for heard in [said.heard for said in verdicts if said.heard.told.range == range_]:
        if heard.told.kind == KIND_RANGE:
            spoken = Spoken()
        elif heard.told.kind == KIND_BROKEN:
            spoken = Spoken(frozenset(heard.broken().errors))
        elif heard.told.kind == KIND_GUESS:
            spoken = spoken._replace(guess=heard.guess())
    return spoken


def _of(said: Sequence[Said], range_: Range, number: int, shards: int) -> list[Heard]:
    """What this shard has said of the round, in its order."""
    return [one.heard for one in said if one.heard.told.range == range_ and one.heard.told.share == (number, shards)]


def _waits_for_a_word(heard: Heard, spoken: Spoken) -> bool:
    """Whether a shard cannot go on before the resolver spares pages or names a smaller round."""
    if heard.told.kind == KIND_BROKEN:
        return not heard.broken().errors.keys() <= spoken.spared
    return heard.told.kind == KIND_TOO_LARGE and not spoken.spared


def _confirms(heard: Heard, word: int) -> bool:
    return heard.told.kind == KIND_CONFIRMS and confirmed_answers(heard.told.body) == word


def _walks(heard: Heard, spoken: Spoken) -> bool:
    """Whether this is what a shard found under the guess that counts, and of no page that is spared."""
    if heard.told.kind != KIND_WALKS:
        return False
    walks, under = heard.walks
    is_of_spared = not spoken.spared.isdisjoint(walks.rows.tolist())
    return (spoken.guess is None or np.array_equal(under, spoken.guess)) and not is_of_spared


def _all_but(numbers: Mapping[int, Heard] | set[int], shards: int) -> list[int]:
    return [number for number in range(shards) if number not in numbers]
