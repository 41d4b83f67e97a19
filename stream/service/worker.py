"""Runs a worker: a pipeline of the stages fetch, sign, append, judge and commit.

The number of micro-batches in the pipeline is bounded.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from spotsieve.state.format.meta import LogIdentity
from spotsieve.state.index import CommitMark
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.tasks import TaskScope, first_of, race
from spotsieve.stream.engine import ApplyResult
from spotsieve.stream.kafka.clients import pages_consumer, stop_client
from spotsieve.stream.kafka.driver.clients import bind_group, bound_prefetch
from spotsieve.stream.kafka.errors import final_error
from spotsieve.stream.kafka.topics import TopicFacts
from spotsieve.stream.kafka.watch import BrokerWatch, Waits
from spotsieve.stream.observe.health import Heartbeats
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.log.signature_log import verdicts_of
from spotsieve.stream.service.pages.commit import Committer
from spotsieve.stream.service.pages.fetcher import Fetcher
from spotsieve.stream.service.pages.microbatch import MicroBatch, sign
from spotsieve.stream.service.pages.offsets import StartOffsets
from spotsieve.stream.service.pages.outputs import OutputBuilder
from spotsieve.stream.service.pages.ownership import OwnedPartition
from spotsieve.stream.service.pages.partitions import Partitions
from spotsieve.stream.service.pages.poison_pages import FOLDER, PoisonPageFolder, poison_messages
from spotsieve.stream.service.serial_executor import SHORT_BYTES, SerialExecutor
from spotsieve.stream.sign.intake import Decoder
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import salted

MOST_IN_FLIGHT = 8
"""Limit of micro-batches between fetch and commit: enough to keep every stage busy, few enough to bound memory."""
FEW_IN_FLIGHT = 3
"""Limit for small micro-batches. Each micro-batch costs the worker and the broker some milliseconds of CPU whatever its
size, so a wait lets the next one grow: at 200 pages/s, exactly once, the median page took 144 ms instead of 176 ms, and
171 ms instead of 202 ms (two rounds side by side on a busy machine; the limit 2 gives the same).
"""
SMALL_SHARE = 4
"""A fetch of fewer than service.batch_pages / SMALL_SHARE pages is small, and the next fetch waits for more."""
LAG_SECONDS = 1.0


class VerdictLog(Protocol):
    """The log as a worker sees it: it takes signatures and returns their verdicts."""

    async def start(self, progress: Callable[[str], None]) -> None:
        """Connect and catch up, so that verdicts come at once.

        progress(text): called with the state of the catch-up
        """

    @property
    def identity(self) -> LogIdentity:
        """The identity of the log, once it has started. Pages are signed by its salt."""

    async def append(
        self, signatures: Signatures, committed: Sequence[CommitMark] = ()
    ) -> list[asyncio.Future[ApplyResult]]:
        """Append a micro-batch. Returns a future per record, which yields the verdicts of its pages."""

    async def follow(self) -> None:
        """Complete the futures as verdicts arrive. Never returns."""

    async def knows(self, partition: TopicPartition) -> bool:
        """Whether pages of this input partition were judged before."""

    async def void(self, partition: TopicPartition) -> None:
        """Remove the pending verdicts of this input partition before the pages of later appends are judged."""

    async def close(self) -> None:
        """Stop reading and writing."""


class Worker:
    """Reads pages, judges them through the log and commits them, with one set of Kafka clients."""

    def __init__(
        self,
        settings: Settings,
        scheme: Scheme,
        log_of: Callable[[Waits], VerdictLog],
        facts: Mapping[str, TopicFacts],
        metrics: Metrics,
        heartbeats: Heartbeats,
    ) -> None:
        """log_of(waits): makes the log that returns verdicts"""
        self._settings = settings
        self._scheme = scheme
        self._decoder = Decoder(settings.input)
        self._metrics = metrics
        self._consumer: AIOKafkaConsumer = pages_consumer(settings)
        self._waits = Waits(metrics)
        self._tasks = TaskScope()
        self._log = log_of(self._waits)
        self._facts = facts
        initial_partitions = facts["input"].partitions
        start_offsets = StartOffsets(settings, self._consumer, self._log.knows, self._log.void, initial_partitions)
        self._partitions = Partitions(settings, self._consumer, metrics, self._waits, self._tasks.start, start_offsets)
        self._fetcher = Fetcher(settings, self._consumer, self._partitions, metrics, self._waits)
        self._in_flight = InFlightLimit()
        self._builder = OutputBuilder(settings, facts)
        self._committer = Committer(
            settings,
            self._consumer,
            self._partitions,
            self._builder,
            metrics,
            self._in_flight.end,
            self._tasks.start,
        )
        self._poison_pages = PoisonPageFolder(settings.index.directory / FOLDER, metrics)
        self._signing = SerialExecutor("sign", heartbeats)
        self._to_sign: asyncio.Queue[MicroBatch] = asyncio.Queue()
        self._to_append: asyncio.Queue[MicroBatch] = asyncio.Queue()
        self._to_commit: asyncio.Queue[tuple[MicroBatch, list[asyncio.Future[ApplyResult]]]] = asyncio.Queue()
        self._stopping = asyncio.Event()
        self._warned_of_ranks = False
        self._stable: dict[TopicPartition, tuple[int, int]] = {}
        self.ready = False
        """True once the worker judges pages, also while it waits for the broker."""
        self.step = "catching up with the log"

    def problems(self) -> list[str]:
        """One sentence per reason why the worker judges no pages now. Any thread may call this."""
        return ([] if self.ready else [self.step]) + self._waits.texts()

    def stop(self) -> None:
        """Request a clean stop: finish and commit the fetched pages, then leave the group."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stop(), or until an error that these clients cannot recover from.

        Raises BrokerTrouble if a new worker can continue, and another SpotsieveError if not. The state and the
        committed offsets agree in every case.
        """
        try:
            async with self._tasks:
                self._tasks.start(BrokerWatch(self._settings, self._waits, self._assigned, self._facts).run())
                await race(self._start(), self._stopping.wait())
                if not self._stopping.is_set():
                    await self._work()
        except KafkaError as error:
            raise final_error(error, self._settings, "running") from error
        finally:
            await self._close()

    async def _start(self) -> None:
        """Catch up with the log and join the group."""
        await self._log.start(self._set_step)
        self._scheme = salted(self._scheme, self._log.identity.salt)
        # Workers of another log would not find the copies of these pages.
        bind_group(self._consumer, str(self._log.identity))
        # Before the join, which may take as long as the session of a killed worker.
        self._tasks.start(self._log.follow())
        self.step = "joining the group"
        logger().info(
            "joining the group; after a worker was killed, this takes until its session expires",
            group_id=self._settings.kafka.group_id,
            session_timeout_ms=self._settings.kafka.session_timeout_ms,
        )
        self._consumer.subscribe([self._settings.topics.input], listener=self._partitions)
        await self._consumer.start()
        bound_prefetch(self._consumer, self._settings.kafka.prefetch_bytes)

    def _assigned(self) -> int | None:
        """Number of partitions that the group gave to this worker; None before it has joined."""
        return len(self._partitions.all()) if self.ready else None

    def _set_step(self, step: str) -> None:
        self.step = step

    async def _work(self) -> None:
        """Run the stages until a stop is requested, and let them finish the fetched pages."""
        self.ready = True
        logger().info("ready")
        try:
            stages = [self._intake(), self._sign(), self._append(), self._commit(), self._watch_lag()]
            running = [self._tasks.create_task(stage) for stage in stages]
            await first_of(self._tasks.create_task(self._stopping.wait()), *running)
            timeout = self._settings.service.shutdown_timeout_ms / 1000
            if not await self._partitions.drained(timeout):
                # Nothing is lost: the next start reads uncommitted pages again.
                logger().warning(
                    "stopped with uncommitted pages in flight; the next start reads them again", waited_seconds=timeout
                )
        finally:
            self.ready = False

    async def _close(self) -> None:
        await self._committer.close()
        # The consumer first, because the group could still assign partitions to it.
        await stop_client(self._consumer)
        await self._partitions.close()
        await self._log.close()
        await self._signing.close()

    # Stages, in the order of the pipeline.

    async def _intake(self) -> None:
        """Fetch until a stop is requested."""
        service, fetched = self._settings.service, 0
        while not self._stopping.is_set():
            if fetched < service.batch_pages // SMALL_SHARE:
                await self._in_flight.few(service.linger_ms / 1000)
            try:
                batches = await self._fetcher.fetch()
            except Exception as error:
                if not self._stopping.is_set():
                    raise
                # The pages in flight can still be committed.
                logger().warning("a fetch failed during the stop; fetched pages are still committed", error=str(error))
                return
            fetched = sum(len(batch.messages) for batch in batches)
            for batch in batches:
                self._metrics.batch_pages.observe(len(batch.messages))
                await self._in_flight.begin()
                await self._to_sign.put(batch)

    async def _sign(self) -> None:
        while True:
            batch = await self._to_sign.get()
            do = self._signing.do_short if batch.size <= SHORT_BYTES else self._signing.do
            with self._metrics.timed("sign"):
                await do(sign, batch, self._decoder, self._scheme, self._builder.undeliverable)
            self._metrics.future_times.inc(batch.future_times)
            self._metrics.repaired_utf8.inc(batch.repaired_utf8)
            self._metrics.without_rank.inc(batch.without_rank)
            if batch.without_rank and not self._warned_of_ranks:
                self._warned_of_ranks = True
                logger().warning(
                    "pages have no number or date at input.rank_from; they rank last",
                    rank_from=self._settings.input.rank_from,
                )
            await self._to_append.put(batch)

    async def _append(self) -> None:
        while True:
            batch = await self._to_append.get()
            futures: list[asyncio.Future[ApplyResult]] = []
            if batch.signatures is not None:
                with self._metrics.timed("append"):
                    futures = await self._log.append(batch.signatures, self._partitions.take_marks())
            await self._to_commit.put((batch, futures))

    async def _commit(self) -> None:
        while True:
            batch, futures = await self._to_commit.get()
            batch.verdicts = await verdicts_of(futures) if futures else None
            poison = list(poison_messages(batch, [future.result() for future in futures]))
            if poison:
                await asyncio.to_thread(self._poison_pages.report, poison)
            self._committer.submit(batch)

    async def _watch_lag(self) -> None:
        """Update the lag gauges every second, even while no page arrives."""
        while True:
            partitions = self._partitions.all()
            self._metrics.keep_lags({owned.partition for owned in partitions})
            self._metrics.open_partitions.set(sum(owned.accepting for owned in partitions))
            for owned in partitions:
                lag = await self._lag(owned)
                if lag is not None:
                    self._metrics.lag.labels(*owned.partition).set(lag)
                    self._watch_transactions(owned.partition)
            await asyncio.sleep(LAG_SECONDS)

    def _watch_transactions(self, partition: TopicPartition) -> None:
        """Update the gauges of messages that open transactions hide."""
        stable, end = self._consumer.last_stable_offset(partition), self._consumer.highwater(partition)
        fetched_ms: int | None = self._consumer.last_poll_timestamp(partition)
        if stable is None or stable < 0 or end is None or fetched_ms is None:
            return  # Under read_uncommitted open transactions hide nothing.
        former, since_ms = self._stable.get(partition, (None, fetched_ms))
        if stable != former or stable == end:
            since_ms = fetched_ms
        self._stable[partition] = (stable, since_ms)
        self._metrics.unstable.labels(*partition).set(end - stable)
        self._metrics.transaction_age.labels(*partition).set((fetched_ms - since_ms) / 1000)

    async def _lag(self, owned: OwnedPartition) -> int | None:
        """Readable messages of a partition that are not committed; None while the number is unknown."""
        if not owned.accepting or owned.partition not in self._consumer.assignment():
            return None
        # Messages of open transactions are not readable yet. -1: read_uncommitted. None: an old broker.
        end: int | None = self._consumer.last_stable_offset(owned.partition)
        if end is None or end < 0:
            end = self._consumer.highwater(owned.partition)
        if end is None:
            return None
        # Transaction markers and messages of aborted transactions are skipped and never committed: an idle partition
        # that ends with them has no lag.
        position: int = await self._consumer.position(owned.partition) if owned.idle else 0
        return max(0, end - max(owned.committed, position))


class InFlightLimit:
    """Limits the micro-batches between fetch and commit.

    One task begins them, any number of tasks end them, all in one event loop.
    """

    def __init__(self) -> None:
        self._number = 0
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Wait for room, then count one more micro-batch."""
        while self._number >= MOST_IN_FLIGHT:
            await self._next_end()
        self._number += 1

    def end(self) -> None:
        """Count a micro-batch that was committed or dropped."""
        self._number -= 1
        self._ended.set()

    async def few(self, most_seconds: float) -> None:
        """Wait until fewer than FEW_IN_FLIGHT micro-batches are in flight, but not longer than most_seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                while self._number >= FEW_IN_FLIGHT:
                    await self._next_end()

    async def _next_end(self) -> None:
        self._ended.clear()
        await self._ended.wait()
