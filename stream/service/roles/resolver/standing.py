"""Says which of several resolvers works: the one to which their consumer group gives the partition of `verdicts`."""

import asyncio
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener

from spotsieve.stream.kafka.client.assignment import remember_generation
from spotsieve.stream.kafka.client.clients import resolver_consumer, stop_client
from spotsieve.stream.kafka.client.consumers import check_alive
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.tasks import race

POLL_MS = 1_000


class ResolverElection(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's class is untyped
    """A resolver's place in the group. It reads nothing: the group is its election, and the broker holds it."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topics.verdicts
        self._consumer: AIOKafkaConsumer = resolver_consumer(settings)
        self._chosen = asyncio.Event()
        self.replaced = asyncio.Event()

    async def until_chosen(self) -> None:
        """Join the group, and stand by until it has chosen this resolver. Raises BrokerTrouble, KafkaError."""
        self._consumer.subscribe([self._topic], listener=self)
        await self._consumer.start()
        await race(self.hold(), self._chosen.wait())

    async def hold(self) -> None:
        """Stay in the group, for ever. Raises BrokerTrouble, KafkaError."""
        while True:
            # aiokafka takes a member that asks for nothing for one that hangs.
            await self._consumer.getmany(timeout_ms=POLL_MS)
            check_alive(self._consumer)

    async def leave(self) -> None:
        """Leave the group, so that another resolver is chosen at once."""
        await stop_client(self._consumer)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """The group deals out its partition anew."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has chosen."""
        mine = list(assigned)
        remember_generation(self._consumer)
        for partition in mine:
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)
        if mine:
            self._chosen.set()
        elif self._chosen.is_set():
            self.replaced.set()
