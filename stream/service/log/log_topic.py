"""Checks the log topic against a state and appends records to it, for `spotsieve state forget`."""

import asyncio
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from spotsieve.state.identity import check_last_record, check_log_range, closed_log_error
from spotsieve.state.log.record import checksum_of, decode
from spotsieve.stream.errors import BrokerError, DamagedRecord
from spotsieve.stream.kafka.client.clients import log_consumer, log_producer, stop_client
from spotsieve.stream.kafka.errors import explain_error
from spotsieve.stream.kafka.topic.topics import check_topics
from spotsieve.stream.settings.model import Settings

READ_SECONDS = 30.0


async def check_log_topic(settings: Settings, position: int, last_record: int, pages_applied: int) -> None:
    """Check that the topic is the log that a state of this position follows.

    Raises SettingError, StateError, BrokerError.
    """
    await check_topics(settings)
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
                # Where the log has ended, every state stands before the record that ends it.
                consumer.seek(partition, position)
                _check_goes_on(await consumer.getone(partition))
    except TimeoutError:
        raise BrokerError(
            f"topics.log {partition.topic!r}",
            f"must give its record {position - 1} within {READ_SECONDS:g} s",
            None,
            "see the broker's log, then try again",
        ) from None
    except KafkaError as error:
        raise explain_error(error, settings, "reading the log") from None
    finally:
        await stop_client(consumer)


def _check_goes_on(record: ConsumerRecord) -> None:
    """Check that the next record does not end the log. Raises StateError."""
    try:
        handover = decode(record.value or b"", record.topic, record.offset).handover
    except DamagedRecord:
        return
    if handover is not None and handover.closed:
        raise closed_log_error(record.topic, record.offset, handover.log)


async def append_records(settings: Settings, records: Sequence[bytes], told: Callable[[int], None]) -> list[int]:
    """Append records to the log one by one, and call told(how many are written) after each; -> their offsets.

    Raises BrokerError. Some records may be written then; writing them once more does no harm.
    """
    producer, offsets = log_producer(settings), list[int]()
    try:
        await producer.start()
        for record in records:
            async with asyncio.timeout(settings.kafka.request_timeout_ms / 1000):
                written = await producer.send_and_wait(settings.topics.log, record, partition=0)
            offsets.append(written.offset)
            told(len(offsets))
    except TimeoutError:
        raise BrokerError(
            f"topics.log {settings.topics.log!r}",
            f"must take a record within kafka.request_timeout_ms; {len(offsets)} of {len(records)} are known to be "
            "written",
            settings.kafka.request_timeout_ms,
            "forget the same once more: twice does no harm",
        ) from None
    except KafkaError as error:
        raise explain_error(error, settings, "writing the log") from None
    finally:
        await stop_client(producer)
    return offsets
