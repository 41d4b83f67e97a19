"""Sends record batches without copying them.

A page of 20 KB is copied eleven times when aiokafka sends it: a request is joined anew at each level of its schema,
which are partition, topic, all topics, request, and then with its header and with its length. Here its parts go to the
connection as they are.
"""

import struct
from itertools import chain
from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.util import wait_for

FIRST_TRANSACTIONAL_VERSION = 3
"""Of the produce request: from here to the last version that aiokafka writes all have one layout."""

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")
_SEND = AIOKafkaConnection.send


def send(connection: Any, request: Any, expect_response: bool = True) -> Any:
    """AIOKafkaConnection.send, but for produce requests whose answer is awaited.

    Raises KafkaConnectionError as that one does.
    """
    if connection._writer is None or not expect_response or not isinstance(request, ProduceRequest):
        return _SEND(connection, request, expect_response)
    prepared = request.prepare(connection._versions)
    if prepared.API_VERSION < FIRST_TRANSACTIONAL_VERSION:
        return _SEND(connection, request, expect_response)
    number = connection._next_correlation_id()
    header = prepared.build_request_header(correlation_id=number, client_id=connection._client_id).encode()
    parts = (header, *_produce_parts(prepared))
    try:
        connection._writer.writelines((_INT32.pack(sum(map(len, parts))), *parts))
    except OSError as error:
        connection.close(reason=CloseReason.CONNECTION_BROKEN)
        raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} broken: {error}") from error
    answered = connection._loop.create_future()
    connection._requests.append((number, prepared, answered))
    return wait_for(answered, connection._request_timeout)


def _produce_parts(request: Any) -> list[bytes | bytearray]:
    """The bytes of a produce request: transactional id, acks, time-out, and by topic and partition a record batch."""
    return [
        _text(request.transactional_id)
        + _ACKS_TIMEOUT.pack(request.required_acks, request.timeout)
        + _INT32.pack(len(request.topics)),
        *chain.from_iterable(_topic_parts(name, partitions) for name, partitions in request.topics),
    ]


def _topic_parts(name: str, partitions: list[tuple[int, bytes]]) -> list[bytes]:
    parts = [_text(name) + _INT32.pack(len(partitions))]
    for number, batch in partitions:
        parts += (_TWO_INT32.pack(number, len(batch)), batch)
    return parts


def _text(text: str | None) -> bytes:
    if text is None:
        return _INT16.pack(-1)
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
