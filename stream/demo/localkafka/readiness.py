"""Asks a broker in Kafka's own protocol whether it serves clients yet."""

import socket
import struct

METADATA_KEY = 3
METADATA_VERSION = 1
CORRELATION_ID = 7
NO_TOPICS = 0


def serves_clients(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """True once the broker lists itself in its metadata, i.e. the controller let it in.

    An open port is not enough: a broker listens before the controller has unfenced it, and answers with an empty
    broker list until then. One Metadata v1 request for no topics (Kafka protocol guide, "Metadata API").
    """
    request = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, CORRELATION_ID, -1) + struct.pack(">i", NO_TOPICS)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = struct.unpack(">i", _read_exactly(connection, 4))[0]
            answer = _read_exactly(connection, size)
    except (OSError, struct.error):
        return False
    if len(answer) < 8:
        return False
    correlation_id, brokers = struct.unpack_from(">ii", answer)
    return bool(correlation_id == CORRELATION_ID and brokers > 0)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise OSError("the connection closed in the middle of an answer")
        parts += part
    return bytes(parts)
