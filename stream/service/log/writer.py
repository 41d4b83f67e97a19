"""Writes records to one partition of a topic, with retries by a new producer.

For `spotsieve state forget` it also checks the log topic against a state, and appends records once.
"""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.identity import check_last_record, check_log_range, closed_log_error
from spotsieve.state.log.record import checksum_of, decode
from spotsieve.stream.base.errors import BrokerError, DamagedRecord, StateError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import log_consumer, log_producer, stop_client
from spotsieve.stream.kafka.errors import explain_error, final_error, stops
from spotsieve.stream.kafka.watch import Backoff, Waits
from spotsieve.stream.observe.logs import logger
from spotsieve.stream.service.log.follower import RESTART

READ_SECONDS = 30.0


class RecordWriter:
    """The producer of one partition: the log by default."""

    def __init__(
        self, settings: Settings, waits: Waits, applied: Callable[[], int], role: str = "log", partition: int = 0
    ) -> None:
        """applied(): the offset up to which the caller has read the partition

        A record that is written before this offset means that the topic was recreated.
        role: the role of the topic, as in the settings topics.ROLE
        """
        self._settings = settings
        self._waits = waits
        self._applied = applied
        self._role, self._partition = role, partition
        self._topic: str = getattr(settings.topics, role)
        self._producer: AIOKafkaProducer = log_producer(settings)
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Connect. Raises KafkaError."""
        await self._producer.start()

    async def close(self) -> None:
        """End the connections."""
        await stop_client(self._producer)

    async def write(self, value: bytes) -> int:
        """Write one record, with retries by new producers while the error may be transient. Returns its offset.

        Records are written one at a time, in the order of the calls. A retry needs a new producer: a batch that
        aiokafka gave up leaves a gap in the sequence numbers, and the broker then refuses all later batches
        (OutOfOrderSequenceNumber).
        """
        async with self._turn:
            return await self._write(value)

    async def _write(self, value: bytes) -> int:
        backoff = Backoff()
        while True:
            try:
                offset = await self._send(value)
                self._waits.over("append")
                return offset
            except KafkaError as error:
                if stops(error):
                    raise final_error(error, self._settings, f"writing to {self._topic}") from None
                self._waits.failed("append", error)
                logger().warning(
                    "a record could not be written; the write is repeated with a new producer",
                    topic=self._topic,
                    error=type(error).__name__,
                    detail=str(error),
                )
            await backoff.wait()
            await self._renew_producer()

    async def _send(self, value: bytes) -> int:
        """Send a record once. Returns its offset.

        Raises KafkaTimeoutError if the broker does not respond within kafka.request_timeout_ms; aiokafka itself would
        retry for ever.
        """
        applied = self._applied()
        try:
            async with asyncio.timeout(self._settings.kafka.request_timeout_ms / 1000):
                written = await self._producer.send_and_wait(self._topic, value, partition=self._partition)
        except TimeoutError:
            raise KafkaTimeoutError(f"no response within {self._settings.kafka.request_timeout_ms} ms") from None
        if 0 <= written.offset < applied:
            raise StateError(
                f"topics.{self._role} {self._topic!r}",
                f"was recreated while the service ran: a record got offset {written.offset}, although the state has "
                f"applied the log up to {applied}",
                None,
                RESTART,
            )
        return int(written.offset)

    async def _renew_producer(self) -> None:
        renewed = log_producer(self._settings)
        try:
            await renewed.start()
        except KafkaError as error:
            await stop_client(renewed)
            if stops(error):
                raise final_error(error, self._settings, f"writing to {self._topic}") from None
            return
        except BaseException:
            await stop_client(renewed)
            raise
        former, self._producer = self._producer, renewed
        await stop_client(former)


async def check_log_topic(settings: Settings, position: int, last_record: int, pages_applied: int) -> None:
    """Check that the log topic continues a state of this position.

    Raises StateError, BrokerError.
    """
    partition = TopicPartition(settings.topics.log, 0)
    consumer: AIOKafkaConsumer = log_consumer(settings)
    try:
        await consumer.start()
        consumer.assign([partition])
        begin = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        check_log_range(partition.topic, position, begin, end, pages_applied)
        async with asyncio.timeout(READ_SECONDS):
            if 0 < position > begin and not pages_applied:
                consumer.seek(partition, position - 1)
                record = await consumer.getone(partition)
                check_last_record(partition.topic, position, last_record, checksum_of(record.value or b""))
            if position < end:
                # In a closed log, every state stops before the record that closes it.
                consumer.seek(partition, position)
                _check_open(await consumer.getone(partition))
    except TimeoutError:
        raise BrokerError(
            f"topics.log {partition.topic!r}",
            f"did not return its record {position - 1} within {READ_SECONDS:g} s",
            None,
            "look at the broker's log, then repeat the command",
        ) from None
    except KafkaError as error:
        raise explain_error(error, settings, "reading the log") from None
    finally:
        await stop_client(consumer)


def _check_open(record: ConsumerRecord) -> None:
    """Check that this record does not close the log. Raises StateError."""
    try:
        handover = decode(record.value or b"", record.topic, record.offset).handover
    except DamagedRecord:
        return
    if handover is not None and handover.closed:
        raise closed_log_error(record.topic, record.offset, handover.log)


async def append_records(settings: Settings, records: Sequence[bytes], progress: Callable[[int], None]) -> list[int]:
    """Append records to the log one by one. Calls progress(number written) after each. Returns their offsets.

    Raises BrokerError. Some records may be written then, and it is safe to write them again.
    """
    producer, offsets = log_producer(settings), list[int]()
    try:
        await producer.start()
        for record in records:
            async with asyncio.timeout(settings.kafka.request_timeout_ms / 1000):
                written = await producer.send_and_wait(settings.topics.log, record, partition=0)
            offsets.append(written.offset)
            progress(len(offsets))
    except TimeoutError:
        raise BrokerError(
            f"topics.log {settings.topics.log!r}",
            f"did not take a record within kafka.request_timeout_ms; {len(offsets)} of {len(records)} are written",
            settings.kafka.request_timeout_ms,
            "repeat the command: forgetting the same pages twice is safe",
        ) from None
    except KafkaError as error:
        raise explain_error(error, settings, "writing the log") from None
    finally:
        await stop_client(producer)
    return offsets
