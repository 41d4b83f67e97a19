"""Requests in versions that aiokafka lacks: stable committed offsets, and metadata with topic ids."""

import asyncio
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.metadata import MetadataRequest_v4
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

UNSTABLE = 88
"""Kafka's UNSTABLE_OFFSET_COMMIT, which aiokafka does not know."""
NOTHING_COMMITTED = -1
PAUSE_SECONDS = 0.02
_GROUP = 0
"""aiokafka's CoordinationType.GROUP."""
_ID_BYTES = 16
_TRANSIENT = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)


class _Response(Response):  # type: ignore[misc]  # aiokafka's class is untyped
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class _Stable(RequestStruct):  # type: ignore[misc]  # aiokafka's class is untyped
    FLEXIBLE_VERSION = True
    API_KEY = 9
    API_VERSION = 7
    RESPONSE_TYPE = _Response
    SCHEMA = Schema(
        ("group", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("partitions", CompactArray(Int32)),
                ("tags", TaggedFields),
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class _OffsetQuery(Request[OffsetFetchRequest_v3 | _Stable]):  # type: ignore[misc]  # aiokafka's class is untyped
    """OffsetFetch of one partition (Kafka protocol guide), in version 7 if the broker is of 2.5 or later."""

    API_KEY = 9

    def __init__(self, group: str, partition: TopicPartition) -> None:
        self._group = group
        self._partition = partition

    def build(self, request_struct_class: Any) -> Any:
        topic, number = self._partition
        if request_struct_class is _Stable:
            return _Stable(self._group, [(topic, [number], {})], True, {})
        return request_struct_class(self._group, [(topic, [number])])


async def stable_committed(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int | None:
    """The committed offset of a partition in the consumer's group, or None. Raises KafkaError.

    aiokafka's own query may return an offset from before a transaction that has ended but is not applied yet: a broker
    with the classic group coordinator (before 4.0) applies it a moment later. A worker that began there would emit
    those pages twice. Such an offset is called unstable. This query requires a stable offset, and repeats until there
    is one.
    """
    coordinator = consumer._coordinator
    query = _OffsetQuery(coordinator.group_id, partition)
    while True:
        await coordinator.ensure_coordinator_known()
        try:
            response = await coordinator._send_req(query)
            offset, code = _read_offset(response)
            if not code:
                return None if offset == NOTHING_COMMITTED else int(offset)
            if code != UNSTABLE:
                raise for_code(code)(f"OffsetFetch of partition {partition.partition}")
        except KafkaError as error:
            if not error.retriable and not isinstance(error, _TRANSIENT):
                raise
            if isinstance(error, NotCoordinatorForGroupError):
                coordinator.coordinator_dead()
        await asyncio.sleep(PAUSE_SECONDS)


def _read_offset(response: Any) -> tuple[int, int]:
    """Offset and error code of a response about one partition, of any version."""
    if response.error_code:
        return NOTHING_COMMITTED, response.error_code
    row = response.topics[0][1][0]
    return row[1], row[-1 if response.API_VERSION < _Response.API_VERSION else -2]


class TopicMetadata(NamedTuple):
    """A topic in the metadata of a broker.

    error: Kafka's error code  id: 16 bytes that a recreated topic does not share; None on a broker before 2.8
    leaders: by partition, the id of its leader, or -1
    """

    error: int
    id: bytes | None
    leaders: Mapping[int, int]


class _TopicId(AbstractType[bytes]):  # type: ignore[misc]  # aiokafka's class is untyped
    """A UUID as its 16 bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(_ID_BYTES)


class _MetadataResponse(Response):  # type: ignore[misc]  # aiokafka's class is untyped
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                ("topic_id", _TopicId),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _WithIds(RequestStruct):  # type: ignore[misc]  # aiokafka's class is untyped
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _TopicId), ("topic", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _MetadataQuery(Request[MetadataRequest_v4 | _WithIds]):  # type: ignore[misc]  # aiokafka's class is untyped
    """Metadata of some topics (Kafka protocol guide), with topic ids if the broker is of 2.8 or later."""

    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: Any) -> Any:
        # With auto-creation, the broker would recreate a deleted topic, empty.
        if request_struct_class is _WithIds:
            named: list[tuple[bytes, str, dict[int, bytes]]] = [(bytes(_ID_BYTES), topic, {}) for topic in self._topics]
            return _WithIds(named, False, False, False, {})
        return request_struct_class(list(self._topics), False)


async def read_metadata(client: AIOKafkaClient, topics: Sequence[str]) -> dict[str, TopicMetadata]:
    """The metadata of these topics, as one of the brokers has it. Creates no topic. Raises KafkaError."""
    response = await client.send(client.get_random_node(), _MetadataQuery(topics))
    with_ids = response.API_VERSION == _MetadataResponse.API_VERSION
    found = {}
    for error, topic, *rest in response.topics:
        topic_id, (_, partitions, *_) = (rest[0], rest[1:]) if with_ids else (None, rest)
        leaders = {number: leader for _, number, leader, *_ in partitions}
        found[topic] = TopicMetadata(error, topic_id if error == 0 else None, leaders)
    return found


async def read_owned(client: AIOKafkaClient, group: str, topic: str) -> set[int]:
    """The partitions of a topic that the members of a group own now. Raises KafkaError."""
    coordinator = await client.coordinator_lookup(_GROUP, group)
    response = await client.send(coordinator, DescribeGroupsRequest([group]))
    ((code, *_, members),) = [row[:6] for row in response.groups]
    if code:
        raise for_code(code)(f"DescribeGroups of {group}")
    owned = set[int]()
    for *_, assigned in members:
        if assigned:
            decoded = ConsumerProtocolMemberAssignment.decode(assigned)
            owned.update(number for name, numbers in decoded.assignment if name == topic for number in numbers)
    return owned
