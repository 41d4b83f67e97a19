"""Lets aiokafka copy messages less often on their way through a connection.

A page of 20 KB is copied nine times when it is sent and five times when it is read. Two of the causes are mended here:

- A request is joined anew at each level of its schema: partition, topic, all topics, request. Here its parts are joined
  once.
- A connection stops reading as soon as 128 KB wait, and asks the selector to go on, for each 256 KB of an answer of
  several MB. The whole answer is wanted before it is read, so the stop bounds nothing.
"""

import struct
from itertools import chain
from typing import Any

from aiokafka import conn
from aiokafka.protocol.produce import ProduceRequest

FIRST_TRANSACTIONAL_VERSION = 3
"""Of the produce request: from here to the last version that aiokafka writes all have one layout."""
READER_BYTES = 2**26
"""More than the answer to any fetch that we ask for: a connection never stops reading in the midst of one."""

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")


def copy_less() -> None:
    """Make aiokafka's clients work so. A second call changes nothing."""
    conn.READER_LIMIT = READER_BYTES
    for version in ProduceRequest._CLASSES:
        if version.API_VERSION >= FIRST_TRANSACTIONAL_VERSION:
            version.encode = _encode_produce


def _encode_produce(request: Any) -> bytes:
    """The bytes of a produce request: transactional id, acks, time-out, and by topic and partition a record batch."""
    return b"".join(
        (
            _text(request.transactional_id),
            _ACKS_TIMEOUT.pack(request.required_acks, request.timeout),
            _INT32.pack(len(request.topics)),
            *chain.from_iterable(_topic(name, partitions) for name, partitions in request.topics),
        )
    )


def _topic(name: str, partitions: list[tuple[int, bytes]]) -> list[bytes]:
    parts = [_text(name), _INT32.pack(len(partitions))]
    for number, batch in partitions:
        parts += (_TWO_INT32.pack(number, len(batch)), batch)
    return parts


def _text(text: str | None) -> bytes:
    if text is None:
        return _INT16.pack(-1)
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
