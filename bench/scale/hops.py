"""Measures the hops of a round on a real broker: from the call that produces a record until a consumer receives it.

A plain hop is a record of an idempotent producer, with acks = all. A fenced hop is a transaction around one record,
read under read_committed. Sizes are as in a round. Nothing else is sent between two hops, so a measured hop
never waits for another one; the simulation adds the waiting.
"""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.speed.pipeline import make_topics
from spotsieve.stream.demo.localkafka import LocalKafka

SIZES = {"small": 200, "meetings": 100_000, "outcome": 250_000}
"""Bytes: a range, the response of a shard for 4,096 pages, an outcome for as many."""
WARM = 20
FREE_SHARE = 0.25
"""On an overloaded machine, use this share of the hops: the fastest ones waited least for other programs."""
Hops = dict[str, list[float]]


def undisturbed(hops: Hops, load: float, cores: int) -> Hops:
    """The hops that show the broker and not other programs: all if the machine was idle. load: at that time"""
    if load <= cores:
        return hops
    return {name: sorted(taken)[: max(round(len(taken) * FREE_SHARE), 1)] for name, taken in hops.items()}


def measure_hops(count: int) -> Hops:
    """Milliseconds of each of `count` hops by "plain.small" and so on, after some uncounted ones."""
    with LocalKafka(heap_mb=512) as kafka:
        return asyncio.run(_measure(kafka.bootstrap_servers, count))


async def _measure(servers: str, count: int) -> Hops:
    await make_topics(servers, {"plain": 1, "fenced": 1})
    found = Hops()
    every: dict[str, Any] = {"bootstrap_servers": servers, "acks": "all", "max_request_size": 2**21}
    async with (
        AIOKafkaProducer(**every, enable_idempotence=True) as plain,
        AIOKafkaProducer(**every, transactional_id="hops") as fenced,
        AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level="read_committed", max_partition_fetch_bytes=2**21
        ) as consumer,
    ):
        for topic, producer in (("plain", plain), ("fenced", fenced)):
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.seek_to_end(partition)
            for size, length in SIZES.items():
                taken = [await _hop(producer, consumer, topic, bytes(length)) for _ in range(WARM + count)]
                found[f"{topic}.{size}"] = [round(one, 3) for one in taken[WARM:]]
    return found


async def _hop(producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, topic: str, value: bytes) -> float:
    arriving = asyncio.ensure_future(consumer.getone())
    await asyncio.sleep(0.002)  # The fetch waits at the broker, like that of a reader that waits for the next record.
    began = time.perf_counter()
    if topic == "fenced":
        async with producer.transaction():
            await producer.send(topic, value)
    else:
        await producer.send_and_wait(topic, value)
    await arriving
    return (time.perf_counter() - began) * 1e3
