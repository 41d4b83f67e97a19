"""A broker that dies, hangs or comes back costs time but no page."""

import time
from pathlib import Path

import pytest

from spotsieve.stream.demo.localkafka import LocalKafka
from tests.fixtures.brokers.topics import STOP_SECONDS, TopicSet
from tests.fixtures.given_seconds import PROMISED_STOP_SECONDS, GivenSeconds
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.freezing import Freezing
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve

SLOWED = "service.batch_pages = 32\n"
SESSION_SECONDS = 2


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="kill -9 of the broker while a transaction is open"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_killed_in_mid_transaction_and_restarted_loses_and_doubles_no_page(
    own_kafka: LocalKafka, tmp_path: Path
) -> None:
    pages = crawl(6_000, seed=7)
    with TopicSet(own_kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml() + SLOWED
        with Freezing(tmp_path, toml) as service:
            service.begin(topics, pages.messages)
            service.until_frozen()
            assert topics.in_transaction()
            own_kafka.kill()
            service.thaw()
            service.until_waiting()
            own_kafka.start()
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="the broker hangs for longer than the session time-out"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_hanging_past_the_session_timeout_is_waited_for_and_loses_no_page(
    own_kafka: LocalKafka, tmp_path: Path
) -> None:
    pages = crawl(6_000, seed=8)
    with TopicSet(own_kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml(SESSION_SECONDS * 1000) + SLOWED + "kafka.request_timeout_ms = 3000\n"
        with Spotsieve(tmp_path, toml) as service:
            service.begin(topics, pages.messages)
            own_kafka.pause()
            paused = time.monotonic()
            service.until_waiting()
            # Time itself: the session must run out while the broker hangs.
            time.sleep(max(0.0, paused + SESSION_SECONDS + 1 - time.monotonic()))
            assert service.alive.poll() is None, service.text()
            own_kafka.resume()
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_sigterm_ends_within_10_seconds_even_where_the_broker_answers_nothing(
    own_kafka: LocalKafka, tmp_path: Path, guarantee: str
) -> None:
    with TopicSet(own_kafka.bootstrap_servers) as topics:
        toml = topics.toml() + SLOWED + f'service.guarantee = "{guarantee}"\n'
        toml = toml.replace(f"shutdown_timeout_ms = {STOP_SECONDS * 1000}", "shutdown_timeout_ms = 8000")
        with Spotsieve(tmp_path, toml) as service:
            service.begin(topics, crawl(4_000, seed=9).messages)
            own_kafka.pause()
            with GivenSeconds() as took:
                service.terminate()
            own_kafka.resume()
            assert took.seconds < PROMISED_STOP_SECONDS, f"{took.seconds:.1f} s\n{service.text()}"
