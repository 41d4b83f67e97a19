"""Reopens a partition straight after a commit of unknown outcome, many times, like a worker after a crash."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import pages_consumer, stop_client
from spotsieve.stream.kafka.driver.prepared_batch import PreparedBatch
from spotsieve.stream.kafka.shared_clients import SharedClients
from spotsieve.stream.service.pages.commit import deliver
from spotsieve.stream.service.pages.outputs import OutputBatches

Ask = Callable[[AIOKafkaConsumer, TopicPartition], Awaitable[int | None]]
"""A way to look up the committed offset of a partition."""
LONGEST_HEARD_SECONDS = 0.05
"""Timeouts of a commit before it is given up: some have not begun, some have just ended. Short ones are more frequent,
so that commits are given up whether the broker responds in 2 ms or in 40.
"""


@dataclass(frozen=True, slots=True)
class Reopened:
    """unknown: commits that were given up before their outcome was known  began: start offset of each opening"""

    unknown: int
    began: list[int]


async def reopen_often(
    settings: Settings, partition: TopicPartition, times: int, ask: Ask, seed: int, least_unknown: int = 0
) -> Reopened:
    """Commit consecutive numbers to the output, each with its offset, and give each commit up half-way.

    Stops after `times` openings and `least_unknown` commits of unknown outcome. Every opening is like a worker's: a new
    producer with the partition's transactional id, then the committed offset, which is where it begins. So the output
    has each number once if that offset is the committed one.
    """
    dice = random.Random(seed)
    consumer, clients = pages_consumer(settings), SharedClients(settings)
    consumer.subscribe([partition.topic])
    unknown, began = 0, list[int]()
    await consumer.start()
    try:
        while len(began) < times or unknown < least_unknown:
            producer = clients.producer(0, f"{settings.kafka.group_id}:{partition.topic}:{partition.partition}")
            try:
                await producer.start()
                number = await ask(consumer, partition) or 0
                began.append(number)
                batch = PreparedBatch(1000, "none", transactional=True)
                batch.append(timestamp=0, key=None, value=b"%d" % number, headers=[])
                batch.prepare()
                await producer.begin_transaction()
                await deliver(
                    producer, OutputBatches([(settings.topics.novel, partition.partition, batch)], Counter(), 0)
                )
                await producer.send_offsets_to_transaction({partition: number + 1}, settings.kafka.group_id)
                committing = asyncio.create_task(producer.commit_transaction())
                done, _ = await asyncio.wait([committing], timeout=LONGEST_HEARD_SECONDS * dice.random() ** 3)
                unknown += not done
                committing.cancel()
                await asyncio.gather(committing, return_exceptions=True)
            finally:
                await _give_up(producer)
    finally:
        await stop_client(consumer)
        await clients.close()
    return Reopened(unknown, began)


async def _give_up(producer: AIOKafkaProducer) -> None:
    """Stop a producer without waiting for open requests: the first cancellation alone would wait."""
    sending = producer._sender.sender_task
    if sending is not None:
        sending.cancel()
        await asyncio.sleep(0)
        sending.cancel()
    await stop_client(producer)
