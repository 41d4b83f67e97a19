"""Responses of a broker are divided alike for any cut of the network, and a connection's end is reported."""

import asyncio
import io
import itertools
import logging
import random
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest_v11
from aiokafka.protocol.group import SyncGroupRequest_v1, SyncGroupResponse_v1
from hypothesis import given, settings
from hypothesis import strategies as st

from spotsieve.stream.kafka.driver.connections import LANDING_BYTES, FrameProtocol, KafkaConnection, ResponseFrame

SIZES = st.one_of(st.integers(0, 12), st.sampled_from([LANDING_BYTES - 4, LANDING_BYTES, 3 * LANDING_BYTES + 1]))


def framed(responses: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(response)) + response for response in responses)


def feed(protocol: FrameProtocol, content: bytes, cuts: Iterator[int]) -> None:
    """Bring the bytes in pieces of these sizes, and never more than the protocol has room for."""
    at = 0
    while at < len(content):
        room = protocol.get_buffer(-1)
        taken = min(len(room), next(cuts), len(content) - at)
        room[:taken] = content[at : at + taken]
        protocol.buffer_updated(taken)
        at += taken


async def protocol_and_reader() -> tuple[FrameProtocol, asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    return FrameProtocol(loop.create_future(), reader, loop=loop), reader


@settings(deadline=None)
@given(st.lists(SIZES, max_size=8), st.lists(st.integers(1, 2 * LANDING_BYTES), min_size=1, max_size=5), st.integers())
def test_answers_are_the_same_however_they_are_cut(sizes: list[int], pieces: list[int], seed: int) -> None:
    # st.randoms() would draw every byte, which is more than Hypothesis allows.
    dice = random.Random(seed)
    responses = [dice.randbytes(size) for size in sizes]

    async def read() -> list[bytes | memoryview]:
        protocol, _ = await protocol_and_reader()
        feed(protocol, framed(responses), iter(lambda: dice.choice(pieces), None))
        return [await protocol.next_frame() for _ in responses]

    assert asyncio.run(read()) == responses


@given(st.binary(max_size=300), st.lists(st.integers(0, 200)))
def test_an_answer_reads_as_bytesio_does(content: bytes, sizes: list[int]) -> None:
    response, plain = ResponseFrame(memoryview(content)), io.BytesIO(content)
    for size in sizes:
        assert response.read(size) == plain.read(size)


def test_messages_that_are_most_of_an_answer_are_not_copied_and_others_are() -> None:
    content = bytearray(100)
    response = ResponseFrame(memoryview(content))
    small, large, rest = response.read(20), response.read(60), response.read(1_000)
    content[:] = b"x" * 100
    assert (small, large, rest) == (bytes(20), b"x" * 60, bytes(20))
    assert isinstance(small, bytes)
    assert isinstance(rest, bytes)


def test_what_came_before_the_end_is_read_and_then_the_end_is_told() -> None:
    async def read() -> None:
        protocol, _ = await protocol_and_reader()
        waiting = asyncio.create_task(protocol.next_frame())
        await asyncio.sleep(0)
        feed(protocol, framed([b"whole"]) + b"\0\0", iter(lambda: 3, None))
        assert await waiting == b"whole"
        waiting = asyncio.create_task(protocol.next_frame())
        await asyncio.sleep(0)
        protocol.eof_received()
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting
        protocol.connection_lost(ConnectionResetError("gone"))
        with pytest.raises(ConnectionResetError, match="gone"):
            await protocol.next_frame()

    asyncio.run(read())


def test_an_answer_of_a_negative_length_is_refused() -> None:
    async def read() -> None:
        protocol, _ = await protocol_and_reader()
        feed(protocol, b"\xff\xff\xff\xffwhatever", iter(lambda: 100, None))
        with pytest.raises(ValueError, match="the length -1, so the peer is not a Kafka broker"):
            await protocol.next_frame()

    asyncio.run(read())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("received", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff", b""])
def test_a_server_that_is_no_broker_ends_the_request(
    loop: Callable[[], asyncio.AbstractEventLoop], received: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(received)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            connection = KafkaConnection("127.0.0.1", port, request_timeout_ms=5_000)
            await connection.connect()

    # A test before may have started a command, which silences the client.
    caplog.set_level(logging.ERROR, "aiokafka")
    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(KafkaConnectionError):
        runner.run(ask())
    assert ("Unexpected exception" in caplog.text) == (received == b"\xff\xff\xff\xff")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_reads_an_answer_of_megabytes(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """It is larger than one read of a socket. The requests are SASL's, whose responses are passed as they are."""
    response = bytes(range(256)) * 40_000

    async def ask(monkey: pytest.MonkeyPatch) -> bytes:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(10):
                writer.write(framed([response]))
            writer.close()
            await writer.wait_closed()
            ended.set()

        async def no_question(connection: KafkaConnection) -> None:
            """Ask no broker which versions it knows."""

        monkey.setattr(KafkaConnection, "_do_version_lookup", no_question)
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            connection = KafkaConnection("127.0.0.1", port, request_timeout_ms=5_000)
            await connection.connect()
            assert isinstance(connection._protocol, FrameProtocol)
            try:
                await connection._send_sasl_token(b"one", True)
                answered: bytes = await connection._send_sasl_token(b"two", True)
            finally:
                connection.close()
                await ended.wait()
            return answered

    with asyncio.Runner(loop_factory=loop) as runner, pytest.MonkeyPatch.context() as monkey:
        answered = runner.run(ask(monkey))
    assert answered == response
    assert isinstance(answered, bytes), "a login decodes it"


def test_only_messages_are_views_however_an_answer_is_cut() -> None:
    """TLS sends the length by itself. aiokafka decodes text and a member's partitions from bytes alone."""
    assigned = bytes(range(200))
    received = struct.pack(">i", 7) + SyncGroupResponse_v1(0, 0, assigned).encode()

    async def read(request: Any) -> Any:
        protocol, _ = await protocol_and_reader()
        feed(protocol, framed([received]), itertools.chain([4], itertools.repeat(LANDING_BYTES)))
        handled = asyncio.get_running_loop().create_future()
        connection = SimpleNamespace(
            _protocol=protocol, _requests=[(7, request, None)], _handle_frame=handled.set_result
        )
        reading = asyncio.ensure_future(KafkaConnection._read(lambda: connection))
        found = await handled
        reading.cancel()
        return found

    found = asyncio.run(read(SimpleNamespace(API_KEY=SyncGroupRequest_v1.API_KEY)))
    assert isinstance(found, bytes)
    assert SyncGroupResponse_v1.decode(io.BytesIO(found[4:])).member_assignment == assigned
    assert isinstance(asyncio.run(read(SimpleNamespace(API_KEY=FetchRequest_v11.API_KEY))), memoryview)
