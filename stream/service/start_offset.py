"""Finds where a partition without a committed offset begins, and commits that before its first page is read."""

from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from spotsieve.stream.errors import SettingError
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.settings.model import Settings

Knows = Callable[[TopicPartition], Awaitable[bool]]
"""Whether the state knows pages of a partition."""


class StartOffsets:
    """The beginnings of partitions in which the group has committed nothing.

    A beginning is committed at once. Otherwise `kafka.start = "latest"` would begin at the end of that day at every
    start, and pages that came while no worker ran would never be read. And only so a missing offset means that it was
    lost: a partition whose pages the state knows had one before the first of them was read.
    """

    def __init__(self, settings: Settings, consumer: AIOKafkaConsumer, knows: Knows) -> None:
        self._settings = settings
        self._consumer = consumer
        self._knows = knows

    async def begin(self, producer: AIOKafkaProducer, partition: TopicPartition) -> int:
        """Choose and commit the first offset of a partition; -> this offset.

        producer: the partition's own, which has fenced former owners. Raises KafkaError, and SettingError where the
        state knows pages of the partition and nobody has chosen what happens to them.
        """
        kafka = self._settings.kafka
        start = await self._start_again(partition) if await self._knows(partition) else kafka.start
        ask = self._consumer.beginning_offsets if start == "earliest" else self._consumer.end_offsets
        offset: int = (await ask([partition]))[partition]
        if self._settings.service.guarantee == "exactly_once":
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({partition: offset}, kafka.group_id)
            await producer.commit_transaction()
        else:
            await self._consumer.commit({partition: offset})
        logger().info("began a partition", topic=partition.topic, partition=partition.partition, offset=offset)
        return offset

    async def _start_again(self, partition: TopicPartition) -> str:
        """Where a partition begins whose committed offset is lost. Raises SettingError."""
        start = self._settings.kafka.start_again
        if start == "refuse":
            raise SettingError(
                "kafka.start_again",
                f"must say where partition {partition.partition} of {partition.topic!r} goes on: group "
                f"{self._settings.kafka.group_id!r} has no committed offset there (it expired, or the group or the "
                "topic is another one), but the state knows its pages",
                start,
                "set earliest to read and pass on all again, or latest to go on with what comes from now on; or set "
                "the group's offsets with kafka-consumer-groups.sh --reset-offsets",
            )
        logger().warning(
            "the committed offset of a partition was lost; going on as kafka.start_again says",
            topic=partition.topic,
            partition=partition.partition,
            start_again=start,
        )
        return start
