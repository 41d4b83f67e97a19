"""Additions to aiokafka's consumers: a liveness check, a prefetch limit and a sticky assignor.

check_alive() detects a fetching task that has ended. bound_prefetch() limits the prefetched messages over all
partitions together. assignor() lets each worker keep as many partitions as possible when workers join or leave.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from spotsieve.stream.base.errors import BrokerTrouble


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Raise BrokerTrouble if the fetching task of the consumer has ended.

    aiokafka's getmany() does not check that task. After it has ended, by an error or a misdirected cancellation
    (aiokafka issue 983), every fetch is empty for ever.
    """
    fetching = consumer._fetcher._fetch_task
    if fetching.done():
        error = None if fetching.cancelled() else fetching.exception()
        raise BrokerTrouble("kafka", "consumer has stopped fetching", repr(error.__cause__ or error) if error else None)


def bound_prefetch(consumer: AIOKafkaConsumer, most_bytes: int) -> None:
    """Make a started consumer fetch only while fewer than most_bytes of prefetched messages wait.

    aiokafka limits each partition only: it fetches all partitions without waiting messages, whatever the others hold.
    1,000 partitions with a backlog then hold 4.3 GB. One response per broker comes on top of the limit.

    Pausing partitions does not help: aiokafka drops the prefetched messages of a paused partition, and fetches again
    before the next check.
    """
    fetcher = consumer._fetcher
    plan = fetcher._get_actions_per_node

    def bounded(assignment: Any) -> Any:
        requests, *others = plan(assignment)
        # Taking messages wakes the loop of aiokafka, and it plans again.
        return ([] if requests and waiting_bytes(consumer) >= most_bytes else requests, *others)

    fetcher._get_actions_per_node = bounded


def waiting_bytes(consumer: AIOKafkaConsumer) -> int:
    """Bytes of prefetched messages; a partly taken partition counts in full."""
    fetched = (getattr(result, "_partition_records", None) for result in consumer._fetcher._records.values())
    return sum(records._records.size_in_bytes() for records in fetched if records is not None)


def assignor() -> Any:
    """A new sticky assignor class for one consumer.

    A consumer must have one assignor only. aiokafka 0.14 sends a join request per assignor, and every request triggers
    a
    rebalance: workers that started together disturbed each other for minutes and got no partition.
    """
    # aiokafka keeps the partitions of a consumer in the class, so two consumers must not share one.
    return type("Sticky", (StickyPartitionAssignor,), {})


def remember_generation(consumer: AIOKafkaConsumer) -> None:
    """Record the group generation of the consumer's partitions. Call it at every assignment.

    aiokafka does not record it. Without it, a worker that returns after others took its partitions would claim them
    with the same priority.
    """
    for strategy in consumer._partition_assignment_strategy:
        strategy.on_generation_assignment(consumer._coordinator.generation)
