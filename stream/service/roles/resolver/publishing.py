"""Writes what the resolver says to `verdicts`: several records in one transaction, which fences an earlier resolver."""

import asyncio

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from spotsieve.stream.errors import BrokerTrouble
from spotsieve.stream.kafka.client.clients import output_producer, stop_client
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.settings.model import Settings


class Publisher:
    """The transactional producer of one resolver."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producer: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Fence the resolver before, and end its open transaction. Raises KafkaError."""
        # By the topic: a resolver whose kafka.group_id is misspelt must not write beside another one.
        self._producer = output_producer(self._settings, f"{self._settings.topics.verdicts}:resolver")
        await self._producer.start()

    async def publish(self, *records: bytes) -> None:
        """Write records, all or none; there may be none. Raises BrokerTrouble where that failed or nobody knows."""
        producer, topic = self._producer, self._settings.topics.verdicts
        assert producer is not None
        if not records:
            return
        try:
            async with asyncio.timeout(self._settings.kafka.transaction_timeout_ms / 1000):
                await producer.begin_transaction()
                for sent in [await producer.send(topic, record, partition=0) for record in records]:
                    await sent
                await producer.commit_transaction()
        except KafkaError as error:
            raise final_error(error, self._settings, "publishing verdicts") from error
        except TimeoutError:
            raise BrokerTrouble("resolver", "had no answer to a commit in time; it begins anew") from None

    async def close(self) -> None:
        """End the connections."""
        if self._producer is not None:
            await stop_client(self._producer)
