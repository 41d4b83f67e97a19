"""Chooses how a group deals out partitions: each worker keeps as many as it can when workers come and go."""

from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor


def assignors() -> tuple[Any, Any]:
    """The ways of one consumer, the best first.

    The group takes the first that all its workers know. So workers of an older version, which know round robin alone,
    may be in it while they are replaced.
    """
    # aiokafka keeps a consumer's partitions in the class: two consumers of a process would take each other's.
    return type("Sticky", (StickyPartitionAssignor,), {}), RoundRobinPartitionAssignor


def remember_generation(consumer: AIOKafkaConsumer) -> None:
    """Note of which generation of the group the consumer's partitions are. Call it at every assignment.

    aiokafka never does. Without it a worker that comes back after others took its partitions would claim them with the
    same right as they.
    """
    for assignor in consumer._partition_assignment_strategy:
        if issubclass(assignor, StickyPartitionAssignor):
            assignor.on_generation_assignment(consumer._coordinator.generation)
