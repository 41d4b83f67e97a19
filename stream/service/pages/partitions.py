"""Keeps the worker's input partitions in step with the consumer group: opens them, drains them and hands them over."""

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
from spotsieve.stream.kafka.clients import stop_client
from spotsieve.stream.kafka.committed import stable_committed
from spotsieve.stream.kafka.driver.consumers import remember_generation
from spotsieve.stream.kafka.errors import final_error, stops
from spotsieve.stream.kafka.shared_clients import SharedClients
from spotsieve.stream.kafka.watch import Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.offsets import Knows, StartOffsets
from spotsieve.stream.service.pages.ownership import OwnedPartition, Phase

OPENINGS = 8
"""So many partitions are opened at a time. Each asks the broker half a dozen things, and 1,000 at once would keep the
event loop from its heartbeats."""
OPENING_FIRST_SECONDS = 45.0
"""So long after an assignment nothing is fetched while partitions wait for their turn to be opened."""


class Partitions(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka's class is untyped
    """The worker's partitions. The consumer group calls it at every rebalance."""

    def __init__(
        self,
        settings: Settings,
        consumer: AIOKafkaConsumer,
        metrics: Metrics,
        waits: Waits,
        start_task: StartTask,
        knows: Knows,
        there: int,
    ) -> None:
        """start_task(opening): starts an opening; its error stops the worker, because no later one can succeed.

        knows(partition): whether the state knows pages of a partition  there: how many partitions the input had when
        the process began
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
        self._start_offsets = StartOffsets(settings, consumer, knows, there)
        self._marked: dict[TopicPartition, int] = {}

    def __getitem__(self, partition: TopicPartition) -> OwnedPartition | None:
        return self._owned.get(partition)

    def all(self) -> list[OwnedPartition]:
        """Every partition this worker has now."""
        return list(self._owned.values())

    @property
    def opening_first(self) -> bool:
        """Whether nothing is to be fetched yet: a backlog would take the time that opening the others needs."""
        if time.monotonic() - self._assigned_at > OPENING_FIRST_SECONDS:
            return False
        return sum(owned.phase is Phase.OPENING for owned in self._owned.values()) > OPENINGS

    async def drained(self, timeout_seconds: float) -> bool:
        """Wait until nothing is in flight; False after the time-out."""
        return all(await asyncio.gather(*(owned.drained(timeout_seconds) for owned in self.all())))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Finish the pages in flight, so that the next owner begins where this worker ends."""
        leaving = [self._owned[partition] for partition in revoked if partition in self._owned]
        for owned in leaving:
            owned.leave()
        timeout = self._settings.kafka.rebalance_timeout_ms / 1000 / 2
        await asyncio.gather(*(self._close(owned, timeout) for owned in leaving))
        self._metrics.partitions.set(len(self._owned))

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Fence former owners, then begin at the committed offsets."""
        self._metrics.rebalances.inc()
        for left in self._owned.values():
            left.lose()  # Its hand-over was cut off.
        remember_generation(self._consumer)
        self._assigned_at = time.monotonic()
        new = [OwnedPartition(partition) for partition in assigned]
        self._owned = {owned.partition: owned for owned in new}
        for owned in new:
            # Otherwise aiokafka would look for the committed offset and fetch from there, before the opening has ended.
            # The place does not matter: the opening's end seeks.
            self._consumer.seek(owned.partition, 0)
            self._consumer.pause(owned.partition)
            # The opening is not awaited, because aiokafka sends no heartbeats while a listener runs.
            self._start_task(self._open_until_done(owned))
        self._metrics.partitions.set(len(self._owned))
        logger().info("partitions assigned", partitions=sorted(owned.partition.partition for owned in new))

    async def open(self, owned: OwnedPartition) -> None:
        """Take a partition, or take it again: first a new producer, then the committed offset (aiokafka issue 844).

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
                # No page may follow for hours, and who waits for the broker is not ready.
                self.committed(owned, committed)
            owned.committed = committed
            owned.seek(committed)

    def reopen(self, owned: OwnedPartition, error: KafkaError, next_offset: int) -> None:
        """A commit failed: drop the pages in flight and take the partition again, as soon as the broker allows it.

        A partition that is being handed over is left to its next owner, who begins at the committed offset.
        next_offset: what the commit was to commit
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
        """A commit has succeeded, also one that failed as far as was known."""
        owned.committed = next_offset
        owned.backoff.reset()
        self._waits.over("commit", owned.partition.partition)

    def take_marks(self) -> list[CommitMark]:
        """What was committed since the last call, for the log: at most MAX_MARKS partitions, the others another time.

        A partition that is being opened has no mark until its committed offset is read: only then a former owner's
        commit can no longer come behind it.
        """
        marks = list[CommitMark]()
        for partition, owned in self._owned.items():
            if owned.committed and self._marked.get(partition) != owned.committed and len(marks) < MAX_MARKS:
                marks.append(CommitMark(partition.topic, partition.partition, owned.committed))
                self._marked[partition] = owned.committed
        return marks

    async def _open_until_done(self, owned: OwnedPartition, wait_first: bool = False) -> None:
        """Open a partition; try again while this worker has it and the error may pass."""
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
                        raise final_error(error, self._settings, "taking a partition") from error
                    logger().warning(
                        "a partition cannot be taken yet; trying again",
                        partition=number,
                        error=type(error).__name__,
                        detail=str(error),
                    )
                    await owned.backoff.wait()
        finally:
            self._waits.over("reopen", number)
        if owned.phase is Phase.LOST:
            await stop_producer(owned)  # The partition was handed over meanwhile.

    async def _open_in_time(self, owned: OwnedPartition) -> None:
        """Open a partition once, when it is its turn.

        Raises KafkaTimeoutError where no coordinator is found in time: aiokafka would look for one for ever.
        """
        async with self._turn:
            if owned.phase is not Phase.OPENING:
                return  # The partition was handed over meanwhile.
            try:
                async with asyncio.timeout(self._settings.kafka.request_timeout_ms / 1000):
                    await self.open(owned)
            except TimeoutError:
                raise KafkaTimeoutError(f"no answer within {self._settings.kafka.request_timeout_ms} ms") from None

    async def _start_producer(self, owned: OwnedPartition, epoch: int) -> None:
        """Start the partition's producer, which fences former owners; stop it if this opening no longer counts.

        Every opening has a new producer, also under at_least_once: a batch that aiokafka gave up leaves a gap in the
        sequence numbers, and the broker then refuses everything that this producer sends.
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
        """Stop every producer, then end their connections. The worker's tasks, and so all openings, have ended."""
        await asyncio.gather(*(stop_producer(owned) for owned in self._owned.values()))
        self._owned.clear()
        await self._clients.close()
        await self._start_offsets.close()

    def transactional_id(self, partition: TopicPartition) -> str:
        """The id of an input partition: its owner owns the id, too, and fences the owner before."""
        # The name of a topic has no colon, so different groups and topics never make the same id.
        return f"{self._settings.kafka.group_id}:{partition.topic}:{partition.partition}"

    async def _close(self, owned: OwnedPartition, timeout_seconds: float) -> None:
        if not await owned.drained(timeout_seconds):
            # Nothing is lost: the next owner reads again what was not committed.
            logger().warning("partition handed over with pages in flight", partition=owned.partition.partition)
        owned.lose()
        self._waits.over("commit", owned.partition.partition)
        if self._owned.get(owned.partition) is owned:
            del self._owned[owned.partition]
        await stop_producer(owned)


async def stop_producer(owned: OwnedPartition) -> None:
    """Stop a partition's producer. The next InitProducerId aborts the transaction that it had open."""
    producer, owned.producer = owned.producer, None
    if producer is not None:
        await stop_client(producer)
