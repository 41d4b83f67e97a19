"""Every client that is made waits for a broker whose controller has not let it in (again).

It was silent for longer than its session, or it just starts: it responds, and its metadata names no broker and no
controller. Here that is so for two thirds of the time, as it may be silent for longer than its session lasts.
"""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from spotsieve.stream.demo.localkafka.broker import serves_clients
from spotsieve.stream.demo.traffic import count_brokers, delete_topics
from spotsieve.stream.kafka.clients import output_producer, pages_consumer
from spotsieve.stream.kafka.topics import check_topics, create_topics, topic_names
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.waiting import wait_until

SILENT = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "3000"}


class Coming:
    """A broker that is let in and put out by turns."""

    def __init__(self, broker: LocalKafka) -> None:
        self.servers = broker.bootstrap_servers
        self._port = broker.port

    def until_out(self) -> None:
        """Wait until it responds and names no broker."""
        wait_until(lambda: not serves_clients("127.0.0.1", self._port), 60, "a broker that is not let in", every=0.02)

    def settings(self, topics: TopicSet) -> Settings:
        """The settings of a service on these topics."""
        return Settings.model_validate(
            {"kafka": {"bootstrap_servers": self.servers, "group_id": topics.group}, "topics": topics.names}
        )


@pytest.fixture(scope="module")
def coming() -> Iterator[Coming]:
    prepare()
    with LocalKafka(settings=SILENT) as broker:
        yield Coming(broker)


@pytest.mark.guarantee("commands wait for a broker that starts", fault="the controller has not admitted the broker yet")
@pytest.mark.timeout(900)
def test_topics_are_created_checked_and_deleted_on_a_broker_that_is_not_let_in_yet(coming: Coming) -> None:
    settings = coming.settings(TopicSet(coming.servers))
    names = topic_names(settings.topics).values()
    coming.until_out()
    assert asyncio.run(create_topics(settings, 2, 1)) == dict.fromkeys(names, True)
    coming.until_out()
    assert asyncio.run(check_topics(settings))["input"].partitions == 2
    assert asyncio.run(count_brokers(settings)) == 1
    coming.until_out()
    asyncio.run(delete_topics(settings, list(names)))


@pytest.mark.timeout(900)
def test_producers_and_consumers_made_while_no_broker_is_reachable_come_to_work(coming: Coming) -> None:
    with TopicSet(coming.servers) as topics:
        settings = coming.settings(topics)
        coming.until_out()
        asyncio.run(send_in_transaction(settings, f"{topics.group}-0"))
        topics.send(crawl(3).messages)
        coming.until_out()
        assert asyncio.run(committed_whole(settings)) == 3
        assert topics.uncommitted() == 0
        assert [record.value for record in topics.read("novel", count=1, quiet_seconds=60)] == [b"a page"]
        coming.until_out()


async def send_in_transaction(settings: Settings, transactional_id: str) -> None:
    async with output_producer(settings, transactional_id) as producer, producer.transaction():
        await producer.send_and_wait(settings.topics.novel, b"a page")


async def committed_whole(settings: Settings) -> int:
    """Commit the whole partition; -> what the group has committed then."""
    partition = TopicPartition(settings.topics.input, 0)
    async with pages_consumer(settings) as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        await consumer.commit({partition: end})
        found: int = await consumer.committed(partition)
        return found
