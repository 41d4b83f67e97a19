"""The topics of one service on a real broker: create and delete them, send and read messages."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import for_code
from aiokafka.structs import ConsumerRecord

from spotsieve.stream.kafka.clients import administrator, create, retry_without_brokers
from spotsieve.stream.kafka.topics import wait_for_topics
from tests.worlds.pages.crawls import PageMessage
from tests.worlds.waiting import SECONDS, START_SECONDS, wait_until, wait_until_async

ROLES = ("input", "novel", "duplicates", "rejected", "log")
OF_ONE_PARTITION = ("log", "verdicts")
SESSION_MS = 60_000
"""A busy machine must not cost a session. Tests that kill a worker set a shorter one."""
KILLED_SESSION_MS = 3_000
"""A killed member holds its partitions until its session ends."""
STOP_SECONDS = 120
"""Timeout for a worker to finish its fetched pages. A test of the 10 s default sets its own."""
ABANDON_SECONDS = 5.0
"""Timeout for removing topics after a failure."""


class TopicSet:
    """The topics of one service, with unique names; deleted when the block ends.

    shards: the number of shards, if any; such a service has seven topics, others have five
    """

    def __init__(
        self,
        servers: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        leave_out: Iterable[str] = (),
        replication: int = 1,
        shards: int = 0,
        **client: Any,
    ) -> None:
        self.servers = servers
        self.suffix = uuid.uuid4().hex[:8]
        self.group = f"group-{self.suffix}"
        self._replication = replication
        self._partitions = partitions
        self._config = dict(config or {})
        self._client = client
        self._shards = shards
        self.names = {role: f"{role}-{self.suffix}" for role in (*ROLES, *(("matches", "verdicts") if shards else ()))}
        self.made = [role for role in self.names if role not in leave_out]
        retry_without_brokers()  # Tests create clients while the broker is away too.

    def __enter__(self) -> Self:
        new = [
            NewTopic(
                self.names[role],
                self._number_of(role),
                self._replication,
                topic_configs=self._config,
            )
            for role in self.made
        ]
        asyncio.run(self._admin(lambda admin: make_topics(admin, new)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The block's own error must be seen, not the error that its broker is gone.
        with contextlib.suppress(*[Exception] * (kind is not None)):
            seconds = None if kind is None else ABANDON_SECONDS
            names = [self.names[role] for role in self.made]
            asyncio.run(asyncio.wait_for(self._admin(lambda admin: admin.delete_topics(names)), seconds))

    async def _admin(self, act: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, Any]]) -> None:
        async with administrator(bootstrap_servers=self.servers, **self._client) as admin:
            await act(admin)

    def delete(self, role: str) -> None:
        """Delete a topic if it exists, and wait until the broker no longer lists it."""

        async def delete(admin: AIOKafkaAdminClient) -> None:
            await admin.delete_topics([self.names[role]])

            async def gone() -> bool:
                return self.names[role] not in await admin.list_topics()

            await wait_until_async(gone, SECONDS, f"the broker to forget {self.names[role]}")

        asyncio.run(asyncio.wait_for(self._admin(delete), SECONDS))

    def make_anew(self, role: str) -> None:
        """Recreate a topic, empty."""
        name = self.names[role]
        self.delete(role)
        new = NewTopic(name, self._number_of(role), 1, topic_configs=self._config)

        async def make(admin: AIOKafkaAdminClient) -> None:
            # Deleting takes the broker a moment.
            async def made() -> bool:
                return (await create(admin, new))[0] == 0

            await wait_until_async(made, SECONDS, f"the broker to make {name}")
            await wait_for_topics(admin, [name])

        asyncio.run(asyncio.wait_for(self._admin(make), START_SECONDS))

    def delete_before(self, role: str, offset: int) -> None:
        """Remove the first messages, as retention does."""
        records = {TopicPartition(self.names[role], 0): RecordsToDelete(before_offset=offset)}
        asyncio.run(self._admin(lambda admin: admin.delete_records(records)))

    def toml(self, session_ms: int = SESSION_MS) -> str:
        """The settings of this service's topics and group."""
        lines = [f'topics.{role} = "{name}"' for role, name in self.names.items()]
        return "\n".join(
            [
                *lines,
                f"cluster.shards = {self._shards}",
                f'kafka.bootstrap_servers = "{self.servers}"',
                f'kafka.group_id = "{self.group}"',
                f"kafka.session_timeout_ms = {session_ms}",
                f"service.shutdown_timeout_ms = {STOP_SECONDS * 1000}",
                'metrics.host = "127.0.0.1"',
                "metrics.port = 0",
                "",
            ]
        )

    def send(self, messages: Iterable[PageMessage], role: str = "input", **client: Any) -> None:
        """Produce to a topic, in order within each partition, and wait until all messages are acknowledged."""
        asyncio.run(send(self.servers, self.names[role], messages, **client))

    def read(
        self,
        role: str,
        count: int | None = None,
        quiet_seconds: float = SECONDS,
        keep: Callable[[ConsumerRecord], Any] = lambda record: record,
    ) -> list[Any]:
        """Committed messages of a topic from its beginning: all of them, or the first `count`, for which it waits.

        keep: the part of a message to keep, if whole messages are too large
        """
        return asyncio.run(receive(self.servers, self._partitions_of(role), count, quiet_seconds, keep))

    def ends(self, role: str) -> dict[int, int]:
        """Partition -> the offset of its next message."""
        return asyncio.run(self._ends(self._partitions_of(role)))

    async def _ends(self, partitions: list[TopicPartition]) -> dict[int, int]:
        async with AIOKafkaConsumer(bootstrap_servers=self.servers) as consumer:
            return {end.partition: offset for end, offset in (await consumer.end_offsets(partitions)).items()}

    def _partitions_of(self, role: str) -> list[TopicPartition]:
        return [TopicPartition(self.names[role], number) for number in range(self._number_of(role))]

    def _number_of(self, role: str) -> int:
        if role in OF_ONE_PARTITION:
            return 1
        return self._shards if role == "matches" else self._partitions

    def uncommitted(self) -> int:
        """Input messages beyond the group's committed offsets."""
        return asyncio.run(self._uncommitted())

    async def _uncommitted(self) -> int:
        partitions = [TopicPartition(self.names["input"], number) for number in range(self._partitions)]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, group_id=self.group, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            return sum([ends[partition] - (await consumer.committed(partition) or 0) for partition in partitions])
        finally:
            await consumer.stop()

    def group_state(self) -> str:
        """The broker's state of the group, such as Stable, or PreparingRebalance while a member joins."""
        return asyncio.run(self._group_state())

    async def _group_state(self) -> str:
        async with administrator(bootstrap_servers=self.servers) as admin:
            (answer,) = await admin.describe_consumer_groups([self.group])
            ((_, _, state, *_),) = answer.groups
            return str(state)

    def in_transaction(self) -> bool:
        """Whether the output topics contain messages of an open transaction. Call it while nobody writes to them."""
        return asyncio.run(self._unstable()) > 0

    async def _unstable(self) -> int:
        roles = ("novel", "duplicates")
        partitions = [TopicPartition(self.names[role], number) for role in roles for number in range(self._partitions)]
        ends: list[int] = []
        for isolation in ("read_uncommitted", "read_committed"):
            consumer = AIOKafkaConsumer(bootstrap_servers=self.servers, isolation_level=isolation)
            await consumer.start()
            try:
                ends.append(sum((await consumer.end_offsets(partitions)).values()))
            finally:
                await consumer.stop()
        return ends[0] - ends[1]

    def until_all_committed(self, seconds: float = SECONDS) -> None:
        """Wait until the group has committed the whole input topic."""
        wait_until(lambda: self.uncommitted() == 0, seconds, "the whole input to be committed", every=0.3)


async def make_topics(admin: AIOKafkaAdminClient, new: Sequence[NewTopic]) -> None:
    """Create topics, and wait until the broker lists them."""
    for topic in new:
        code, said = await create(admin, topic)
        assert code == 0, f"{topic.name}: {for_code(code).__name__}: {said}"
    await wait_for_topics(admin, [topic.name for topic in new])


async def send(servers: str, topic: str, messages: Iterable[PageMessage], **client: Any) -> None:
    """Produce messages; large ones too."""
    async with AIOKafkaProducer(
        bootstrap_servers=servers, max_request_size=2**28, max_batch_size=2**18, linger_ms=5, **client
    ) as producer:
        waiting = []
        for message in messages:
            place = (message.partition, message.timestamp_ms, list(message.headers))
            waiting.append(await producer.send(topic, message.value, message.key, *place))
        await asyncio.gather(*waiting)


async def receive(
    servers: str,
    partitions: list[TopicPartition],
    count: int | None,
    quiet_seconds: float,
    keep: Callable[[ConsumerRecord], Any] = lambda record: record,
) -> list[Any]:
    """Read committed messages from the beginning; with a count, fail after quiet_seconds without a new message."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=2**26,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        consumer.assign(partitions)
        ends = await written_ends(servers, partitions)
        found: list[Any] = []
        heard = time.monotonic()
        while True:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend(map(keep, records))
                heard = time.monotonic()
            if count is None:
                # Positions pass transaction markers too, so the end is reached even if the last record is a marker.
                if all([await consumer.position(partition) >= ends[partition] for partition in partitions]):
                    return found
            elif len(found) >= count:
                return found
            if time.monotonic() - heard > quiet_seconds:
                raise AssertionError(f"{partitions[0].topic}: {len(found)} messages, waited for {count}")
    finally:
        await consumer.stop()


async def written_ends(servers: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The ends of the partitions, including messages that are not readable yet.

    A commit is acknowledged before its markers are written: for a moment a read_committed consumer gets an end that
    lies before committed messages.
    """
    async with AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False) as consumer:
        ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
        return ends


def header(record: ConsumerRecord, name: str) -> bytes | None:
    """A header's last value, or None."""
    return next((value for key, value in reversed(record.headers) if key == name), None)
