"""Checks what aiokafka's consumers do not report themselves: whether they still fetch.

Bounds the messages that a consumer has fetched and nobody has taken yet, over all partitions together.

Chooses how a group deals out partitions: each worker keeps as many as it can when workers come and go.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from spotsieve.stream.base.errors import BrokerTrouble


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Raise BrokerTrouble where the consumer's fetching task has ended.

    aiokafka's getmany() does not look at that task. Once it has ended, by an error or by a cancellation that went
    astray (aiokafka issue 983), every fetch is empty for ever.
    """
    fetching = consumer._fetcher._fetch_task
    if fetching.done():
        error = None if fetching.cancelled() else fetching.exception()
        raise BrokerTrouble("kafka", "consumer has stopped fetching", repr(error.__cause__ or error) if error else None)


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


def assignor() -> Any:
    """The way of one consumer.

    It is one way alone. aiokafka 0.14 sends a request to join for each way, and every request makes the group deal
    anew: workers that started together met each other's first and second requests for minutes, and got no partition.
    """
    # aiokafka keeps a consumer's partitions in the class: two consumers of a process would take each other's.
    return type("Sticky", (StickyPartitionAssignor,), {})


def remember_generation(consumer: AIOKafkaConsumer) -> None:
    """Note of which generation of the group the consumer's partitions are. Call it at every assignment.

    aiokafka never does. Without it a worker that comes back after others took its partitions would claim them with the
    same right as they.
    """
    for way in consumer._partition_assignment_strategy:
        way.on_generation_assignment(consumer._coordinator.generation)
