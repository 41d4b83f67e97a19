"""Reads the answers of a broker into memory of their size, where aiokafka's stream copies every byte three times.

    frame   length: 4, big-endian, of what follows  then an answer

aiokafka's connection takes what the socket has in pieces of up to 256 KB, joins them in a buffer that grows with each
piece, and copies an answer out of it; a fourth copy takes the messages out of the answer. Here the socket writes right
into the answer, once its length is known, and the messages are a view of it.
Source: Kafka's protocol guide, "Network".

Sends record batches without copying them.

A page of 20 KB is copied eleven times when aiokafka sends it: a request is joined anew at each level of its schema,
which are partition, topic, all topics, request, and then with its header and with its length. Here its parts go to the
connection as they are.

Tells aiokafka that a connection is closed where uvloop alone knows it.

Between the end of a connection and the moment at which aiokafka hears of it, a request may be written. asyncio drops
what is written then, and uvloop raises RuntimeError, which aiokafka 0.14 does not catch. It ended the task that keeps a
client's metadata, without a word: the client never learned that a partition had a leader again, and what was sent to
that partition waited for ever.
"""

import asyncio
import io
import struct
from collections import deque
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection, AIOKafkaProtocol, CloseReason
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.util import wait_for
from numpy.typing import NDArray

LANDING_BYTES = 2**16
"""Room for what comes before the length of the next answer is known. Most answers without messages fit into it."""

_LENGTH = struct.Struct(">i")
_FETCH = 1
"""Kafka's key of the request whose answers bring messages."""


def read_frames() -> None:
    """Make aiokafka's connections read so. A second call changes nothing."""
    conn.AIOKafkaProtocol = FrameProtocol
    # Of io a connection uses BytesIO alone, to read an answer field by field.
    conn.io = SimpleNamespace(BytesIO=_opened)
    AIOKafkaConnection._read = staticmethod(_read)


class ResponseFrame:
    """An answer that has not been copied into bytes, with the one method of BytesIO that aiokafka calls."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def read(self, size: int) -> bytes | memoryview:
        """The next bytes, fewer at the end. What is half of the answer or more is a view of it, all else a copy.

        So what waits of one partition holds at most as many bytes of others as it has itself.
        """
        part = self._content[self._at : self._at + size]
        self._at += len(part)
        return part if 2 * len(part) >= len(self._content) else part.tobytes()


def _opened(frame: bytes | memoryview) -> io.BytesIO | ResponseFrame:
    return ResponseFrame(frame) if isinstance(frame, memoryview) else io.BytesIO(frame)


class FrameProtocol(asyncio.BufferedProtocol):
    """Divides what a connection brings into answers; all else is done by aiokafka's own protocol.

    It does not inherit from that one, since uvloop gives its own buffers to every asyncio.Protocol.
    """

    def __init__(self, closed: asyncio.Future[None], reader: asyncio.StreamReader, loop: Any) -> None:
        """As AIOKafkaProtocol. reader: is told of the connection's end, and never of what it brings"""
        self._stream: Any = AIOKafkaProtocol(closed, reader, loop=loop)
        self._reader = reader
        self._landing = bytearray(LANDING_BYTES)
        self._landed = 0
        self._frame: NDArray[np.uint8] | None = None
        self._filled = 0
        self._frames = deque[bytes | memoryview]()
        self._more: asyncio.Future[None] | None = None

    def __getattr__(self, name: str) -> Any:
        """What asyncio's writer asks a protocol for: _drain_helper, _get_close_waiter and the like."""
        return getattr(self._stream, name)

    def connection_made(self, transport: Any) -> None:
        """As of asyncio."""
        self._stream.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """As of asyncio."""
        self._stream.connection_lost(exc)
        self._wake()

    def eof_received(self) -> Any:
        """As of asyncio."""
        keeps_open = self._stream.eof_received()
        self._wake()
        return keeps_open

    def pause_writing(self) -> None:
        """As of asyncio."""
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        """As of asyncio."""
        self._stream.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio guesses, and the length is known
        """Where the next bytes go: what is left of an answer whose length is known, else the landing."""
        if self._frame is not None:
            return self._frame.data[self._filled :]
        return memoryview(self._landing)[self._landed :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come."""
        if self._frame is None:
            self._landed += nbytes
            self._divide()
        else:
            self._filled += nbytes
            if self._filled == len(self._frame):
                self._frames.append(self._frame.data)
                self._frame = None
        if self._frames:
            self._wake()

    async def next_frame(self) -> bytes | memoryview:
        """The next answer, without its length: bytes, if it came as a whole, and else a view of its memory.

        Raises IncompleteReadError, and what the connection has ended by.
        """
        while not self._frames:
            ended = self._reader.exception()
            if ended is not None:
                raise ended
            if self._reader.at_eof():
                raise asyncio.IncompleteReadError(b"", _LENGTH.size)
            self._more = asyncio.get_running_loop().create_future()
            await self._more
        return self._frames.popleft()

    def _divide(self) -> None:
        """Take the whole answers out of the landing, and go on with the last one in memory of its own."""
        at, landed = 0, memoryview(self._landing)[: self._landed]
        while len(landed) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(landed, at)
            if length < 0:
                # No broker answers so. aiokafka closes the connection by what reading raises.
                self._reader.set_exception(ValueError(f"an answer must have a length, got {length}; is this a broker?"))
                self._wake()
                break
            begin = at + _LENGTH.size
            if begin + length > len(landed):
                # Not written before the socket does: what is no broker may name a length of 2 GB.
                self._frame, self._filled = np.empty(length, np.uint8), len(landed) - begin
                self._frame[: self._filled] = landed[begin:]
                at = len(landed)
                break
            self._frames.append(bytes(landed[begin : begin + length]))
            at = begin + length
        left = bytes(landed[at:])
        self._landing[: len(left)] = left
        self._landed = len(left)

    def _wake(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)


async def _read(connection: Any) -> None:
    """Hand the answers of a connection to it, for ever. connection: a weak reference, as aiokafka's own loop has it"""
    self = connection()
    if self is None:
        return
    protocol: FrameProtocol = self._protocol
    del self
    while True:
        frame = await protocol.next_frame()
        self = connection()
        if self is None:
            return
        self._handle_frame(frame if _answers_fetch(self) else bytes(frame))
        del self


def _answers_fetch(connection: Any) -> bool:
    """Whether the next answer brings messages. Of any other one aiokafka decodes parts that must be bytes."""
    _, request, _ = connection._requests[0]
    return request is not None and request.API_KEY == _FETCH


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
