"""A committed offset is requested until no transaction that changes it is being completed."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
)

from spotsieve.stream.kafka.driver.requests import UNSTABLE, _Response, stable_committed

PARTITION = TopicPartition("pages", 3)
VERSIONS = {9: (1, 9)}
OLD_VERSIONS = {9: (0, 5)}


def answered(offset: int, code: int = 0, group_code: int = 0) -> Any:
    """A broker's response in version 7, as it comes over the wire."""
    topics: list[Any] = [("pages", [(3, offset, -1, "", code, {})], {})]
    return _Response.decode(BytesIO(_Response.SCHEMA.encode((0, topics, group_code, {}))))


class Coordinator:
    """aiokafka's group coordinator: gives one response after the other, and records the requests."""

    group_id = "crawl"

    def __init__(self, responses: Sequence[Any], versions: dict[int, tuple[int, int]]) -> None:
        self._responses = list(responses)
        self._versions = versions
        self.requests: list[Any] = []
        self.looked_for = 0
        self.dead = 0

    async def ensure_coordinator_known(self) -> None:
        self.looked_for += 1

    def coordinator_dead(self) -> None:
        self.dead += 1

    async def _send_req(self, request: Any) -> Any:
        self.requests.append(request.prepare(self._versions))
        response = self._responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


def consumer_of(responses: Sequence[Any], versions: dict[int, tuple[int, int]] = VERSIONS) -> tuple[Any, Coordinator]:
    coordinator = Coordinator(responses, versions)
    return cast("AIOKafkaConsumer", type("Consumer", (), {"_coordinator": coordinator})()), coordinator


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="an offset whose transaction is being completed"
)
async def test_an_unstable_offset_is_asked_for_again_until_it_is_stable() -> None:
    consumer, coordinator = consumer_of([answered(40, UNSTABLE), answered(40, UNSTABLE), answered(52)])
    assert await stable_committed(consumer, PARTITION) == 52
    assert len(coordinator.requests) == 3


async def test_the_question_requires_a_stable_offset_in_version_7_of_the_protocol() -> None:
    consumer, coordinator = consumer_of([answered(52)])
    await stable_committed(consumer, PARTITION)
    (request,) = coordinator.requests
    assert (request.API_KEY, request.API_VERSION) == (9, 7)
    # Group, one topic, one partition, require_stable, and no tags; lengths are one more than they are.
    assert request.encode() == b"\x06crawl\x02\x06pages\x02\x00\x00\x00\x03\x00\x01\x00"


async def test_a_broker_that_does_not_know_stable_offsets_is_asked_as_before() -> None:
    response = type("Response", (), {"API_VERSION": 3, "error_code": 0, "topics": [("pages", [(3, 52, "", 0)])]})
    consumer, coordinator = consumer_of([response], OLD_VERSIONS)
    assert await stable_committed(consumer, PARTITION) == 52
    assert coordinator.requests[0].API_VERSION == 3


async def test_nothing_committed_is_none() -> None:
    consumer, _ = consumer_of([answered(-1)])
    assert await stable_committed(consumer, PARTITION) is None


@pytest.mark.parametrize(
    "passing", [KafkaConnectionError(), answered(-1, 14), answered(-1, 0, 14), answered(-1, 0, 15)]
)
async def test_what_passes_is_asked_again(passing: Any) -> None:
    consumer, coordinator = consumer_of([passing, answered(52)])
    assert await stable_committed(consumer, PARTITION) == 52
    assert coordinator.looked_for == 2


async def test_a_coordinator_that_moved_is_looked_for_anew() -> None:
    code = NotCoordinatorForGroupError.errno
    consumer, coordinator = consumer_of([answered(-1, 0, code), answered(52)])
    assert await stable_committed(consumer, PARTITION) == 52
    assert coordinator.dead == 1


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError, TopicAuthorizationFailedError])
async def test_a_missing_right_is_raised(error: type[KafkaError]) -> None:
    consumer, _ = consumer_of([answered(-1, error.errno)])
    with pytest.raises(error):
        await stable_committed(consumer, PARTITION)
