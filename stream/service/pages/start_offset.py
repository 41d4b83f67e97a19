"""Finds where a partition without a committed offset begins, and commits that before its first page is read."""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, TopicPartition

from spotsieve.stream.errors import SettingError
from spotsieve.stream.kafka.client.clients import edges_consumer, stop_client
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.pages.offset_commits import OffsetCommits
from spotsieve.stream.settings.model import Settings

Knows = Callable[[TopicPartition], Awaitable[bool]]
"""Whether the state knows pages of a partition."""


class StartOffsets:
    """The beginnings of partitions in which the group has committed nothing.

    A beginning is committed at once. Otherwise `kafka.start = "latest"` would begin at the end of that day at every
    start, and pages that came while no worker ran would never be read. And only so a missing offset means that it was
    lost: a partition whose pages the state knows had one before the first of them was read.

    A partition that is added to the topic while the process runs is heard of minutes later, so it begins at its
    beginning, whatever `kafka.start` says: all in it has come since.
    """

    def __init__(self, settings: Settings, consumer: AIOKafkaConsumer, knows: Knows, there: int) -> None:
        """there: how many partitions the input had when the process began"""
        self._settings = settings
        self._knows = knows
        self._there = there
        self._edges: AIOKafkaConsumer | None = None
        self._connecting = asyncio.Lock()
        self._commits = OffsetCommits(consumer)

    async def begin(self, partition: TopicPartition) -> int:
        """Choose and commit the first offset of a partition, whose former owners are fenced; -> this offset.

        The commit needs no transaction: it has no outputs, and the group refuses it from a worker that no longer has
        the partition. Raises KafkaError, and SettingError where the state knows pages of the partition and nobody has
        chosen what happens to them.
        """
        if await self._knows(partition):
            start = await self._start_again(partition)
        else:
            start = self._settings.kafka.start if partition.partition < self._there else "earliest"
        edges = await self._connected()
        ask = edges.beginning_offsets if start == "earliest" else edges.end_offsets
        offset: int = (await ask([partition]))[partition]
        await self._commits.commit(partition, offset)
        logger().info("began a partition", topic=partition.topic, partition=partition.partition, offset=offset)
        return offset

    async def close(self) -> None:
        """Give up the commits on their way, and end the connections for such questions, if there were any."""
        await self._commits.close()
        edges, self._edges = self._edges, None
        if edges is not None:
            await stop_client(edges)

    async def _connected(self) -> AIOKafkaConsumer:
        """A consumer of its own: a question to the one that fetches waits behind its fetches, 0.1 s and more each."""
        async with self._connecting:
            if self._edges is None:
                edges = edges_consumer(self._settings)
                try:
                    await edges.start()
                except BaseException:
                    await stop_client(edges)
                    raise
                self._edges = edges
            return self._edges

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
