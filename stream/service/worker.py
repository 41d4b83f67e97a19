"""Owns the worker: the stages intake, sign, append, judge and commit, with bounded queues between them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from stream.config import Settings
from stream.engine import Applied, Engine
from stream.intake import Decoder
from stream.schemes import Scheme
from stream.service.clients import explained, is_fatal, pages_consumer
from stream.service.commit import Committer
from stream.service.logs import logger
from stream.service.metrics import Metrics
from stream.service.microbatch import MicroBatch, Slice, micro_batches, sign
from stream.service.outputs import OutputBuilder, Outputs
from stream.service.partitions import OwnedPartition, Partitions
from stream.service.signature_log import SignatureLog, log_progress, verdicts_of
from stream.service.topics import TopicFacts

QUEUE_BATCHES = 2
"""Micro-batches that wait between two stages: enough to overlap, few enough that memory stays flat."""
WRITER_BYTES = 16
LAG_SECONDS = 1.0


class Worker:
    """One process of the service: reads pages, judges them through the log, commits."""

    def __init__(
        self, settings: Settings, scheme: Scheme, engine: Engine, facts: Mapping[str, TopicFacts], metrics: Metrics
    ) -> None:
        self._settings = settings
        self._scheme = scheme
        self._decoder = Decoder(settings.input)
        self._metrics = metrics
        self._consumer: AIOKafkaConsumer = pages_consumer(settings)
        self._partitions = Partitions(settings, self._consumer, metrics)
        self._log = SignatureLog(settings, engine, os.urandom(WRITER_BYTES), metrics)
        self._committer = Committer(settings, self._consumer, OutputBuilder(settings, facts))
        self._signing = ThreadPoolExecutor(1, thread_name_prefix="sign")
        self._to_sign: asyncio.Queue[MicroBatch] = asyncio.Queue(QUEUE_BATCHES)
        self._to_append: asyncio.Queue[MicroBatch] = asyncio.Queue(QUEUE_BATCHES)
        self._to_commit: asyncio.Queue[tuple[MicroBatch, list[asyncio.Future[Applied]]]] = asyncio.Queue(QUEUE_BATCHES)
        self._stopping = asyncio.Event()
        self.ready = False

    def stop(self) -> None:
        """Ask for a clean stop: finish what was fetched, commit, leave the group."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stop() or an error that waiting does not cure.

        Raises SpotsieveError; the state and the committed offsets agree whatever happens.
        """
        try:
            await self._log.start(log_progress)
            await self._committer.start()
            self._consumer.subscribe([self._settings.topics.input], listener=self._partitions)
            await self._consumer.start()
            self.ready = True
            self._metrics.ready.set(1)
            await self._work()
        except KafkaError as error:
            raise explained(error, self._settings, "running") from error
        finally:
            self.ready = False
            self._metrics.ready.set(0)
            await self._close()

    async def _work(self) -> None:
        stages = [self._sign(), self._append(), self._commit(), self._log.follow(), self._watch_lag()]
        running = [asyncio.create_task(stage) for stage in stages]
        intake = asyncio.create_task(self._intake())
        try:
            done, _ = await asyncio.wait([*running, intake], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await self._drain(running)
        finally:
            for task in (*running, intake):
                task.cancel()
            await asyncio.gather(*running, intake, return_exceptions=True)

    async def _drain(self, running: list[asyncio.Task[None]]) -> None:
        """Let the stages finish what was fetched, for as long as a stop may take."""
        timeout = self._settings.service.shutdown_timeout_ms / 1000
        draining = asyncio.create_task(self._partitions.drained(timeout))
        done, _ = await asyncio.wait([draining, *running], return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            if task in done:
                task.result()
        if not await draining:
            # Nothing is lost: what is not committed is read again after the next start.
            logger().warning("stopped with pages in flight", waited_seconds=timeout)

    async def _close(self) -> None:
        closers: list[Callable[[], Awaitable[None]]] = [
            self._partitions.close, self._committer.close, self._consumer.stop, self._log.close,
        ]  # fmt: skip
        for close in closers:
            try:
                await close()
            except KafkaError as error:
                logger().warning("closing failed", error=type(error).__name__, detail=str(error))
        self._signing.shutdown()

    # Stages, in the order a page meets them.

    async def _intake(self) -> None:
        """Fetch until asked to stop. This loop alone seeks, between two fetches."""
        service = self._settings.service
        while not self._stopping.is_set():
            if self._partitions.failure is not None:
                raise self._partitions.failure
            self._seek()
            with self._metrics.timed("fetch"):
                fetched = await self._fetch(service.linger_ms, service.batch_pages)
            owners = self._accepted(fetched)
            taken = {partition: fetched[partition] for partition in owners}
            for batch in micro_batches(taken, owners, service.batch_pages, service.batch_bytes):
                self._metrics.batch_pages.observe(len(batch.messages))
                await self._to_sign.put(batch)

    async def _fetch(self, linger_ms: int, most: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            fetched: dict[TopicPartition, list[ConsumerRecord]] = await self._consumer.getmany(
                timeout_ms=max(linger_ms, 1), max_records=most
            )
        except NoOffsetForPartitionError:
            return {}  # The partition is being opened: its first offset is on the way.
        except OffsetOutOfRangeError as error:
            await self._skip_expired(error)
            return {}
        except KafkaError as error:
            if not error.retriable:
                raise
            self._metrics.retries.labels("fetch").inc()
            await asyncio.sleep(0.2)
            return {}
        return fetched

    def _seek(self) -> None:
        for owned in self._partitions.all():
            if owned.seek_to is not None and owned.partition in self._consumer.assignment():
                self._consumer.seek(owned.partition, owned.seek_to)
                owned.seek_to = None
                owned.accepting = True

    def _accepted(self, fetched: Mapping[TopicPartition, object]) -> dict[TopicPartition, OwnedPartition]:
        """The partitions whose records may be taken: owned, and sought since they were opened."""
        owners = {}
        for partition in fetched:
            owned = self._partitions[partition]
            if owned is not None and owned.accepting and owned.seek_to is None:
                owners[partition] = owned
        return owners

    async def _skip_expired(self, error: OffsetOutOfRangeError) -> None:
        """The topic's retention removed pages before they were read: say so, and go on with what is there."""
        (offsets,) = error.args
        begin: dict[TopicPartition, int] = await self._consumer.beginning_offsets(list(offsets))
        for partition, offset in offsets.items():
            logger().error(
                "retention removed pages before they were read", topic=partition.topic, partition=partition.partition,
                first_missing=offset, next_offset=begin[partition],
            )  # fmt: skip
            self._metrics.expired.inc(max(0, begin[partition] - offset))
            owned = self._partitions[partition]
            if owned is not None:
                owned.seek_to = begin[partition]

    async def _sign(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._to_sign.get()
            with self._metrics.timed("sign"):
                await loop.run_in_executor(self._signing, sign, batch, self._decoder, self._scheme)
            await self._to_append.put(batch)

    async def _append(self) -> None:
        while True:
            batch = await self._to_append.get()
            futures: list[asyncio.Future[Applied]] = []
            if batch.signatures is not None:
                with self._metrics.timed("append"):
                    futures = await self._log.append(batch.signatures)
            await self._to_commit.put((batch, futures))

    async def _commit(self) -> None:
        while True:
            batch, futures = await self._to_commit.get()
            batch.verdicts = await verdicts_of(futures) if futures else None
            with self._metrics.timed("commit"):
                await asyncio.gather(*(self._commit_slice(batch, part) for part in batch.slices))
            batch.done()

    async def _commit_slice(self, batch: MicroBatch, part: Slice) -> None:
        if not part.current:
            return  # Handed over or reopened: its next reader begins before these messages.
        try:
            outputs = await self._committer.commit(batch, part)
        except KafkaError as error:
            self._commit_failed(part, error)
            return
        part.owned.committed = part.next_offset
        self._count(batch, part, outputs)

    def _commit_failed(self, part: Slice, error: KafkaError) -> None:
        """Outcome unknown or refused: drop what is not committed and begin again at the committed offset."""
        name = type(error).__name__
        self._metrics.commit_failures.labels(name).inc()
        if is_fatal(error):
            raise explained(error, self._settings, "committing") from error
        logger().warning(
            "commit failed; going back to the committed offset", partition=part.owned.partition.partition, error=name,
            detail=str(error),
        )  # fmt: skip
        self._partitions.reopen(part.owned)

    def _count(self, batch: MicroBatch, part: Slice, outputs: Outputs) -> None:
        metrics = self._metrics
        metrics.commits.inc()
        metrics.tombstones.inc(outputs.tombstones)
        for reason, number in outputs.dead_letters.items():
            metrics.dead_letters.labels(reason).inc(number)
        if batch.verdicts is not None:
            rows = batch.rows[part.first : part.end]
            sizes = np.fromiter(
                (len(message.value or b"") for message in batch.messages[part.first : part.end]), np.int64, len(rows)
            )
            metrics.count_verdicts(batch.verdicts, rows[rows >= 0], sizes[rows >= 0])

    async def _watch_lag(self) -> None:
        """Keep the lag gauge true, also while nothing arrives."""
        while True:
            self._metrics.lag.clear()
            for owned in self._partitions.all():
                end = self._consumer.highwater(owned.partition) if owned.accepting else None
                if end is not None:
                    lag = self._metrics.lag.labels(owned.partition.topic, owned.partition.partition)
                    lag.set(max(0, end - owned.committed))
            await asyncio.sleep(LAG_SECONDS)
