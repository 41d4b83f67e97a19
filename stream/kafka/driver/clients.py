"""Our aiokafka clients: consumer, producer, admin client and the client below them, and what they need beside it.

check_alive() detects a fetching task that has ended. bound_prefetch() limits the prefetched messages over all
partitions together. assignor() lets each worker keep as many partitions as possible when workers join or leave.

TolerantFetcher reads records whose header names are not UTF-8: Kafka defines a name as a string, but the broker does
not check it. aiokafka decodes names strictly and raises UnicodeDecodeError from getmany, without partition and
offset, so no worker could ever get past such a record. A batch that raises is read again by aiokafka's plain-Python
reader with escaped names (invalid bytes become a backslash, x and two digits). All other batches use the compiled
reader.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, NodeNotReadyError
from aiokafka.producer import sender
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy
from crc32c import crc32c

from spotsieve.stream.base.errors import BrokerTrouble
from spotsieve.stream.kafka.driver.connections import open_connection
from spotsieve.stream.kafka.driver.patches import left_out, rebound
from spotsieve.stream.kafka.errors import ProduceErrors

KNOWN_BROKERS_SECONDS = 10.0
"""A metadata request to known brokers that takes longer is repeated at the bootstrap servers. A broker that is gone may
refuse a connection at once, or never answer."""
LAST_TRANSACTION_SECONDS = 0.004
"""Pause before a request is repeated while the broker writes the markers of the producer's last transaction. With group
commit the next transaction begins at once, so every second one is repeated; aiokafka pauses for 20 ms."""
ABANDON_SECONDS = 0.5
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs by their numbers in a record batch."""
_ATTRIBUTES = 21
"""Start of the bytes that the checksum of a batch covers (Kafka's record batch, version 2)."""
_MAGIC = 16
"""Offset of the format number of a batch, in all formats."""
_FIRST_MAGIC_WITH_HEADERS = 2


class _TolerantRecords(_MemoryRecordsPy):  # type: ignore[misc]
    """The batches of a fetched partition. Splitting them costs the same as in aiokafka's compiled class."""

    def next_batch(self) -> Any:
        content = self._next_slice
        batch = super().next_batch()
        if batch is None:
            return batch
        return _OldBatch(batch) if content[_MAGIC] < _FIRST_MAGIC_WITH_HEADERS else _TolerantBatch(batch, content)


class _Around:
    """Proxy of an object of aiokafka's compiled code. Subclasses override attributes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _OldBatch(_Around):
    """A batch of message format 0 or 1, from before Kafka 0.11. A missing timestamp becomes -1."""

    def __iter__(self) -> Iterator[Any]:
        for record in self._inner:
            yield record if record.timestamp is not None else _Timeless(record)


class _Timeless(_Around):
    """A record without a timestamp."""

    timestamp = -1


class _TolerantBatch(_Around):
    """A batch that falls back to escaped header names, with the methods that aiokafka's fetcher calls."""

    def __init__(self, batch: Any, content: memoryview) -> None:
        super().__init__(batch)
        self._content = content

    def __next__(self) -> Any:
        return next(self._inner)

    def validate_crc(self) -> bool:
        """Whether the checksum matches. The hardware CRC is 14 times as fast as aiokafka's code."""
        if "checksum" in left_out():
            return bool(self._inner.validate_crc())
        given: int = self._inner.crc
        return crc32c(self._content[_ATTRIBUTES:]) == given

    def __iter__(self) -> Iterator[Any]:
        given = 0
        try:
            for record in self._inner:
                given += 1
                yield record
        except UnicodeDecodeError:
            yield from islice(_EscapingBatch(self._content), given, None)


class _EscapingBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    """A batch that escapes invalid bytes in header names."""

    _buffer: Any

    def __iter__(self) -> Self:
        self._maybe_uncompress()
        self._buffer = _Escaping(self._buffer)
        return self


class _Escaping(bytes):
    """Bytes whose slices decode invalid UTF-8 as backslash escapes."""

    def __getitem__(self, place: Any) -> Any:
        part = super().__getitem__(place)
        return _Escaping(part) if isinstance(place, slice) else part

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


class TolerantFetcher(Fetcher):  # type: ignore[misc]  # aiokafka's class is untyped
    """The fetcher of our consumers, which reads header names of any bytes."""

    _proc_fetch_request = rebound(Fetcher._proc_fetch_request, MemoryRecords=_TolerantRecords)


class KafkaClient(AIOKafkaClient):  # type: ignore[misc]  # aiokafka's class is untyped
    """A client that finds its cluster again, wherever the brokers went."""

    bootstrap = rebound(AIOKafkaClient.bootstrap, create_conn=open_connection)
    _get_conn = rebound(AIOKafkaClient._get_conn, create_conn=open_connection)

    async def coordinator_lookup(self, coordinator_type: int, coordinator_key: str) -> Any:
        """The node that coordinates a group or a transactional id. Raises NodeNotReadyError without brokers."""
        if self.get_random_node() is None:
            raise NodeNotReadyError("the cluster names no broker yet")
        return await super().coordinator_lookup(coordinator_type, coordinator_key)

    async def _metadata_update(self, cluster_metadata: ClusterMetadata, topics: Any) -> bool:
        """Update the metadata from a known broker, or from a bootstrap server if none responds."""
        try:
            async with asyncio.timeout(KNOWN_BROKERS_SECONDS):
                if await super()._metadata_update(cluster_metadata, topics):
                    return True
        except TimeoutError:
            pass
        return await self._bootstrap_again(cluster_metadata, topics)

    async def _bootstrap_again(self, cluster_metadata: ClusterMetadata, topics: Any) -> bool:
        for host, port, _ in self.hosts:
            try:
                connection = await self._open(host, port)
            except (OSError, KafkaError):
                continue
            try:
                metadata = await connection.send(MetadataRequest(list(topics) if topics else None))
            except (OSError, KafkaError):
                continue
            finally:
                connection.close()
            if metadata.brokers:
                cluster_metadata.update_metadata(metadata)
                self._leave_former_addresses()
                return True
        return False

    async def _open(self, host: str, port: int) -> Any:
        return await open_connection(
            host,
            port,
            client_id=self._client_id,
            request_timeout_ms=self._request_timeout_ms,
            ssl_context=self._ssl_context,
            security_protocol=self._security_protocol,
            max_idle_ms=self._connections_max_idle_ms,
            sasl_mechanism=self._sasl_mechanism,
            sasl_plain_username=self._sasl_plain_username,
            sasl_plain_password=self._sasl_plain_password,
        )

    def _leave_former_addresses(self) -> None:
        """Close connections to addresses without a broker: their requests would wait for the whole time-out."""
        brokers = {(broker.host, broker.port) for broker in self.cluster.brokers()}
        for connection in list(self._conns.values()):
            if (connection.host, connection.port) not in brokers:
                connection.close()


class KafkaAdmin(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka's class is untyped
    """An admin client over our client."""

    _initialize = rebound(AIOKafkaAdminClient.__init__, AIOKafkaClient=KafkaClient)

    def __init__(self, **options: Any) -> None:
        self._initialize(**options)

    @property
    def client(self) -> KafkaClient:
        """The client below it, with the metadata of the cluster."""
        client: KafkaClient = self._client
        return client


class KafkaConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka's class is untyped
    """A consumer over our client that reads header names of any bytes."""

    _initialize = rebound(AIOKafkaConsumer.__init__, AIOKafkaClient=KafkaClient)

    def __init__(self, *topics: str, **options: Any) -> None:
        self._initialize(*topics, **options)

    start = rebound(AIOKafkaConsumer.start, Fetcher=TolerantFetcher)


class _Sender(sender.Sender):  # type: ignore[misc]  # aiokafka's class is untyped
    """The sender of our producers: it knows all errors that stop a service, and repeats the begin of a transaction
    sooner.
    """

    class _Producing(sender.SendProduceReqHandler):  # type: ignore[misc]  # aiokafka's class is untyped
        handle_response = rebound(sender.SendProduceReqHandler.handle_response, Errors=ProduceErrors)

    _send_produce_req = rebound(sender.Sender._send_produce_req, SendProduceReqHandler=_Producing)

    if "transactions" not in left_out():

        class _Adding(sender.AddPartitionsToTxnHandler):  # type: ignore[misc]  # aiokafka's class is untyped
            handle_response = rebound(
                sender.AddPartitionsToTxnHandler.handle_response, BACKOFF_OVERRIDE=LAST_TRANSACTION_SECONDS
            )

        _do_add_partitions_to_txn = rebound(sender.Sender._do_add_partitions_to_txn, AddPartitionsToTxnHandler=_Adding)


class KafkaProducer(AIOKafkaProducer):  # type: ignore[misc]  # aiokafka's class is untyped
    """A producer over our client."""

    _initialize = rebound(AIOKafkaProducer.__init__, AIOKafkaClient=KafkaClient, Sender=_Sender)

    def __init__(self, **options: Any) -> None:
        self._initialize(**options)

    async def abandon(self) -> None:
        """Close the connections of a producer that could not be stopped.

        Otherwise it would keep querying leaders, and would send its batches as soon as the broker is back.
        """
        sending = self._sender.sender_task
        if sending is not None:
            sending.cancel()
        with suppress(Exception):
            async with asyncio.timeout(ABANDON_SECONDS):
                await self.client.close()


class SharedClient:
    """A client that several producers share: stopping a producer does not close it."""

    def __init__(self, owner: KafkaClient) -> None:
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


class SharedProducer(KafkaProducer):
    """A producer over shared clients instead of its own."""

    def __init__(self, opener: SharedClient, lent: SharedClient, options: dict[str, Any]) -> None:
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

    def _use(self, lent: SharedClient) -> None:
        self.client = self._sender.client = lent
        self._metadata = self._message_accumulator._cluster = lent.cluster


class PlainBatch(BatchBuilder):  # type: ignore[misc]  # aiokafka's class is untyped
    """aiokafka's own batch, with the methods of PreparedBatch. It is encoded when it is sent."""

    def __init__(self, most_bytes: int, compression: str, *, transactional: bool) -> None:
        self._limits = (most_bytes, _CODECS.index(compression))
        self._appended: list[dict[str, Any]] = []
        super().__init__(*self._limits, is_transactional=int(transactional))

    def append(self, **record: Any) -> Any:
        appended = super().append(**record)
        if appended is not None:
            self._appended.append(record)
        return appended

    def prepare(self) -> int:
        # A copy shows the encoded size, because a batch is numbered before it is encoded.
        self.close()
        trial = BatchBuilder(*self._limits)
        for record in self._appended:
            trial.append(**record)
        self._appended.clear()
        return len(trial._build())


def new_batch(most_bytes: int, compression: str, *, transactional: bool) -> BatchBuilder:
    """An empty record batch with the methods of PreparedBatch.

    most_bytes: limit for the records before compression; the first record may exceed it
    """
    if "batch" in left_out():
        return PlainBatch(most_bytes, compression, transactional=transactional)
    from spotsieve.stream.kafka.driver.prepared_batch import PreparedBatch

    return PreparedBatch(most_bytes, compression, transactional=transactional)


def check_alive(consumer: AIOKafkaConsumer) -> None:
    """Raise BrokerTrouble if the fetching task of the consumer has ended.

    aiokafka's getmany() does not check that task. After it has ended, by an error or a misdirected cancellation
    (aiokafka issue 983), every fetch is empty for ever.
    """
    fetching = consumer._fetcher._fetch_task
    if fetching.done():
        error = None if fetching.cancelled() else fetching.exception()
        raise BrokerTrouble("kafka", "consumer has stopped fetching", repr(error.__cause__ or error) if error else None)


def bound_prefetch(consumer: AIOKafkaConsumer, most_bytes: int) -> None:
    """Make a started consumer fetch only while fewer than most_bytes of prefetched messages wait.

    aiokafka limits each partition only: it fetches all partitions without waiting messages, whatever the others hold.
    1,000 partitions with a backlog then hold 4.3 GB. One response per broker comes on top of the limit.

    Pausing partitions does not help: aiokafka drops the prefetched messages of a paused partition, and fetches again
    before the next check.
    """
    fetcher = consumer._fetcher
    plan = fetcher._get_actions_per_node

    def bounded(assignment: Any) -> Any:
        requests, *others = plan(assignment)
        # Taking messages wakes the loop of aiokafka, and it plans again.
        return ([] if requests and waiting_bytes(consumer) >= most_bytes else requests, *others)

    fetcher._get_actions_per_node = bounded


def waiting_bytes(consumer: AIOKafkaConsumer) -> int:
    """Bytes of prefetched messages; a partly taken partition counts in full."""
    fetched = (getattr(result, "_partition_records", None) for result in consumer._fetcher._records.values())
    return sum(records._records.size_in_bytes() for records in fetched if records is not None)


def assignor() -> Any:
    """A new sticky assignor class for one consumer.

    A consumer must have one assignor only. aiokafka 0.14 sends a join request per assignor, and every request triggers
    a rebalance: workers that started together disturbed each other for minutes and got no partition.
    """
    # aiokafka keeps the partitions of a consumer in the class, so two consumers must not share one.
    return type("Sticky", (StickyPartitionAssignor,), {})


def bind_group(consumer: AIOKafkaConsumer, log: str) -> None:
    """Let a consumer share its group only with consumers of the same log. Call it before it starts. log: id of the log

    The log's id becomes part of the name of the assignor. A broker refuses a member that has no assignor in common with
    the group (INCONSISTENT_GROUP_PROTOCOL).
    """
    for strategy in consumer._partition_assignment_strategy:
        strategy.name = f"{StickyPartitionAssignor.name}-{log}"


def remember_generation(consumer: AIOKafkaConsumer) -> None:
    """Record the group generation of the consumer's partitions. Call it at every assignment.

    aiokafka does not record it. Without it, a worker that returns after others took its partitions would claim them
    with the same priority.
    """
    for strategy in consumer._partition_assignment_strategy:
        strategy.on_generation_assignment(consumer._coordinator.generation)
