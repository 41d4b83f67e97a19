"""A transaction that somebody else ends, or whose end nobody knows, loses no page and doubles none."""

from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.fixtures.brokers.proxy import END_TXN, Lost, broker_behind_proxy
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.freezing import Freezing
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS, wait_until

SLOWED = "service.batch_pages = 32\n"
WENT_BACK = "a commit failed; its pages are read again from the committed offset"


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict",
    fault="a worker freezes in mid-transaction, another takes over, the first wakes up",
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_zombie_that_wakes_in_mid_transaction_gets_nothing_through_and_joins_again(
    kafka: Broker, tmp_path: Path
) -> None:
    pages = crawl(8_000, seed=10)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml(session_ms=2_000) + SLOWED
        with Freezing(tmp_path, toml, "zombie") as zombie, Spotsieve(tmp_path, toml, "successor") as successor:
            zombie.begin(topics, pages.messages, committed=300)
            zombie.until_frozen()
            assert topics.in_transaction()
            successor.start().until_ready()
            successor.until_committed(300)
            zombie.thaw()
            topics.until_all_committed()
            wait_until(lambda: zombie.metric("spotsieve_assigned_partitions") == 1, SECONDS, "the zombie to join again")
            assert zombie.terminate() == 0, zombie.text()
            assert successor.terminate() == 0, successor.text()
        check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict",
    fault="a worker freezes past the transaction time-out, and the broker aborts",
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_transaction_that_the_broker_aborted_by_timeout_is_dropped_and_repeated(
    kafka: Broker, tmp_path: Path
) -> None:
    pages = crawl(6_000, seed=11)
    with TopicSet(kafka.bootstrap_servers, partitions=2) as topics:
        # The session outlasts the freeze: it is the same owner that goes on.
        toml = topics.toml()
        toml += SLOWED + "kafka.transaction_timeout_ms = 3000\n"
        with Freezing(tmp_path, toml) as service:
            service.begin(topics, pages.messages)
            service.until_frozen()
            assert topics.in_transaction()
            wait_until(lambda: not topics.in_transaction(), SECONDS, "the broker to abort the transaction", every=0.3)
            service.thaw()
            service.until_metric("spotsieve_commit_failures_total", 1)
            topics.until_all_committed()
            assert service.terminate() == 0, service.text()
            assert WENT_BACK in service.text()
        check_verdicts_sent(topics, toml, pages.articles)


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict",
    fault="kill -9 of the broker between the end of a transaction and its response",
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("lost", ["request", "response"])
def test_a_commit_of_unknown_outcome_is_dropped_and_the_committed_offset_decides(tmp_path: Path, lost: Lost) -> None:
    pages = crawl(4_000, seed=12)
    with (
        broker_behind_proxy() as (broker, proxy, address),
        TopicSet(broker.bootstrap_servers, partitions=1) as topics,
    ):
        toml = topics.toml().replace(broker.bootstrap_servers, address)
        toml += SLOWED + "kafka.transaction_timeout_ms = 3000\n"
        with Spotsieve(tmp_path, toml) as service:
            service.begin(topics, pages.messages)
            proxy.cut_at(END_TXN, lost)
            assert proxy.was_cut.wait(SECONDS)
            broker.kill()
            # The worker gives the commit up before anybody could tell it what became of it.
            service.until_metric("spotsieve_commit_failures_total", 1, error="KafkaTimeoutError")
            assert WENT_BACK in service.text()
            broker.start()
            left = len(pages.messages) - service.committed()
            if lost == "response":
                wait_until(lambda: topics.uncommitted() < left, SECONDS, "the broker to complete it", 0.3)
            else:
                # A broker that has just started may answer for a moment as if nothing were committed.
                wait_until(lambda: topics.uncommitted() == left, SECONDS, "the broker to tell what is committed", 0.3)
            proxy.mend()
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, toml, pages.articles)
