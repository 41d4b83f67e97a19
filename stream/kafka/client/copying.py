"""Lets aiokafka copy messages less often when it sends them.

A page of 20 KB is copied nine times when it is sent: a request is joined anew at each level of its schema, which are
partition, topic, all topics, request. Here its parts are joined once.
"""

import struct
from itertools import chain
from typing import Any

from aiokafka.protocol.produce import ProduceRequest

FIRST_TRANSACTIONAL_VERSION = 3
"""Of the produce request: from here to the last version that aiokafka writes all have one layout."""

_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")


def copy_less() -> None:
    """Make aiokafka's clients work so. A second call changes nothing."""
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
