"""Opens, drains and hands over the input partitions that the consumer group assigns to the worker."""

import asyncio
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError, KafkaTimeoutError

from spotsieve.state.index import CommitMark
from spotsieve.state.log.pages_body import MAX_MARKS
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.tasks import StartTask
from spotsieve.stream.kafka.clients import SharedClients, stop_client
from spotsieve.stream.kafka.driver.clients import remember_generation
from spotsieve.stream.kafka.driver.requests import stable_committed
from spotsieve.stream.kafka.errors import final_error, stops
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.offsets import StartOffsets
from spotsieve.stream.service.pages.ownership import OwnedPartition, Phase

OPENINGS = 8
"""Limit of partitions that are opened at a time. Each sends about six requests, and 1,000 at once would delay the
heartbeats of the event loop."""
OPENING_FIRST_SECONDS = 45.0
"""For this time after an assignment nothing is fetched while partitions wait to be opened."""


class Partitions(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's class is untyped
    """The input partitions of the worker. The consumer group calls it at every rebalance."""

    def __init__(
        self,
        settings: Settings,
        consumer: AIOKafkaConsumer,
        metrics: Metrics,
        waits: Waits,
        start_task: StartTask,
        start_offsets: StartOffsets,
    ) -> None:
        """start_task(opening): starts an opening. Its error stops the worker, because no later opening can succeed.

        start_offsets: chooses the first offset of a partition without a committed offset; closed with the partitions
        """
        self._settings = settings
        self._consumer = consumer
        self._metrics = metrics
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._waits = waits
        self._start_task = start_task
        self._clients = SharedClients(settings)
        self._turn = asyncio.Semaphore(OPENINGS)
        self._assigned_at = 0.0
        self._start_offsets = start_offsets
        self._marked: dict[TopicPartition, int] = {}

    def __getitem__(self, partition: TopicPartition) -> OwnedPartition | None:
        return self._owned.get(partition)

    def all(self) -> list[OwnedPartition]:
        """All partitions that are assigned to this worker now."""
        return list(self._owned.values())

    @property
    def opening_first(self) -> bool:
        """Whether to fetch nothing yet, because work on a backlog would delay the openings."""
        if time.monotonic() - self._assigned_at > OPENING_FIRST_SECONDS:
            return False
        return sum(owned.phase is Phase.OPENING for owned in self._owned.values()) > OPENINGS

    async def drained(self, timeout_seconds: float) -> bool:
        """Wait until no page is in flight. Returns False after the time-out."""
        return all(await asyncio.gather(*(owned.drained(timeout_seconds) for owned in self.all())))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Finish the pages in flight, so that the next owner continues where this worker ends."""
        leaving = [self._owned[partition] for partition in revoked if partition in self._owned]
        for owned in leaving:
            owned.leave()
        timeout = self._settings.kafka.rebalance_timeout_ms / 1000 / 2
        await asyncio.gather(*(self._close(owned, timeout) for owned in leaving))
        self._metrics.partitions.set(len(self._owned))

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Fence former owners, then continue at the committed offsets."""
        self._metrics.rebalances.inc()
        for left in self._owned.values():
            left.lose()  # Its revocation was interrupted.
        remember_generation(self._consumer)
        self._assigned_at = time.monotonic()
        new = [OwnedPartition(partition) for partition in assigned]
        self._owned = {owned.partition: owned for owned in new}
        for owned in new:
            # Without a seek, aiokafka would fetch from the committed offset before the opening has ended. The offset is
            # irrelevant, because the opening seeks at its end.
            self._consumer.seek(owned.partition, 0)
            self._consumer.pause(owned.partition)
            # The opening is not awaited, because aiokafka sends no heartbeats while a listener runs.
            self._start_task(self._open_until_done(owned))
        self._metrics.partitions.set(len(self._owned))
        logger().info("partitions assigned", partitions=sorted(owned.partition.partition for owned in new))

    async def open(self, owned: OwnedPartition) -> None:
        """Open or reopen a partition: first a new producer, then the committed offset (aiokafka issue 844).

        InitProducerId fences a former owner and ends its open transaction, so a committed offset that is read after it
        is final.
        """
        epoch = owned.begin_opening()
        await stop_producer(owned)
        await self._start_producer(owned, epoch)
        committed = await stable_committed(self._consumer, owned.partition)
        if committed is None and owned.is_opening(epoch):
            committed = await self._start_offsets.begin(owned.partition)
        if committed is not None and owned.is_opening(epoch):
            if committed >= owned.attempted:
                # The next page may come hours later, and a worker that waits for the broker is not ready.
                self.committed(owned, committed)
            owned.committed = committed
            owned.seek(committed)

    def reopen(self, owned: OwnedPartition, error: KafkaError, next_offset: int) -> None:
        """Drop the pages in flight after a failed commit, and open the partition again when the broker allows it.

        A partition that is being revoked is left to its next owner, which continues at the committed offset.
        next_offset: the offset of the failed commit
        """
        if owned.phase is Phase.LOST:
            return
        owned.attempted = next_offset
        self._waits.failed("commit", error, owned.partition.partition)
        if owned.phase is Phase.LEAVING:
            owned.drop()
            return
        owned.begin_opening()
        self._start_task(self._open_until_done(owned, wait_first=True))

    def committed(self, owned: OwnedPartition, next_offset: int) -> None:
        """Record a successful commit, also one that was reported as failed before."""
        owned.committed = next_offset
        owned.backoff.reset()
        self._waits.over("commit", owned.partition.partition)

    def take_marks(self) -> list[CommitMark]:
        """Commit marks for the log: offsets that were committed since the last call, of at most MAX_MARKS partitions.

        The other partitions follow at a later call. A partition has no mark until its opening has read the committed
        offset, because only then a commit of a former owner can no longer follow.
        """
        marks = list[CommitMark]()
        for partition, owned in self._owned.items():
            if owned.committed and self._marked.get(partition) != owned.committed and len(marks) < MAX_MARKS:
                marks.append(CommitMark(partition.topic, partition.partition, owned.committed))
                self._marked[partition] = owned.committed
        return marks

    async def _open_until_done(self, owned: OwnedPartition, wait_first: bool = False) -> None:
        """Open a partition, with retries while this worker owns it and the error may be transient."""
        number = owned.partition.partition
        if wait_first:
            await owned.backoff.wait()
        try:
            while owned.phase is Phase.OPENING:
                try:
                    await self._open_in_time(owned)
                    break
                except KafkaError as error:
                    self._waits.failed("reopen", error, number)
                    if stops(error):
                        raise final_error(error, self._settings, "opening a partition") from error
                    logger().warning(
                        "a partition could not be opened; the opening is repeated",
                        partition=number,
                        error=type(error).__name__,
                        detail=str(error),
                    )
                    await owned.backoff.wait()
        finally:
            self._waits.over("reopen", number)
        if owned.phase is Phase.LOST:
            await stop_producer(owned)  # The partition was revoked meanwhile.

    async def _open_in_time(self, owned: OwnedPartition) -> None:
        """Wait for a turn, then open a partition once.

        Raises KafkaTimeoutError if no coordinator is found within kafka.request_timeout_ms; aiokafka itself would retry
        for ever.
        """
        async with self._turn:
            if owned.phase is not Phase.OPENING:
                return  # The partition was revoked meanwhile.
            try:
                async with asyncio.timeout(self._settings.kafka.request_timeout_ms / 1000):
                    await self.open(owned)
            except TimeoutError:
                raise KafkaTimeoutError(f"no response within {self._settings.kafka.request_timeout_ms} ms") from None

    async def _start_producer(self, owned: OwnedPartition, epoch: int) -> None:
        """Start the producer of the partition, which fences former owners. Stop it if this opening is superseded.

        Every opening needs a new producer, also under at_least_once: a batch that aiokafka gave up leaves a gap in the
        sequence numbers, and the broker then rejects all batches of this producer.
        """
        exactly_once = self._settings.service.guarantee == "exactly_once"
        producer = self._clients.producer(
            owned.partition.partition, self.transactional_id(owned.partition) if exactly_once else None
        )
        try:
            await producer.start()
        except BaseException:
            await stop_client(producer)
            raise
        if owned.is_opening(epoch):
            owned.producer = producer
        else:
            await stop_client(producer)

    async def close(self) -> None:
        """Stop all producers, then close their connections. Call it after the tasks of the worker have ended."""
        await asyncio.gather(*(stop_producer(owned) for owned in self._owned.values()))
        self._owned.clear()
        await self._clients.close()
        await self._start_offsets.close()

    def transactional_id(self, partition: TopicPartition) -> str:
        """The transactional id of an input partition, by which its owner fences the former owner."""
        # A topic name has no colon, so different groups and topics never have the same id.
        return f"{self._settings.kafka.group_id}:{partition.topic}:{partition.partition}"

    async def _close(self, owned: OwnedPartition, timeout_seconds: float) -> None:
        if not await owned.drained(timeout_seconds):
            # Nothing is lost: the next owner reads uncommitted pages again.
            logger().warning(
                "a partition was revoked with uncommitted pages in flight", partition=owned.partition.partition
            )
        owned.lose()
        self._waits.over("commit", owned.partition.partition)
        if self._owned.get(owned.partition) is owned:
            del self._owned[owned.partition]
        await stop_producer(owned)


async def stop_producer(owned: OwnedPartition) -> None:
    """Stop the producer of a partition. The next InitProducerId aborts its open transaction."""
    producer, owned.producer = owned.producer, None
    if producer is not None:
        await stop_client(producer)
