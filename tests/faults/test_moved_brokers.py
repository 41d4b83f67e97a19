"""Brokers that all come back under other addresses are found through the bootstrap address, which stays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spotsieve.stream.demo.localkafka import LocalKafka, prepare
from tests.fixtures.brokers.listeners import HOST, Listener, free_ports, listener_settings
from tests.fixtures.brokers.proxy import Proxy
from tests.fixtures.brokers.topics import TopicSet
from tests.fixtures.pages.crawls import crawl
from tests.fixtures.services.oracle import check_verdicts_sent
from tests.fixtures.services.service import Spotsieve


@contextmanager
def broker_at(directory: Path, port: int, controller: int) -> Iterator[LocalKafka]:
    """A broker on the data of this directory that advertises this port."""
    settings = listener_settings({"PLAINTEXT": Listener(port)}, controller)
    with LocalKafka(directory, port=port, settings=settings) as broker:
        yield broker


@pytest.mark.guarantee(
    "a service waits for its broker and continues", fault="all brokers come back under new addresses, one name stays"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_service_finds_brokers_under_new_addresses_through_its_bootstrap_address(
    tmp_path: Path, guarantee: str
) -> None:
    prepare()
    pages = crawl(200, seed=8)
    former, later, stable, controller = free_ports(4)
    toml_end = f'service.guarantee = "{guarantee}"\n'
    with Proxy(stable, former) as bootstrap:
        with broker_at(tmp_path / "broker", former, controller) as broker:
            topics = TopicSet(broker.bootstrap_servers, partitions=2)
            topics.__enter__()
            toml = topics.toml().replace(broker.bootstrap_servers, f"{HOST}:{stable}") + toml_end
            service = Spotsieve(tmp_path / "service", toml)
            topics.send(pages.messages[:100])
            service.start().until_ready()
            topics.until_all_committed()
        with service, broker_at(tmp_path / "broker", later, controller) as broker:
            bootstrap.lead_to(later)
            topics.servers = broker.bootstrap_servers
            topics.send(pages.messages[100:])
            topics.until_all_committed()
            service.until_ready()
            assert service.terminate() == 0, service.text()
            check_verdicts_sent(topics, toml, pages.articles)
            assert "restarts with new clients" not in service.text()
