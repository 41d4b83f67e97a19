"""Connections may end at any request of a page's pipeline, or before its response."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.stream.demo.localkafka import LocalKafka
from tests.fixtures.brokers.proxy import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    HEARTBEAT,
    OFFSET_COMMIT,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Lost,
    Proxy,
    broker_behind_proxy,
)
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve
from tests.fixtures.waiting import SECONDS

SLOWED = "service.batch_pages = 32\n"
LOSSES: tuple[Lost, ...] = ("request", "response")
STEPS = {
    "exactly_once": (PRODUCE, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN, FETCH, HEARTBEAT),
    "at_least_once": (PRODUCE, OFFSET_COMMIT, FETCH, HEARTBEAT),
}


@pytest.fixture(scope="module")
def way() -> Iterator[tuple[LocalKafka, Proxy, str]]:
    with broker_behind_proxy() as made:
        yield made


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict",
    fault="all connections end at each request of a commit, before it or before its response",
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", STEPS)
def test_connections_that_end_at_any_request_or_answer_lose_no_page(
    way: tuple[LocalKafka, Proxy, str], tmp_path: Path, guarantee: str
) -> None:
    pages = crawl(1_500, seed=15)
    broker, proxy, address = way
    with TopicSet(broker.bootstrap_servers, partitions=2) as topics:
        toml = topics.toml().replace(broker.bootstrap_servers, address)
        toml += SLOWED + f'service.guarantee = "{guarantee}"\n'
        with Spotsieve(tmp_path, toml) as service:
            service.start().until_ready()
            rounds = [(key, lost) for key in STEPS[guarantee] for lost in LOSSES]
            share = len(pages.messages) // len(rounds)
            for number, (key, lost) in enumerate(rounds):
                proxy.cut_at(key, lost)
                topics.send(pages.messages[number * share : (number + 1) * share])
                assert proxy.was_cut.wait(SECONDS), (key, lost)
                proxy.mend()
                topics.until_all_committed()
            topics.send(pages.messages[len(rounds) * share :])
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
        check_verdicts_sent(topics, toml, pages.articles)
