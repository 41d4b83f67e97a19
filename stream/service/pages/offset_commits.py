"""Commits input offsets without a transaction: those of all partitions that wait, in one request.

A broker lets the requests of a connection wait for each other, and answers a commit of offsets after some milliseconds
of its own. With one request for each partition, pages of four partitions waited four times as long. 1,000 partitions
that begin at the same time would wait for each other, too.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import IllegalStateError

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
