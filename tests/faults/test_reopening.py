"""A partition that is reassigned right after a commit of unknown outcome continues where that commit left it."""

import asyncio

import pytest
from aiokafka import TopicPartition

from spotsieve.stream.kafka.driver.requests import stable_committed
from tests.conftest import Broker
from tests.fixtures.brokers.reopening import Reopened, reopen_often
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.services.oracle import settings_from

PARTITIONS, TIMES, LEAST_UNKNOWN = 4, 40, 11


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict",
    fault="a partition is reassigned during a commit of unknown outcome",
)
@pytest.mark.timeout(300)
def test_each_output_is_there_once_however_often_its_partition_is_reassigned(kafka: Broker) -> None:
    with TopicSet(kafka.bootstrap_servers, partitions=PARTITIONS) as topics:

        async def all_partitions() -> list[Reopened]:
            # Each has a group of its own: a group deals a topic's partitions out, and here each is taken on purpose.
            runs = []
            for number in range(PARTITIONS):
                settings = settings_from(topics.toml())
                kafka_settings = settings.kafka.model_copy(update={"group_id": f"{topics.group}-{number}"})
                settings = settings.model_copy(update={"kafka": kafka_settings})
                partition = TopicPartition(topics.names["input"], number)
                runs.append(reopen_often(settings, partition, TIMES, stable_committed, number, LEAST_UNKNOWN))
            return await asyncio.gather(*runs)

        taken = asyncio.run(all_partitions())
        written = [(record.partition, int(record.value)) for record in topics.read("novel")]
    assert all(each.unknown >= LEAST_UNKNOWN for each in taken), "commits were given up"
    for number, each in enumerate(taken):
        assert each.began == sorted(each.began)
        numbers = [value for partition, value in written if partition == number]
        assert numbers == list(range(len(numbers))), f"partition {number}: {numbers}"
        assert len(numbers) in {each.began[-1], each.began[-1] + 1}
