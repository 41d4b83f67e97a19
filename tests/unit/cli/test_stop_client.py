"""Stopping a client: whatever aiokafka raises, the next thing is closed too."""

import asyncio
from typing import Any

import pytest

from spotsieve.stream.kafka.clients import stop_client


class Client:
    """A consumer, as far as stopping it goes."""

    def __init__(self, ends_with: BaseException | None) -> None:
        self._ends_with = ends_with
        self.stopping = asyncio.Event()

    async def stop(self) -> None:
        self.stopping.set()
        if self._ends_with is None:
            await asyncio.Event().wait()
        else:
            raise self._ends_with


@pytest.mark.parametrize("error", [RuntimeError("half open"), AssertionError(), asyncio.CancelledError()])
async def test_what_a_client_raises_when_it_is_stopped_goes_no_further(error: BaseException) -> None:
    client: Any = Client(error)
    await stop_client(client)
    assert client.stopping.is_set()


async def test_whoever_is_cancelled_while_a_client_stops_ends() -> None:
    client: Any = Client(None)
    stopping = asyncio.create_task(stop_client(client))
    await client.stopping.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
