"""A replay forgets where the log does, and judges offsets that were set back in the log's order."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from spotsieve.stream.cli import main
from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import PageMessage, edited, html_of, json_page, url_of
from tests.fixtures.services.service import Spotsieve

OTHER = {"scheme.min_containment=0.99": True, "scheme.shingle_words=2": False}
"""Settings, and whether they let edited copies through; each files the pages under other buckets or other numbers."""


def replay(capsys: pytest.CaptureFixture[str], config: Path, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["replay", "--json", "-c", str(config), *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


async def commit_ends(topics: TopicSet) -> None:
    """Let the group begin at the ends that the two input partitions have now."""
    partitions = [TopicPartition(topics.names["input"], number) for number in (0, 1)]
    async with AIOKafkaConsumer(
        bootstrap_servers=topics.servers, group_id=topics.group, enable_auto_commit=False
    ) as consumer:
        consumer.assign(partitions)
        await consumer.commit(await consumer.end_offsets(partitions))


@pytest.mark.guarantee("a replay gives equal verdicts", fault="pages were forgotten meanwhile, mode = annotate")
@pytest.mark.timeout(900)
def test_pages_are_forgotten_where_the_log_forgets_them_also_under_other_settings(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def forget(config: Path, *numbers: int) -> None:
        named = [argument for number in numbers for argument in ("--url", url_of(number))]
        assert main(["state", "forget", "-c", str(config), *named]) == 0

    # Two frames, and so two titles, that the host comes to know as its own: only then its titles say nothing of a copy.
    def page(number: int, article: int, frame: int) -> PageMessage:
        return json_page(number, html_of(article, template=(article + frame) % 2))

    toml_extra = 'service.mode = "annotate"\nservice.guarantee = "at_least_once"\n'
    with (
        TopicSet(kafka.bootstrap_servers, partitions=2) as topics,
        Spotsieve(tmp_path, topics.toml() + toml_extra) as service,
    ):
        service.start().until_ready()
        topics.send([page(number, number, 0) for number in range(1, 9)])
        service.until_committed(8)
        topics.send([page(100 + number, number, 1) for number in (1, 2, 3)])
        service.until_committed(11)
        forget(service.config, 1, 2, 8)
        service.until_metric("spotsieve_forgotten_pages_total", 3)
        topics.send([page(200 + number, number, 1) for number in (1, 2, 3)])
        service.until_committed(14)
        topics.send([json_page(300 + number, edited(html_of(number))) for number in (1, 2, 3)])
        service.until_committed(17)
        found = replay(capsys, service.config, "--fail-on-difference")  # beside the running service
        assert (found["compared"], found["differ"], found["forgotten"]) == (17, 0, 3)
        assert found["recorded_by_replayed"]["novel"]["novel"] == 10, "the copies of two forgotten pages are novel"
        for setting, edited_are_novel in OTHER.items():
            found = replay(capsys, service.config, "--set", setting, "--examples", "99")
            assert found["forgotten"] == 3, setting
            assert found["recorded_by_replayed"]["novel"]["novel"] == 10, setting
            changed = {row["url"]: row["replayed"]["verdict"] for row in found["examples"]}
            assert changed == ({url_of(300 + n): "novel" for n in (1, 2, 3)} if edited_are_novel else {}), setting
        assert service.terminate() == 0, service.text()
        topics.delete_before("log", 2)  # the configuration, and the first pages
        found = replay(capsys, service.config)
        assert found["order"]["before_log"] > 0
        assert found["order"]["before_log"] + found["order"]["by_log"] == 17
        assert any("begins at record 2" in notice for notice in found["notices"])


@pytest.mark.guarantee("a replay gives equal verdicts", fault="most originals are outside the deduplication window")
@pytest.mark.timeout(900)
def test_with_a_horizon_a_replay_gives_the_recorded_verdicts(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, copies, horizon_hours = 600, 50, 1
    # Each article comes four times: after a quarter of a horizon, after two, and after another quarter.
    minutes = {1: 0, 2: 15, 3: 120, 4: 135}
    sent = sorted((article + minutes[time], article, time) for article in range(pages // 4) for time in minutes)
    messages = [
        json_page(time * 1000 + article, html_of(article, template=time % 2), fetched_at=1_600_000_000 + minute * 60)
        for minute, article, time in sent
    ]
    directory = f'index.directory = "{tmp_path / "state"}"\n'
    toml_extra = f"index.horizon_hours = {horizon_hours}\nservice.batch_pages = 37\n{directory}"
    with (
        TopicSet(kafka.bootstrap_servers, partitions=2) as topics,
        Spotsieve(tmp_path, topics.toml() + toml_extra) as service,
    ):
        service.start().until_ready()
        topics.send(messages)
        topics.until_all_committed()
        assert service.terminate() == 0, service.text()
        found = replay(capsys, service.config)
        assert (found["compared"], found["differ"]) == (pages, 0)
        matrix = found["recorded_by_replayed"]
        assert matrix["novel"]["novel"] >= pages // 2 - pages // 20, "what has left the horizon is novel again"
        assert matrix["duplicate"]["duplicate"] >= pages // 4
        assert replay(capsys, service.config, "--set", "index.horizon_hours=0")["differ"] >= pages // 8
        # Another group reads it all again: expired pages are indexed again, and have copies after that.
        toml = service.toml.replace(topics.group, f"{topics.group}-again") + 'kafka.restart_from = "earliest"\n'
        latest = 1_600_000_000 + 60 * sent[-1][0]
        with Spotsieve(tmp_path, toml, "again") as again:
            again.start().until_ready()
            again.until_committed(pages)
            topics.send(json_page(5000 + n, html_of(n, template=n % 2), fetched_at=latest) for n in range(copies))
            again.until_committed(pages + copies)
            assert again.terminate() == 0, again.text()
        found = replay(capsys, again.config, "--into", str(tmp_path / "verdicts.jsonl"))
        assert (found["compared"], found["differ"], found["judged_again"]) == (pages + copies, 0, pages)
        assert len((tmp_path / "verdicts.jsonl").read_text().splitlines()) == pages + copies
        assert found["recorded_differently_again"] != []


@pytest.mark.guarantee(
    "a replay gives equal verdicts", fault="a group started in mid-stream, another one read the topic again"
)
@pytest.mark.timeout(900)
def test_pages_judged_twice_or_out_of_offset_order_replay_to_the_recorded_verdicts(
    kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = 150
    early = [json_page(number, html_of(number, template=1)) for number in range(half)]
    late = [json_page(1000 + number, html_of(number, template=2)) for number in range(0, 2 * half, 2)]
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + f'service.batch_pages = 31\nindex.directory = "{tmp_path / "state"}"\n'
        topics.send(early)
        asyncio.run(commit_ends(topics))
        topics.send(late)
        with Spotsieve(tmp_path, toml, "mid-stream") as service:
            service.start().until_ready()
            topics.until_all_committed()
            assert service.committed() == half, "the first pages must not have been read"
            assert service.terminate() == 0, service.text()
        again = toml.replace(topics.group, f"{topics.group}-again") + 'kafka.restart_from = "earliest"\n'
        with Spotsieve(tmp_path, again, "again") as service:
            service.start().until_ready()
            service.until_committed(2 * half)
            assert service.terminate() == 0, service.text()
        found = replay(capsys, service.config, "--fail-on-difference")
        assert (found["compared"], found["differ"]) == (2 * half, 0)
        assert found["recorded_again"] > half // 2
        assert found["recorded_differently_again"] == []
        by_time = replay(capsys, service.config, "--set", "topics.log=none")
        assert by_time["differ"] > half // 4, "the order of the log must not be that of time, or this shows nothing"
