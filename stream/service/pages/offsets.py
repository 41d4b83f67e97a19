"""Commits input offsets without a transaction, and chooses the first offset of partitions without a committed one.

OffsetCommits sends the offsets of all waiting partitions in one request. A broker serves the requests of a connection
one after the other, and takes some milliseconds per offset commit. With one request per partition, pages of four
partitions waited four times as long, and 1,000 partitions that begin at the same time would wait for each other.

StartOffsets commits the first offset of a partition before its first page is read.
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
Knows = Callable[[TopicPartition], Awaitable[bool]]
"""knows(partition): whether the state has pages of the partition"""
Void = Callable[[TopicPartition], Awaitable[None]]
"""void(partition): removes the pending verdicts of the partition from the state"""


class OffsetCommits:
    """Keeps one request in flight. The next request takes all offsets that wait by then."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self._waiting: dict[TopicPartition, int] = {}
        self._next: asyncio.Task[Committed] | None = None
        self._last: asyncio.Task[Committed] | None = None

    async def commit(self, partition: TopicPartition, offset: int) -> None:
        """Wait until the offset is committed.

        Raises KafkaError, also if the partition now belongs to another worker.
        """
        waiting = self._waiting
        waiting[partition] = offset
        if self._next is None:
            # A separate task, because its first caller may be cancelled while others wait for it.
            self._next = asyncio.create_task(self._commit_next(self._last))
            self._next.add_done_callback(_take_error)
        try:
            # The cancellation of one caller must not cancel the commits of others.
            committed = await asyncio.shield(self._next)
        except asyncio.CancelledError:
            # If this worker gets the partition again, the old offset would set the group back.
            if waiting.get(partition) == offset:
                del waiting[partition]
            raise
        if partition not in committed:
            raise IllegalStateError(f"{partition} was revoked before its offset {offset} was committed")

    async def close(self) -> None:
        """Cancel the requests in flight."""
        tasks = [task for task in (self._last, self._next) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _commit_next(self, before: asyncio.Task[Committed] | None) -> Committed:
        if before is not None:
            await asyncio.wait([before])
        offsets, self._waiting = self._waiting, {}
        self._last, self._next = self._next, None
        # aiokafka rejects the whole request if it names a partition of another worker.
        own = {partition: offset for partition, offset in offsets.items() if partition in self._consumer.assignment()}
        if own:
            await self._consumer.commit(own)
        return frozenset(own)


def _take_error(task: asyncio.Task[Committed]) -> None:
    """Retrieve the error, so that asyncio does not report it if all callers were cancelled."""
    if not task.cancelled():
        task.exception()


class StartOffsets:
    """First offsets of partitions without a committed offset.

    The first offset is committed before any page is read. Otherwise `kafka.start = "latest"` would begin at the present
    end at every start, and pages that arrive while no worker runs would never be read. It also means that a missing
    offset of a partition whose pages the state has was lost.

    The worker learns of a partition that is added while it runs only minutes later. Such a partition is read from its
    beginning, whatever `kafka.start` says, because all its pages are new.

    Without a committed offset the topic may have been recreated, and other pages may have the ids of judged ones. A
    pending verdict is found by the page id alone, so other pages would get it. It is removed before the first page.
    """

    def __init__(
        self, settings: Settings, consumer: AIOKafkaConsumer, knows: Knows, void: Void, initial_partitions: int
    ) -> None:
        """initial_partitions: number of input partitions when the process began"""
        self._settings = settings
        self._knows = knows
        self._void = void
        self._initial_partitions = initial_partitions
        self._edges: AIOKafkaConsumer | None = None
        self._connecting = asyncio.Lock()
        self._commits = OffsetCommits(consumer)

    async def begin(self, partition: TopicPartition) -> int:
        """Choose and commit the first offset of a partition whose former owners are fenced. Returns the offset.

        The commit needs no transaction: it has no outputs, and the group rejects it from a worker that has lost the
        partition. Raises KafkaError, and SettingError if the committed offset was lost and kafka.restart_from is
        "refuse".
        """
        if await self._knows(partition):
            start = await self._restart_from(partition)
        else:
            start = self._settings.kafka.start if partition.partition < self._initial_partitions else "earliest"
        edges = await self._connected()
        query = edges.beginning_offsets if start == "earliest" else edges.end_offsets
        offset: int = (await query([partition]))[partition]
        await self._void(partition)
        await self._commits.commit(partition, offset)
        logger().info(
            "a partition without a committed offset begins at this offset",
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
        )
        return offset

    async def close(self) -> None:
        """Cancel the commits in flight, and close the connections for offset queries."""
        await self._commits.close()
        edges, self._edges = self._edges, None
        if edges is not None:
            await stop_client(edges)

    async def _connected(self) -> AIOKafkaConsumer:
        """The consumer for offset queries.

        On the fetching consumer, a query would wait for fetches of 0.1 s and more.
        """
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
        """Where a partition starts whose committed offset was lost: earliest or latest.

        Raises SettingError for the setting "refuse".
        """
        start = self._settings.kafka.restart_from
        if start == "refuse":
            raise SettingError(
                "kafka.restart_from",
                f"must say where partition {partition.partition} of {partition.topic!r} continues: group "
                f"{self._settings.kafka.group_id!r} has no committed offset there (it expired, or the group or topic "
                "changed), but the state has pages of the partition",
                start,
                "set earliest to read and emit all its pages again, or latest to continue with new pages; if the topic "
                "was not recreated, --reset-offsets of kafka-consumer-groups.sh also works",
            )
        logger().warning(
            "the committed offset of a partition was lost; the partition continues as kafka.restart_from says",
            topic=partition.topic,
            partition=partition.partition,
            restart_from=start,
        )
        return start
