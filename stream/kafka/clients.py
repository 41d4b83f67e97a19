"""Makes aiokafka's clients from the settings, and stops them.

Waits for a cluster that names no broker: it is starting, or its controller has not let its broker in again.

A KRaft broker that was silent for longer than its session (paused, starved, just started) answers before its controller
has let it in. Its metadata then names neither a broker nor a controller. aiokafka 0.14 takes attributes of that None in
its admin client, and fails an assertion where it looks for a coordinator.
"""

import asyncio
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts
from aiokafka.errors import NodeNotReadyError
from aiokafka.producer import sender

from spotsieve.stream.base.errors import BrokerError, SettingError
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.runtime import KafkaSettings
from spotsieve.stream.kafka.driver.connections import fail_closed_connections, read_frames
from spotsieve.stream.kafka.driver.consumers import assignor
from spotsieve.stream.kafka.driver.header_names import read_any_header_names
from spotsieve.stream.kafka.errors import BrokersFencedError, creation_error
from spotsieve.stream.kafka.tls import ssl_context
from spotsieve.stream.observe.logs import logger

LET_IN_SECONDS, LOOK_PAUSE_SECONDS = 30.0, 0.1
"""The controller lets a killed broker in when its former session is over: broker.session.timeout.ms, 9 s by default."""

_LOOKUP = AIOKafkaClient.coordinator_lookup


@asynccontextmanager
async def administrator(**options: Any) -> AsyncIterator[AIOKafkaAdminClient]:
    """A started admin client of a cluster that has a controller; closed when the block ends.

    options: those of client_options(). Raises KafkaConnectionError where no broker answers, and BrokerError where the
    cluster has no controller within LET_IN_SECONDS.
    """
    admin = AIOKafkaAdminClient(**options)
    try:
        await admin.start()
        await wait_for_controller(admin)
        yield admin
    finally:
        await admin.close()


async def wait_for_controller(admin: AIOKafkaAdminClient, seconds: float = LET_IN_SECONDS) -> None:
    """Wait until the cluster's metadata names a controller, which is one of its brokers.

    Raises BrokerError where it names none within so many seconds.
    """
    client = admin._client
    try:
        async with asyncio.timeout(seconds):
            while client.cluster.controller is None:
                await client.force_metadata_update()
                if client.cluster.controller is None:
                    await asyncio.sleep(LOOK_PAUSE_SECONDS)
    except TimeoutError:
        servers = ",".join(f"{host}:{port}" for host, port, _ in client.hosts)
        raise BrokerError(
            "kafka.bootstrap_servers",
            f"must lead to a cluster with a controller: a broker answers, but within "
            f"{seconds:.0f} s its controller has let no broker in",
            servers,
            "try again when the cluster has started, and see the logs of its brokers and controllers",
        ) from None


async def create(admin: AIOKafkaAdminClient, topic: NewTopic, seconds: float = LET_IN_SECONDS) -> tuple[int, str]:
    """Create a topic; -> Kafka's error code, 0 for none, and the broker's text.

    A broker that is out of the cluster for a moment can hold no copy: the call is repeated for so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        response = await admin.create_topics([topic])
        _, code, said = response.topic_errors[0]
        if creation_error(code, said or "") is not BrokersFencedError or time.monotonic() > deadline:
            return code, said or ""
        await asyncio.sleep(LOOK_PAUSE_SECONDS)


def retry_without_brokers() -> None:
    """Make aiokafka ask again for a coordinator while its cluster names no broker, as it does for a broker not ready.

    By itself it fails an assertion, and a consumer or producer that is made at such a moment would end the service as a
    defect. A second call changes nothing.
    """
    AIOKafkaClient.coordinator_lookup = _coordinator_lookup


async def _coordinator_lookup(client: AIOKafkaClient, kind: int, key: str) -> Any:
    if client.get_random_node() is None:
        raise NodeNotReadyError("the cluster names no broker yet")
    return await _LOOKUP(client, kind, key)


PRODUCER_BATCH_BYTES = 900_000
"""Less than the broker's default message.max.bytes (1,048,588), which bounds a whole batch."""

PRIVATE_FILES = ("sasl_password_file", "ssl_keyfile", "ssl_key_password_file")
"""Settings of [kafka] that name a file with a secret."""

JOIN_MARGIN_MS = 5_000
LAST_TRANSACTION_SECONDS = 0.004
"""Before the broker is asked again while it still writes the markers of a producer's last transaction. By group
commit the next one begins at once, so every second one has to ask again; aiokafka waits for 20 ms."""
STOP_SECONDS, ABANDON_SECONDS = 2.0, 0.5


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """The options that every client of aiokafka takes.

    Raises SettingError for an address without host and port, a login without name or password, and certificates that
    cannot be read.
    """
    for check in CLIENT_CHECKS:
        check(kafka)
    read_any_header_names()
    retry_without_brokers()
    fail_closed_connections()
    read_frames()
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "client_id": kafka.client_id,
        "request_timeout_ms": kafka.request_timeout_ms,
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
    """Refuse a wrong address, for which aiokafka raises ValueError, UnicodeError or (on connecting) OverflowError."""
    try:
        hosts = collect_hosts(kafka.bootstrap_servers, randomize=False)
        fit = all(host.encode("idna") and 0 < port < 2**16 for host, port, _ in hosts)
    except ValueError:
        fit = False
    if not fit:
        raise SettingError(
            "kafka.bootstrap_servers",
            "must be host:port joined by commas, ports 1 to 65535",
            kafka.bootstrap_servers,
            "such as broker1:9092,broker2:9092",
        )


def _check_certificates(kafka: KafkaSettings) -> None:
    if "SSL" in kafka.security_protocol:
        ssl_context(kafka)


def _check_login(kafka: KafkaSettings) -> None:
    wanted = kafka.security_protocol.startswith("SASL")
    if wanted and not (kafka.sasl_username and kafka.sasl_password.get_secret_value()):
        missing = "password" if kafka.sasl_username else "username"
        raise SettingError(
            f"kafka.sasl_{missing}",
            f"must be set for security_protocol {kafka.security_protocol}",
            None,
            "set it, the password by kafka.sasl_password_file or SPOTSIEVE_KAFKA__SASL_PASSWORD; or leave SASL out of "
            "security_protocol",
        )


CLIENT_CHECKS: tuple[Callable[[KafkaSettings], None], ...] = (_check_addresses, _check_certificates, _check_login)
"""What can be checked without a broker. Each raises SettingError."""


def warn_of_open_files(kafka: KafkaSettings) -> None:
    """Warn of files that hold a secret and that every user of the machine can read."""
    for name in PRIVATE_FILES:
        path = getattr(kafka, name)
        with suppress(OSError):
            if path and stat.S_IMODE(Path(path).stat().st_mode) & stat.S_IROTH:
                logger().warning(
                    "everybody on this machine can read a file that holds a secret; take the right from them "
                    "(chmod o-r)",
                    setting=f"kafka.{name}",
                    path=str(path),
                )


def pages_consumer(settings: Settings) -> AIOKafkaConsumer:
    """The consumer of the input topic, not yet subscribed."""
    kafka = settings.kafka
    options = client_options(kafka)
    # The broker answers a JoinGroup request only when the other workers have finished, or after the rebalance time-out.
    options["request_timeout_ms"] = max(kafka.request_timeout_ms, kafka.rebalance_timeout_ms + JOIN_MARGIN_MS)
    return AIOKafkaConsumer(
        **options,
        group_id=kafka.group_id,
        partition_assignment_strategy=(assignor(),),
        enable_auto_commit=False,
        # We choose the offsets: a position that retention removed must be reported, and not skipped.
        auto_offset_reset="none",
        isolation_level=kafka.isolation_level,
        session_timeout_ms=kafka.session_timeout_ms,
        heartbeat_interval_ms=max(300, kafka.session_timeout_ms // 10),
        rebalance_timeout_ms=kafka.rebalance_timeout_ms,
        # A worker joins only after its state has caught up, so no rebuild counts against this.
        max_poll_interval_ms=kafka.max_poll_interval_ms,
        fetch_max_bytes=kafka.fetch_max_bytes,
        # Of a backlog an answer then brings one partition, and a micro-batch has few slices, each of which is a commit.
        # With a quarter of it the broker took 124 us a page in place of 90, and the worker 254 in place of 236.
        max_partition_fetch_bytes=max(2**20, kafka.fetch_max_bytes),
        fetch_max_wait_ms=100,
        check_crcs=True,
    )


def edges_consumer(settings: Settings) -> AIOKafkaConsumer:
    """Asks where partitions of the input begin and end; it has no group and reads nothing."""
    return AIOKafkaConsumer(
        **client_options(settings.kafka), enable_auto_commit=False, isolation_level=settings.kafka.isolation_level
    )


def log_consumer(settings: Settings) -> AIOKafkaConsumer:
    """The reader of the log. It has no group: the state keeps the position."""
    return AIOKafkaConsumer(
        **client_options(settings.kafka),
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_bytes=settings.kafka.fetch_max_bytes,
        max_partition_fetch_bytes=settings.kafka.fetch_max_bytes,
        fetch_max_wait_ms=100,
    )


def round_consumer(settings: Settings) -> AIOKafkaConsumer:
    """The reader of `verdicts` and `matches`. It has no group, and sees what the resolver has committed."""
    return AIOKafkaConsumer(
        **client_options(settings.kafka),
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        fetch_max_bytes=settings.kafka.fetch_max_bytes,
        max_partition_fetch_bytes=settings.kafka.fetch_max_bytes,
        fetch_max_wait_ms=100,
    )


def resolver_group(settings: Settings) -> str:
    """The group that gives one resolver the rounds. Those that write one topic are in one group, whatever their own."""
    return f"{settings.topics.verdicts}.resolver"


def resolver_consumer(settings: Settings) -> AIOKafkaConsumer:
    """The place of a resolver in the group that gives one of them the rounds, not yet subscribed."""
    session_ms = settings.cluster.resolver_session_ms
    return AIOKafkaConsumer(
        **client_options(settings.kafka),
        group_id=resolver_group(settings),
        # Whoever works goes on working when another one comes to stand by.
        partition_assignment_strategy=(assignor(),),
        enable_auto_commit=False,
        auto_offset_reset="none",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(100, session_ms // 10),
        rebalance_timeout_ms=session_ms,
    )


def log_producer(settings: Settings) -> AIOKafkaProducer:
    """The writer of the log: idempotent, and acknowledged by every replica."""
    return AIOKafkaProducer(**producer_options(settings, "none"))


def output_producer(settings: Settings, transactional_id: str | None) -> AIOKafkaProducer:
    """A writer of pages and reports with connections of its own; transactional where it has an id."""
    return AIOKafkaProducer(**producer_options(settings, settings.service.compression, transactional_id))


def producer_options(settings: Settings, compression: str, transactional_id: str | None = None) -> dict[str, Any]:
    """The options of an idempotent producer, which is transactional where it has an id."""
    sender.BACKOFF_OVERRIDE = LAST_TRANSACTION_SECONDS
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
        # A broker that is still completing the last transaction asks to try again, for milliseconds and not for 100.
        "retry_backoff_ms": 20,
    }


async def stop_client(client: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaClient) -> None:
    """Stop a client within STOP_SECONDS: aiokafka would wait for ever for a silent broker.

    Errors are only logged, because the caller must go on and close the next thing.
    """
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await (client.close() if isinstance(client, AIOKafkaClient) else client.stop())
    except (Exception, asyncio.CancelledError) as error:
        # aiokafka also fails an assertion where a connection is half open. And it cancels its own tasks and awaits
        # them: the CancelledError of a pausing task comes out here, although nobody has cancelled the caller.
        asking = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and asking is not None and asking.cancelling():
            raise
        logger().debug("client stopped with an error", error=type(error).__name__, detail=str(error))
        if isinstance(client, AIOKafkaProducer):
            await _abandon(client)


async def _abandon(producer: AIOKafkaProducer) -> None:
    """End a producer that could not be stopped.

    Otherwise it would go on asking for leaders, and would send what it still holds as soon as the broker is back.
    """
    sending = producer._sender.sender_task
    if sending is not None:
        sending.cancel()
    with suppress(Exception):
        async with asyncio.timeout(ABANDON_SECONDS):
            await producer.client.close()
