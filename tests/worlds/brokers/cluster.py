"""Clusters of two or three local brokers. When a broker is lost, leaders and coordinators move."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.demo.localkafka.broker import NODE_ID
from spotsieve.stream.kafka.clients import administrator
from tests.worlds.brokers.listeners import Listener, free_ports, listener_settings

SECOND_ID = NODE_ID + 1
COPIES = {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    # Both are odd: the hashes of a group and its transactional id have equal parity always or never. With leaders that
    # alternate over an even number of partitions, no name would have both coordinators on one broker.
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "7",
    # On a busy machine a broker may be late with its heartbeat and lose its leaderships. It soon regains them.
    "broker.session.timeout.ms": "6000",
    "leader.imbalance.check.interval.seconds": "2",
    "leader.imbalance.per.broker.percentage": "0",
}
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


@contextmanager
def two_brokers() -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """A controller and broker, and a second broker (0.3 GB, 4 s) that can be killed and restarted."""
    first, second = _cluster(2)
    with first, second:
        yield first, second


@contextmanager
def three_brokers() -> Iterator[LocalKafka]:
    """A controller and broker, and two more brokers, so that a topic may have three replicas; returns the first one."""
    first, second, third = _cluster(3)
    with first, second, third:
        yield first


def _cluster(number: int) -> list[LocalKafka]:
    """`count` brokers, not started; the first one is the controller too."""
    prepare()
    controller, first_port, *ports = free_ports(number + 1)
    settings = listener_settings({"PLAINTEXT": Listener(first_port)}, controller)
    brokers = [LocalKafka(port=first_port, heap_mb=384, settings={**settings, **COPIES})]
    for node, port in enumerate(ports, SECOND_ID):
        own = {
            "process.roles": "broker",
            "node.id": str(node),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": settings["controller.quorum.voters"],
        }
        brokers.append(LocalKafka(port=port, heap_mb=256, settings={**own, **COPIES}))
    return brokers


class Coordinators:
    """The nodes that currently coordinate each group and transactional id.

    The coordinator leads the partition of the internal topic that Java's hash of the name selects (Kafka,
    "GroupCoordinator.partitionFor").
    """

    def __init__(self, servers: str) -> None:
        described = {row["topic"]: row["partitions"] for row in asyncio.run(_describe(servers))}
        self._leaders = {
            topic: {each["partition"]: each["leader"] for each in partitions} for topic, partitions in described.items()
        }

    def of_group(self, group: str) -> int:
        """The node that coordinates a group."""
        return self._of(GROUPS, group)

    def of_transactions(self, transactional_id: str) -> int:
        """The node that coordinates the transactions of an id."""
        return self._of(TRANSACTIONS, transactional_id)

    def _of(self, topic: str, name: str) -> int:
        leaders = self._leaders[topic]
        return int(leaders[(_java_hash(name) & 0x7FFFFFFF) % len(leaders)])


async def _describe(servers: str) -> list[dict[str, Any]]:
    async with administrator(bootstrap_servers=servers) as admin:
        described: list[dict[str, Any]] = await admin.describe_topics([GROUPS, TRANSACTIONS])
        return described


def _java_hash(text: str) -> int:
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value
