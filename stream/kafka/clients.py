"""Makes aiokafka clients and their TLS context from the settings, and stops the clients.

A KRaft broker that was silent for longer than its session (paused, starved, just started) responds before its
controller has unfenced it. Its metadata then lists no broker and no controller. aiokafka 0.14 fails in its admin client
then, and in the lookup of a coordinator. This module waits until the metadata is complete.
"""

import asyncio
import ssl
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts
from aiokafka.helpers import create_ssl_context
from pydantic import SecretStr

from spotsieve.stream.base.errors import BrokerError, SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.driver.clients import (
    KafkaAdmin,
    KafkaClient,
    KafkaConsumer,
    KafkaProducer,
    SharedClient,
    SharedProducer,
    assignor,
)
from spotsieve.stream.kafka.errors import BrokersFencedError, creation_error, on_one_line
from spotsieve.stream.observe.logs import logger

UNFENCE_SECONDS, POLL_SECONDS = 30.0, 0.1
"""The controller unfences a killed broker when its former session ends: broker.session.timeout.ms, 9 s by default."""

METADATA_MAX_AGE_MS = 30_000
"""Interval at which a client looks for added partitions and moved leaders. With aiokafka's default of 5 minutes, pages
of an added partition waited for 270 s."""
PRODUCER_BATCH_BYTES = 900_000
"""Below the broker's default message.max.bytes (1,048,588), which limits a whole batch."""
PRIVATE_FILES = ("sasl_password_file", "ssl_keyfile", "ssl_key_password_file")
"""Settings of [kafka] that name a secret file."""
JOIN_MARGIN_MS = 5_000
STOP_SECONDS = 2.0
SHARED_CLIENTS = 8
"""Clients for outputs; one more is for openings. Each has two connections per broker. A broker serves the requests of a
connection one by one."""


@asynccontextmanager
async def administrator(**options: Any) -> AsyncIterator[KafkaAdmin]:
    """Start an admin client, wait for a controller, and close the client when the block ends.

    options: the result of client_options()
    Raises KafkaConnectionError if no broker responds, and BrokerError if the cluster has no controller within
    UNFENCE_SECONDS.
    """
    admin = KafkaAdmin(**options)
    try:
        await admin.start()
        await wait_for_controller(admin)
        yield admin
    finally:
        await admin.close()


async def wait_for_controller(admin: KafkaAdmin, seconds: float = UNFENCE_SECONDS) -> None:
    """Wait until the metadata names a controller, which is a broker of the cluster.

    Raises BrokerError after `seconds`.
    """
    client = admin.client
    try:
        async with asyncio.timeout(seconds):
            while client.cluster.controller is None:
                await client.force_metadata_update()
                if client.cluster.controller is None:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        servers = ",".join(f"{host}:{port}" for host, port, _ in client.hosts)
        raise BrokerError(
            "kafka.bootstrap_servers",
            f"leads to a cluster without a controller: a broker responds, but the controller has unfenced no "
            f"broker within {seconds:.0f} s",
            servers,
            "look at the logs of brokers and controllers, and repeat the command when the cluster has started",
        ) from None


async def create(admin: AIOKafkaAdminClient, topic: NewTopic, seconds: float = UNFENCE_SECONDS) -> tuple[int, str]:
    """Create a topic. Returns Kafka's error code (0 for success) and the error text of the broker.

    The request is repeated for `seconds` while brokers are fenced and cannot hold a replica.
    """
    deadline = time.monotonic() + seconds
    while True:
        response = await admin.create_topics([topic])
        _, code, text = response.topic_errors[0]
        if creation_error(code, text or "") is not BrokersFencedError or time.monotonic() > deadline:
            return code, text or ""
        await asyncio.sleep(POLL_SECONDS)


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """The options of all clients.

    Raises SettingError for an invalid bootstrap address, a login without user or password, unreadable certificates, and
    a login or certificates that the security protocol does not use.
    """
    for check in CLIENT_CHECKS:
        check(kafka)
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "client_id": kafka.client_id,
        "request_timeout_ms": kafka.request_timeout_ms,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
        "security_protocol": kafka.security_protocol,
    }
    if "SSL" in kafka.security_protocol:
        options["ssl_context"] = ssl_context(kafka)
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = kafka.sasl_password.get_secret_value()
    return options


def _check_addresses(kafka: KafkaSettings) -> None:
    """Raise SettingError for an invalid address.

    aiokafka raises ValueError, UnicodeError or (on connecting) OverflowError for it.
    """
    try:
        hosts = collect_hosts(kafka.bootstrap_servers, randomize=False)
        valid = all(host.encode("idna") and 0 < port < 2**16 for host, port, _ in hosts)
    except ValueError:
        valid = False
    if not valid:
        raise SettingError(
            "kafka.bootstrap_servers",
            "must be a comma-separated list of host:port, with ports from 1 to 65535",
            kafka.bootstrap_servers,
            "for example broker1:9092,broker2:9092",
        )


def _check_certificates(kafka: KafkaSettings) -> None:
    if "SSL" in kafka.security_protocol:
        ssl_context(kafka)
    else:
        _check_unset(kafka, ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_key_password"), "SSL", "SASL_SSL")


def _check_unset(kafka: KafkaSettings, names: Iterable[str], *protocols: str) -> None:
    """Raise SettingError for a setting that has an effect with these protocols only, and would be ignored now."""
    for name in names:
        if getattr(kafka, name) not in ("", SecretStr("")):
            shown = f"{name}_file" if getattr(kafka, f"{name}_file", "") else name
            raise SettingError(
                f"kafka.{shown}",
                f"has no effect with security_protocol {kafka.security_protocol}",
                None,
                f"set kafka.security_protocol to {' or '.join(protocols)}, or remove kafka.{shown}",
            )


def _check_login(kafka: KafkaSettings) -> None:
    if not kafka.security_protocol.startswith("SASL"):
        _check_unset(kafka, ("sasl_username", "sasl_password"), "SASL_SSL", "SASL_PLAINTEXT")
    elif not (kafka.sasl_username and kafka.sasl_password.get_secret_value()):
        missing = "password" if kafka.sasl_username else "username"
        raise SettingError(
            f"kafka.sasl_{missing}",
            f"must be set for security_protocol {kafka.security_protocol}",
            None,
            "set it (the password by kafka.sasl_password_file or SPOTSIEVE_KAFKA__SASL_PASSWORD), or use a "
            "security_protocol without SASL",
        )


CLIENT_CHECKS: tuple[Callable[[KafkaSettings], None], ...] = (_check_addresses, _check_certificates, _check_login)
"""Checks that need no broker. Each raises SettingError."""


def warn_of_open_files(kafka: KafkaSettings) -> None:
    """Warn about secret files that every user of the machine can read."""
    for name in PRIVATE_FILES:
        path = getattr(kafka, name)
        with suppress(OSError):
            if path and stat.S_IMODE(Path(path).stat().st_mode) & stat.S_IROTH:
                logger().warning(
                    "every user of this machine can read this secret file; remove the right with chmod o-r",
                    setting=f"kafka.{name}",
                    path=str(path),
                )


def pages_consumer(settings: Settings) -> KafkaConsumer:
    """The consumer of the input topic, not subscribed yet."""
    kafka = settings.kafka
    options = client_options(kafka)
    # The broker responds to JoinGroup when the other workers have joined, or after the rebalance time-out.
    options["request_timeout_ms"] = max(kafka.request_timeout_ms, kafka.rebalance_timeout_ms + JOIN_MARGIN_MS)
    return KafkaConsumer(
        **options,
        group_id=kafka.group_id,
        partition_assignment_strategy=(assignor(),),
        enable_auto_commit=False,
        # The worker chooses the offsets: pages that retention removed must be reported and not skipped silently.
        auto_offset_reset="none",
        isolation_level=kafka.isolation_level,
        session_timeout_ms=kafka.session_timeout_ms,
        heartbeat_interval_ms=max(300, kafka.session_timeout_ms // 10),
        rebalance_timeout_ms=kafka.rebalance_timeout_ms,
        # A worker joins after its state has caught up, so a rebuild does not count against this.
        max_poll_interval_ms=kafka.max_poll_interval_ms,
        fetch_max_bytes=kafka.fetch_max_bytes,
        # So a fetch of a backlog returns one partition, and a micro-batch has few slices, each of which is a commit.
        # With a quarter of this limit the broker took 124 us per page instead of 90, and the worker 254 instead of 236.
        max_partition_fetch_bytes=max(2**20, kafka.fetch_max_bytes),
        fetch_max_wait_ms=100,
        check_crcs=True,
    )


def edges_consumer(settings: Settings) -> KafkaConsumer:
    """A consumer for queries of first and end offsets of input partitions. It has no group and reads nothing."""
    return KafkaConsumer(
        **client_options(settings.kafka), enable_auto_commit=False, isolation_level=settings.kafka.isolation_level
    )


def log_consumer(settings: Settings) -> KafkaConsumer:
    """The consumer of the log. It has no group: the state keeps the position."""
    return _consumer_without_group(settings)


def round_consumer(settings: Settings) -> KafkaConsumer:
    """The consumer of `verdicts` and `matches`. It has no group and reads committed records only."""
    return _consumer_without_group(settings, isolation_level="read_committed")


def _consumer_without_group(settings: Settings, **more: str) -> KafkaConsumer:
    return KafkaConsumer(
        **client_options(settings.kafka),
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_bytes=settings.kafka.fetch_max_bytes,
        max_partition_fetch_bytes=settings.kafka.fetch_max_bytes,
        fetch_max_wait_ms=100,
        **more,
    )


def resolver_group(settings: Settings) -> str:
    """The group that elects the active resolver: one per topic of verdicts, whatever kafka.group_id is."""
    return f"{settings.topics.verdicts}.resolver"


def resolver_consumer(settings: Settings) -> KafkaConsumer:
    """The consumer by which a resolver joins the election group, not subscribed yet."""
    session_ms = settings.cluster.resolver_session_ms
    return KafkaConsumer(
        **client_options(settings.kafka),
        group_id=resolver_group(settings),
        # The active resolver stays active when another one joins.
        partition_assignment_strategy=(assignor(),),
        enable_auto_commit=False,
        auto_offset_reset="none",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(100, session_ms // 10),
        rebalance_timeout_ms=session_ms,
    )


def log_producer(settings: Settings) -> KafkaProducer:
    """The idempotent producer of the log, acknowledged by all in-sync replicas."""
    return KafkaProducer(**producer_options(settings, "none"))


def output_producer(settings: Settings, transactional_id: str | None) -> KafkaProducer:
    """A producer of outputs with its own connections, transactional if it has an id."""
    return KafkaProducer(**producer_options(settings, settings.service.compression, transactional_id))


def producer_options(settings: Settings, compression: str, transactional_id: str | None = None) -> dict[str, Any]:
    """The options of an idempotent producer, transactional if it has an id."""
    return {
        **client_options(settings.kafka),
        "acks": "all",
        "enable_idempotence": True,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": settings.kafka.transaction_timeout_ms,
        "compression_type": None if compression == "none" else compression,
        "max_batch_size": PRODUCER_BATCH_BYTES,
        "max_request_size": 2**30,
        "linger_ms": 0,
        # A broker that completes the last transaction requests a retry, and needs milliseconds, not the default of 100.
        "retry_backoff_ms": 20,
    }


async def stop_client(client: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaClient) -> None:
    """Stop a client within STOP_SECONDS, because aiokafka would wait for a silent broker for ever.

    Errors are only logged, because the caller must still close other clients.
    """
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await (client.close() if isinstance(client, AIOKafkaClient) else client.stop())
    except (Exception, asyncio.CancelledError) as error:
        # aiokafka fails an assertion if a connection is half open. It also cancels its own tasks and awaits them: their
        # CancelledError arrives here although the caller was not cancelled.
        caller = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and caller is not None and caller.cancelling():
            raise
        logger().debug("a Kafka client stopped with an error", error=type(error).__name__, detail=str(error))
        if isinstance(client, KafkaProducer):
            await client.abandon()


class SharedClients:
    """The shared clients for the outputs of a worker. Each connects when its first producer starts.

    Under exactly_once every input partition needs its own transactional id, by which the broker fences a former owner,
    and so its own producer, but not its own connection. Without sharing, 200 idle partitions had 410 connections, each
    with 0.3 MiB under TLS, and as many copies of the cluster metadata.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lent: dict[int, SharedClient] = {}
        self._opener: SharedClient | None = None

    def producer(self, number: int, transactional_id: str | None) -> KafkaProducer:
        """A producer for the input partition of this number, not started yet, transactional if it has an id."""
        place = number % SHARED_CLIENTS
        if place not in self._lent:
            self._lent[place] = self._make()
        if self._opener is None:
            self._opener = self._make()
        options = producer_options(self._settings, self._settings.service.compression, transactional_id)
        return SharedProducer(self._opener, self._lent[place], options)

    async def close(self) -> None:
        """Close all connections. Stop the producers first."""
        all_lent = [*self._lent.values(), *([self._opener] if self._opener else [])]
        await asyncio.gather(*(stop_client(lent.owner) for lent in all_lent))
        self._lent.clear()
        self._opener = None

    def _make(self) -> SharedClient:
        return SharedClient(KafkaClient(**client_options(self._settings.kafka), retry_backoff_ms=20))


_Key = tuple[object, ...]
_contexts: dict[_Key, ssl.SSLContext] = {}
"""The latest context, by the identities of its files and its password."""


def ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """The TLS context for these settings. Raises SettingError if certificates cannot be read.

    Reading the system's CA certificates takes 20 ms, which blocks the event loop, and 0.8 MiB. Files that were
    replaced, for example by a certificate renewal, are read again for the next client.
    """
    if kafka.ssl_keyfile and not kafka.ssl_certfile:
        raise SettingError(
            "kafka.ssl_certfile", "must be set if ssl_keyfile is set", None, "name the certificate of the key"
        )
    names = (kafka.ssl_cafile, kafka.ssl_certfile, kafka.ssl_keyfile)
    password = kafka.ssl_key_password.get_secret_value()
    try:
        key = (*map(_identity, names), password)
        if key not in _contexts:
            context = create_ssl_context(
                cafile=kafka.ssl_cafile or None,
                certfile=kafka.ssl_certfile or None,
                keyfile=kafka.ssl_keyfile or None,
                # Never None: OpenSSL would prompt for it on the terminal, and the service would hang.
                password=password,
            )
            _contexts.clear()
            _contexts[key] = context
        return _contexts[key]
    except (OSError, ssl.SSLError) as error:
        raise SettingError(
            "kafka.ssl_*file",
            f"must be readable PEM files with a matching key: {on_one_line(str(error))}",
            list(names),
            "check the paths, and kafka.ssl_key_password if the key is encrypted",
        ) from None


def _identity(name: str) -> _Key:
    """A value that changes when the file is replaced or written; empty for the system's CA certificates."""
    if not name:
        return ()
    found = Path(name).stat()
    return name, found.st_ino, found.st_size, found.st_mtime_ns
