"""A cluster without a broker is waited for, for a while, and then reported."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import InvalidReplicationFactorError, NodeNotReadyError

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.kafka import clients
from spotsieve.stream.kafka.clients import create, wait_for_controller
from spotsieve.stream.kafka.driver.clients import KafkaClient

FENCED = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
TOO_FEW = "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered."


class Silent:
    """aiokafka's client of a cluster that has a controller after some looks."""

    def __init__(self, looks: float) -> None:
        self.cluster = SimpleNamespace(controller=None)
        self.hosts = [("kafka.example", 9092, 0)]
        self.looks, self.looked = looks, 0

    async def force_metadata_update(self) -> bool:
        self.looked += 1
        if self.looked >= self.looks:
            self.cluster.controller = "a broker"
        return True


def admin_of(client: Silent) -> Any:
    return SimpleNamespace(client=client)


async def test_a_cluster_is_asked_until_it_has_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "POLL_SECONDS", 0)
    client = Silent(looks=5)
    await wait_for_controller(admin_of(client))
    assert client.looked == 5


async def test_a_cluster_that_never_has_a_controller_is_an_error_with_the_next_step() -> None:
    with pytest.raises(BrokerError, match=r"kafka.example:9092'; look at the logs of brokers") as error:
        await wait_for_controller(admin_of(Silent(looks=float("inf"))), seconds=0.3)
    assert "unfenced no broker" in error.value.rule


class Refusing:
    """The admin client of a broker that refuses some creations."""

    def __init__(self, times: int, error: str) -> None:
        self.left, self.error, self.requests = times, error, 0

    async def create_topics(self, _: list[Any]) -> SimpleNamespace:
        self.requests += 1
        self.left -= 1
        code = InvalidReplicationFactorError.errno if self.left >= 0 else 0
        return SimpleNamespace(topic_errors=[("pages", code, self.error if code else None)])


@pytest.mark.parametrize(
    ("broker", "code", "requests"),
    [(Refusing(3, FENCED), 0, 4), (Refusing(3, TOO_FEW), InvalidReplicationFactorError.errno, 1)],
)
async def test_a_topic_is_created_once_a_broker_can_hold_it(
    broker: Refusing, code: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "POLL_SECONDS", 0)
    assert await create(broker, object()) == (code, broker.error if code else "")
    assert broker.requests == requests


async def test_brokers_that_stay_out_refuse_a_topic_in_the_end() -> None:
    broker = Refusing(10**9, FENCED)
    assert await create(broker, object(), seconds=0.3) == (InvalidReplicationFactorError.errno, FENCED)


async def test_a_coordinator_is_asked_for_again_where_no_broker_is_named() -> None:
    client = KafkaClient(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(NodeNotReadyError) as error:
        await client.coordinator_lookup(0, "group")
    assert error.value.retriable
