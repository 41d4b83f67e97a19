"""Where a partition begins that has no committed offset: chosen once and committed, or refused where it was lost."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.protocol.admin import DeleteGroupsRequest

from spotsieve.stream.base.errors import EXIT_SETTING
from spotsieve.stream.kafka.clients import administrator
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import html_of, json_page
from tests.fixtures.services.oracle import verdicts_sent
from tests.fixtures.services.roles import Roles
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until


def committed(topics: TopicSet) -> int | None:
    """The group's committed offset of partition 0."""

    async def ask() -> int | None:
        consumer = AIOKafkaConsumer(bootstrap_servers=topics.servers, group_id=topics.group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topics.names["input"], 0)])
            offset: int | None = await consumer.committed(TopicPartition(topics.names["input"], 0))
            return offset
        finally:
            await consumer.stop()

    return asyncio.run(ask())


def forget_offsets(topics: TopicSet) -> None:
    """What the broker does to a group that was silent for offsets.retention.minutes."""

    async def delete() -> None:
        async with administrator(bootstrap_servers=topics.servers) as admin:
            # aiokafka's admin client has the request and no method for it.
            coordinator = await admin.find_coordinator(topics.group)
            response = await admin._send_request(DeleteGroupsRequest([topics.group]), coordinator)
            assert response.results == [(topics.group, 0)]

    wait_until(lambda: topics.group_state() == "Empty", SECONDS, "the group to be empty")
    asyncio.run(delete())
    wait_until(lambda: committed(topics) is None, SECONDS, "the offsets to be gone")


@pytest.mark.guarantee(
    "no page is lost at the start of a group", fault="kafka.start = latest, pages come while no worker runs"
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_pages_that_come_while_no_worker_runs_are_read_also_with_start_latest(
    kafka: Broker, tmp_path: Path, guarantee: str
) -> None:
    more = f'kafka.start = "latest"\nservice.guarantee = "{guarantee}"\n'
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml() + more) as service:
        topics.send([json_page(number, html_of(number)) for number in range(5)])
        service.start().until_ready()
        wait_until(lambda: committed(topics) == 5, SECONDS, "the beginning to be committed")
        assert service.terminate() == 0, service.text()
        later = [json_page(100 + number, html_of(100 + number)) for number in range(7)]
        topics.send(later)
        service.start().until_ready()
        service.until_committed(7)
        assert service.terminate() == 0, service.text()
        assert set(verdicts_sent(topics)) == {page.key for page in later}


@pytest.mark.guarantee("no page is doubled silently", fault="the group's committed offsets have expired")
@pytest.mark.timeout(600)
def test_lost_offsets_of_known_pages_are_refused_until_somebody_chooses(kafka: Broker, tmp_path: Path) -> None:
    pages = [json_page(number, html_of(number)) for number in range(5)]
    with TopicSet(kafka.bootstrap_servers) as topics, Spotsieve(tmp_path, topics.toml()) as service:
        topics.send(pages)
        service.start().until_ready()
        service.until_committed(5)
        assert service.terminate() == 0, service.text()
        forget_offsets(topics)
        assert service.run_to_end() == EXIT_SETTING
        line = service.error()
        assert "kafka.restart_from must say where partition 0" in line
        for choice in ("earliest", "latest", "if the topic was not recreated, --reset-offsets"):
            assert choice in line
        assert committed(topics) is None
        later = [json_page(100 + number, html_of(100 + number)) for number in range(3)]
        with Spotsieve(tmp_path, service.toml + 'kafka.restart_from = "latest"\n') as chosen:
            chosen.start().until_ready()
            wait_until(lambda: committed(topics) is not None, SECONDS, "the beginning to be committed")
            topics.send(later)
            chosen.until_committed(3)
            assert chosen.terminate() == 0, chosen.text()
        assert {key: len(sent) for key, sent in verdicts_sent(topics).items()} == {
            page.key: 1 for page in (*pages, *later)
        }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shards", [0, 2])
def test_pages_of_a_recreated_input_do_not_get_the_verdicts_of_earlier_pages(
    kafka: Broker, tmp_path: Path, shards: int
) -> None:
    copies = [json_page(100 + number, html_of(0)) for number in range(20)]
    others = [json_page(200 + number, html_of(200 + number)) for number in range(21)]
    with TopicSet(kafka.bootstrap_servers, shards=shards) as topics:
        for pages, more in (([json_page(0, html_of(0)), *copies], ""), (others, 'kafka.restart_from = "earliest"\n')):
            topics.send(pages)
            with contextlib.ExitStack() as stack:
                if shards:
                    roles = stack.enter_context(Roles(tmp_path, topics, 1, shards, 1, topics.toml() + more)).start()
                    worker = roles["worker-0"]
                else:
                    worker = stack.enter_context(Spotsieve(tmp_path, topics.toml() + more)).start().until_ready()
                topics.until_all_committed()
                # The worker appends no record after its last commit, so its last verdicts are still pending.
                assert worker.terminate() == 0, worker.text()
            topics.recreate("input")
        novel = [record.key for record in topics.read("novel")]
        assert set(novel) == {b"https://crawl.example/0", *(page.key for page in others)}
        assert len(topics.read("duplicates")) == len(copies)
