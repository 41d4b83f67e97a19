"""Bounds the messages that a consumer has fetched and nobody has taken yet, over all partitions together."""

from typing import Any

from aiokafka import AIOKafkaConsumer


def bound_prefetch(consumer: AIOKafkaConsumer, most_bytes: int) -> None:
    """Let a started consumer ask for more only while less than most_bytes wait to be taken.

    By itself aiokafka bounds each partition: it asks for all that have nothing waiting, however much waits of others.
    1,000 partitions with a backlog then hold 4.3 GB. What one answer of each broker brings comes on top of the bound.

    Pausing partitions would not do: aiokafka throws away what waits of a paused partition, and it asks again between
    two looks of ours.
    """
    fetcher = consumer._fetcher
    plan = fetcher._get_actions_per_node

    def bounded(assignment: Any) -> Any:
        requests, *others = plan(assignment)
        # What is taken wakes aiokafka's loop, and it plans again.
        return ([] if requests and waiting_bytes(consumer) >= most_bytes else requests, *others)

    fetcher._get_actions_per_node = bounded


def waiting_bytes(consumer: AIOKafkaConsumer) -> int:
    """Bytes of the fetched messages that wait; of a partition that was taken in part all of them."""
    fetched = (getattr(result, "_partition_records", None) for result in consumer._fetcher._records.values())
    return sum(records._records.size_in_bytes() for records in fetched if records is not None)
