"""Runs a resolver: it waits on standby or takes over, announces rounds, and publishes their outcomes.

Of several resolvers, the one to which their consumer group assigns the partition of `verdicts` is active.
"""

import asyncio
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener

from spotsieve.stream.base.errors import BrokerTrouble, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import TaskScope, race
from spotsieve.stream.kafka.clients import resolver_consumer, stop_client
from spotsieve.stream.kafka.driver.clients import check_alive, remember_generation
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.log_records import LogRecords
from spotsieve.stream.service.roles.resolver.publication import Publisher, ResolverRecords
from spotsieve.stream.service.roles.resolver.rounds import OpenRound, RoundJudge, RoundPlanner, open_of
from spotsieve.stream.service.roles.resolver.work import ResolverWork
from spotsieve.stream.service.roles.responses import ShardResponses, find_poison_pages
from spotsieve.stream.service.roles.role import Role, compile_rounds
from spotsieve.stream.service.roles.round_messages import RoundReader, are_responses_lost, find_end, response_offsets
from spotsieve.stream.service.run import ProcessState
from spotsieve.stream.sharding.records.frame import KIND_OUTCOME, KIND_SPECULATION, range_of
from spotsieve.stream.sharding.records.resolver import write_speculation
from spotsieve.stream.sharding.rounds import Round, limits_in_shards
from spotsieve.stream.sign.schemes.registry import scheme_in_scope

POLL_MS = 1_000


class ResolverElection(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's class is untyped
    """Election of the active resolver by a consumer group. Its consumer reads nothing."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topics.verdicts
        self._consumer: AIOKafkaConsumer = resolver_consumer(settings)
        self._chosen = asyncio.Event()
        self.replaced = asyncio.Event()

    async def until_chosen(self) -> None:
        """Join the group, and wait until it elects this resolver. Raises BrokerTrouble, KafkaError."""
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        await race(self.hold(), self._chosen.wait())

    async def hold(self) -> None:
        """Stay in the group. Never returns. Raises BrokerTrouble, KafkaError."""
        while True:
            # aiokafka treats a member that does not poll as hung.
            await self._consumer.getmany(timeout_ms=POLL_MS)
            check_alive(self._consumer)

    async def leave(self) -> None:
        """Leave the group, so that another resolver is elected at once."""
        await stop_client(self._consumer)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Do nothing before a rebalance."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Take the result of the election."""
        mine = list(assigned)
        remember_generation(self._consumer)
        for partition in mine:
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)
        if mine:
            self._chosen.set()
        elif self._chosen.is_set():
            self.replaced.set()


MOST_SPECULATIONS = 8
"""After this number of corrected speculations, a round is halved. Most rounds need none or one. Pages that are chained
on purpose, each a copy if its predecessor is not, need one per page."""
MISSING_SECONDS = 10.0
"""After this wait for the response of a shard, a log line names the missing shards."""


def open_resolver(settings: Settings) -> ProcessState:
    """Open a resolver, which has no state. Raises SpotsieveError."""
    scheme = scheme_in_scope(settings)
    compile_rounds(scheme, limits_in_shards(settings, scheme))
    work = ResolverWork(settings, scheme)

    def begin(_: object, metrics: Metrics, heartbeats: Heartbeats) -> Resolver:
        resolver = Resolver(settings, work, metrics, heartbeats)
        metrics.role.labels("resolver", "").set_function(lambda: float(resolver.works()))
        return resolver

    return ProcessState(None, begin)


class Resolver(Role):
    """One resolver, active or on standby, with one set of Kafka clients.

    Its only state is the end of `verdicts`. After a failed write, or one with an unknown outcome, a new one starts
    there.
    """

    def __init__(self, settings: Settings, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        super().__init__(settings, metrics)
        self._standing = ResolverElection(settings)
        self._log = LogRecords(settings, metrics, self._waits)
        self._rounds = RoundReader(settings, self._waits)
        self._naming = RoundPlanner(settings, self._log, metrics)
        self._telling = ResolverRecords(settings, self._rounds, self._naming)
        self._judging = RoundJudge(work, metrics, heartbeats)
        self._publisher = Publisher(settings)
        self._answers = ShardResponses(0)
        self._hearing: asyncio.Task[None] | None = None
        self._open: OpenRound | None = None

    async def _start(self) -> None:
        self.step = "comparing the settings with the log"
        await self._check_before_election()
        self.step = "on standby: another resolver is active"
        await self._standing.until_chosen()
        self.step = "taking over"
        logger().info("this resolver is active from now on")
        await self._take_over()

    async def _check_before_election(self) -> None:
        """Check the settings, and that the topics belong to this log.

        A resolver that fails after its election would leave no active one, or fence the one of another service.
        """
        log = LogRecords(self._settings, self._metrics, self._waits)
        rounds = RoundReader(self._settings, self._waits, self._settings.cluster.shards)
        try:
            self._rounds.log = rounds.log = await log.check_settings()
            await rounds.start()
            await rounds.check_last()
            self._rounds.log = rounds.log
        finally:
            await log.close()
            await rounds.close()

    async def _take_over(self) -> None:
        """Fence the previous resolver, and continue at the end of `verdicts`."""
        settings = self._settings
        # This ends the open transaction of the previous resolver. Only then the end of `verdicts` is final.
        await self._publisher.start()
        await self._rounds.start()
        end = await find_end(self._rounds, settings.topics.verdicts)
        cluster_size = (
            end.cluster_size if end.cluster_size.shards else end.cluster_size._replace(shards=settings.cluster.shards)
        )
        await self._rounds.read_matches_of(cluster_size.most)
        spans = await self._rounds.matches_spans()
        cluster_size = cluster_size.over(spans[0][1])
        self._telling.begin_with(cluster_size, [last for _, last in spans])
        self._answers = ShardResponses(cluster_size.shards)
        # Requests since the last announcement are read again. Newer partitions are read from their end.
        answers = [*end.answers, *(last for _, last in spans[len(end.answers) :])]
        self._naming.begin(end.place, end.clock, end.next_number)
        await self._log.start(end.place.record, end.place.page, end.last_record)
        if end.open is not None:
            self._open = await open_of(end, *end.open, self._log, settings.topics.log)
        self._rounds.seek_matches(response_offsets(answers, spans))
        if self._open is not None and are_responses_lost(answers, spans):
            await self._ask_anew(self._open)

    async def _work_on(self) -> None:
        following = self._log.follow(2 * self._settings.cluster.round_pages)
        await race(self._standing.hold(), following, self._be_replaced(), self._resolve_on())

    async def _be_replaced(self) -> None:
        await self._standing.replaced.wait()
        raise BrokerTrouble("resolver", "was replaced by another one; it is on standby from now on")

    async def _resolve_on(self) -> None:
        while True:
            if self._open is None:
                await self._publisher.publish(*await self._telling.answer_asks())
                if self._telling.resizing.due(time.monotonic()):
                    await self._publisher.publish(self._switch())
                named = self._naming.next()
                if named is None:
                    await self._rest()
                    continue
                await self._rounds.identify()
                await self._publisher.publish(*await self._name(named))
            await self._listen()

    async def _rest(self) -> None:
        """Wait for pages or messages."""
        # The fetch continues after this wait, because a cancelled fetch would lose its messages.
        hearing = self._hearing = self._hearing or asyncio.create_task(self._hear())
        async with TaskScope() as tasks:
            arriving = tasks.create_task(self._log.first_from(0))
            await asyncio.wait([hearing, arriving], return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            self._hearing = None
            hearing.result()

    async def _hear(self) -> None:
        """Process responses of shards and resize requests since the last call."""
        for message in await self._rounds.fetch():
            if message.topic == self._settings.topics.matches:
                self._answers.add(message)
                self._telling.resizing.hear(message, time.monotonic())

    def _switch(self) -> bytes:
        """Let the new shards respond from the next round on. Returns the record that says so. No round is open."""
        step = self._telling.resizing.switch()
        self._answers = ShardResponses(step.shards)
        return self._telling.resize(step)

    async def _name(self, round_: Round) -> list[bytes]:
        """Open a round. Returns the records that announce it."""
        self._open = OpenRound(range_of(round_), round_, self._naming.named(round_))
        self._answers.forget_before(self._open.range)
        return await self._telling.name(self._open)

    async def _listen(self) -> None:
        """Process responses until the open round is finished."""
        while (opened := self._open) is not None:
            hearing, self._hearing = self._hearing, None
            await (hearing or self._hear())
            await self._publisher.publish(*await self._telling.answer_asks())
            if self._answers.too_large(opened.range):
                await self._make_smaller(opened, "the response of a shard")
                continue
            broken = self._answers.broken(opened.range)
            if broken.keys() - opened.errors.keys():
                await self._go_on_without(opened, broken)
            await self._resolve(opened)
            if self._tell_missing(opened) and (not opened.announced_again or await self._are_lost(opened)):
                await self._ask_anew(opened)

    async def _resolve(self, opened: OpenRound) -> None:
        """Publish the result of the round, if all responses are present."""
        outcome = await self._judging.outcome(opened, self._answers)
        if outcome is None:
            return
        if outcome.broken:
            await self._go_on_without(opened, find_poison_pages(opened.round, outcome.broken))
        elif outcome.speculation is not None:
            if opened.speculations == MOST_SPECULATIONS and await self._halve(
                opened, "the verdicts of its pages depend on each other"
            ):
                return
            opened.speculation, opened.speculations = outcome.speculation, opened.speculations + 1
            self._answers.forget_walks(opened.range)
            speculation = self._telling.record(KIND_SPECULATION, opened.range, write_speculation(outcome.speculation))
            await self._publisher.publish(speculation)
            self._metrics.round_speculations.inc()
        elif outcome.resolved is not None:
            await self._end(opened, outcome.resolved.next_number, outcome.body)

    async def _go_on_without(self, opened: OpenRound, errors: dict[int, str]) -> None:
        """Exclude poison pages from the open round. errors: error texts by row"""
        opened.go_on_without(errors)
        await self._publisher.publish(self._telling.broken(opened))

    async def _are_lost(self, opened: OpenRound) -> bool:
        return are_responses_lost(opened.named.answers, await self._rounds.matches_spans())

    async def _ask_anew(self, opened: OpenRound) -> None:
        """Announce the open round again, so that the shards send their responses again.

        After a long wait this happens once, whatever the ends of `matches` are: a topic that was recreated and has
        grown since does not show that responses are lost.
        """
        logger().warning("responses of shards may be lost from the topic matches; the round is announced again")
        opened.forget_answers()
        opened.announced_again = True
        await self._publisher.publish(*await self._telling.name(opened))

    async def _end(self, opened: OpenRound, next_number: int, body: bytes) -> None:
        """Publish the outcome, and with it the next round if its pages are in memory."""
        record = self._telling.record(KIND_OUTCOME, opened.range, body)
        if len(record) > LOG_RECORD_BYTES:
            await self._make_smaller(opened, "the outcome")
            return
        self._open = None
        self._naming.go_behind(opened.round, next_number)
        records = [record, self._switch()] if self._telling.resizing.due(time.monotonic()) else [record]
        following = self._naming.next()
        if following is not None:
            records += await self._name(following)
        await self._publisher.publish(*records)
        self._metrics.rounds.inc()
        self._metrics.round_pages.observe(len(opened.round.signatures))
        self._metrics.round_seconds.observe(time.monotonic() - opened.since)

    async def _make_smaller(self, opened: OpenRound, what: str) -> None:
        """Announce a smaller round, because a message about this one exceeds the limit."""
        pages = len(opened.round.signatures)
        if await self._halve(opened, f"{what} exceeds the message limit"):
            return
        if pages > 1:
            raise StateError(
                f"the round from {opened.range.start.record}:{opened.range.start.page}",
                f"cannot be published: {what} exceeds {LOG_RECORD_BYTES} bytes, and its pages are repeated in one "
                "record with their commit marks, which cannot be cut",
                pages,
                "judge in one process (remove cluster.shards)",
            )
        self._answers.forget_too_large(opened.range)
        if not opened.errors:
            await self._go_on_without(opened, {0: f"{what} about this page exceeds {LOG_RECORD_BYTES} bytes"})

    async def _halve(self, opened: OpenRound, because: str) -> bool:
        """Announce a round with half of the pages instead. Returns whether the round could be cut."""
        smaller, pages = self._naming.half(opened.round), len(opened.round.signatures)
        if smaller is None:
            return False
        logger().info("a round is announced again with fewer pages", because=because, pages=pages // 2)
        await self._publisher.publish(*await self._name(smaller))
        return True

    def _tell_missing(self, opened: OpenRound) -> bool:
        """Log which shards a round waits for when they change, and the end of the wait.

        Returns whether it has waited longer than MISSING_SECONDS.
        """
        waits = time.monotonic() - opened.waits_since
        missing = opened.awaited if waits > MISSING_SECONDS else ()
        self._metrics.observe_waiting(missing, waits)
        if missing and missing != opened.missing_logged:
            text = f"no response of shard(s) {', '.join(map(str, missing))}"
            self._waits.failed("round", text, waited_for="shards")
            logger().warning(
                "a round waits for the responses of these shards, and pages wait with it; check that the shards run",
                missing=missing,
            )
        elif not missing:
            self._waits.over("round")
            if opened.missing_logged:
                logger().info("the round continues: all missing shards have responded")
        opened.missing_logged = missing
        return bool(missing)

    async def _close(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        await self._publisher.close()
        await self._standing.leave()
        await self._rounds.close()
        await self._log.close()
        await self._judging.close()
        self._metrics.observe_waiting((), 0)
