"""Queries the committed offset of a group, and waits while a transaction that changes it is being completed."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.types import (
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
