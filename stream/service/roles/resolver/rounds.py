"""Keeps where the next round begins, by what clock it is judged, and cuts it from the records at hand.

Judges the round that is open: what the answers of the shards make of it, as far as they are there.

Says what a resolver that takes over goes on with: the round that the one before has left open.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

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
from spotsieve.stream.sharding.candidates import ShardCandidates
from spotsieve.stream.sharding.isolation import exclude_pages
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.resolver import RoundAnnouncement
from spotsieve.stream.sharding.rounds import LogPlace, Round, next_round, round_between

GROWTH = 8
"""Behind a round that was named anew with half of its pages, each has an eighth more, up to cluster.round_pages."""


class RoundPlanner:
    """The end of all rounds that are over, and what comes behind it."""

    def __init__(self, settings: Settings, log: LogRecords, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics
        self._step_ms = step_of(settings.index.horizon_hours)
        self._most = self._usual = settings.cluster.round_pages
        self._place, self._clock, self._next_number = LogPlace(0, 0), Clock(), 0

    def begin(self, place: LogPlace, clock: Clock, next_number: int) -> None:
        """Go on at this place of the log. next_number: of the next page that is filed"""
        self._place, self._clock, self._next_number = place, clock, next_number
        self._metrics.log_position.set(place.record)

    def go_behind(self, round_: Round, next_number: int) -> None:
        """Go on behind a round that is over."""
        # What made a round too large is seldom gone with the next one, so they grow again little by little.
        self._most = min(self._usual, self._most + max(1, self._most // GROWTH))
        self.begin(round_.end, round_.clock, next_number)

    def here(self) -> RoundRange:
        """An empty range, where the next round begins."""
        return RoundRange(self._place, self._place, self._next_number, self._clock.floor, self._clock.watermark_ms)

    def next(self) -> Round | None:
        """The next round of what is at hand; None where the log has no pages yet."""
        self._log.drop_before(self._place.record)
        for offset, _ in takewhile(lambda one: not has_pages(one[1]), self._log.held):
            # Pages to forget, and what moves nothing: every shard comes to it by itself.
            self._place = LogPlace(offset + 1, 0)
        place = self._place
        self._metrics.log_position.set(place.record)
        self._log.drop_before(place.record)
        records = list(takewhile(lambda one: has_pages(one[1]), self._log.held))
        if not records:
            return None
        return next_round(records, place.page, self._clock, self._next_number, self._step_ms, self._most)

    def half(self, round_: Round) -> Round | None:
        """The next round, with half of the pages of this one; None where it has no place to be cut at."""
        pages = len(round_.signatures)
        self._most = max(1, pages // 2)
        smaller = self.next()
        return smaller if smaller is not None and len(smaller.signatures) < pages else None

    def named(self, round_: Round) -> RoundAnnouncement:
        """What is said of a round that comes next, but for where its answers stand."""
        records = list[tuple[int, int]]()
        for offset, record in self._log.held:
            if LogPlace(offset, 0) >= round_.end:
                break
            begin = round_.start.page if offset == round_.start.record else 0
            stop = round_.end.page if offset == round_.end.record else len(record.signatures)
            records.append((offset, stop - begin))
        return RoundAnnouncement(round_.last_record, round_.clock.marks, (), tuple(records))


@dataclass(slots=True)
class OpenRound:
    """A round that was named. shard_candidates: of all shards, once they have answered  speculation: under which they
    walk

    errors: of the pages that it spares, by row  speculation_published: the shards were told the guess that counts now
    awaited: the shards that have not said what is needed next  missing_logged: those that a log line has named
    speculations: how many better ones were found  announced_again: it was named again, since it waited for long
    since, waits_since: by the monotonic clock, when it was named, and when all shards had said what was needed last
    """

    range: RoundRange
    round: Round
    named: RoundAnnouncement
    shard_candidates: list[ShardCandidates] | None = None
    speculation: NDArray[np.bool_] | None = None
    errors: dict[int, str] = field(default_factory=dict)
    speculation_published: bool = False
    awaited: Sequence[int] = ()
    missing_logged: Sequence[int] = ()
    speculations: int = 0
    announced_again: bool = False
    since: float = field(default_factory=time.monotonic)
    waits_since: float = field(default_factory=time.monotonic)

    def go_on_without(self, errors: Mapping[int, str]) -> None:
        """Spare these pages, by row with the texts of their errors. What was made of the answers counts no longer."""
        self.errors = {**errors, **self.errors}
        self.round = exclude_pages(self.round, errors)
        self.forget_answers()

    def forget_answers(self) -> None:
        """Resolve the round anew."""
        self.shard_candidates, self.speculation, self.speculation_published = None, None, False
        self.waits_since = time.monotonic()


class RoundJudge:
    """Does the work on the open round in a thread of its own."""

    def __init__(self, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        self._work, self._metrics = work, metrics
        self._working = SerialExecutor("resolver", heartbeats)

    async def outcome(self, opened: OpenRound, answers: ShardResponses) -> ResolveResult | None:
        """What the answers make of the round; None while they are not all there."""
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
                # Shards that have kept an earlier answer of one of them may guess otherwise, so all are told.
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
        """End the thread."""
        await self._working.close()


async def open_of(
    end: RoundsEnd, range_: RoundRange, named: RoundAnnouncement, log: LogRecords, log_name: str
) -> OpenRound:
    """The open round, of the records of the log. Raises StateError where that is another log."""
    stop = range_.end.record + (range_.end.page > 0)
    await log.until(stop)
    records = [one for one in log.held if range_.start.record <= one[0] < stop]
    clock = Clock(range_.watermark_ms, named.marks)
    round_ = round_between(records, range_.start, range_.end, range_.first_number, clock)
    if round_ is None or round_.last_record != named.last_record:
        raise StateError(
            f"log {log_name}[{range_.start.record}]",
            "must be the log that rounds were made of",
            None,
            f"bring that log back; or {MAKE_ANEW}",
        )
    opened = OpenRound(range_, round_, named)
    opened.go_on_without(end.broken)
    opened.speculation = end.speculation
    return opened
