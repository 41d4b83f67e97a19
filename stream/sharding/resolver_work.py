"""The work of the resolver: cuts the next round from the log, and makes the outcome of a round from all responses."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple, Protocol

from spotsieve.state.horizon import Clock, step_of
from spotsieve.state.log.record import LogRecord
from spotsieve.stream.base.errors import Result, isolate
from spotsieve.stream.base.settings.model import Settings
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
from spotsieve.stream.sharding.messages import RoundMessage, check_originals, confirmed_candidates
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.resolver import AnnouncedRecord, RoundAnnouncement, write_outcome
from spotsieve.stream.sharding.resolution import RoundOutcome, resolve
from spotsieve.stream.sharding.rounds import LogPlace, Round, has_pages, limits_in_shards, next_round
from spotsieve.stream.sharding.speculation import SpeculationCheck, check_speculation
from spotsieve.stream.sign.schemes import Scheme

GROWTH = 8
"""After a round was halved, each later round has an eighth more pages, up to cluster.round_pages."""


class LogWindow(Protocol):
    """The log records in memory. records: (offset, record), ascending"""

    records: deque[tuple[int, LogRecord]]

    def drop_before(self, offset: int) -> None:
        """Drop the records before this offset."""


class RoundPlanner:
    """Cuts the next round after all finished rounds. It keeps its start, clock and entry number."""

    def __init__(self, settings: Settings, log: LogWindow) -> None:
        self._log = log
        self._step_ms = step_of(settings.index.horizon_hours)
        self._most = self._usual = settings.cluster.round_pages
        self.place, self._clock, self._next_number = LogPlace(0, 0), Clock(), 0

    def begin(self, place: LogPlace, clock: Clock, next_number: int) -> None:
        """Continue at this place of the log. next_number: number of the next indexed entry"""
        self.place, self._clock, self._next_number = place, clock, next_number

    def go_behind(self, round_: Round, next_number: int) -> None:
        """Continue after a finished round."""
        # The cause of a large round often persists, so rounds grow again slowly.
        self._most = min(self._usual, self._most + max(1, self._most // GROWTH))
        self.begin(round_.end, round_.clock, next_number)

    def here(self) -> RoundRange:
        """An empty range at the start of the next round."""
        return RoundRange(self.place, self.place, self._next_number, self._clock.floor, self._clock.watermark_ms)

    def next(self) -> Round | None:
        """The next round from the records in memory; None if they have no pages."""
        self._log.drop_before(self.place.record)
        for offset, _ in takewhile(lambda one: not has_pages(one[1]), self._log.records):
            # Records without pages, such as pages to forget: every shard applies them by itself.
            self.place = LogPlace(offset + 1, 0)
        place = self.place
        self._log.drop_before(place.record)
        records = list(takewhile(lambda one: has_pages(one[1]), self._log.records))
        if not records:
            return None
        return next_round(records, place.page, self._clock, self._next_number, self._step_ms, self._most)

    def half(self, round_: Round) -> Round | None:
        """A round with half of the pages of this one; None if it cannot be cut."""
        pages = len(round_.signatures)
        self._most = max(1, pages // 2)
        smaller = self.next()
        return smaller if smaller is not None and len(smaller.signatures) < pages else None

    def announcement(self, round_: Round) -> RoundAnnouncement:
        """The announcement of a round, without the offsets of its responses."""
        records = list[AnnouncedRecord]()
        for offset, record in self._log.records:
            if LogPlace(offset, 0) >= round_.end:
                break
            begin = round_.start.page if offset == round_.start.record else 0
            stop = round_.end.page if offset == round_.end.record else len(record.signatures)
            records.append(AnnouncedRecord(offset, stop - begin, record.checksum))
        return RoundAnnouncement(round_.last_record, round_.clock.marks, (), tuple(records))


@dataclass(slots=True)
class OpenRound:
    """An announced round without an outcome.

    shard_candidates: candidates of all shards, once they have responded
    speculation: the present speculation
    errors: error texts of excluded poison pages, by row
    speculation_published: whether the present speculation was sent to the shards
    awaited: shards whose next response is missing
    missing_logged: missing shards that a log line has named
    speculations: number of corrected speculations
    announced_again: whether the round was announced a second time after a long wait
    since: monotonic time of the announcement
    waits_since: monotonic time at which all shards had sent their last required response
    """

    range: RoundRange
    round: Round
    announcement: RoundAnnouncement
    shard_candidates: list[ShardCandidates] | None = None
    speculation: Speculation | None = None
    errors: dict[int, str] = field(default_factory=dict)
    speculation_published: bool = False
    awaited: Sequence[int] = ()
    missing_logged: Sequence[int] = ()
    speculations: int = 0
    announced_again: bool = False
    since: float = 0.0
    waits_since: float = 0.0

    def exclude(self, errors: Mapping[int, str]) -> None:
        """Exclude poison pages, and drop all intermediate results. errors: error texts by row"""
        self.errors = {**errors, **self.errors}
        self.round = exclude_pages(self.round, errors)
        self.forget_results()

    def forget_results(self) -> None:
        """Drop all intermediate results, so that the round is resolved again."""
        self.shard_candidates, self.speculation, self.speculation_published = None, None, False


class ResolveResult(NamedTuple):
    """The outcome of a round with its encoded body, or a corrected speculation for another sequential resolution.

    poison: errors of poison pages, by row; if there are any, the other fields are not valid
    """

    resolved: RoundOutcome | None
    body: bytes
    speculation: Speculation | None
    poison: Mapping[int, Exception] = MappingProxyType({})


class ResolverWork:
    """The stateless work of a resolver. Call it from one thread."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self._scheme = scheme
        self._limits = limits_in_shards(settings, scheme)

    @property
    def by_host(self) -> bool:
        """Whether shards resolve the pages of their hosts before the resolver does."""
        return self._scheme.host_thresholds is not None

    def shard_candidates(
        self, round_: Round, responses: Sequence[RoundMessage], confirmed: Sequence[RoundMessage] | None
    ) -> list[ShardCandidates]:
        """The candidates of all shards, in shard order. confirmed: their confirmations, or None if shards send none"""
        if confirmed is None:
            candidates = [one.candidates_of(round_, False) for one in responses]
        else:
            candidates = confirmed_candidates(round_, responses, confirmed)
        return without_excluded(candidates, round_)

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

    def resolutions_under(
        self, round_: Round, resolutions_under: Mapping[int, Sequence[RoundMessage]], speculation: Speculation
    ) -> dict[int, HostResolutions]:
        """The resolutions under this speculation, by shard. resolutions_under: all resolution messages, by shard

        A resolution from before the exclusion of a page has another speculation, or contains that page.
        """
        excluded = is_excluded(round_)

        def found(messages: Sequence[RoundMessage]) -> HostResolutions | None:
            each = (one.resolutions_of(round_) for one in reversed(messages))
            fits = (
                by_host for by_host, under in each if under.equals(speculation) and not excluded[by_host.rows].any()
            )
            return next(fits, None)

        # Present resolutions are decoded while other shards still work.
        of_all = ((shard, found(messages)) for shard, messages in resolutions_under.items())
        return {shard: by_host for shard, by_host in of_all if by_host is not None}

    def merge_resolutions(
        self,
        round_: Round,
        shard_candidates: Sequence[ShardCandidates],
        by_host: Sequence[HostResolutions],
        speculation: Speculation,
    ) -> ResolveResult:
        """The outcome, or a corrected speculation if a page depends on a wrong one."""
        scheme = self._scheme
        check_originals(round_, shard_candidates, dict(enumerate(by_host)))

        def check(trial: Round) -> SpeculationCheck:
            candidates, found, used = (
                without_excluded(shard_candidates, trial),
                resolutions_without_excluded(by_host, trial),
                speculation.without(trial.excluded),
            )
            return check_speculation(trial, scheme, self._limits, candidates, found, used)

        # Isolated separately from the outcome, which is not computed after a wrong speculation: otherwise a poison page
        # of the outcome could hide behind a poison page of the check.
        checked, poison = _isolated(round_, check)
        if poison or checked.speculation is not None:
            return ResolveResult(None, b"", checked.speculation, poison)

        def resolve_without(trial: Round) -> ResolveResult:
            candidates, found = without_excluded(shard_candidates, trial), resolutions_without_excluded(by_host, trial)
            resolved = merge_resolutions(trial, scheme, candidates, found, checked.postings)
            return ResolveResult(resolved, write_outcome(resolved), None)

        return _outcome(round_, resolve_without)


def _isolated(round_: Round, work: Callable[[Round], Result]) -> tuple[Result, Mapping[int, Exception]]:
    """The result of work on a round without its poison pages, and their errors by row."""
    return isolate(lambda rows: work(exclude_pages(round_, rows)), len(round_.signatures))


def _outcome(round_: Round, work: Callable[[Round], ResolveResult]) -> ResolveResult:
    """Resolve a round, or return the errors of its poison pages."""
    outcome, poison = _isolated(round_, work)
    return outcome._replace(poison=poison)
