"""Runs a resolver: it cuts the log into rounds, waits for the answers of all shards, and publishes the outcomes."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import takewhile
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.horizon import Clock, step_of
from spotsieve.stream.errors import BrokerTrouble, StateError
from spotsieve.stream.kafka.topic.topic_checks import LOG_RECORD_BYTES
from spotsieve.stream.observe.heartbeats import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.schemes.registry import scheme_in_scope
from spotsieve.stream.service.roles.answers import Answers
from spotsieve.stream.service.roles.log_records import LogRecords, has_pages
from spotsieve.stream.service.roles.publishing import Publisher
from spotsieve.stream.service.roles.resizing import Resizing
from spotsieve.stream.service.roles.resolver_work import Outcome, ResolverWork
from spotsieve.stream.service.roles.role import Role
from spotsieve.stream.service.roles.standing import Standing
from spotsieve.stream.service.roles.told import RoundReader
from spotsieve.stream.service.roles.told_end import ToldEnd, find_end
from spotsieve.stream.service.roles.warming import compile_rounds
from spotsieve.stream.service.run import Opened
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.verdicts import settings_digest, verdict_settings_text
from spotsieve.stream.sharding.limits import limits_in_shards
from spotsieve.stream.sharding.meetings import Meetings
from spotsieve.stream.sharding.records.frame import (
    KIND_GUESS,
    KIND_OUTCOME,
    KIND_RANGE,
    KIND_RESIZE,
    Range,
    encode_told,
    range_of,
)
from spotsieve.stream.sharding.records.range import Named, write_guess, write_named
from spotsieve.stream.sharding.records.resize import write_resize
from spotsieve.stream.sharding.resizing import Resize, Sizing
from spotsieve.stream.sharding.rounds import Place, Round, next_round, told_round
from spotsieve.stream.sharding.shares import Share

AHEAD_SECONDS = 0.01
"""Between two looks whether pages of the log have room again."""
MISSING_SECONDS = 10.0
"""After so long without the answer of a shard a line says which shards are waited for."""
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Open:
    """A round that was named. meetings: of all shards, once they have answered  guess: under which they walk"""

    range: Range
    round: Round
    since: float
    meetings: list[Meetings] | None = None
    guess: NDArray[np.bool_] | None = None
    told_missing: bool = False


def open_resolver(settings: Settings) -> Opened:
    """A resolver, which holds nothing. Raises SpotsieveError."""
    scheme = scheme_in_scope(settings)
    compile_rounds(scheme, limits_in_shards(settings, scheme))
    work = ResolverWork(settings, scheme)

    def begin(_: object, metrics: Metrics, heartbeats: Heartbeats) -> Resolver:
        resolver = Resolver(settings, work, metrics, heartbeats)
        metrics.role.labels("resolver", "").set_function(lambda: float(resolver.works()))
        return resolver

    return Opened(None, begin)


class Resolver(Role):
    """One resolver, active or standing by, with one set of Kafka clients.

    What it knows is the end of `verdicts`. Where a write fails or its outcome is unknown, a new one begins there.
    """

    def __init__(self, settings: Settings, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        super().__init__(settings, metrics)
        self._work = work
        self._heartbeats = heartbeats
        self._digest = settings_digest(verdict_settings_text(settings))
        self._step_ms = step_of(settings.index.horizon_hours)
        self._standing = Standing(settings)
        self._log = LogRecords(settings, metrics, self._waits)
        self._rounds = RoundReader(settings, self._waits)
        self._resizing = Resizing(Sizing())
        self._answers = Answers(0)
        self._hearing: asyncio.Task[None] | None = None
        self._publisher = Publisher(settings)
        self._working = ThreadPoolExecutor(1, thread_name_prefix="resolver")
        self._place, self._clock, self._next_number = Place(0, 0), Clock(), 0
        self._open: _Open | None = None
        self._most = settings.cluster.round_pages
        self._arrived = asyncio.Event()

    async def _start(self) -> None:
        self.step = "standing by: another resolver works"
        await self._standing.join()
        holding = asyncio.create_task(self._standing.hold())
        choosing = asyncio.create_task(self._standing.chosen.wait())
        try:
            done, _ = await asyncio.wait([holding, choosing], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            holding.cancel()
            choosing.cancel()
            await asyncio.gather(holding, choosing, return_exceptions=True)
        self.step = "taking over"
        logger().info("this resolver works from now on")
        await self._take_over()

    async def _take_over(self) -> None:
        """Fence the resolver before, and go on where `verdicts` ends."""
        settings = self._settings
        # This ends its open transaction; only then `verdicts` has an end that lasts.
        await self._publisher.start()
        await self._rounds.start()
        end = await find_end(self._rounds, settings.topics.verdicts)
        sizing = end.sizing if end.sizing.shards else end.sizing._replace(shards=settings.cluster.shards)
        await self._rounds.read_matches_of(sizing.most)
        spans = await self._rounds.matches_spans()
        self._begin_with(sizing, [last for _, last in spans])
        # What was asked for since the last round was named is heard again. Newer partitions begin at their end.
        answers = [*end.answers, *(last for _, last in spans[len(end.answers) :])]
        self._place, self._clock, self._next_number = end.place, end.clock, end.next_number
        self._metrics.log_position.set(end.place.record)
        await self._log.start(end.place.record, end.place.page)
        if end.open is None:
            self._rounds.seek_matches([max(at, first) for at, (first, _) in zip(answers, spans, strict=False)])
            return
        range_, named = end.open
        if any(at < first for at, (first, _) in zip(answers, spans, strict=False)):
            # Their first answers are gone: named once more, the round is answered anew.
            self._rounds.seek_matches([last for _, last in spans])
            await self._publisher.publish(*await self._range_records(range_, named))
            end = end._replace(guess=None)
        else:
            self._rounds.seek_matches(answers)
        self._open = await self._told(range_, named, end)

    def _begin_with(self, sizing: Sizing, ends: Sequence[int]) -> None:
        """Wait for the answers of these shards. ends: of the partitions of `matches`, now"""
        self._resizing, self._answers = Resizing(sizing, ends), Answers(sizing.shards)
        if sizing.shards != self._settings.cluster.shards:
            logger().warning(
                "cluster.shards is not what verdicts says, which counts; set it, or ask for another number "
                "(spotsieve cluster resize)",
                setting=self._settings.cluster.shards,
                shards=sizing.shards,
            )

    async def _told(self, range_: Range, named: Named, end: ToldEnd) -> _Open:
        """The open round of the resolver before."""
        stop = range_.end.record + (range_.end.page > 0)
        await self._log.until(stop)
        records = [one for one in self._log.held if range_.start.record <= one[0] < stop]
        clock = Clock(range_.watermark_ms, named.marks)
        round_ = told_round(records, range_.start, range_.end, range_.first_number, clock)
        if round_ is None or round_.last_record != named.last_record:
            raise StateError(
                f"log {self._settings.topics.log}[{range_.start.record}]",
                "must be the log that rounds were made of",
                None,
                "bring that log back; or make matches, verdicts and the states of the shards anew",
            )
        return _Open(range_, round_, time.monotonic(), guess=end.guess)

    async def _work_on(self) -> None:
        watching = [
            asyncio.create_task(task)
            for task in (self._standing.hold(), self._read_log(), self._be_replaced(), self._resolve_on())
        ]
        try:
            done, _ = await asyncio.wait(watching, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _be_replaced(self) -> None:
        await self._standing.replaced.wait()
        raise BrokerTrouble("resolver", "was replaced by another one: it stands by from now on")

    async def _read_log(self) -> None:
        """Keep the next pages at hand, and no more than two rounds of them."""
        while True:
            if self._log.pages() < 2 * self._settings.cluster.round_pages:
                await self._log.read()
                if self._log.held:
                    self._arrived.set()
            else:
                await asyncio.sleep(AHEAD_SECONDS)

    async def _resolve_on(self) -> None:
        while True:
            if self._open is None:
                await self._publisher.publish(*await self._answer_asks())
                if self._resizing.due(time.monotonic()):
                    await self._publisher.publish(self._switch())
                named = self._next()
                if named is None:
                    self._arrived.clear()
                    await self._rest()
                    continue
                await self._publisher.publish(*await self._name(named))
            await self._listen()

    async def _rest(self) -> None:
        """Wait until there are pages, or somebody has said something."""
        hearing = self._hearing = self._hearing or asyncio.create_task(self._hear())
        arriving = asyncio.create_task(self._arrived.wait())
        try:
            await asyncio.wait([hearing, arriving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            arriving.cancel()
        if hearing.done():
            self._hearing = None
            hearing.result()

    async def _hear(self) -> None:
        """Take in what shards have said since the last call, and who asks for others."""
        for heard in await self._rounds.fetch():
            if heard.topic == self._settings.topics.matches:
                self._answers.add(heard)
                self._resizing.hear(heard, time.monotonic())

    async def _answer_asks(self) -> list[bytes]:
        """What becomes of asks for other shards, as records. Who is to take over is listened to from now on."""
        said = [self._resize_record(one) for one in self._resizing.answers()]
        if said:
            await self._rounds.read_matches_of(self._resizing.sizing.most)
        return said

    def _switch(self) -> bytes:
        """Let the new shards answer from the next round on; -> the record that says so. No round is open."""
        said = self._resizing.switch()
        self._answers = Answers(said.shards)
        return self._resize_record(said)

    def _resize_record(self, said: Resize) -> bytes:
        here = Range(self._place, self._place, self._next_number, self._clock.floor, self._clock.watermark_ms)
        return self._told_record(KIND_RESIZE, here, write_resize(said))

    def _next(self) -> Round | None:
        """The next round of what is at hand; None where the log has no pages yet."""
        place = self._place
        self._log.drop_before(place.record)
        while self._log.held and not has_pages(self._log.held[0][1]):
            # Pages to forget, and what moves nothing: every shard comes to it by itself.
            place = self._place = Place(self._log.held[0][0] + 1, 0)
            self._metrics.log_position.set(place.record)
            self._log.held.popleft()
        records = list(takewhile(lambda one: has_pages(one[1]), self._log.held))
        if not records:
            return None
        return next_round(records, place.page, self._clock, self._next_number, self._step_ms, self._most)

    async def _name(self, round_: Round) -> list[bytes]:
        """Take a round as the open one, and the records that name it."""
        records = list[tuple[int, int]]()
        for offset, record in self._log.held:
            if Place(offset, 0) >= round_.end:
                break
            begin = round_.start.page if offset == round_.start.record else 0
            stop = round_.end.page if offset == round_.end.record else len(record.signatures)
            records.append((offset, stop - begin))
        named = Named(round_.last_record, round_.clock.marks, (), tuple(records))
        self._open = _Open(range_of(round_), round_, time.monotonic())
        self._answers.forget_before(self._open.range)
        return await self._range_records(self._open.range, named)

    async def _range_records(self, range_: Range, named: Named) -> list[bytes]:
        """The record that names a round whose answers stand behind what was read of `matches` by now.

        A resize that is under way is told behind it: who looks at the end of `verdicts` alone must come to know of it.
        """
        named = named._replace(answers=await self._rounds.matches_positions())
        # Asks that were read up to these positions are answered here, or the next resolver would not hear of them.
        resizes = await self._answer_asks()
        pending = self._resizing.sizing.pending()
        if pending is not None:
            resizes.append(self._resize_record(pending))
        return [self._told_record(KIND_RANGE, range_, write_named(named)), *resizes]

    async def _listen(self) -> None:
        """Take in answers until the open round is over."""
        while (opened := self._open) is not None:
            hearing, self._hearing = self._hearing, None
            await (hearing or self._hear())
            await self._publisher.publish(*await self._answer_asks())
            if self._answers.too_large(opened.range):
                await self._halve(opened, "the answer of a shard")
                continue
            self._tell_missing(opened)
            outcome = await self._outcome(opened)
            if outcome is None:
                continue
            if outcome.guess is not None:
                opened.guess = outcome.guess
                await self._publisher.publish(self._told_record(KIND_GUESS, opened.range, write_guess(outcome.guess)))
                self._metrics.round_guesses.inc()
            elif outcome.resolved is not None:
                await self._end(opened, outcome.resolved.next_number, outcome.body)

    async def _outcome(self, opened: _Open) -> Outcome | None:
        """What the answers make of the round; None while they are not all there."""
        if opened.meetings is None:
            answers = self._answers.met(opened.range)
            if answers is None:
                return None
            opened.meetings = await self._done(self._work.meetings, answers)
        if not self._work.walks:
            with self._metrics.timed("resolve"):
                return await self._done(self._work.resolve, opened.round, opened.meetings)
        if opened.guess is None:
            opened.guess = await self._done(self._work.first_guess, opened.round, opened.meetings)
        said = self._answers.walked(opened.range)
        walks = await self._done(self._work.walked, said, opened.guess, len(opened.meetings))
        if walks is None:
            return None
        with self._metrics.timed("resolve"):
            return await self._done(self._work.resolve_walks, opened.round, opened.meetings, walks, opened.guess)

    async def _end(self, opened: _Open, next_number: int, body: bytes) -> None:
        """Publish the outcome, and with it the next round where its pages are at hand."""
        record = self._told_record(KIND_OUTCOME, opened.range, body)
        if len(record) > LOG_RECORD_BYTES:
            await self._halve(opened, "the outcome")
            return
        self._open, self._place = None, opened.range.end
        self._clock, self._next_number = opened.round.clock, next_number
        self._most = self._settings.cluster.round_pages
        records = [record, self._switch()] if self._resizing.due(time.monotonic()) else [record]
        following = self._next()
        if following is not None:
            records += await self._name(following)
        await self._publisher.publish(*records)
        self._metrics.rounds.inc()
        self._metrics.round_pages.observe(len(opened.round.signatures))
        self._metrics.round_seconds.observe(time.monotonic() - opened.since)
        self._metrics.log_position.set(self._place.record)

    async def _halve(self, opened: _Open, what: str) -> None:
        """Name a round of half as many pages: what was to be said of this one exceeds a message."""
        pages = len(opened.round.signatures)
        self._most = max(1, pages // 2)
        smaller = self._next()
        if smaller is None or len(smaller.signatures) >= pages:
            raise StateError(
                f"the round from {opened.range.start.record}:{opened.range.start.page}",
                f"cannot be told: {what} exceeds {LOG_RECORD_BYTES} bytes, and the round has no place to be cut at",
                pages,
                "lower index.candidate_limit (begins a new log), or judge in one process",
            )
        logger().info("a round is named anew with fewer pages", because=f"{what} exceeds a message", pages=self._most)
        await self._publisher.publish(*await self._name(smaller))

    def _tell_missing(self, opened: _Open) -> None:
        """Say once which shards a round waits for."""
        missing = self._answers.missing(opened.range, self._work.walks)
        waits = time.monotonic() - opened.since
        late = waits > MISSING_SECONDS
        self._metrics.observe_waiting(missing if late else (), waits)
        if missing and late:
            text = f"no answer of shard(s) {', '.join(map(str, missing))}"
            self._waits.failed("round", text)
            if not opened.told_missing:
                opened.told_missing = True
                logger().warning("a round waits for shards: no verdict is given without them", missing=missing)
        else:
            self._waits.over("round")

    def _told_record(self, kind: int, range_: Range, body: bytes) -> bytes:
        return encode_told(kind, self._digest, Share(0, self._resizing.sizing.shards), range_, body)

    async def _done(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Do the work in the resolver's thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._working, lambda: self._heartbeats.watched("resolver", work, *arguments, **named)
        )

    async def _close(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        await self._publisher.close()
        await self._standing.leave()
        await self._rounds.close()
        await self._log.close()
        await asyncio.to_thread(self._working.shutdown)
        self._metrics.observe_waiting((), 0)
