"""Copies a topic as a competent user of aiokafka would, in one process: the baseline of the pipeline benchmark.

`python -m bench.speed.passthrough SERVERS INPUT OUTPUT GROUP GUARANTEE` copies until SIGTERM or its parent
ends, under the same guarantee and with the same batch sizes as the filter, and looks at no page.
"""

import asyncio
import os
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.base.settings.runtime import ServiceSettings
from spotsieve.stream.kafka.clients import PRODUCER_BATCH_BYTES


async def copy(servers: str, source: str, target: str, group: str, guarantee: str) -> None:
    """Read a batch, send every message unchanged, commit: in a transaction, or after a flush."""
    exactly_once, owner = guarantee == "exactly_once", os.getppid()
    service = ServiceSettings()
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_bytes=16 * 2**20,
        max_partition_fetch_bytes=16 * 2**20,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=servers,
        acks="all",
        enable_idempotence=True,
        max_batch_size=PRODUCER_BATCH_BYTES,
        max_request_size=2**30,
        transactional_id=group if exactly_once else None,
    )
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with consumer, producer:
        while not stopping.is_set() and os.getppid() == owner:
            fetched = await consumer.getmany(timeout_ms=service.linger_ms, max_records=service.batch_pages)
            if not fetched:
                continue
            offsets = {partition: records[-1].offset + 1 for partition, records in fetched.items()}
            if exactly_once:
                async with producer.transaction():
                    await _send(producer, target, fetched)
                    await producer.send_offsets_to_transaction(offsets, group)
            else:
                await _send(producer, target, fetched)
                await producer.flush()
                await consumer.commit(offsets)


async def _send(producer: AIOKafkaProducer, target: str, fetched: dict[TopicPartition, list[ConsumerRecord]]) -> None:
    deliveries = []
    for partition, records in fetched.items():
        to = partition.partition
        for page in records:
            sending = producer.send(target, page.value, page.key, to, page.timestamp, page.headers)
            deliveries.append(await sending)
    await asyncio.gather(*deliveries)


if __name__ == "__main__":
    asyncio.run(copy(*sys.argv[1:6]))
