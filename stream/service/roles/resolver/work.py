"""The work of the resolver on a round: takes the responses of all shards, and returns the bytes of the outcome."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from spotsieve.stream.base.errors import Result, isolate
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.service.roles.responses import confirmed_candidates
from spotsieve.stream.service.roles.round_messages import RoundMessage
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.hosts import (
    HostResolutions,
    first_speculation,
    merge_resolutions,
)
from spotsieve.stream.sharding.isolation import (
    exclude_pages,
    is_excluded,
    resolutions_without_excluded,
    without_excluded,
)
from spotsieve.stream.sharding.keys import lay_out_keys
from spotsieve.stream.sharding.records.resolver import write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome, resolve
from spotsieve.stream.sharding.rounds import Round, limits_in_shards
from spotsieve.stream.sharding.speculation import SpeculationCheck, check_speculation
from spotsieve.stream.sign.schemes import Scheme


class ResolveResult(NamedTuple):
    """The outcome of a round with its encoded body, or a corrected speculation for another sequential resolution.

    broken: errors of poison pages, by row; if there are any, the other fields are not valid
    """

    resolved: RoundOutcome | None
    body: bytes
    speculation: Speculation | None
    broken: Mapping[int, Exception] = MappingProxyType({})


class ResolverWork:
    """The stateless work of a resolver. Call it from one thread."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._scheme = scheme
        self._limits = limits_in_shards(settings, scheme)

    @property
    def walks(self) -> bool:
        """Whether shards resolve the pages of their hosts before the resolver does."""
        return self._scheme.bars is not None

    def shard_candidates(
        self, round_: Round, answers: Sequence[RoundMessage], confirmed: Sequence[RoundMessage] | None
    ) -> list[ShardCandidates]:
        """The candidates of all shards, in shard order. confirmed: their confirmations, or None if shards send none"""
        met = (
            [one.shard_candidates for one in answers] if confirmed is None else confirmed_candidates(answers, confirmed)
        )
        return without_excluded(met, round_)

    def first_speculation(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> Speculation:
        """The speculation that every shard derives from these candidates."""
        return first_speculation(round_, shard_candidates)

    def resolve(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> ResolveResult:
        """The outcome for a scheme without host memory."""
        return _outcome(round_, lambda trial: self._resolve(trial, without_excluded(shard_candidates, trial)))

    def _resolve(self, round_: Round, shard_candidates: Sequence[ShardCandidates]) -> ResolveResult:
        laid = lay_out_keys(round_.signatures, self._scheme)
        resolved = resolve(round_, laid, self._scheme, self._limits, shard_candidates)
        return ResolveResult(resolved, write_outcome(resolved), None)

    def resolution(
        self, round_: Round, resolution: Mapping[int, Sequence[RoundMessage]], speculation: Speculation
    ) -> dict[int, HostResolutions]:
        """The resolutions under this speculation, by shard. resolution: all resolution messages, by shard

        A resolution from before the exclusion of a page has another speculation, or contains that page.
        """
        excluded = is_excluded(round_)

        def found(said: Sequence[RoundMessage]) -> HostResolutions | None:
            each = (one.walks for one in reversed(said))
            fits = (walks for walks, under in each if under.equals(speculation) and not excluded[walks.rows].any())
            return next(fits, None)

        # Present resolutions are decoded while other shards still work.
        of_all = ((shard, found(said)) for shard, said in resolution.items())
        return {shard: walks for shard, walks in of_all if walks is not None}

    def resolve_walks(
        self,
        round_: Round,
        shard_candidates: Sequence[ShardCandidates],
        walks: Sequence[HostResolutions],
        speculation: Speculation,
    ) -> ResolveResult:
        """The outcome, or a corrected speculation if a page depends on a wrong one."""
        scheme = self._scheme

        def check(trial: Round) -> SpeculationCheck:
            met, found, used = (
                without_excluded(shard_candidates, trial),
                resolutions_without_excluded(walks, trial),
                speculation.without(trial.excluded),
            )
            return check_speculation(trial, scheme, self._limits, met, found, used)

        # Isolated separately from the outcome, which is not computed after a wrong speculation: otherwise a poison page
        # of the outcome could hide behind a poison page of the check.
        checked, broken = _isolated(round_, check)
        if broken or checked.speculation is not None:
            return ResolveResult(None, b"", checked.speculation, broken)

        def resolve_without(trial: Round) -> ResolveResult:
            met, found = without_excluded(shard_candidates, trial), resolutions_without_excluded(walks, trial)
            resolved = merge_resolutions(trial, scheme, met, found, checked.postings)
            return ResolveResult(resolved, write_outcome(resolved), None)

        return _outcome(round_, resolve_without)


def _isolated(round_: Round, work: Callable[[Round], Result]) -> tuple[Result, Mapping[int, Exception]]:
    """The result of work on a round without its poison pages, and their errors by row."""
    return isolate(lambda rows: work(exclude_pages(round_, rows)), len(round_.signatures))


def _outcome(round_: Round, work: Callable[[Round], ResolveResult]) -> ResolveResult:
    """Resolve a round, or return the errors of its poison pages."""
    outcome, broken = _isolated(round_, work)
    return outcome._replace(broken=broken)
