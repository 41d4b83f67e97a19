"""Owns the proof that a broker that dies, hangs or comes back, and a worker that froze, cost time but no page."""

import signal
import time
from pathlib import Path

import pytest

from deploy.localkafka import LocalKafka
from tests.broker.crawls import crawl
from tests.broker.harness import Spotsieve, TopicSet, wait_for
from tests.broker.oracle import ids_by_key, judge_again, verdicts_sent
from tests.conftest import Broker

SLOWED = "service.batch_pages = 32\n"


def check_each_page_once(topics: TopicSet, toml: str, keys: set[bytes]) -> None:
    sent = verdicts_sent(topics)
    assert sent.keys() == keys, "a page without a verdict"
    doubled = {key: verdicts for key, verdicts in sent.items() if len(verdicts) > 1}
    assert not doubled, f"{len(doubled)} pages have two verdicts"
    expected, _ = judge_again(toml, topics.read("log"), topics.names["log"])
    ids = ids_by_key(topics)
    assert {key: verdicts[0] for key, verdicts in sent.items()} == {key: expected[ids[key]] for key in ids}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_broker_killed_and_started_again_costs_no_page_and_doubles_none(
    own_kafka: LocalKafka, tmp_path: Path
) -> None:
    pages = crawl(6_000, seed=7)
    with TopicSet(own_kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + SLOWED
        topics.send(pages.messages)
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            service.until_committed(500)
            own_kafka.kill()
            time.sleep(1)
            assert service.get("/healthz")[0] == 200, "a worker that waits for its broker is alive"
            own_kafka.start()
            topics.until_all_committed(120)
            assert service.terminate() == 0, service.text()
        check_each_page_once(topics, toml, set(pages.articles))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_broker_that_hangs_for_seconds_costs_no_page_and_doubles_none(own_kafka: LocalKafka, tmp_path: Path) -> None:
    pages = crawl(6_000, seed=8)
    with TopicSet(own_kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + SLOWED + "kafka.request_timeout_ms = 3000\n"
        topics.send(pages.messages)
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            service.until_committed(500)
            own_kafka.pause()
            time.sleep(5)
            own_kafka.resume()
            topics.until_all_committed(120)
            assert service.terminate() == 0, service.text()
        check_each_page_once(topics, toml, set(pages.articles))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_sigterm_ends_within_10_seconds_even_where_the_broker_answers_nothing(
    own_kafka: LocalKafka, tmp_path: Path, guarantee: str
) -> None:
    with TopicSet(own_kafka.bootstrap_servers) as topics:
        topics.send(crawl(4_000, seed=9).messages)
        toml = topics.toml() + SLOWED + f'service.guarantee = "{guarantee}"\n'
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            service.until_committed(100)
            own_kafka.pause()
            asked = time.monotonic()
            service.terminate(12)
            took = time.monotonic() - asked
            own_kafka.resume()
            assert took < 10, f"{took:.1f} s\n{service.text()}"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_worker_that_froze_and_woke_up_cannot_commit_what_another_took_over(kafka: Broker, tmp_path: Path) -> None:
    pages = crawl(8_000, seed=10)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml().replace("kafka.session_timeout_ms = 6000", "kafka.session_timeout_ms = 2000") + SLOWED
        topics.send(pages.messages)
        with Spotsieve(tmp_path, toml, "frozen") as frozen, Spotsieve(tmp_path, toml, "other") as other:
            frozen.start().until_ready()
            frozen.until_committed(300)
            frozen.alive.send_signal(signal.SIGSTOP)
            other.start().until_ready()
            other.until_committed(300)
            frozen.alive.send_signal(signal.SIGCONT)
            topics.until_all_committed(120)
            wait_for(lambda: frozen.metric("spotsieve_assigned_partitions") == 1, 60, "the frozen one to join again")
            assert frozen.terminate() == 0, frozen.text()
            assert other.terminate() == 0, other.text()
        check_each_page_once(topics, toml, set(pages.articles))
