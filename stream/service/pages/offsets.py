"""Finds where a partition without a committed offset begins, and commits that before its first page is read.

Commits input offsets without a transaction: those of all partitions that wait, in one request.

A broker lets the requests of a connection wait for each other, and answers a commit of offsets after some milliseconds
of its own. With one request for each partition, pages of four partitions waited four times as long. 1,000 partitions
that begin at the same time would wait for each other, too.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import edges_consumer, stop_client
from spotsieve.stream.observe.logs import logger

Committed = frozenset[TopicPartition]


class OffsetCommits:
    """One request is on its way at a time; the next one takes all that has come meanwhile."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self._waiting: dict[TopicPartition, int] = {}
        self._next: asyncio.Task[Committed] | None = None
        self._last: asyncio.Task[Committed] | None = None

    async def commit(self, partition: TopicPartition, offset: int) -> None:
        """Return when the offset is committed. Raises KafkaError, also where the partition is another worker's now."""
        waiting = self._waiting
        waiting[partition] = offset
        if self._next is None:
            # A task of its own: who starts it may give up, and the others still wait for it.
            self._next = asyncio.create_task(self._commit_next(self._last))
            self._next.add_done_callback(_take_error)
        try:
            # Who gives up must not take the commits of others along.
            committed = await asyncio.shield(self._next)
        except asyncio.CancelledError:
            # Once the partition is this worker's again, the offset would set the group back.
            if waiting.get(partition) == offset:
                del waiting[partition]
            raise
        if partition not in committed:
            raise IllegalStateError(f"{partition} was handed over before its offset {offset} was committed")

    async def close(self) -> None:
        """Give up what is on its way."""
        tasks = [task for task in (self._last, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _commit_next(self, before: asyncio.Task[Committed] | None) -> Committed:
        if before is not None:
            await asyncio.wait([before])
        offsets, self._waiting = self._waiting, {}
        self._last, self._next = self._next, None
        # aiokafka refuses all of a request that names a partition of others.
        own = {partition: offset for partition, offset in offsets.items() if partition in self._consumer.assignment()}
        if own:
            await self._consumer.commit(own)
        return frozenset(own)


def _take_error(task: asyncio.Task[Committed]) -> None:
    """Let asyncio know that somebody has seen the error: all who waited may have given up."""
    if not task.cancelled():
        task.exception()


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
            start = await self._restart_from(partition)
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

    async def _restart_from(self, partition: TopicPartition) -> str:
        """Where a partition begins whose committed offset is lost. Raises SettingError."""
        start = self._settings.kafka.restart_from
        if start == "refuse":
            raise SettingError(
                "kafka.restart_from",
                f"must say where partition {partition.partition} of {partition.topic!r} goes on: group "
                f"{self._settings.kafka.group_id!r} has no committed offset there (it expired, or the group or the "
                "topic is another one), but the state knows its pages",
                start,
                "set earliest to read and pass on all again, or latest to go on with what comes from now on; or set "
                "the group's offsets with kafka-consumer-groups.sh --reset-offsets",
            )
        logger().warning(
            "the committed offset of a partition was lost; going on as kafka.restart_from says",
            topic=partition.topic,
            partition=partition.partition,
            restart_from=start,
        )
        return start
