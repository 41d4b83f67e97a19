"""Rounds of the resolver: cuts the next one from the log, resolves the open one, and restores it after a takeover."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from spotsieve.state.horizon import Clock, step_of
from spotsieve.stream.base.errors import StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.log_records import LogRecords, has_pages
from spotsieve.stream.service.roles.resolver.work import ResolveResult, ResolverWork
from spotsieve.stream.service.roles.responses import ShardResponses
from spotsieve.stream.service.roles.round_messages import MAKE_ANEW, RoundsEnd
from spotsieve.stream.service.serial_executor import SerialExecutor
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.resolver import AnnouncedRecord, RoundAnnouncement
from spotsieve.stream.sharding.rounds import LogPlace, Round, next_round, round_between

GROWTH = 8
"""After a round was halved, each later round has an eighth more pages, up to cluster.round_pages."""


class RoundPlanner:
    """Cuts the next round after all finished rounds. It keeps its start, clock and entry number."""

    def __init__(self, settings: Settings, log: LogRecords, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._step_ms = step_of(settings.index.horizon_hours)
        self._most = self._usual = settings.cluster.round_pages
        self._place, self._clock, self._next_number = LogPlace(0, 0), Clock(), 0

    def begin(self, place: LogPlace, clock: Clock, next_number: int) -> None:
        """Continue at this place of the log. next_number: number of the next indexed entry"""
        self._place, self._clock, self._next_number = place, clock, next_number
        self._metrics.log_position.set(place.record)

    def go_behind(self, round_: Round, next_number: int) -> None:
        """Continue after a finished round."""
        # The cause of a large round often persists, so rounds grow again slowly.
        self._most = min(self._usual, self._most + max(1, self._most // GROWTH))
        self.begin(round_.end, round_.clock, next_number)

    def here(self) -> RoundRange:
        """An empty range at the start of the next round."""
        return RoundRange(self._place, self._place, self._next_number, self._clock.floor, self._clock.watermark_ms)

    def next(self) -> Round | None:
        """The next round from the records in memory; None if they have no pages."""
        self._log.drop_before(self._place.record)
        for offset, _ in takewhile(lambda one: not has_pages(one[1]), self._log.held):
            # Records without pages, such as pages to forget: every shard applies them by itself.
            self._place = LogPlace(offset + 1, 0)
        place = self._place
        self._metrics.log_position.set(place.record)
        self._log.drop_before(place.record)
        records = list(takewhile(lambda one: has_pages(one[1]), self._log.held))
        if not records:
            return None
        return next_round(records, place.page, self._clock, self._next_number, self._step_ms, self._most)

    def half(self, round_: Round) -> Round | None:
        """A round with half of the pages of this one; None if it cannot be cut."""
        pages = len(round_.signatures)
        self._most = max(1, pages // 2)
        smaller = self.next()
        return smaller if smaller is not None and len(smaller.signatures) < pages else None

    def named(self, round_: Round) -> RoundAnnouncement:
        """The announcement of a round, without the offsets of its responses."""
        records = list[AnnouncedRecord]()
        for offset, record in self._log.held:
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
    named: RoundAnnouncement
    shard_candidates: list[ShardCandidates] | None = None
    speculation: Speculation | None = None
    errors: dict[int, str] = field(default_factory=dict)
    speculation_published: bool = False
    awaited: Sequence[int] = ()
    missing_logged: Sequence[int] = ()
    speculations: int = 0
    announced_again: bool = False
    since: float = field(default_factory=time.monotonic)
    waits_since: float = field(default_factory=time.monotonic)

    def go_on_without(self, errors: Mapping[int, str]) -> None:
        """Exclude poison pages, and drop all intermediate results. errors: error texts by row"""
        self.errors = {**errors, **self.errors}
        self.round = exclude_pages(self.round, errors)
        self.forget_answers()

    def forget_answers(self) -> None:
        """Drop all intermediate results, so that the round is resolved again."""
        self.shard_candidates, self.speculation, self.speculation_published = None, None, False
        self.waits_since = time.monotonic()


class RoundJudge:
    """Resolves the open round in a separate thread."""

    def __init__(self, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        self._work, self._metrics = work, metrics
        self._working = SerialExecutor("resolver", heartbeats)

    async def outcome(self, opened: OpenRound, answers: ShardResponses) -> ResolveResult | None:
        """The result of the round; None while responses are missing."""
        if opened.shard_candidates is None:
            opened.awaited = answers.missing(opened.range, self._work.walks)
            met = answers.met(opened.range)
            if opened.awaited or met is None:
                return None
            confirmed = answers.confirmed(opened.range) if self._work.walks else None
            opened.shard_candidates = await self._working.do(self._work.shard_candidates, opened.round, met, confirmed)
            opened.waits_since = time.monotonic()
        if not self._work.walks:
            with self._metrics.timed("resolve"):
                return await self._working.do(self._work.resolve, opened.round, opened.shard_candidates)
        if opened.speculation is None:
            opened.speculation = await self._working.do(
                self._work.first_speculation, opened.round, opened.shard_candidates
            )
            if opened.errors and not opened.speculation_published:
                # Shards with an earlier response in memory may speculate otherwise, so the speculation is sent to all.
                opened.speculation_published = True
                return ResolveResult(None, b"", opened.speculation)
        said = answers.resolution(opened.range)
        resolution = await self._working.do(self._work.resolution, opened.round, said, opened.speculation)
        shards = range(len(opened.shard_candidates))
        opened.awaited = [shard for shard in shards if shard not in resolution]
        if opened.awaited:
            return None
        opened.waits_since = time.monotonic()
        walks = [resolution[shard] for shard in shards]
        with self._metrics.timed("resolve"):
            return await self._working.do(
                self._work.resolve_walks, opened.round, opened.shard_candidates, walks, opened.speculation
            )

    async def close(self) -> None:
        """Stop the thread."""
        await self._working.close()


async def open_of(
    end: RoundsEnd, range_: RoundRange, named: RoundAnnouncement, log: LogRecords, log_name: str
) -> OpenRound:
    """Restore the open round from the log. Raises StateError if the log is another one."""
    stop = range_.end.record + (range_.end.page > 0)
    await log.until(stop)
    records = [one for one in log.held if range_.start.record <= one[0] < stop]
    clock = Clock(range_.watermark_ms, named.marks)
    round_ = round_between(records, range_.start, range_.end, range_.first_number, clock)
    if round_ is None or round_.last_record != named.last_record:
        raise StateError(
            f"log {log_name}[{range_.start.record}]",
            "differs from the log of which rounds were made",
            None,
            f"restore that log; or {MAKE_ANEW}",
        )
    opened = OpenRound(range_, round_, named)
    opened.go_on_without(end.broken)
    opened.speculation = end.speculation
    return opened
