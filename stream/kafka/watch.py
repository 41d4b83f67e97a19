"""Watches the broker while a worker works: whether it answers, and whether the topics are still there.

Keeps what a process waits for: /readyz shows it and a metric counts it, until the step succeeds once.

Waits before the broker is tried again, longer each time.
"""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from aiokafka.protocol.metadata import MetadataRequest

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import client_options, stop_client
from spotsieve.stream.kafka.connectivity import refusal
from spotsieve.stream.kafka.topics import names_of
from spotsieve.stream.observe.metrics import Metrics


class Waits:
    """The steps that wait for the broker. Each partition has its own."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waits: dict[tuple[str, object], str] = {}

    def failed(self, step: str, error: BaseException | str, of: object = None, waited_for: str = "the broker") -> None:
        """A try has failed and will be repeated."""
        self._metrics.retries.labels(step).inc()
        where = "" if of is None else f" of partition {of}"
        name = error if isinstance(error, str) else type(error).__name__
        self._waits[step, of] = f"waiting for {waited_for}: {step}{where}: {name}"

    def over(self, step: str, of: object = None) -> None:
        """The step has succeeded, or is no longer wanted."""
        self._waits.pop((step, of), None)

    def texts(self) -> list[str]:
        """Lines for a person who asks whether the worker is ready. Any thread may call this."""
        return list(self._waits.values())


NO_LEADER = -1
LOOK_SECONDS = 1.0
LOOK_TIMEOUT_SECONDS = 3.0
"""A broker that needs longer to name five topics keeps the worker waiting anyway."""
FAILED_LOOKS = 2
"""So many must fail before it is reported: one look may go to a broker that has just left."""
REFUSED_SECONDS = 20.0
"""A login or certificate that is refused for so long was changed. Before that, a broker that has just started may not
know its users yet. The service ends then, because only a new start reads the password and the CA anew."""
GONE_SECONDS = 8.0
"""A topic that is missing for so long was deleted. Before that, a broker that has just started may not know it yet."""

NEXT_STEP = {
    "input": "create it anew (`spotsieve topics create`) and start again with kafka.restart_from=earliest: what was "
    "not read is lost with it",
    "novel": "create it anew (`spotsieve topics create`) and start again: what it held is lost, the rest follows",
    "matches": "create it anew (`spotsieve topics create`) and start again: nothing is lost with it",
    "verdicts": "bring it back; or create it anew (`spotsieve topics create`) and start every shard with an empty "
    "state directory: the log gives them again",
    "log": "bring it back, or begin anew with another log (topics.log) and another index.directory",
}


class BrokerWatch:
    """Asks for the metadata of the topics every LOOK_SECONDS.

    aiokafka reports neither that no broker answers nor that a topic or its leader is gone. It tries for ever, and a
    worker would stand still without a word.
    """

    def __init__(self, settings: Settings, waits: Waits) -> None:
        self._settings = settings
        self._waits = waits
        self._roles = {name: role for role, name in names_of(settings).items()}
        self._missing: dict[str, float] = {}
        self._failed_looks = 0
        self._refused_since: float | None = None
        self._leaderless: Mapping[str, int] = {}
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look for ever. Raises BrokerError where a topic is gone, or where login or certificate are refused."""
        options = client_options(self._settings.kafka)
        client = AIOKafkaClient(**options)
        started = False
        try:
            while True:
                try:
                    async with asyncio.timeout(LOOK_TIMEOUT_SECONDS):
                        if not started:
                            await client.bootstrap()
                            started = True
                        missing, leaderless = await self._look(client)
                except (KafkaError, TimeoutError) as error:
                    await self._no_answer(error, options)
                else:
                    self._failed_looks, self._refused_since = 0, None
                    self._waits.over("answer")
                    self._tell_leaderless(leaderless)
                    self._check(missing)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await stop_client(client)

    async def _look(self, client: AIOKafkaClient) -> tuple[list[str], dict[str, int]]:
        """The topics that the broker does not know; and, by topic, the first partition without a leader."""
        # Otherwise a broker that creates topics by itself would bring a deleted one back, empty.
        request = MetadataRequest(list(self._roles), allow_auto_topic_creation=False)
        answer = await client.send(client.get_random_node(), request)
        unknown = [topic for error, topic, *_ in answer.topics if error == UnknownTopicOrPartitionError.errno]
        leaderless = {
            topic: [number for _, number, leader, *_ in partitions if leader == NO_LEADER]
            for _, topic, _, partitions, *_ in answer.topics
        }
        return unknown, {topic: min(numbers) for topic, numbers in leaderless.items() if numbers}

    def _tell_leaderless(self, leaderless: Mapping[str, int]) -> None:
        """Report partitions that had no leader in two looks: the broker's disk may have failed.

        A leader that only moves is found sooner.
        """
        told = {f"{topic}/{number}" for topic, number in leaderless.items() if topic in self._leaderless}
        for partition in self._told - told:
            self._waits.over("leader", partition)
        for partition in told:
            self._waits.failed("leader", LeaderNotAvailableError(), partition)
        self._leaderless, self._told = leaderless, told

    async def _no_answer(self, error: BaseException, options: Mapping[str, Any]) -> None:
        """Report the wait. aiokafka's error is the same for a broker that is down and one that refuses us: ask it."""
        self._failed_looks += 1
        if self._failed_looks < FAILED_LOOKS:
            return
        refused = await refusal(self._settings.kafka, options, "looking at the topics", LOOK_TIMEOUT_SECONDS)
        self._waits.failed("answer", str(refused) if refused else error)
        if refused is None:
            self._refused_since = None
            return
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if now - self._refused_since >= REFUSED_SECONDS:
            raise refused

    def _check(self, missing: Iterable[str]) -> None:
        now = time.monotonic()
        self._missing = {name: self._missing.get(name, now) for name in missing}
        for name, since in self._missing.items():
            if now - since >= GONE_SECONDS:
                role = self._roles[name]
                raise BrokerError(
                    f"topics.{role}",
                    "is gone from the broker: it was deleted while the service ran",
                    name,
                    NEXT_STEP.get(role, NEXT_STEP["novel"]),
                )


FIRST_SECONDS = 0.1
MOST_SECONDS = 10.0


class Backoff:
    """Doubling waits with full jitter, so that workers do not come back all at once."""

    def __init__(self) -> None:
        self._most = FIRST_SECONDS

    async def wait(self) -> None:
        """Sleep, longer each time."""
        await asyncio.sleep(random.uniform(0, self._most))
        self._most = min(self._most * 2, MOST_SECONDS)

    def reset(self) -> None:
        """A try has succeeded: make the next wait a short one again."""
        self._most = FIRST_SECONDS
