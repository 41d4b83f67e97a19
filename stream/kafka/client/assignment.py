"""Chooses how a group deals out partitions: each worker keeps as many as it can when workers come and go."""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor


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
