"""Judges the round that is open: what the answers of the shards make of it, as far as they are there."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.observe.heartbeats import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.one_by_one import SerialExecutor
from spotsieve.stream.service.roles.answers import ShardResponses
from spotsieve.stream.service.roles.resolver.work import ResolveResult, ResolverWork
from spotsieve.stream.sharding.meetings import ShardCandidates
from spotsieve.stream.sharding.records.frame import RoundRange
from spotsieve.stream.sharding.records.range import RoundAnnouncement
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.sparing import exclude_pages


@dataclass(slots=True)
class OpenRound:
    """A round that was named. shard_candidates: of all shards, once they have answered  speculation: under which they walk

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
