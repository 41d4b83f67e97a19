"""Our connections: they read responses and send record batches without copies, and detect closed ones.

Reading. A response is a frame (Kafka's protocol guide, "Network"):

    frame   length: 4, big-endian, of the response  then the response

aiokafka reads the socket in pieces of up to 256 KB, joins them in a growing buffer, and copies each response out of it;
a fourth copy takes the messages out of the response. Here the socket writes into memory of the response's size once the
length is known, and the messages are a view of it.

Sending. aiokafka copies a page of 20 KB eleven times, because it joins a request at each level of its schema:
partition, topic, all topics, request, header and length. Here the parts go to the connection as they are.

Closed connections. A request may be written after a connection has ended and before aiokafka learns of it. asyncio
drops such a write; uvloop raises RuntimeError, which aiokafka 0.14 does not catch. The error silently ended the task
that updates the metadata: the client never learned of a partition's new leader, and messages to it waited for ever.
"""

import asyncio
import io
import struct
from collections import deque
from itertools import chain
from types import SimpleNamespace
from typing import Any

import aiokafka.util
import numpy as np
from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest
from numpy.typing import NDArray

from spotsieve.stream.kafka.driver.patches import left_out, rebound

LANDING_BYTES = 2**16
"""Buffer for bytes that arrive before the length of the next response is known. Most responses without messages fit."""

_LENGTH = struct.Struct(">i")
_FETCH = 1
"""API key of the fetch request, whose responses carry messages."""
FIRST_TRANSACTIONAL_VERSION = 3
"""First version of the produce request with the layout of all later versions that aiokafka writes."""
_ACKS_TIMEOUT = struct.Struct(">hi")
_INT16, _INT32, _TWO_INT32 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">ii")


class ResponseFrame:
    """A response in memory that is not copied into bytes, with the one method of BytesIO that aiokafka calls."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._at = 0

    def read(self, size: int) -> bytes | memoryview:
        """The next bytes, fewer at the end: a view if they are at least half of the response, else a copy.

        So waiting messages of one partition keep at most as many bytes of other partitions in memory as their own.
        """
        part = self._content[self._at : self._at + size]
        self._at += len(part)
        return part if 2 * len(part) >= len(self._content) else part.tobytes()


def _opened(frame: bytes | memoryview) -> io.BytesIO | ResponseFrame:
    return ResponseFrame(frame) if isinstance(frame, memoryview) else io.BytesIO(frame)


class FrameProtocol(asyncio.BufferedProtocol):
    """Splits the bytes of a connection into responses. aiokafka's own protocol handles all other events.

    It does not inherit from that protocol, because uvloop passes its own buffers to every asyncio.Protocol.
    """

    def __init__(self, closed: asyncio.Future[None], reader: asyncio.StreamReader, loop: Any) -> None:
        """The parameters of AIOKafkaProtocol. reader: receives the end of the connection, but no data"""
        self._stream: Any = conn.AIOKafkaProtocol(closed, reader, loop=loop)
        self._reader = reader
        self._landing = bytearray(LANDING_BYTES)
        self._landed = 0
        self._frame: NDArray[np.uint8] | None = None
        self._filled = 0
        self._frames = deque[bytes | memoryview]()
        self._more: asyncio.Future[None] | None = None

    def __getattr__(self, name: str) -> Any:
        """Attributes that asyncio's StreamWriter uses, such as _drain_helper and _get_close_waiter."""
        return getattr(self._stream, name)

    def connection_made(self, transport: Any) -> None:
        """Forward the event to aiokafka's protocol."""
        self._stream.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward the event, and wake the reader."""
        self._stream.connection_lost(exc)
        self._wake()

    def eof_received(self) -> Any:
        """Forward the event, and wake the reader."""
        keeps_open = self._stream.eof_received()
        self._wake()
        return keeps_open

    def pause_writing(self) -> None:
        """Forward the event to aiokafka's protocol."""
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        """Forward the event to aiokafka's protocol."""
        self._stream.resume_writing()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio guesses, and the length is known
        """Buffer for the next bytes: the rest of a response of known length, else the landing buffer."""
        if self._frame is not None:
            return self._frame.data[self._filled :]
        return memoryview(self._landing)[self._landed :]

    def buffer_updated(self, nbytes: int) -> None:
        """Account for nbytes that were written into the buffer."""
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
        """The next response without its length: bytes if it arrived at once, else a view of its memory.

        Raises IncompleteReadError, or the error that ended the connection.
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
        """Take complete responses out of the landing buffer, and continue the last one in its own memory."""
        at, landed = 0, memoryview(self._landing)[: self._landed]
        while len(landed) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(landed, at)
            if length < 0:
                # Not a broker. aiokafka closes the connection on this error.
                self._reader.set_exception(
                    ValueError(
                        f"the response has the length {length}, so the peer is not a Kafka broker; check host and port"
                    )
                )
                self._wake()
                break
            begin = at + _LENGTH.size
            if begin + length > len(landed):
                # np.empty touches no memory: a peer that is not a broker may announce 2 GB.
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
    """Pass responses to a connection until it is gone. connection: weak reference, as in aiokafka's own read loop"""
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
    """Whether the next response carries messages. For other responses aiokafka needs bytes."""
    _, request, _ = connection._requests[0]
    return request is not None and request.API_KEY == _FETCH


def _produce_parts(request: Any) -> list[bytes | bytearray]:
    """The bytes of a produce request: transactional id, acks, time-out, and a record batch per topic and partition."""
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


class KafkaConnection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka's class is untyped
    """A connection of our clients."""

    if "frames" not in left_out():
        connect = rebound(AIOKafkaConnection.connect, AIOKafkaProtocol=FrameProtocol)
        # The original uses io for BytesIO only, to read a response field by field.
        _handle_frame = rebound(AIOKafkaConnection._handle_frame, io=SimpleNamespace(BytesIO=_opened))
        _read = staticmethod(_read)

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Send a request. Raises KafkaConnectionError if the connection has ended, whichever event loop runs."""
        try:
            if "produce" in left_out() or not expect_response or not isinstance(request, ProduceRequest):
                return super().send(request, expect_response)
            return self._send_parts(request)
        except RuntimeError as error:
            if self._writer is None or not self._writer.is_closing():
                raise
            self.close(reason=CloseReason.CONNECTION_BROKEN, exc=error)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} closed") from error

    def _send_parts(self, request: ProduceRequest) -> Any:
        """Send a produce request without copies, if the broker knows a version of the layout that we write."""
        if self._writer is None:
            return super().send(request)
        prepared = request.prepare(self._versions)
        if prepared.API_VERSION < FIRST_TRANSACTIONAL_VERSION:
            return super().send(request)
        number = self._next_correlation_id()
        header = prepared.build_request_header(correlation_id=number, client_id=self._client_id).encode()
        parts = (header, *_produce_parts(prepared))
        try:
            self._writer.writelines((_INT32.pack(sum(map(len, parts))), *parts))
        except OSError as error:
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error
        response = self._loop.create_future()
        self._requests.append((number, prepared, response))
        return aiokafka.util.wait_for(response, self._request_timeout)


open_connection = rebound(conn.create_conn, AIOKafkaConnection=KafkaConnection)
"""aiokafka's create_conn(), for our connections."""
