"""Fetches pages of accepting partitions, cuts them into micro-batches, and seeks between two fetches."""

import asyncio
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.driver.clients import check_alive
from spotsieve.stream.kafka.errors import Decision, decision
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.observe.metrics import Metrics
from spotsieve.stream.service.pages.microbatch import MicroBatch, micro_batches
from spotsieve.stream.service.pages.ownership import OwnedPartition, Phase
from spotsieve.stream.service.pages.partitions import Partitions

OPENING_SECONDS = 0.05
"""Pause between two queries of a partition that has no position yet."""


class Fetcher:
    """Reads the input topic. It alone seeks. Call it from one task."""

    def __init__(
        self, settings: Settings, consumer: AIOKafkaConsumer, partitions: Partitions, metrics: Metrics, waits: Waits
    ) -> None:
        self._service = settings.service
        self._consumer = consumer
        self._partitions = partitions
        self._metrics = metrics
        self._waits = waits
        self._backoff = Backoff()

    async def fetch(self) -> list[MicroBatch]:
        """Fetch once. Returns micro-batches of accepting partitions; none after a wait of service.linger_ms."""
        self._seek()
        with self._metrics.timed("fetch"):
            fetched = await self._fetch()
        owners = self._accepting(fetched)
        for partition in fetched.keys() - owners.keys():
            # The partition is being opened. Pages before its seek are dropped, so it is paused until then.
            if partition in self._consumer.assignment():
                self._consumer.pause(partition)
        accepted = {partition: fetched[partition] for partition in owners}
        return micro_batches(accepted, owners, self._service.batch_pages, self._service.batch_bytes)

    def _seek(self) -> None:
        if self._partitions.opening_first:
            return
        for owned in self._partitions.all():
            if owned.phase is Phase.SEEKING and owned.partition in self._consumer.assignment():
                self._consumer.seek(owned.partition, owned.seek_to)
                self._consumer.resume(owned.partition)
                owned.accept()

    async def _fetch(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            fetched: dict[TopicPartition, list[ConsumerRecord]] = await self._consumer.getmany(
                timeout_ms=max(self._service.linger_ms, 1), max_records=self._service.batch_pages
            )
        except NoOffsetForPartitionError:
            await asyncio.sleep(OPENING_SECONDS)  # The partition is being opened; its first offset is not set yet.
            return {}
        except OffsetOutOfRangeError as error:
            await self._skip_expired(error)
            return {}
        except KafkaError as error:
            if decision(error) is not Decision.RETRY:
                raise
            self._waits.failed("fetch", error)
            await self._backoff.wait()
            return {}
        self._waits.over("fetch")
        self._backoff.reset()
        if not fetched:
            check_alive(self._consumer)
        return fetched

    def _accepting(self, fetched: Mapping[TopicPartition, object]) -> dict[TopicPartition, OwnedPartition]:
        owners = {}
        for partition in fetched:
            owned = self._partitions[partition]
            if owned is not None and owned.accepting:
                owners[partition] = owned
        return owners

    async def _skip_expired(self, error: OffsetOutOfRangeError) -> None:
        """Report pages that retention removed before they were read, and continue with the first page that is left."""
        (offsets,) = error.args
        begin: dict[TopicPartition, int] = await self._consumer.beginning_offsets(list(offsets))
        for partition, offset in offsets.items():
            owned = self._partitions[partition]
            if owned is None or not owned.accepting:
                # The partition is being opened, and its opening seeks. A seek from here would accept pages before the
                # opening has ended, and the seek of the opening would then read them a second time.
                await asyncio.sleep(OPENING_SECONDS)
                continue
            if offset > begin[partition]:
                raise BrokerError(
                    f"topics.input {partition.topic!r}",
                    f"ends before the committed offset of partition {partition.partition}: the topic was recreated, or "
                    "lost its end",
                    offset,
                    "delete the group's offsets of the topic (kafka-consumer-groups.sh --delete-offsets), and restart "
                    "with kafka.restart_from = earliest",
                )
            logger().error(
                "retention removed pages before they were read; raise the retention of the input topic",
                topic=partition.topic,
                partition=partition.partition,
                first_missing=offset,
                next_offset=begin[partition],
            )
            self._metrics.expired.inc(begin[partition] - offset)
            owned.seek(begin[partition])
