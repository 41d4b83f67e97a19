"""What a running worker sees at its broker: recreated topics, added partitions, open transactions, its group's deal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import NewPartitions
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from spotsieve.stream.base.errors import EXIT_BROKER
from spotsieve.stream.kafka.clients import administrator
from spotsieve.stream.kafka.driver.clients import KafkaClient
from spotsieve.stream.kafka.driver.requests import read_metadata, read_owned
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl, html_of, json_page
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

UNKNOWN_TOPIC = 3


@asynccontextmanager
async def client_of(topics: TopicSet) -> AsyncIterator[KafkaClient]:
    client = KafkaClient(bootstrap_servers=topics.servers)
    await client.bootstrap()
    try:
        yield client
    finally:
        await client.close()


def test_metadata_names_each_topic_by_an_id_that_a_recreated_one_does_not_share(kafka: Broker) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=3) as topics:
        name = topics.names["input"]

        async def compare() -> None:
            async with client_of(topics) as client:
                before = await read_metadata(client, [name, "nobody-made-this"])
                assert before[name].error == 0
                assert before[name].leaders.keys() == {0, 1, 2}
                assert before["nobody-made-this"].error == UNKNOWN_TOPIC
                assert before["nobody-made-this"].id is None
                await asyncio.to_thread(topics.recreate, "input")
                after = await read_metadata(client, [name])
                assert before[name].id is not None
                assert after[name].id not in {None, before[name].id}

        asyncio.run(compare())


@pytest.mark.guarantee(
    "a deleted topic stops the service, with the reason", fault="the input is deleted and recreated at once"
)
@pytest.mark.timeout(600)
def test_an_input_topic_that_is_recreated_at_once_ends_the_service_with_the_reason(
    kafka: Broker, tmp_path: Path
) -> None:
    pages = crawl(60)
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, pages.messages[:30], committed=30)
        topics.recreate("input")
        assert service.wait() == EXIT_BROKER
        line = service.error()
        assert "topics.input was deleted and created again while the service ran" in line
        assert "restart with kafka.restart_from=earliest" in line
        topics.send(pages.messages[30:])
        service.toml += 'kafka.restart_from = "earliest"\n'
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", ["novel", "duplicates"])
def test_an_output_recreated_with_fewer_partitions_ends_the_service(kafka: Broker, tmp_path: Path, role: str) -> None:
    first, later = (
        [replace(json_page(number, html_of(number % 30)), partition=number % 3) for number in numbers]
        for numbers in (range(60), range(100, 130))
    )
    with TopicSet(kafka.bootstrap_servers, partitions=3) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, first, committed=60)
        topics.recreate(role, partitions=1)
        topics.send([replace(json_page(200, html_of(200)), partition=2), *later])
        assert service.wait() == EXIT_BROKER
        assert f"topics.{role} was recreated with fewer partitions while the service ran" in service.error()
        service.start().until_ready()
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()


@pytest.mark.timeout(600)
def test_pages_of_added_partitions_are_read_within_a_minute(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.begin(topics, [json_page(1, html_of(1))], committed=1)

        async def add() -> None:
            async with administrator(bootstrap_servers=topics.servers) as admin:
                await admin.create_partitions({topics.names["input"]: NewPartitions(2)})
            page = json_page(2, html_of(2))
            async with AIOKafkaProducer(bootstrap_servers=topics.servers) as producer:
                while len(await producer.partitions_for(topics.names["input"])) < 2:
                    await producer.client.force_metadata_update()
                await producer.send_and_wait(topics.names["input"], page.value, page.key, partition=1)

        asyncio.run(add())
        wait_until(lambda: service.metric("spotsieve_pages_total") == 2, 60, "the page of the added partition")
        assert service.terminate() == 0, service.text()


@pytest.mark.timeout(600)
def test_messages_behind_an_open_transaction_are_counted_until_it_ends(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        service.start().until_ready()

        async def send(messages: list[int], **options: Any) -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=topics.servers, **options)
            await producer.start()
            if options:
                await producer.begin_transaction()
            for number in messages:
                page = json_page(number, html_of(number))
                await producer.send_and_wait(topics.names["input"], page.value, page.key, partition=0)
            return producer

        async def hide_and_show() -> None:
            hanging = await send([1], transactional_id=topics.group + "-crawler")
            await (await send([2, 3, 4])).stop()
            await asyncio.to_thread(service.until_metric, "spotsieve_unstable_messages", 4)
            await asyncio.to_thread(service.until_metric, "spotsieve_open_transaction_seconds", 2)
            assert service.metric("spotsieve_consumer_lag") == 0, "the lag says nothing of them"
            assert service.metric("spotsieve_pages_total") == 0
            await hanging.commit_transaction()
            await hanging.stop()

        asyncio.run(hide_and_show())
        service.until_committed(4)
        wait_until(lambda: service.metric("spotsieve_unstable_messages") == 0, SECONDS, "no message to be hidden")
        wait_until(lambda: service.metric("spotsieve_open_transaction_seconds") == 0, SECONDS, "no open transaction")
        assert service.terminate() == 0, service.text()


class MiserlyAssignor(StickyPartitionAssignor):  # type: ignore[misc]  # aiokafka's class is untyped
    """The assignor of a group leader that assigns no partition to any member."""

    @classmethod
    def assign(cls, _: Any, members: Any) -> Any:
        return {member: ConsumerProtocolMemberAssignment(0, [], b"") for member in members}


@pytest.mark.timeout(600)
def test_a_worker_that_gets_no_partition_though_some_are_free_is_not_ready(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        assert service.start().until_ready().terminate() == 0
        MiserlyAssignor.name = f"sticky-{topics.log_id()}"

        async def lead() -> None:
            name = topics.names["input"]
            leader = AIOKafkaConsumer(
                bootstrap_servers=topics.servers,
                group_id=topics.group,
                partition_assignment_strategy=(MiserlyAssignor,),
                enable_auto_commit=False,
            )
            leader.subscribe([name])
            await leader.start()
            try:
                await asyncio.to_thread(lambda: service.start().until_ready())
                text = await asyncio.to_thread(
                    wait_until,
                    lambda: response[1] if "no partitions" in (response := service.get("/readyz"))[1] else None,
                    SECONDS,
                    "/readyz to report it",
                )
                assert f"group {topics.group} gives 2 of 2 partitions of {name} to nobody" in text
                assert service.get("/readyz")[0] == 503
                async with client_of(topics) as client:
                    assert await read_owned(client, topics.group, name) == set()
            finally:
                await leader.stop()
            await asyncio.to_thread(service.until_ready)
            async with client_of(topics) as client:
                assert await read_owned(client, topics.group, name) == {0, 1}

        asyncio.run(lead())
        assert service.terminate() == 0, service.text()
