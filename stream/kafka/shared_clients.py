"""Makes one producer per partition over a few shared clients."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient

from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.kafka.clients import client_options, producer_options, stop_client

CLIENTS = 8
"""Clients for outputs; one more is for openings. Each has two connections per broker. A broker serves the requests of a
connection one by one."""


class SharedClients:
    """The shared clients for the outputs of a worker. Each connects when its first producer starts.

    Under exactly_once every input partition needs its own transactional id, by which the broker fences a former owner,
    and so its own producer, but not its own connection. Without sharing, 200 idle partitions had 410 connections, each
    with 0.3 MiB under TLS, and as many copies of the cluster metadata.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lent: dict[int, _SharedClient] = {}
        self._opener: _SharedClient | None = None

    def producer(self, number: int, transactional_id: str | None) -> AIOKafkaProducer:
        """A producer for the input partition of this number, not started yet, transactional if it has an id."""
        place = number % CLIENTS
        if place not in self._lent:
            self._lent[place] = self._make()
        if self._opener is None:
            self._opener = self._make()
        options = producer_options(self._settings, self._settings.service.compression, transactional_id)
        return _Producer(self._opener, self._lent[place], options)

    async def close(self) -> None:
        """Close all connections. Stop the producers first."""
        all_lent = [*self._lent.values(), *([self._opener] if self._opener else [])]
        await asyncio.gather(*(stop_client(lent.owner) for lent in all_lent))
        self._lent.clear()
        self._opener = None

    def _make(self) -> "_SharedClient":
        return _SharedClient(AIOKafkaClient(**client_options(self._settings.kafka), retry_backoff_ms=20))


class _SharedClient:
    """A client that its producers share: stopping a producer does not close it."""

    def __init__(self, owner: AIOKafkaClient) -> None:
        self.owner = owner
        self._connecting = asyncio.Lock()
        self._connected = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)

    async def bootstrap(self) -> None:
        """Read the cluster metadata from the bootstrap servers, at the first call and after doubt()."""
        async with self._connecting:
            if not self._connected:
                await self.owner.bootstrap()
                self._connected = True

    async def close(self) -> None:
        """Keep the client open for other producers."""

    def doubt(self) -> None:
        """Read the metadata again at the next bootstrap(), because the brokers may have moved to other addresses."""
        self._connected = False


class _Producer(AIOKafkaProducer):  # type: ignore[misc]  # aiokafka's class is untyped
    """aiokafka's producer, over shared clients instead of its own."""

    def __init__(self, opener: _SharedClient, lent: _SharedClient, options: dict[str, Any]) -> None:
        """opener: client for the start, so that its requests do not wait behind outputs of other partitions"""
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
