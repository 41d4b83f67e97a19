"""Does the resolver's part of a round: the answers of all shards in, the bytes of its outcome out. It has no state."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.poison import Result, isolate
from spotsieve.stream.schemes import Scheme
from spotsieve.stream.service.roles.answers import confirmed_of
from spotsieve.stream.service.roles.told import Heard
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.sharding.hosts import Walks, first_guess
from spotsieve.stream.sharding.keys import lay_out
from spotsieve.stream.sharding.limits import limits_in_shards
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.outcome import write_outcome
from spotsieve.stream.sharding.resolving import Resolved, resolve
from spotsieve.stream.sharding.resolving_hosts import Checked, check_guess, resolve_walks
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.sparing import is_spared, left_out, left_out_of_walks, spare


class Outcome(NamedTuple):
    """What became of a round: its outcome and the body that says it, or the guess under which shards walk once more.

    broken: errors of the pages that break the code, by row; where there are any, the rest counts for nothing
    """

    resolved: Resolved | None
    body: bytes
    guess: NDArray[np.bool_] | None
    broken: Mapping[int, Exception] = MappingProxyType({})


class ResolverWork:
    """The work of a resolver. Call it from one thread."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._scheme = scheme
        self._limits = limits_in_shards(settings, scheme)

    @property
    def walks(self) -> bool:
        """Whether shards walk through a round before it is resolved."""
        return self._scheme.bars is not None

    def meetings(self, round_: Round, answers: Sequence[Heard], confirmed: Sequence[Heard] | None) -> list[Meetings]:
        """What all shards met, in their order. confirmed: what the holders of the entries say, where shards walk"""
        met = [one.meetings for one in answers] if confirmed is None else confirmed_of(answers, confirmed)
        return left_out(met, round_)

    def first_guess(self, round_: Round, meetings: Sequence[Meetings]) -> NDArray[np.bool_]:
        """The guess that every shard makes of these answers."""
        return first_guess(round_, meetings)

    def resolve(self, round_: Round, meetings: Sequence[Meetings]) -> Outcome:
        """The outcome where the scheme confirms candidates by itself."""
        return _outcome(round_, lambda trial: self._resolve(trial, left_out(meetings, trial)))

    def _resolve(self, round_: Round, meetings: Sequence[Meetings]) -> Outcome:
        laid = lay_out(round_.signatures, self._scheme)
        resolved = resolve(round_, laid, self._scheme, self._limits, meetings)
        return Outcome(resolved, write_outcome(resolved), None)

    def walked(
        self, round_: Round, walked: Mapping[int, Sequence[Heard]], guess: NDArray[np.bool_]
    ) -> dict[int, Walks]:
        """What shards found under this guess, by shard. walked: what they have said, by shard

        Who walked before a page was spared has walked under another guess, or has found something of that page.
        """
        spared = is_spared(round_)

        def found(said: Sequence[Heard]) -> Walks | None:
            each = (one.walks for one in reversed(said))
            fits = (walks for walks, under in each if np.array_equal(under, guess) and not spared[walks.rows].any())
            return next(fits, None)

        # Those that are there are decoded while the others walk.
        of_all = ((shard, found(said)) for shard, said in walked.items())
        return {shard: walks for shard, walks in of_all if walks is not None}

    def resolve_walks(
        self, round_: Round, meetings: Sequence[Meetings], walks: Sequence[Walks], guess: NDArray[np.bool_]
    ) -> Outcome:
        """The outcome, or a better guess where a page rests on a wrong one."""
        scheme = self._scheme

        def check(trial: Round) -> Checked:
            met, found, used = left_out(meetings, trial), left_out_of_walks(walks, trial), guess & ~is_spared(trial)
            return check_guess(trial, scheme, self._limits, met, found, used)

        # Apart from the outcome, which nobody comes to where a guess is wrong: else a page that breaks it would hide
        # behind one that breaks the check.
        checked, broken = _isolated(round_, check)
        if broken or checked.guess is not None:
            return Outcome(None, b"", checked.guess, broken)

        def resolve_without(trial: Round) -> Outcome:
            met, found = left_out(meetings, trial), left_out_of_walks(walks, trial)
            resolved = resolve_walks(trial, scheme, met, found, checked)
            return Outcome(resolved, write_outcome(resolved), None)

        return _outcome(round_, resolve_without)


def _isolated(round_: Round, work: Callable[[Round], Result]) -> tuple[Result, Mapping[int, Exception]]:
    """The result of work on a round without its poison pages, and the errors of these by row."""
    return isolate(lambda rows: work(spare(round_, rows)), len(round_.signatures))


def _outcome(round_: Round, work: Callable[[Round], Outcome]) -> Outcome:
    """Resolve a round, or say which of its pages break that."""
    outcome, broken = _isolated(round_, work)
    return outcome._replace(broken=broken)
