"""The demo's own traffic with Kafka: it sends the crawl, reads all outputs, and removes the topics."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.demo.crawl import CrawlMessage
from spotsieve.stream.errors import BrokerError
from spotsieve.stream.kafka.client.clients import client_options
from spotsieve.stream.kafka.cluster import administrator
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topic.topics import topic_facts
from spotsieve.stream.settings.model import Settings

READ_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class OutputMessages:
    """All committed messages of the three output topics."""

    novel: list[ConsumerRecord]
    duplicates: list[ConsumerRecord]
    rejected: list[ConsumerRecord]


async def send_crawl(settings: Settings, crawl: Sequence[CrawlMessage]) -> None:
    """Produce the crawl to the input topic, keyed by address. Raises BrokerError."""
    producer = AIOKafkaProducer(**client_options(settings.kafka), acks="all", linger_ms=5, max_batch_size=2**18)
    try:
        await producer.start()
        for sent in crawl:
            await producer.send(settings.topics.input, sent.value, key=sent.key)
        await producer.flush()
    except KafkaError as error:
        raise explain_error(error, settings, "sending the crawl") from None
    finally:
        await producer.stop()


async def receive_outputs(settings: Settings) -> OutputMessages:
    """Every committed message of the output topics, in order of partition and offset. Raises BrokerError."""
    names = [getattr(settings.topics, role) for role in ("novel", "duplicates", "rejected")]
    facts = await topic_facts(settings, names)
    try:
        read = await asyncio.gather(*(_read_all(settings, name, facts[name].partitions) for name in names))
    except KafkaError as error:
        raise explain_error(error, settings, "reading the output") from None
    return OutputMessages(*read)


async def count_brokers(settings: Settings) -> int:
    """Brokers in the cluster. Raises BrokerError."""
    try:
        async with administrator(**client_options(settings.kafka)) as admin:
            cluster = await admin.describe_cluster()
            return len(cluster["brokers"])
    except KafkaError as error:
        raise explain_error(error, settings, "connecting") from None


async def delete_topics(settings: Settings, names: Sequence[str]) -> None:
    """Remove the demo's topics from the user's broker. Raises BrokerError."""
    try:
        async with administrator(**client_options(settings.kafka)) as admin:
            await admin.delete_topics(list(names))
    except KafkaError as error:
        raise explain_error(error, settings, "deleting the demo's topics") from None


async def _read_all(settings: Settings, topic: str, number: int) -> list[ConsumerRecord]:
    consumer = AIOKafkaConsumer(
        **client_options(settings.kafka),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, partition) for partition in range(number)]
        consumer.assign(partitions)
        ends = await _written_ends(settings, partitions)
        records: list[ConsumerRecord] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while [part for part in partitions if await consumer.position(part) < ends[part]]:
            for fetched in (await consumer.getmany(timeout_ms=100)).values():
                records += fetched
            if time.monotonic() > deadline:
                raise BrokerError(f"topic {topic!r}", f"could not be read to its end within {READ_TIMEOUT_S:.0f} s")
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        await consumer.stop()


async def _written_ends(settings: Settings, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions, including messages that cannot be read yet.

    A broker answers a commit before it writes the markers. For a moment a read_committed consumer sees an end that lies
    before committed messages.
    """
    consumer = AIOKafkaConsumer(
        **client_options(settings.kafka), isolation_level="read_uncommitted", enable_auto_commit=False
    )
    await consumer.start()
    try:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return ends
    finally:
        await consumer.stop()
