"""Tells aiokafka that a connection is closed where uvloop alone knows it.

Between the end of a connection and the moment at which aiokafka hears of it, a request may be written. asyncio drops
what is written then, and uvloop raises RuntimeError, which aiokafka 0.14 does not catch. It ended the task that keeps a
client's metadata, without a word: the client never learned that a partition had a leader again, and what was sent to
that partition waited for ever.
"""

from typing import Any

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError

from spotsieve.stream.kafka.client.copying import send


def fail_closed_connections() -> None:
    """Make a request there fail as on a connection that broke: clients try again. A second call changes nothing."""
    AIOKafkaConnection.send = _send


def _send(connection: Any, request: Any, expect_response: bool = True) -> Any:
    try:
        return send(connection, request, expect_response)
    except RuntimeError as error:
        if connection._writer is None or not connection._writer.is_closing():
            raise
        connection.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
        raise KafkaConnectionError(f"Connection at {connection.host}:{connection.port} closed") from error
