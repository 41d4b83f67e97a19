"""Waits for a cluster that names no broker: it is starting, or its controller has not let its broker in again.

A KRaft broker that was silent for longer than its session (paused, starved, just started) answers before its controller
has let it in. Its metadata then names neither a broker nor a controller. aiokafka 0.14 takes attributes of that None in
its admin client, and fails an assertion where it looks for a coordinator.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError

from spotsieve.stream.errors import BrokerError
from spotsieve.stream.kafka.errors import BrokersFencedError, creation_error

LET_IN_SECONDS, LOOK_PAUSE_SECONDS = 30.0, 0.1
"""The controller lets a killed broker in when its former session is over: broker.session.timeout.ms, 9 s by default."""

_LOOKUP = AIOKafkaClient.coordinator_lookup


@asynccontextmanager
async def administrator(**options: Any) -> AsyncIterator[AIOKafkaAdminClient]:
    """A started admin client of a cluster that has a controller; closed when the block ends.

    options: those of client_options(). Raises KafkaConnectionError where no broker answers, and BrokerError where the
    cluster has no controller within LET_IN_SECONDS.
    """
    admin = AIOKafkaAdminClient(**options)
    try:
        await admin.start()
        await wait_for_controller(admin)
        yield admin
    finally:
        await admin.close()


async def wait_for_controller(admin: AIOKafkaAdminClient, seconds: float = LET_IN_SECONDS) -> None:
    """Wait until the cluster's metadata names a controller, which is one of its brokers.

    Raises BrokerError where it names none within so many seconds.
    """
    client = admin._client
    try:
        async with asyncio.timeout(seconds):
            while client.cluster.controller is None:
                await client.force_metadata_update()
                if client.cluster.controller is None:
                    await asyncio.sleep(LOOK_PAUSE_SECONDS)
    except TimeoutError:
        servers = ",".join(f"{host}:{port}" for host, port, _ in client.hosts)
        raise BrokerError(
            "kafka.bootstrap_servers",
            f"must lead to a cluster with a controller: a broker answers, but within "
            f"{seconds:.0f} s its controller has let no broker in",
            servers,
            "try again when the cluster has started, and see the logs of its brokers and controllers",
        ) from None


async def create(admin: AIOKafkaAdminClient, topic: NewTopic, seconds: float = LET_IN_SECONDS) -> tuple[int, str]:
    """Create a topic; -> Kafka's error code, 0 for none, and the broker's text.

    A broker that is out of the cluster for a moment can hold no copy: the call is repeated for so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        response = await admin.create_topics([topic])
        _, code, said = response.topic_errors[0]
        if creation_error(code, said or "") is not BrokersFencedError or time.monotonic() > deadline:
            return code, said or ""
        await asyncio.sleep(LOOK_PAUSE_SECONDS)


def retry_without_brokers() -> None:
    """Make aiokafka ask again for a coordinator while its cluster names no broker, as it does for a broker not ready.

    By itself it fails an assertion, and a consumer or producer that is made at such a moment would end the service as a
    defect. A second call changes nothing.
    """
    AIOKafkaClient.coordinator_lookup = _coordinator_lookup


async def _coordinator_lookup(client: AIOKafkaClient, kind: int, key: str) -> Any:
    if client.get_random_node() is None:
        raise NodeNotReadyError("the cluster names no broker yet")
    return await _LOOKUP(client, kind, key)
