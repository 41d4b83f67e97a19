"""Reading ranges without a group: what retention removes, and a broker that falls silent."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import TopicPartition

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.ranges import RangeReader, Spans
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage
from tests.fixtures.services.oracle import settings_from

MESSAGES = 100


@pytest.fixture
def pages(kafka: Broker) -> Iterator[TopicSet]:
    with TopicSet(kafka.bootstrap_servers, leave_out=("novel", "duplicates", "rejected", "log")) as topics:
        send_numbers(topics, MESSAGES)
        yield topics


def send_numbers(topics: TopicSet, count: int) -> None:
    topics.send(PageMessage(None, b"%d" % number) for number in range(count))


async def offsets(settings: Settings, spans: Spans) -> tuple[list[int], int]:
    """What is read of the one partition, and how many offsets were gone."""
    found: list[int] = []
    async with RangeReader(settings, spans, "reading pages") as reader:
        async for fetched in reader.batches():
            found += [record.offset for records in fetched.values() for record in records]
    return found, reader.gone


def settings_of(topics: TopicSet) -> Settings:
    return settings_from(topics.toml())


async def test_exactly_the_range_is_read(pages: TopicSet) -> None:
    partition = TopicPartition(pages.names["input"], 0)
    assert await offsets(settings_of(pages), {partition: (10, 60)}) == (list(range(10, 60)), 0)
    assert await offsets(settings_of(pages), {partition: (60, 60)}) == ([], 0)


@pytest.mark.parametrize(("span", "read"), [((0, 100), range(40, 100)), ((10, 30), range(0))])
def test_what_retention_removes_meanwhile_is_passed_over_and_counted(
    pages: TopicSet, span: tuple[int, int], read: range
) -> None:
    pages.delete_before("input", 40)
    partition = TopicPartition(pages.names["input"], 0)
    gone = min(40, span[1]) - span[0]
    assert asyncio.run(offsets(settings_of(pages), {partition: span})) == (list(read), gone)


async def test_a_topic_that_ends_before_the_range_was_recreated(pages: TopicSet) -> None:
    partition = TopicPartition(pages.names["input"], 0)
    with pytest.raises(BrokerError, match="ends before offset 150 of partition 0: the topic was recreated"):
        await offsets(settings_of(pages), {partition: (150, 200)})


async def test_a_reader_that_stands_still_between_fetches_is_not_taken_for_a_silent_broker(pages: TopicSet) -> None:
    partition = TopicPartition(pages.names["input"], 0)
    settings = settings_of(pages)
    impatient = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"request_timeout_ms": 1_000})})
    async with RangeReader(impatient, {partition: (0, MESSAGES)}, "reading pages") as reader:
        reader._silent_seconds = 0.9
        found = 0
        while not reader.at_end(partition):
            found += sum(map(len, (await reader.fetch()).values()))
            assert reader._silent_seconds < 1.0
        assert found == MESSAGES


def test_a_broker_that_falls_silent_is_told_with_the_setting(own_kafka: Any) -> None:
    with TopicSet(own_kafka.bootstrap_servers, leave_out=("novel", "duplicates", "rejected", "log")) as topics:
        send_numbers(topics, 10)
        toml = topics.toml() + "kafka.request_timeout_ms = 2000\n"

        async def read() -> None:
            partition = TopicPartition(topics.names["input"], 0)
            async with RangeReader(settings_from(toml), {partition: (0, 20)}, "reading pages") as reader:
                while not await reader.fetch():
                    pass
                own_kafka.pause()
                while True:
                    await reader.fetch()

        try:
            with pytest.raises(BrokerError, match=r"sent nothing for 2000 ms \(kafka.request_timeout_ms\) while"):
                asyncio.run(read())
        finally:
            own_kafka.resume()
