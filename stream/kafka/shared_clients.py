"""Makes the producers of many partitions, which send through a few clients that they share."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import client_options, producer_options, stop_client

CLIENTS = 8
"""For outputs, and one more for opening: two connections to each broker for each of them. A broker answers the requests
of a connection one by one."""


class SharedClients:
    """The clients of a worker's outputs. Each is connected when its first producer starts.

    Under exactly_once every input partition needs a transactional id and thus a producer of its own: the broker fences
    a former owner by that id. A connection of its own it does not need. 200 idle partitions had 410 connections, each
    with 0.3 MiB under TLS, and as many copies of the cluster's metadata.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lent: dict[int, _SharedClient] = {}
        self._opener: _SharedClient | None = None

    def producer(self, number: int, transactional_id: str | None) -> AIOKafkaProducer:
        """A producer for an input partition of this number, not yet started; transactional where it has an id."""
        place = number % CLIENTS
        if place not in self._lent:
            self._lent[place] = self._make()
        if self._opener is None:
            self._opener = self._make()
        options = producer_options(self._settings, self._settings.service.compression, transactional_id)
        return _Producer(self._opener, self._lent[place], options)

    async def close(self) -> None:
        """End all connections. Stop the producers first."""
        all_lent = [*self._lent.values(), *([self._opener] if self._opener else [])]
        await asyncio.gather(*(stop_client(lent.owner) for lent in all_lent))
        self._lent.clear()
        self._opener = None

    def _make(self) -> "_SharedClient":
        return _SharedClient(AIOKafkaClient(**client_options(self._settings.kafka), retry_backoff_ms=20))


class _SharedClient:
    """A client as one of its producers sees it: whoever stops a producer leaves it to the others."""

    def __init__(self, owner: AIOKafkaClient) -> None:
        self.owner = owner
        self._connecting = asyncio.Lock()
        self._connected = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)

    async def bootstrap(self) -> None:
        """Ask the configured addresses for the cluster, the first time and after doubt()."""
        async with self._connecting:
            if not self._connected:
                await self.owner.bootstrap()
                self._connected = True

    async def close(self) -> None:
        """Leave the client as it is."""

    def doubt(self) -> None:
        """A producer could not start: all brokers that the client knows may have moved to other addresses."""
        self._connected = False


class _Producer(AIOKafkaProducer):  # type: ignore[misc]  # aiokafka's class is untyped
    """aiokafka's producer, with clients that are lent to it in place of the one that it makes."""

    def __init__(self, opener: _SharedClient, lent: _SharedClient, options: dict[str, Any]) -> None:
        """opener: for the start alone, so that its questions do not wait behind the outputs of other partitions."""
        super().__init__(**options)
        self._opener, self._lent = opener, lent
        self._use(lent)

    async def start(self) -> None:
        self._use(self._opener)
        try:
            await super().start()
            await self._lent.bootstrap()
        except BaseException:
            self._opener.doubt()
            self._lent.doubt()
            raise
        finally:
            self._use(self._lent)

    def _use(self, lent: _SharedClient) -> None:
        self.client = self._sender.client = lent
        self._metadata = self._message_accumulator._cluster = lent.cluster
