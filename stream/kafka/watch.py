"""Watches the broker and its topics while a worker works, and keeps the waits of the process.

BrokerWatch polls the metadata. It stops the process if a topic was deleted or recreated or has lost partitions, or a
login is refused, and reports a worker that gets no partition. Waits lists the steps that wait for the broker, for
/readyz and a metric. Backoff makes each wait before a retry longer.
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from aiokafka.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError

from spotsieve.stream.base.errors import BrokerError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import client_options, stop_client
from spotsieve.stream.kafka.connectivity import refusal
from spotsieve.stream.kafka.driver.clients import KafkaClient
from spotsieve.stream.kafka.driver.requests import TopicMetadata, read_metadata, read_owned
from spotsieve.stream.kafka.topics import TopicFacts, names_of
from spotsieve.stream.observe.metrics import Metrics

NO_LEADER = -1
POLL_SECONDS = 1.0
POLL_TIMEOUT_SECONDS = 3.0
"""A broker that needs longer for the metadata of a few topics makes the worker wait anyway."""
FAILED_POLLS = 2
"""Number of failed polls before a report. One poll may go to a broker that has just stopped."""
REFUSED_SECONDS = 20.0
"""A login or certificate that is refused for this time was changed. The service then ends, because only a new start
reads the password and the CA again. For a shorter time, a broker that has just started may not have loaded its users
yet."""
GONE_SECONDS = 8.0
"""A topic that is missing, or has another id, for this time was deleted or recreated. For a shorter time, a broker that
has just started may not know it."""
NO_PARTITIONS_SECONDS = 30.0
"""A worker without partitions for this time may be one too many, or its group deals wrongly. A group deals within
seconds."""
GROUP_SECONDS = 10.0
"""Interval between two queries of the owners of all partitions, while the worker has none."""
RECREATED_STEP = {
    "input": "restart with kafka.restart_from=earliest; pages of the deleted topic that were not read are lost",
    "matches": "restart; nothing is lost",
    "verdicts": "start every shard with an empty state directory, which the log rebuilds",
    "log": "restart with a new log (topics.log) and an empty index.directory",
}
"""By role, the next step after a topic was recreated. Messages go on into a recreated output of as many partitions."""
FEWER_PARTITIONS = "was recreated with fewer partitions while the service ran"
FEWER_STEP = "restart; later messages go on into the partitions that it has now"
NEXT_STEP = {
    "input": "create it again (`spotsieve topics create`) and restart with kafka.restart_from=earliest; pages that "
    "were not read are lost",
    "novel": "create it again (`spotsieve topics create`) and restart; its messages are lost, later pages follow",
    "matches": "create it again (`spotsieve topics create`) and restart; nothing is lost",
    "verdicts": "restore it; or create it again (`spotsieve topics create`) and start every shard with an empty state "
    "directory, which the log rebuilds",
    "log": "restore it, or restart with a new log (topics.log) and an empty index.directory",
}
BACKOFF_MIN_SECONDS = 0.1
BACKOFF_MAX_SECONDS = 10.0


class Waits:
    """The steps that wait for the broker, per partition."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waits: dict[tuple[str, object], str] = {}

    def failed(self, step: str, error: BaseException | str, of: object = None, waited_for: str = "the broker") -> None:
        """Record a failed step that will be repeated. of: its partition, or None"""
        self._metrics.retries.labels(step).inc()
        where = "" if of is None else f" of partition {of}"
        name = error if isinstance(error, str) else type(error).__name__
        self._waits[step, of] = f"waiting for {waited_for}: {step}{where}: {name}"

    def report(self, step: str, text: str) -> None:
        """Record a step that waits for something else than a repeated request."""
        self._waits[step, None] = text

    def over(self, step: str, of: object = None) -> None:
        """Remove a step that has succeeded or is cancelled."""
        self._waits.pop((step, of), None)

    def texts(self) -> list[str]:
        """One line per wait, for /readyz. Any thread may call this."""
        return list(self._waits.values())


class BrokerWatch:
    """Polls the metadata of the topics every POLL_SECONDS.

    aiokafka does not report a silent broker, a deleted topic or a missing leader. It retries for ever, and the worker
    would hang without a message.
    """

    def __init__(
        self,
        settings: Settings,
        waits: Waits,
        assigned: Callable[[], int | None] = lambda: None,
        facts: Mapping[str, TopicFacts] = MappingProxyType({}),
    ) -> None:
        """assigned(): number of input partitions of this worker; None while it takes part in no group

        facts: by role, the topics as they were when the process began, if it needs their partitions
        """
        self._settings = settings
        self._waits = waits
        self._assigned = assigned
        self._roles = {name: role for role, name in names_of(settings).items()}
        self._faults: dict[tuple[str, str], float] = {}
        self._ids: dict[str, bytes] = {}
        self._partitions = {name: facts[role].partitions for name, role in self._roles.items() if role in facts}
        self._none_since: float | None = None
        self._group_due = 0.0
        self._failed_polls = 0
        self._refused_since: float | None = None
        self._leaderless: Mapping[str, int] = {}
        self._reported: set[str] = set()

    async def run(self) -> None:
        """Poll for ever.

        Raises BrokerError if a topic was deleted or recreated or has lost partitions, or if login or certificate are
        refused.
        """
        options = client_options(self._settings.kafka)
        client = KafkaClient(**options)
        started = False
        try:
            while True:
                try:
                    async with asyncio.timeout(POLL_TIMEOUT_SECONDS):
                        if not started:
                            await client.bootstrap()
                            started = True
                        topics = await read_metadata(client, list(self._roles))
                        await self._report_no_partitions(client, topics)
                except (KafkaError, TimeoutError) as error:
                    if started:
                        # A connection that the time-out has ended reports nothing to the client.
                        client.force_metadata_update()
                    await self._report_silence(error, options)
                else:
                    self._failed_polls, self._refused_since = 0, None
                    self._waits.over("answer")
                    self._report_leaderless(topics)
                    self._check(topics)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            await stop_client(client)

    def _report_leaderless(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Report partitions without a leader in two polls: a disk of the broker may have failed.

        A leader that moves is available again before the second poll. Of each topic the first partition is named.
        """
        without = {
            name: [number for number, leader in topic.leaders.items() if leader == NO_LEADER]
            for name, topic in topics.items()
        }
        leaderless = {name: min(numbers) for name, numbers in without.items() if numbers}
        reported = {f"{topic}/{number}" for topic, number in leaderless.items() if topic in self._leaderless}
        for partition in self._reported - reported:
            self._waits.over("leader", partition)
        for partition in reported:
            self._waits.failed("leader", LeaderNotAvailableError(), partition)
        self._leaderless, self._reported = leaderless, reported

    async def _report_silence(self, error: BaseException, options: Mapping[str, Any]) -> None:
        """Report a wait for the broker. Raises BrokerError if the broker refuses the login for REFUSED_SECONDS.

        aiokafka raises the same error for a broker that is down and for a refused login, so the broker is probed.
        """
        self._failed_polls += 1
        if self._failed_polls < FAILED_POLLS:
            return
        refused = await refusal(self._settings.kafka, options, POLL_TIMEOUT_SECONDS)
        self._waits.failed("answer", str(refused) if refused else error)
        if refused is None:
            self._refused_since = None
            return
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        if now - self._refused_since >= REFUSED_SECONDS:
            raise refused

    def _check(self, topics: Mapping[str, TopicMetadata]) -> None:
        """Raise BrokerError for a topic that was deleted or recreated, or lost partitions, GONE_SECONDS ago."""
        now = time.monotonic()
        found = set[tuple[str, str]]()
        for name, topic in topics.items():
            if topic.error == UnknownTopicOrPartitionError.errno:
                found.add((name, "was deleted from the broker while the service ran"))
            elif topic.id is not None and self._ids.setdefault(name, topic.id) != topic.id:
                found.add((name, "was deleted and created again while the service ran"))
            if not topic.error and len(topic.leaders) < self._partitions.get(name, 0):
                found.add((name, FEWER_PARTITIONS))
        self._faults = {fault: self._faults.get(fault, now) for fault in found}
        for (name, rule), since in self._faults.items():
            role = self._roles[name]
            is_missing = topics[name].error != 0
            steps = {role: FEWER_STEP} if rule == FEWER_PARTITIONS else {}
            steps = NEXT_STEP if is_missing else steps | RECREATED_STEP
            if now - since < GONE_SECONDS or not (is_missing or role in steps):
                continue
            step = steps.get(role, NEXT_STEP["novel"])
            raise BrokerError(f"topics.{role}", rule, name, step)

    async def _report_no_partitions(self, client: KafkaClient, topics: Mapping[str, TopicMetadata]) -> None:
        """Report a worker that has had no partition for NO_PARTITIONS_SECONDS, if some have no owner at all."""
        now = time.monotonic()
        if self._assigned() != 0:
            self._none_since = None
            self._waits.over("partitions")
            return
        self._none_since = self._none_since or now
        if now - self._none_since < NO_PARTITIONS_SECONDS or now < self._group_due:
            return
        self._group_due = now + GROUP_SECONDS
        pages = self._settings.topics.input
        free = sorted(topics[pages].leaders.keys() - await read_owned(client, self._settings.kafka.group_id, pages))
        if free:
            self._waits.report(
                "partitions",
                f"no partitions for {now - self._none_since:.0f} s: group {self._settings.kafka.group_id} gives "
                f"{len(free)} of {len(topics[pages].leaders)} partitions of {pages} to nobody",
            )
        else:
            self._waits.over("partitions")


class Backoff:
    """Doubling waits with full jitter, so that workers do not retry all at once."""

    def __init__(self) -> None:
        self._most = BACKOFF_MIN_SECONDS

    async def wait(self) -> None:
        """Sleep for a random time below a bound that doubles at each call."""
        await asyncio.sleep(random.uniform(0, self._most))
        self._most = min(self._most * 2, BACKOFF_MAX_SECONDS)

    def reset(self) -> None:
        """Reset the bound after a success."""
        self._most = BACKOFF_MIN_SECONDS
