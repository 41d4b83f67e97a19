"""A worker that stands still is no longer healthy, and an idle one has no lag, on a real broker."""

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import html_of, json_page
from tests.fixtures.services.killed_at import armed_by
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.services.wedged import STEPS
from tests.fixtures.waiting import SECONDS, wait_until


@pytest.mark.guarantee("a stuck worker is not healthy", fault="its event loop, judge or signing never returns")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_whose_loop_or_thread_is_wedged_turns_red(kafka: Broker, tmp_path: Path, step: str) -> None:
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml(), module="tests.fixtures.services.wedged", command=(step,)) as service,
    ):
        service.start().until_ready()
        topics.send([json_page(1, html_of(1))])
        service.until_committed(1)
        assert service.get("/healthz") == (200, "ok\n")
        armed_by(service.config).touch()
        topics.send([json_page(2, html_of(2))])
        status, text = wait_until(
            lambda: response if (response := service.get("/healthz"))[0] != 200 else None, SECONDS, "/healthz to be red"
        )
        assert status == 503
        assert ("event loop" if step == "loop" else f"`{step}`") in text


async def send_in_transactions(topics: TopicSet, *transactions: bool) -> None:
    """A page in each transaction, which is committed or aborted."""
    async with AIOKafkaProducer(
        bootstrap_servers=topics.servers, transactional_id=topics.group + "-crawler"
    ) as producer:
        for number, commit in enumerate(transactions):
            await producer.begin_transaction()
            page = json_page(number, html_of(number))
            await producer.send_and_wait(topics.names["input"], page.value, page.key, partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_idle_partition_that_ends_with_markers_of_transactions_has_no_lag(
    kafka: Broker, tmp_path: Path, isolation: str
) -> None:
    with (
        TopicSet(kafka.bootstrap_servers) as topics,
        Spotsieve(tmp_path, topics.toml() + f'kafka.isolation_level = "{isolation}"\n') as service,
    ):
        service.start().until_ready()
        asyncio.run(send_in_transactions(topics, True, True, False))
        service.until_committed(2 if isolation == "read_committed" else 3)
        assert topics.uncommitted() > 0, "the end is beyond the committed offset"
        # The lag is looked at once a second, and a fetch that brings nothing takes 50 ms: 80 of them are 4 s.
        fetches = service.metric("spotsieve_stage_duration_seconds_count", stage="fetch")
        service.until_metric("spotsieve_stage_duration_seconds_count", fetches + 80, stage="fetch")
        assert service.metric("spotsieve_consumer_lag") == 0
        assert service.terminate() == 0, service.text()
