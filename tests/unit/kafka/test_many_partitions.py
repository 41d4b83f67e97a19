"""What a worker with many partitions keeps small: fetched messages that wait, connections, TLS contexts, movement."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.structs import TopicPartition

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import SHARED_CLIENTS, SharedClients, log_producer, pages_consumer, ssl_context
from spotsieve.stream.kafka.driver.clients import (
    KafkaClient,
    assignor,
    bound_prefetch,
    remember_generation,
    waiting_bytes,
)
from tests.fixtures.brokers.certificates import Authority


class Records:
    def __init__(self, size: int) -> None:
        self._size = size

    def size_in_bytes(self) -> int:
        return self._size


class Waiting:
    """The content of aiokafka's FetchResult for a partition that waits."""

    def __init__(self, size: int) -> None:
        self._partition_records = type("PartitionRecords", (), {"_records": Records(size)})()


class TakenWaiting:
    """A FetchResult whose last message was taken."""

    _partition_records = None


class PlainFetcher:
    """aiokafka's fetcher as far as it plans requests."""

    def __init__(self) -> None:
        self._records: dict[TopicPartition, object] = {}

    def _get_actions_per_node(self, _: object) -> tuple[Sequence[object], ...]:
        return ["a request"], ["a reset"], [0.2], [False], ["a resume"]


def consumer_of(fetcher: PlainFetcher) -> AIOKafkaConsumer:
    return cast("AIOKafkaConsumer", type("Consumer", (), {"_fetcher": fetcher})())


@pytest.mark.guarantee(
    "a worker with many partitions stays small and keeps its place in the group", fault="a backlog on every partition"
)
def test_no_more_is_fetched_while_the_bound_of_all_partitions_is_reached() -> None:
    fetcher = PlainFetcher()
    consumer = consumer_of(fetcher)
    bound_prefetch(consumer, 100)
    actions = ["a request"], ["a reset"], [0.2], [False], ["a resume"]
    assert fetcher._get_actions_per_node(None) == actions
    for number in range(9):
        fetcher._records[TopicPartition("pages", number)] = Waiting(11)
    fetcher._records[TopicPartition("pages", 9)] = TakenWaiting()
    fetcher._records[TopicPartition("pages", 10)] = object()  # aiokafka's FetchError
    assert waiting_bytes(consumer) == 99
    assert fetcher._get_actions_per_node(None) == actions
    fetcher._records[TopicPartition("pages", 9)] = Waiting(1)
    assert fetcher._get_actions_per_node(None) == ([], *actions[1:]), "offsets are still looked up"
    fetcher._records.pop(TopicPartition("pages", 0))
    assert fetcher._get_actions_per_node(None) == actions


@pytest.mark.guarantee(
    "a worker with many partitions stays small and keeps its place in the group", fault="1,000 partitions' outputs"
)
async def test_a_thousand_producers_share_nine_clients_and_stopping_one_leaves_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected: list[KafkaClient] = []
    closed: list[KafkaClient] = []

    async def bootstrap(client: KafkaClient) -> None:
        connected.append(client)

    async def close(client: KafkaClient) -> None:
        closed.append(client)

    async def start(_: object) -> None:
        pass

    monkeypatch.setattr(KafkaClient, "bootstrap", bootstrap)
    monkeypatch.setattr(KafkaClient, "close", close)
    monkeypatch.setattr("aiokafka.producer.sender.Sender.start", start)
    clients = SharedClients(Settings())
    producers = [clients.producer(number, f"id-{number}") for number in range(1000)]
    for producer in producers:
        await producer.start()
    assert len(connected) == len(set(connected)) == SHARED_CLIENTS + 1 == 9
    for producer in producers:
        await producer.stop()
    assert not closed
    await clients.close()
    assert set(closed) == set(connected)


async def test_after_a_start_that_failed_the_configured_addresses_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected: list[KafkaClient] = []

    async def bootstrap(client: KafkaClient) -> None:
        connected.append(client)

    async def fail(_: object) -> None:
        raise TimeoutError

    async def start(_: object) -> None:
        pass

    monkeypatch.setattr(KafkaClient, "bootstrap", bootstrap)
    clients = SharedClients(Settings())

    async def try_to_start() -> AIOKafkaProducer:
        producer = clients.producer(0, None)
        try:
            await producer.start()
        finally:
            await producer.stop()
        return producer

    monkeypatch.setattr("aiokafka.producer.sender.Sender.start", fail)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await try_to_start()
    assert len(connected) == 2, "the one for opening, twice"
    monkeypatch.setattr("aiokafka.producer.sender.Sender.start", start)
    await try_to_start()
    await try_to_start()
    assert len(connected) == 4
    await clients.close()


async def test_all_clients_share_one_tls_context_until_a_certificate_is_replaced(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "test CA")
    settings = Settings.model_validate(
        {"kafka": {"security_protocol": "SSL", "ssl_cafile": str(authority.certificate)}}
    )
    context = ssl_context(settings.kafka)
    consumer, producer = pages_consumer(settings), log_producer(settings)
    assert consumer._client._ssl_context is producer.client._ssl_context is context
    await producer.stop()
    await consumer.stop()
    renewed = tmp_path / "renewed.pem"
    renewed.write_bytes(authority.certificate.read_bytes())
    renewed.replace(authority.certificate)
    assert ssl_context(settings.kafka) is not context


def assigned(assignor: Any, numbers: Sequence[int]) -> None:
    assignor.on_assignment(ConsumerProtocolMemberAssignment(0, [("pages", list(numbers))], b""))


class Topic:
    """The cluster's metadata: one topic of 1,000 partitions."""

    def topics(self) -> set[str]:
        return {"pages"}

    def partitions_for_topic(self, _: str) -> set[int]:
        return set(range(1000))


def dealt(members: dict[str, Any]) -> dict[str, set[int]]:
    """What the group's leader deals to each member."""
    metadata = {name: assignor.metadata({"pages"}) for name, assignor in members.items()}
    shares = StickyPartitionAssignor.assign(cast("Any", Topic()), metadata)
    return {name: {number for _, numbers in share.assignment for number in numbers} for name, share in shares.items()}


def consumer_with(assignor: Any, generation: int) -> AIOKafkaConsumer:
    coordinator = type("Coordinator", (), {"generation": generation})()
    found = {"_partition_assignment_strategy": (assignor,), "_coordinator": coordinator}
    return cast("AIOKafkaConsumer", type("Consumer", (), found)())


@pytest.mark.guarantee(
    "a worker with many partitions stays small and keeps its place in the group", fault="a worker joins"
)
def test_partitions_stay_where_they_are_when_a_worker_joins() -> None:
    first, second, third = assignor(), assignor(), assignor()
    assigned(first, range(500))
    assigned(second, range(500, 1000))
    shares = dealt({"first": first, "second": second, "third": third})
    assert sorted(map(len, shares.values())) == [333, 333, 334]
    assert shares["first"] < set(range(500))
    assert shares["second"] < set(range(500, 1000))


async def test_workers_deal_by_that_way_alone() -> None:
    consumer = pages_consumer(Settings())
    (way,) = consumer._partition_assignment_strategy
    await consumer.stop()
    assert issubclass(way, StickyPartitionAssignor)


def test_a_worker_that_comes_back_late_moves_no_partition_that_need_not_move() -> None:
    back, taker, other = assignor(), assignor(), assignor()
    assigned(back, range(500))
    remember_generation(consumer_with(back, 1))
    assigned(taker, range(500))
    remember_generation(consumer_with(taker, 2))
    assigned(other, range(500, 1000))
    remember_generation(consumer_with(other, 2))
    shares = dealt({"back": back, "taker": taker, "other": other})
    assert shares["taker"] < set(range(500))
    assert len(shares["taker"]) >= 333
