"""Judges the round that is open: what the answers of the shards make of it, as far as they are there."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.observe.heartbeats import Heartbeats
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.one_by_one import OneByOne
from spotsieve.stream.service.roles.answers import Answers
from spotsieve.stream.service.roles.resolver.work import Outcome, ResolverWork
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.frame import Range
from spotsieve.stream.sharding.records.range import Named
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sharding.sparing import spare


@dataclass(slots=True)
class OpenRound:
    """A round that was named. meetings: of all shards, once they have answered  guess: under which they walk

    errors: of the pages that it spares, by row  guess_told: the shards were told the guess that counts now
    awaited: the shards that have not said what is needed next  told_missing: those that a log line has named
    guesses: how many better ones were found  asked_anew: it was named again, since it waited for long
    since, waits_since: by the monotonic clock, when it was named, and when all shards had said what was needed last
    """

    range: Range
    round: Round
    named: Named
    meetings: list[Meetings] | None = None
    guess: NDArray[np.bool_] | None = None
    errors: dict[int, str] = field(default_factory=dict)
    guess_told: bool = False
    awaited: Sequence[int] = ()
    told_missing: Sequence[int] = ()
    guesses: int = 0
    asked_anew: bool = False
    since: float = field(default_factory=time.monotonic)
    waits_since: float = field(default_factory=time.monotonic)

    def go_on_without(self, errors: Mapping[int, str]) -> None:
        """Spare these pages, by row with the texts of their errors. What was made of the answers counts no longer."""
        self.errors = {**errors, **self.errors}
        self.round = spare(self.round, errors)
        self.forget_answers()

    def forget_answers(self) -> None:
        """Resolve the round anew."""
        self.meetings, self.guess, self.guess_told = None, None, False
        self.waits_since = time.monotonic()


class Judging:
    """Does the work on the open round in a thread of its own."""

    def __init__(self, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        self._work, self._metrics = work, metrics
        self._working = OneByOne("resolver", heartbeats)

    async def outcome(self, opened: OpenRound, answers: Answers) -> Outcome | None:
        """What the answers make of the round; None while they are not all there."""
        if opened.meetings is None:
            opened.awaited = answers.missing(opened.range, self._work.walks)
            met = answers.met(opened.range)
            if opened.awaited or met is None:
                return None
            confirmed = answers.confirmed(opened.range) if self._work.walks else None
            opened.meetings = await self._working.do(self._work.meetings, opened.round, met, confirmed)
            opened.waits_since = time.monotonic()
        if not self._work.walks:
            with self._metrics.timed("resolve"):
                return await self._working.do(self._work.resolve, opened.round, opened.meetings)
        if opened.guess is None:
            opened.guess = await self._working.do(self._work.first_guess, opened.round, opened.meetings)
            if opened.errors and not opened.guess_told:
                # Shards that have kept an earlier answer of one of them may guess otherwise, so all are told.
                opened.guess_told = True
                return Outcome(None, b"", opened.guess)
        said = answers.walked(opened.range)
        walked = await self._working.do(self._work.walked, opened.round, said, opened.guess)
        shards = range(len(opened.meetings))
        opened.awaited = [shard for shard in shards if shard not in walked]
        if opened.awaited:
            return None
        opened.waits_since = time.monotonic()
        walks = [walked[shard] for shard in shards]
        with self._metrics.timed("resolve"):
            return await self._working.do(self._work.resolve_walks, opened.round, opened.meetings, walks, opened.guess)

    async def close(self) -> None:
        """End the thread."""
        await self._working.close()
