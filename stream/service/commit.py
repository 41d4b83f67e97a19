"""Owns the commit of a slice: outputs and input offsets together, or outputs first and then offsets."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from stream.config import Settings
from stream.service.clients import output_producer
from stream.service.microbatch import MicroBatch, Slice
from stream.service.outputs import OutputBuilder, Outputs


class Committer:
    """Commits slices under the chosen guarantee. Raises KafkaError where the outcome is a failure or unknown."""

    def __init__(self, settings: Settings, consumer: AIOKafkaConsumer, builder: OutputBuilder) -> None:
        self._settings = settings
        self._consumer = consumer
        self._builder = builder
        self._exactly_once = settings.service.guarantee == "exactly_once"
        self._producer: AIOKafkaProducer | None = None if self._exactly_once else output_producer(settings, None)

    async def start(self) -> None:
        """Connect the shared producer of at_least_once; exactly_once has one a partition."""
        if self._producer is not None:
            await self._producer.start()

    async def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def commit(self, batch: MicroBatch, part: Slice) -> Outputs:
        """Produce a slice's outputs and commit its offsets."""
        producer = part.owned.producer if self._exactly_once else self._producer
        if producer is None:
            raise KafkaError("the partition was handed over")
        outputs = self._builder.build(producer, batch, part)
        offsets = {part.owned.partition: part.next_offset}
        if self._exactly_once:
            await self._in_transaction(producer, outputs, offsets)
        else:
            await _deliver(producer, outputs)
            await self._consumer.commit(offsets)
        return outputs

    async def _in_transaction(
        self, producer: AIOKafkaProducer, outputs: Outputs, offsets: dict[TopicPartition, int]
    ) -> None:
        await producer.begin_transaction()
        sending = asyncio.ensure_future(_deliver(producer, outputs))
        try:
            await producer.send_offsets_to_transaction(offsets, self._settings.kafka.group_id)
        finally:
            # aiokafka's commit does not look at failed deliveries: each must be seen to succeed before it.
            await sending
        await producer.commit_transaction()


async def _deliver(producer: AIOKafkaProducer, outputs: Outputs) -> None:
    """Send every batch and wait until the broker has acknowledged each."""
    deliveries = [
        await producer.send_batch(builder, topic, partition=partition) for topic, partition, builder in outputs.batches
    ]
    for delivery in await asyncio.gather(*deliveries, return_exceptions=True):
        if isinstance(delivery, BaseException):
            raise delivery
