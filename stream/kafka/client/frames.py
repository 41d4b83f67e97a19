"""Reads the answers of a broker into memory of their size, where aiokafka's stream copies every byte three times.

    frame   length: 4, big-endian, of what follows  then an answer

aiokafka's connection takes what the socket has in pieces of up to 256 KB, joins them in a buffer that grows with each
piece, and copies an answer out of it; a fourth copy takes the messages out of the answer. Here the socket writes right
into the answer, once its length is known, and the messages are a view of it.
Source: Kafka's protocol guide, "Network".
"""

import asyncio
import io
import struct
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection, AIOKafkaProtocol
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
