"""A worker joins its group with one request, so that workers that start at the same time agree soon."""

import asyncio

import pytest

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import pages_consumer
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.services.oracle import settings_from
from tests.fixtures.waiting import SECONDS, wait_until_async

WORKERS = 3


async def _generations(settings: Settings) -> list[int]:
    """The generation of the group after each of several workers has joined it, all at once where it is empty."""
    consumers = [pages_consumer(settings) for _ in range(WORKERS)]
    generations = list[int]()
    try:
        for consumer in consumers:
            await consumer.start()
            consumer.subscribe([settings.topics.input])

            async def dealt(joined: int = len(generations) + 1) -> bool:
                return sum(len(one.assignment()) for one in consumers) == WORKERS and all(
                    one.assignment() for one in consumers[:joined]
                )

            await wait_until_async(dealt, SECONDS, "partitions for every worker")
            generations.append(consumer._coordinator.generation)
    finally:
        await asyncio.gather(*(consumer.stop() for consumer in consumers))
    return generations


@pytest.mark.guarantee("workers that start together share the partitions", fault="workers join one after the other")
def test_a_worker_that_joins_makes_its_group_deal_once(kafka: Broker) -> None:
    with TopicSet(kafka.bootstrap_servers, WORKERS) as topics:
        settings = settings_from(topics.toml())
        assert asyncio.run(_generations(settings)) == [1, 2, 3]
