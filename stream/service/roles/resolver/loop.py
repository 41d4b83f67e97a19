"""Runs a resolver: it waits on standby or takes over, and then performs the actions of its steps on Kafka.

The steps are in stream/sharding/resolver_steps.py. Of several resolvers, the one to which their consumer group assigns
the partition of `verdicts` is active. Publisher writes several records in one transaction, whose producer fences an
earlier resolver.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from spotsieve.stream.base.errors import BrokerTrouble
from spotsieve.stream.base.settings.digest import digest_of_settings
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import TaskScope, race
from spotsieve.stream.kafka.clients import output_producer, resolver_consumer, stop_client
from spotsieve.stream.kafka.driver.clients import check_alive, remember_generation
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import LOG_RECORD_BYTES
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.roles.log_records import LogRecords
from spotsieve.stream.service.roles.role import (
    Role,
    compile_rounds,
    drive,
    encode_draft,
    log_note,
    log_poison_pages,
    present,
)
from spotsieve.stream.service.roles.round_messages import RoundReader, find_end
from spotsieve.stream.service.run import ProcessState
from spotsieve.stream.service.serial_executor import SerialExecutor
from spotsieve.stream.sharding.messages import RoundMessage
from spotsieve.stream.sharding.resolver_steps import (
    Compute,
    HistoryIsWhole,
    MatchesPositions,
    MissingShards,
    PoisonEvent,
    Publish,
    ReadMatchesOf,
    ResolverSteps,
    Rest,
    RoundEnd,
    SpeculationEvent,
)
from spotsieve.stream.sharding.resolver_work import ResolverWork
from spotsieve.stream.sharding.rounds import limits_in_shards
from spotsieve.stream.sharding.steps import (
    Action,
    Draft,
    Fetch,
    LogUntil,
    MatchesSpans,
    Note,
    Now,
    SeekMatches,
)
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


class Publisher:
    """The transactional producer of one resolver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Fence the previous resolver, and end its open transaction. Raises KafkaError."""
        # The id contains the topic, so that a resolver with a wrong kafka.group_id cannot write beside another one.
        self._producer = output_producer(self._settings, f"{self._settings.topics.verdicts}:resolver")
        await self._producer.start()

    async def publish(self, records: Sequence[bytes]) -> list[int]:
        """Write records in one transaction. Returns their offsets.

        Raises BrokerTrouble if it failed or its outcome is unknown.
        """
        producer, topic = self._producer, self._settings.topics.verdicts
        assert producer is not None
        try:
            async with asyncio.timeout(self._settings.kafka.transaction_timeout_ms / 1000):
                await producer.begin_transaction()
                sent = [await producer.send(topic, record, partition=0) for record in records]
                offsets = [int((await one).offset) for one in sent]
                await producer.commit_transaction()
                return offsets
        except KafkaError as error:
            raise final_error(error, self._settings, "publishing verdicts") from error
        except TimeoutError:
            raise BrokerTrouble(
                "resolver", "got no response to a commit in time; it restarts with new clients"
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._producer is not None:
            await stop_client(self._producer)


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
    """One resolver, active or on standby, with one set of Kafka clients."""

    def __init__(self, settings: Settings, work: ResolverWork, metrics: Metrics, heartbeats: Heartbeats) -> None:
        super().__init__(settings, metrics)
        self._digest = digest_of_settings(settings)
        self._standing = ResolverElection(settings)
        self._log = LogRecords(settings, metrics, self._waits)
        self._rounds = RoundReader(settings, self._waits)
        self._steps = ResolverSteps(settings, work, self._log, settings.topics.matches, LOG_RECORD_BYTES)
        self._working = SerialExecutor("resolver", heartbeats)
        self._publisher = Publisher(settings)
        self._hearing: asyncio.Task[list[RoundMessage]] | None = None
        self._positions: tuple[int, ...] = ()

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
            rounds.log = await log.check_settings()
            await rounds.start()
            await rounds.check_last()
            self._rounds.log = rounds.log
        finally:
            await log.close()
            await rounds.close()

    async def _take_over(self) -> None:
        """Fence the previous resolver, and continue at the end of `verdicts`."""
        # This ends the open transaction of the previous resolver. Only then the end of `verdicts` is final.
        await self._publisher.start()
        await self._rounds.start()
        end = await find_end(self._rounds, self._settings.topics.verdicts)
        await self._log.start(end.place.record, end.place.page, end.last_record)
        await drive(self._steps.take_over(end), self._perform)

    async def _work_on(self) -> None:
        following = self._log.follow(2 * self._settings.cluster.round_pages)
        await race(self._standing.hold(), following, self._be_replaced(), drive(self._steps.work(), self._perform))

    async def _be_replaced(self) -> None:
        await self._standing.replaced.wait()
        raise BrokerTrouble("resolver", "was replaced by another one; it is on standby from now on")

    async def _perform(self, action: Action[Any]) -> Any:
        """Perform an action of the steps. Returns its result."""
        match action:
            case Fetch():
                return await self._fetch()
            case Rest():
                return await self._rest()
            case Now():
                return present()
            case Compute(call, ""):
                return await self._working.do(call)
            case Compute(call, stage):
                with self._metrics.timed(stage):
                    return await self._working.do(call)
            case Publish(records):
                return await self._publish(records)
            case HistoryIsWhole():
                if self._settings.cluster.snapshots:  # New shards begin from them.
                    return True
                return not (await self._rounds.verdicts_span())[0] and not await self._log.begin()
            case MatchesPositions():
                return self._positions
            case MatchesSpans():
                return await self._rounds.matches_spans()
            case SeekMatches(offsets):
                self._rounds.seek_matches(offsets)
                self._positions = tuple(offsets)
                return None
            case ReadMatchesOf(shards):
                return await self._read_matches_of(shards)
            case LogUntil(end):
                return await self._log.until(end)
        return self._observe(action)

    def _observe(self, action: Action[Any]) -> None:
        """Show an event in the log and the metrics."""
        match action:
            case Note():
                log_note(action)
            case PoisonEvent(round_, errors):
                log_poison_pages(round_, errors)
            case SpeculationEvent():
                self._metrics.round_speculations.inc()
            case RoundEnd(pages, seconds):
                self._metrics.rounds.inc()
                self._metrics.round_pages.observe(pages)
                self._metrics.round_seconds.observe(seconds)
            case MissingShards():
                self._tell_missing(action)
            case _:
                raise AssertionError(action)

    async def _fetch(self) -> list[RoundMessage]:
        hearing, self._hearing = self._hearing, None
        found = await (hearing or self._rounds.fetch())
        # No fetch runs now, so these are the positions behind these messages.
        self._positions = await self._rounds.matches_positions()
        return found

    async def _rest(self) -> bool:
        """Wait for pages or messages. Returns whether there are messages."""
        self._metrics.log_position.set(self._steps.planner.place.record)
        # The fetch continues after this wait, because a cancelled fetch would lose its messages.
        hearing = self._hearing = self._hearing or asyncio.create_task(self._rounds.fetch())
        async with TaskScope() as tasks:
            arriving = tasks.create_task(self._log.first_from(0))
            await asyncio.wait([hearing, arriving], return_when=asyncio.FIRST_COMPLETED)
        return hearing.done()

    async def _publish(self, records: Sequence[Draft]) -> list[int]:
        self._metrics.log_position.set(self._steps.planner.place.record)
        log = await self._rounds.identify()
        return await self._publisher.publish([encode_draft(one, self._digest, log) for one in records])

    async def _read_matches_of(self, shards: int) -> None:
        """Read the messages of this number of shards, for newly added shards from the present end on."""
        await self._rounds.read_matches_of(shards)
        positions = await self._rounds.matches_positions()
        self._positions = (*self._positions[:shards], *positions[len(self._positions) :])

    def _tell_missing(self, found: MissingShards) -> None:
        """Log which shards a round waits for when they change, and the end of the wait."""
        missing = list(found.shards)
        self._metrics.observe_waiting(missing, found.seconds)
        if missing and found.is_news:
            text = f"no response of shard(s) {', '.join(map(str, missing))}"
            self._waits.failed("round", text, waited_for="shards")
            logger().warning(
                "a round waits for the responses of these shards, and pages wait with it; check that the shards run",
                missing=missing,
            )
        elif not missing:
            self._waits.over("round")
            if found.is_news:
                logger().info("the round continues: all missing shards have responded")

    async def _close(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        await self._publisher.close()
        await self._standing.leave()
        await self._rounds.close()
        await self._log.close()
        await self._working.close()
        self._metrics.observe_waiting((), 0)
