"""A request on a connection that has ended fails as aiokafka expects it, whichever event loop runs."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.admin import ApiVersionRequest

from spotsieve.stream.kafka.driver.connections import KafkaConnection


async def send_when_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a request on a connection whose transport has ended while aiokafka holds it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def no_question(connection: KafkaConnection) -> None:
        """Ask no broker which versions it knows."""

    monkeypatch.setattr(KafkaConnection, "_do_version_lookup", no_question)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = KafkaConnection("127.0.0.1", port, request_timeout_ms=200)
        await connection.connect()
        assert connection._writer is not None
        connection._writer.transport.abort()
        await asyncio.sleep(0)
        assert connection._writer is not None, "aiokafka has not noticed it"
        try:
            await connection.send(ApiVersionRequest())
        finally:
            connection.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_request_on_a_connection_that_has_ended_fails_as_one_that_broke(
    loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner, pytest.raises(KafkaConnectionError):
        runner.run(send_when_closed(monkeypatch))
