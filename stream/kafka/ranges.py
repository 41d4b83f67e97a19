"""Reads ranges of topics without a consumer group, so that nothing is committed on the broker."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.progress import OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import client_options, stop_client
from spotsieve.stream.kafka.driver.clients import KafkaConsumer, check_alive
from spotsieve.stream.kafka.errors import Decision, decision, final_error
from spotsieve.stream.kafka.watch import Backoff

FETCH_TIMEOUT_MS = 500
Spans = dict[TopicPartition, tuple[int, int]]
Fetched = Mapping[TopicPartition, list[ConsumerRecord]]


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """The first partitions of a topic, 0 to count - 1."""
    return [TopicPartition(topic, number) for number in range(count)]


async def spans_held(
    settings: Settings, partitions: list[TopicPartition], step: str, isolation_level: str = "read_committed"
) -> Spans:
    """The first offset and the end offset of each partition, as RangeReader.held() finds them with these parameters."""
    async with RangeReader(settings, {}, step, isolation_level) as reader:
        return await reader.held(partitions)


async def read_spans(
    settings: Settings, spans: Spans, step: str, on_progress: OnProgress
) -> AsyncGenerator[ConsumerRecord, None]:
    """The messages of ranges; the progress in offsets after each fetch. The parameters are those of RangeReader.

    Use it with contextlib.aclosing, which closes the consumer if the caller ends early.
    """
    total = sum(end - first for first, end in spans.values())
    async with RangeReader(settings, spans, step) as reader:
        async for fetched in reader.batches():
            for messages in fetched.values():
                for message in messages:
                    yield message
            left = sum(end - reader.positions[partition] for partition, (_, end) in spans.items())
            on_progress(step, total - left, total)


class RangeReader:
    """Reads a range of offsets of each partition, in order. Use it as an async context manager.

    positions: next offset of each partition
    gone: number of offsets that retention removed before they were read
    """

    def __init__(self, settings: Settings, spans: Spans, step: str, isolation_level: str = "read_committed") -> None:
        """spans: (first, end) offset of each partition

        step: the purpose in error messages, such as "reading the log"
        """
        kafka = settings.kafka
        self._settings = settings
        self._step = step
        self.spans = spans
        self.positions = {partition: first for partition, (first, _) in spans.items()}
        self.gone = 0
        self._backoff = Backoff()
        self._silent_seconds = 0.0
        self._consumer = KafkaConsumer(
            **client_options(kafka),
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation_level,
            fetch_max_bytes=kafka.fetch_max_bytes,
            max_partition_fetch_bytes=max(2**20, kafka.fetch_max_bytes // 4),
            fetch_max_wait_ms=100,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
            if self.spans:
                self._consumer.assign(list(self.spans))
        except KafkaError as error:
            await stop_client(self._consumer)
            raise final_error(error, self._settings, self._step) from None
        for partition in self.spans:
            self.seek(partition, self.positions[partition])
        # Let its tasks begin: aiokafka raises a CancelledError if a consumer is stopped before.
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset of a partition, or pause the partition if the offset is at its end."""
        self.positions[partition] = offset
        if self.at_end(partition):
            self._consumer.pause(partition)
        else:
            self._consumer.seek(partition, offset)
            self._consumer.resume(partition)

    def pause(self, partition: TopicPartition) -> None:
        """Fetch nothing of a partition until resume() or seek()."""
        self._consumer.pause(partition)

    def resume(self, partition: TopicPartition) -> None:
        """Fetch from a paused partition again."""
        if not self.at_end(partition):
            self._consumer.resume(partition)

    def at_end(self, partition: TopicPartition) -> bool:
        """Whether the range of the partition was read completely."""
        return self.positions[partition] >= self.spans[partition][1]

    async def held(self, partitions: list[TopicPartition]) -> Spans:
        """The first offset and the end offset of each partition on the broker. Raises BrokerError, BrokerTrouble."""
        if not partitions:
            return {}
        try:
            first = await self._consumer.beginning_offsets(partitions)
            end = await self._consumer.end_offsets(partitions)
        except KafkaError as error:
            raise final_error(error, self._settings, self._step) from None
        return {partition: (first[partition], end[partition]) for partition in partitions}

    async def offsets_at(self, partitions: list[TopicPartition], time_ms: int) -> dict[int, int | None]:
        """By partition number, the first offset with this timestamp or a later one, or None."""
        try:
            found = await self._consumer.offsets_for_times(dict.fromkeys(partitions, time_ms))
        except KafkaError as error:
            raise final_error(error, self._settings, self._step) from None
        return {partition.partition: at.offset if at is not None else None for partition, at in found.items()}

    async def batches(self) -> AsyncIterator[Fetched]:
        """Yield the fetches until all ranges are read."""
        while not all(map(self.at_end, self.spans)):
            yield await self.fetch()

    async def fetch(self) -> Fetched:
        """The next messages of the partitions that are not paused; may be empty.

        Raises BrokerError if the broker refuses or sends nothing for kafka.request_timeout_ms, and BrokerTrouble.
        """
        start = time.monotonic()
        try:
            fetched = await self._consumer.getmany(timeout_ms=FETCH_TIMEOUT_MS)
        except OffsetOutOfRangeError as error:
            await self._skip_removed(error)
            return {}
        except KafkaError as error:
            if decision(error) is not Decision.RETRY:
                raise final_error(error, self._settings, self._step) from None
            await self._backoff.wait()
            fetched = {}
        moved = await self._follow_positions()
        if not fetched:
            check_alive(self._consumer)
        # Only the time of fetches counts, not the time of the caller between two fetches.
        self._silent_seconds = 0.0 if moved else self._silent_seconds + time.monotonic() - start
        timeout_ms = self._settings.kafka.request_timeout_ms
        if self._silent_seconds > timeout_ms / 1000:
            raise BrokerError(
                "kafka",
                f"sent nothing for {timeout_ms} ms (kafka.request_timeout_ms) while {self._step}",
                None,
                "check that the broker runs, then repeat the command",
            )
        return {
            partition: [record for record in records if record.offset < self.spans[partition][1]]
            for partition, records in fetched.items()
        }

    async def _follow_positions(self) -> bool:
        """Copy the positions of the consumer, which move past transaction markers too. Returns whether one moved."""
        moved = False
        for partition, before in self.positions.items():
            if self.at_end(partition):
                continue
            position = await self._consumer.position(partition)
            if position != before:
                moved = True
                self._backoff.reset()
                self.positions[partition] = position
                if self.at_end(partition):
                    self._consumer.pause(partition)
        return moved

    async def _skip_removed(self, error: OffsetOutOfRangeError) -> None:
        """Continue with the first message that is left after retention removed the next ones. Raises BrokerError."""
        (offsets,) = error.args
        begins = await self._consumer.beginning_offsets(list(offsets))
        for partition, begin in begins.items():
            position, (_, end) = self.positions[partition], self.spans[partition]
            if offsets[partition] != position:
                continue  # The error is about a fetch before the last seek.
            if begin <= position:
                raise BrokerError(
                    f"topic {partition.topic!r}",
                    f"ends before offset {position} of partition {partition.partition}: the topic was recreated",
                    None,
                    "repeat the command",
                )
            self.gone += min(begin, end) - position
            self.seek(partition, min(begin, end))
