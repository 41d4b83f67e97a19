"""Does the resolver's part of a round: the answers of all shards in, the bytes of its outcome out. It has no state."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.schemes import Scheme
from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.sharding.hosts import Walks, first_guess
from spotsieve.stream.sharding.limits import limits_in_shards
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.outcome import write_outcome
from spotsieve.stream.sharding.resolving import Resolved, resolve
from spotsieve.stream.sharding.resolving_hosts import check_guess, resolve_walks
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.shares import NO_SHARD, lay_out


class Outcome(NamedTuple):
    """What became of a round: its outcome and the body that says it, or the guess under which shards walk once more."""

    resolved: Resolved | None
    body: bytes
    guess: NDArray[np.bool_] | None


class ResolverWork:
    """The work of a resolver. Call it from one thread."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._scheme = scheme
        self._limits = limits_in_shards(settings, scheme)

    @property
    def walks(self) -> bool:
        """Whether shards walk through a round before it is resolved."""
        return self._scheme.bars is not None

    def meetings(self, answers: Sequence[Heard]) -> list[Meetings]:
        """What all shards met, of their answers in their order."""
        return [one.meetings() for one in answers]

    def first_guess(self, round_: Round, meetings: Sequence[Meetings]) -> NDArray[np.bool_]:
        """The guess that every shard makes of these answers."""
        return first_guess(round_, meetings)

    def resolve(self, round_: Round, meetings: Sequence[Meetings]) -> Outcome:
        """The outcome where the scheme confirms candidates by itself."""
        laid = lay_out(round_.signatures, self._scheme, len(meetings), NO_SHARD)
        resolved = resolve(round_, laid, self._scheme, self._limits, meetings)
        return Outcome(resolved, write_outcome(resolved), None)

    def walked(
        self, walked: Mapping[int, Sequence[Heard]], guess: NDArray[np.bool_], shards: int
    ) -> list[Walks] | None:
        """What all shards found under this guess; None while one of them has not said it. walked: by shard"""
        found = list[Walks]()
        for shard in range(shards):
            said = (one.walks() for one in reversed(walked.get(shard, ())))
            walks = next((walks for walks, under in said if np.array_equal(under, guess)), None)
            if walks is None:
                return None
            found.append(walks)
        return found

    def resolve_walks(
        self, round_: Round, meetings: Sequence[Meetings], walks: Sequence[Walks], guess: NDArray[np.bool_]
    ) -> Outcome:
        """The outcome, or a better guess where a page rests on a wrong one."""
        checked = check_guess(round_, self._scheme, self._limits, meetings, walks, guess)
        if checked.guess is not None:
            return Outcome(None, b"", checked.guess)
        resolved = resolve_walks(round_, self._scheme, meetings, walks, checked)
        return Outcome(resolved, write_outcome(resolved), None)
