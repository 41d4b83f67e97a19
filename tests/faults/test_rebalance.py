"""Partitions move between workers and stopping is orderly: no page is lost or doubled."""

from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.given_seconds import PROMISED_STOP_SECONDS, GivenSeconds
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import ids_by_key, judge_again, verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

PAGES = 16_000
PARTITIONS = 4


@pytest.mark.guarantee(
    "batch sizes, timing and rebalances change no verdict", fault="a worker joins in mid-run, another leaves"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_partitions_move_between_two_workers_without_a_lost_or_doubled_page(
    kafka: Broker, tmp_path: Path, guarantee: str
) -> None:
    pages = crawl(PAGES, seed=3)
    with TopicSet(kafka.bootstrap_servers, partitions=PARTITIONS) as topics:
        toml = topics.toml() + f'service.batch_pages = 64\nservice.guarantee = "{guarantee}"\n'
        with Spotsieve(tmp_path, toml, "first") as first, Spotsieve(tmp_path, toml, "second") as second:
            first.start().until_ready()
            topics.send(pages.messages[: PAGES // 2])
            first.until_committed(500)
            second.start().until_ready()
            topics.send(pages.messages[PAGES // 2 :])
            # Both work at once, on two partitions each.
            wait_until(
                lambda: first.metric("spotsieve_assigned_partitions") == 2, SECONDS, "the first to give half away"
            )
            second.until_metric("spotsieve_assigned_partitions", 2)
            second.until_committed(200)
            assert first.terminate() == 0, first.text()
            wait_until(lambda: second.metric("spotsieve_assigned_partitions") == PARTITIONS, SECONDS, "all to go")
            topics.until_all_committed()
            assert second.terminate() == 0, second.text()
        sent = verdicts_sent(topics)
        assert sent.keys() == pages.articles.keys(), "a page without a verdict"
        doubled = {key: verdicts for key, verdicts in sent.items() if len(verdicts) > 1}
        assert not doubled, f"{len(doubled)} pages have two verdicts"
        expected, _ = judge_again(toml, topics.read("log"), topics.names["log"])
        ids = ids_by_key(topics)
        assert {key: verdicts[0] for key, verdicts in sent.items()} == {key: expected[ids[key]] for key in ids}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_sigterm_while_pages_flow_drains_commits_and_ends_with_0_within_10_seconds(
    kafka: Broker, tmp_path: Path, guarantee: str
) -> None:
    sent_pages, left = 0, 0
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + f'service.batch_pages = 64\nservice.guarantee = "{guarantee}"\n'
        with Spotsieve(tmp_path, toml, python_options=("-W", "always::ResourceWarning")) as service:
            for part in (crawl(12_000, seed=seed) for seed in (4, 5, 6)):
                topics.send(part.messages)
                sent_pages += len(part.messages)
                service.start().until_ready()
                service.until_committed(100)
                with GivenSeconds() as took:
                    assert service.terminate() == 0, service.text()
                assert took.seconds < PROMISED_STOP_SECONDS
                text = service.text()
                assert "pages in flight" not in text
                assert "Unclosed" not in text, text
                assert "never awaited" not in text, text
                left = topics.uncommitted()
                if left:
                    break  # Else the test stood still, and the service was done before it was asked to stop.
        assert left > 0, "pages must still have been flowing, or the test shows nothing"
        outputs = [*topics.read("novel"), *topics.read("duplicates")]
        # What was fetched is finished: outputs and offsets tell the same story.
        assert len(outputs) == sent_pages - left


def test_a_worker_that_left_gives_its_partitions_over_at_once(kafka: Broker, tmp_path: Path) -> None:
    with TopicSet(kafka.bootstrap_servers) as topics:
        # A session of ten minutes: only leaving the group can hand over in time.
        toml = topics.toml(session_ms=600_000)
        with Spotsieve(tmp_path, toml, "first") as first, Spotsieve(tmp_path, toml, "second") as second:
            first.start().until_ready()
            topics.send(crawl(20).messages)
            first.until_committed(20)
            assert first.terminate() == 0
            second.start().until_ready()
            second.until_metric("spotsieve_assigned_partitions", 1)
