"""Commits outputs and input offsets per partition: in one transaction, or outputs first and then offsets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import StartTask, TaskScope
from spotsieve.stream.base.verdict import Kind, Reason
from spotsieve.stream.kafka.errors import final_error, stops
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.microbatch import JudgedSlice, MicroBatch, Slice
from spotsieve.stream.service.pages.offsets import OffsetCommits
from spotsieve.stream.service.pages.outputs import OutputBatches, OutputBuilder
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.service.pages.partitions import Partitions
from spotsieve.stream.sign.schemes.url_rules import page_rules

SLOWEST_BYTES_PER_SECOND = 2**20
"""Slowest network for which every commit fits its time-out: 1 MiB/s (8 Mbit/s)."""


class Committer:
    """Commits judged slices.

    Under exactly_once each partition has at most one commit in flight, and the next one takes all waiting slices (group
    commit). So partitions do not wait for each other, and a slow broker gets fewer, larger transactions. Under
    at_least_once the next outputs are sent as soon as the former ones are delivered, while the former offset is
    committed.
    """

    def __init__(
        self,
        settings: Settings,
        consumer: AIOKafkaConsumer,
        partitions: Partitions,
        builder: OutputBuilder,
        metrics: Metrics,
        finished: Callable[[], None],
        start_task: StartTask,
    ) -> None:
        """finished(): called once per micro-batch, when all its slices are committed or dropped.

        start_task(commit): starts a commit. Its error stops the worker, because no later commit can succeed.
        """
        self._settings = settings
        self._offsets = OffsetCommits(consumer)
        self._partitions = partitions
        self._builder = builder
        self._metrics = metrics
        self._finished = finished
        self._exactly_once = settings.service.guarantee == "exactly_once"
        self._waiting: dict[OwnedPartition, list[JudgedSlice]] = {}
        self._start_task = start_task
        self._rules = page_rules(settings)
        metrics.count_rules(self._taken(()))
        self._budget = ByteBudget(most_bytes(settings.kafka.transaction_timeout_ms, settings.kafka.request_timeout_ms))
        # The broker aborts a transaction after this time.
        self._most_seconds = settings.kafka.transaction_timeout_ms / 1000

    async def close(self) -> None:
        """Cancel the offset commits in flight. Call it after the tasks of the worker have ended."""
        await self._offsets.close()

    def submit(self, batch: MicroBatch) -> None:
        """Queue a judged micro-batch. Slices of a partition are committed in the order of submission."""
        for part in batch.slices:
            waiting = self._waiting.get(part.owned)
            if waiting is not None:
                waiting.append((batch, part))
                continue
            self._waiting[part.owned] = [(batch, part)]
            self._start_task(self._commit_partition(part.owned))

    async def _commit_partition(self, owned: OwnedPartition) -> None:
        """Commit the waiting slices of a partition until none is left."""
        while work := self._next(owned):
            delivered = asyncio.Event()
            self._start_task(self._commit_work(owned, work, delivered))
            await delivered.wait()
        del self._waiting[owned]

    async def _commit_work(self, owned: OwnedPartition, work: Sequence[JudgedSlice], delivered: asyncio.Event) -> None:
        """Commit slices of a partition, and set `delivered` when the next ones may be sent."""
        try:
            # Pages that were fetched before a revocation or a reopening are dropped and read again.
            current = [judged for judged in work if judged[1].current]
            if current:
                with self._metrics.timed("commit"):
                    await _unless_dropped(owned, self._commit_in_turn(owned, current, delivered))
        finally:
            delivered.set()
            for batch, part in work:
                if batch.end_slice(part):
                    self._finished()

    def _next(self, owned: OwnedPartition) -> list[JudgedSlice]:
        """Take as many waiting slices of a partition as can be sent in time, but at least one."""
        waiting, size, number = self._waiting[owned], 0, 0
        for judged in waiting:
            size += judged[1].size
            if number and size > self._budget.most:
                break
            number += 1
        self._waiting[owned] = waiting[number:]
        return waiting[:number]

    async def _commit_in_turn(
        self, owned: OwnedPartition, work: Sequence[JudgedSlice], delivered: asyncio.Event
    ) -> None:
        size = sum(part.size for _, part in work)
        async with self._budget.of(size):
            await self._commit(owned, work, size, delivered)

    async def _commit(
        self, owned: OwnedPartition, work: Sequence[JudgedSlice], size: int, delivered: asyncio.Event
    ) -> None:
        last = work[-1][1]
        next_offset = last.next_offset
        if self._builder.is_short(size):
            outputs = self._builder.build(owned.partition.partition, work)
        else:
            outputs = await asyncio.to_thread(self._builder.build, owned.partition.partition, work)
        producer = owned.producer
        if producer is None or not work[0][1].current:
            return  # The partition was revoked meanwhile. Its next owner reads these pages again.
        try:
            async with asyncio.timeout(self._most_seconds):
                if self._exactly_once:
                    await self._in_transaction(producer, outputs, {owned.partition: next_offset})
                else:
                    await deliver(producer, outputs)
                    delivered.set()
                    await self._offsets.commit(owned.partition, next_offset)
        except KafkaError as error:
            self._failed(last, error)
            return
        except TimeoutError:
            # aiokafka would retry for ever. The committed offset shows later whether the commit succeeded.
            self._failed(last, KafkaTimeoutError(f"no response within {self._most_seconds:.0f} s"))
            return
        self._partitions.committed(owned, next_offset)
        self._count(work, outputs)

    async def _in_transaction(
        self, producer: AIOKafkaProducer, outputs: OutputBatches, offsets: dict[TopicPartition, int]
    ) -> None:
        await producer.begin_transaction()
        async with TaskScope() as tasks:
            sending = tasks.create_task(deliver(producer, outputs))
            await producer.send_offsets_to_transaction(offsets, self._settings.kafka.group_id)
            # aiokafka's commit ignores failed deliveries, so each must have succeeded before it.
            await sending
        await producer.commit_transaction()

    def _failed(self, last: Slice, error: KafkaError) -> None:
        """Drop the pages of a commit that failed or has an unknown outcome, and go back to the committed offset.

        last: the last slice of the commit
        """
        owned, name = last.owned, type(error).__name__
        self._metrics.commit_failures.labels(name).inc()
        if stops(error):
            raise final_error(error, self._settings, "committing") from error
        if not last.current:
            # Another commit of the partition failed, or the partition was revoked: these pages are already dropped.
            return
        logger().warning(
            "a commit failed; its pages are read again from the committed offset",
            partition=owned.partition.partition,
            error=name,
            detail=str(error),
        )
        self._partitions.reopen(owned, error, last.next_offset)

    def _count(self, work: Sequence[JudgedSlice], outputs: OutputBatches) -> None:
        metrics = self._metrics
        metrics.commits.inc()
        metrics.tombstones.inc(outputs.tombstones)
        for reason, number in outputs.dead_letters.items():
            metrics.dead_letters.labels(reason).inc(number)
        for batch, part in work:
            poison = sum(part.first <= number < part.end for number in batch.faults)
            if poison:
                metrics.pages.labels(Kind.UNCHECKED.label, Reason.INTERNAL_ERROR.label).inc(poison)
            if batch.verdicts is not None:
                rows = batch.rows[part.first : part.end]
                messages = batch.messages[part.first : part.end]
                sizes = np.fromiter((len(message.value or b"") for message in messages), np.int64, len(rows))
                judged = rows >= 0
                rows = rows[judged]
                metrics.count_verdicts(batch.verdicts, rows, sizes[judged])
                if batch.signatures is not None:
                    metrics.count_texts(batch.signatures, rows)
                    metrics.count_hosts(batch.signatures, batch.verdicts, rows)
                    metrics.count_rules(self._taken(batch.signatures.urls[row] for row in rows))

    def _taken(self, urls: Iterable[bytes]) -> dict[str, int]:
        """Number of these URLs that each rule matches."""
        return {} if self._rules is None else self._rules.taken(url.decode("utf-8", "replace") for url in urls)


async def _unless_dropped(owned: OwnedPartition, commit: Coroutine[Any, Any, None]) -> None:
    """Await a commit, but cancel it when the partition is revoked or reopened meanwhile.

    aiokafka never completes a commit whose producer was stopped. A wait for it would block its micro-batches, and so
    all intake, for ever. The next owner, or the opening, reads the committed offset and sees whether the commit
    succeeded.
    """
    async with TaskScope() as tasks:
        both = [tasks.create_task(commit), tasks.create_task(owned.dropped.wait())]
        # Not race(): a commit that a stopped producer has cancelled ends here without an error, too.
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)


async def deliver(producer: AIOKafkaProducer, outputs: OutputBatches) -> None:
    """Send all batches and wait until the broker has acknowledged each. Raises KafkaError."""
    deliveries: list[asyncio.Future[object]] = []
    try:
        for topic, partition, builder in outputs.batches:
            try:
                deliveries.append(await producer.send_batch(builder, topic, partition=partition))
            except AssertionError:
                # aiokafka asserts that the topic has the partition. BrokerWatch detects a topic that lost it.
                raise UnknownTopicOrPartitionError(f"{topic}/{partition}") from None
        for delivery in await asyncio.gather(*deliveries, return_exceptions=True):
            if isinstance(delivery, BaseException):
                raise delivery
    finally:
        for waiting in deliveries:
            waiting.cancel()


def most_bytes(transaction_timeout_ms: int, request_timeout_ms: int) -> int:
    """Limit for the output bytes in flight on the slowest network; 30 MiB for time-outs of 60 s and 40 s.

    Sending takes at most half of the transaction time-out, so the other half is left for the broker, and at most three
    quarters of the request time-out, because requests share a connection and wait for each other. Without a limit, 8
    micro-batches of 16 MiB could become one commit: 128 MiB take 128 s at that speed, would be aborted after 60 s, and
    would be repeated for ever.
    """
    most_ms = min(transaction_timeout_ms // 2, request_timeout_ms * 3 // 4)
    return max(1, most_ms * SLOWEST_BYTES_PER_SECOND // 1000)


class ByteBudget:
    """Limits the bytes in flight to the broker, so that each commit can be sent before its time-out.

    Commits are served in the order of their requests. A commit larger than the whole budget is sent alone.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._used = 0
        self._turn = asyncio.Lock()
        self._released = asyncio.Event()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Wait for `size` bytes of the budget, and hold them while the block runs."""
        async with self._turn:
            while self._used and self._used + size > self.most:
                self._released.clear()
                await self._released.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._released.set()
