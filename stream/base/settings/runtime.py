"""The settings around the verdict: Kafka, topics, shards, service, metrics, look-ups, logs. None changes a verdict."""

from typing import Any, Literal

from pydantic import SecretStr, model_validator

from spotsieve.stream.base.settings.section import Section, setting

MOST_ROUND_PAGES = 65_536
"""Upper bound of cluster.round_pages. Readers of round records rely on it (stream/sharding/records/frame.py)."""


class KafkaSettings(Section):
    """The connection to the broker. Secrets come from the environment or a file, and are never logged."""

    bootstrap_servers: str = setting("localhost:9092", "brokers, host:port joined by commas", min_length=1)
    group_id: str = setting("spotsieve", "consumer group, also the prefix of the transactional ids", min_length=1)
    client_id: str = setting("spotsieve", "client id in the broker's logs and quotas")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting("PLAINTEXT", "transport")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = setting("PLAIN", "SASL mechanism")
    sasl_username: str = setting("", "SASL user")
    sasl_password: SecretStr = setting(
        SecretStr(""), "SASL password; better in a file or SPOTSIEVE_KAFKA__SASL_PASSWORD"
    )
    sasl_password_file: str = setting("", "file that holds the SASL password; set it or sasl_password, not both")
    ssl_cafile: str = setting("", "CA certificates, PEM; empty: the system's")
    ssl_certfile: str = setting("", "client certificate, PEM")
    ssl_keyfile: str = setting("", "client key, PEM")
    ssl_key_password: SecretStr = setting(SecretStr(""), "password of the client key, if it has one; better in a file")
    ssl_key_password_file: str = setting("", "file that holds the key's password; set it or ssl_key_password, not both")
    session_timeout_ms: int = setting(
        30_000, "a worker without a heartbeat for this long loses its partitions", unit="ms", ge=1_000
    )
    rebalance_timeout_ms: int = setting(
        60_000, "time for a worker to finish its batches when partitions move", unit="ms", ge=1_000
    )
    max_poll_interval_ms: int = setting(
        300_000,
        "a worker whose stages take no page for this long loses its partitions; must exceed the time of two commits",
        unit="ms",
        ge=10_000,
    )
    request_timeout_ms: int = setting(40_000, "longest wait for one request", unit="ms", ge=1_000)
    transaction_timeout_ms: int = setting(
        60_000, "the broker aborts a transaction older than this", unit="ms", ge=1_000
    )
    fetch_max_bytes: int = setting(16 * 2**20, "most bytes of one fetch", unit="bytes", ge=2**16)
    prefetch_bytes: int = setting(
        64 * 2**20,
        "fetching pauses while more than this waits to be judged, summed over all partitions",
        unit="bytes",
        ge=2**16,
    )
    start: Literal["earliest", "latest"] = setting("earliest", "where a group without committed offsets starts")
    restart_from: Literal["refuse", "earliest", "latest"] = setting(
        "refuse", "where a partition restarts if its committed offset is lost but the state has indexed pages of it"
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", "read_uncommitted also reads pages of open and aborted transactions"
    )


class TopicSettings(Section):
    """Names of the topics."""

    input: str = setting("pages", "crawled pages", min_length=1)
    novel: str = setting("pages.novel", "novel and unchecked pages, unchanged, with verdict headers", min_length=1)
    duplicates: str = setting("pages.duplicates", "a JSON report for each dropped page", min_length=1)
    rejected: str = setting(
        "pages.rejected", "dead letters: messages that hold no page, unchanged, with the reason", min_length=1
    )
    log: str = setting("signatures", "the log: one partition, which orders all pages", min_length=1)
    matches: str = setting(
        "",
        "with shards: the candidates of each round; a partition for each shard; empty: <topics.log>.matches, so that "
        "two services with logs of their own do not share it",
    )
    verdicts: str = setting("", "with shards: the verdicts of each round; one partition; empty: <topics.log>.verdicts")

    @model_validator(mode="before")
    @classmethod
    def _name_after_the_log(cls, given: Any) -> Any:
        """Name the topics of rounds after the log, unless they have names."""
        if not isinstance(given, dict):
            return given
        log = given.get("log", cls.model_fields["log"].default)
        return {**given, **{role: given.get(role) or f"{log}.{role}" for role in ("matches", "verdicts")}}


class ClusterSettings(Section):
    """A service in several processes: shards that hold the state together, and a resolver.

    Each process is started with its role (`spotsieve run --role`).
    """

    shards: int = setting(0, "shards that hold the state together; 0: every worker holds all of it", ge=0, le=1_024)
    round_pages: int = setting(16_384, "most pages in a round", unit="pages", ge=1, le=MOST_ROUND_PAGES)
    resolver_session_ms: int = setting(
        6_000, "a resolver without a heartbeat for this long is replaced by a standby", unit="ms", ge=1_000
    )
    snapshots: str = setting(
        "",
        "directory or fsspec URL with a snapshot of each present shard, all of one place in the log: a shard without a "
        "state begins from them, so the topics need only the records after them; empty: from the beginning of the "
        "topics",
    )


class ServiceSettings(Section):
    """Batches, delivery guarantee and shutdown of a worker."""

    guarantee: Literal["exactly_once", "at_least_once"] = setting(
        "exactly_once", "exactly_once: outputs and offsets in one transaction; at_least_once: flush, then commit"
    )
    mode: Literal["filter", "annotate"] = setting(
        "filter", "filter: duplicates are dropped; annotate: every page is emitted, with its verdict in headers"
    )
    batch_pages: int = setting(512, "most pages in a micro-batch", unit="pages", ge=1, le=65_536)
    batch_bytes: int = setting(
        16 * 2**20, "most bytes in a micro-batch; a larger page is alone in its batch", unit="bytes", ge=2**16
    )
    linger_ms: int = setting(50, "longest wait for a micro-batch to fill", unit="ms", ge=0, le=60_000)
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = setting(
        "none", "compression of produced messages; docs/measured/speed.md compares CPU and size"
    )
    shutdown_timeout_ms: int = setting(
        8_000,
        "time to finish the fetched pages after SIGTERM; 1.5 s later the process is killed",
        unit="ms",
        ge=0,
        le=600_000,
    )


class MetricsSettings(Section):
    """The HTTP port for metrics, health and readiness."""

    enabled: bool = setting(True, "serve /metrics, /healthz and /readyz")
    host: str = setting("0.0.0.0", "address to bind")  # scraped from outside the container; 127.0.0.1 closes it
    port: int = setting(9464, "port; 0: any free one", ge=0, le=65_535)


class ServeSettings(Section):
    """The HTTP port of `spotsieve serve`, and its limits."""

    host: str = setting("127.0.0.1", "address to bind; on any other than a loopback address, set token_file")
    port: int = setting(7768, "port; 0: any free one", ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "further names of the port in Host and Origin (403); a port on a loopback address accepts loopback names and "
        "these, on any other address names are checked if there are some",
    )
    token: SecretStr = setting(
        SecretStr(""), "requests must have this bearer token (401); better in a file or SPOTSIEVE_SERVE__TOKEN"
    )
    token_file: str = setting("", "file that holds the token; set it or token, not both")
    tls_certfile: str = setting("", "certificate chain of the port, PEM; empty: HTTP without TLS")
    tls_keyfile: str = setting("", "key of the certificate, PEM, without a password")
    refresh_seconds: float = setting(
        30.0,
        "look-ups see the pages indexed up to this long ago by the state's owner; 0: up to the start",
        unit="s",
        ge=0,
    )
    max_body_bytes: int = setting(32 * 2**20, "larger requests are rejected (413)", unit="bytes", ge=1024, le=2**30)
    max_pages: int = setting(1_000, "batches of more pages are rejected (413)", unit="pages", ge=1, le=16_384)
    waiting_bytes: int = setting(
        256 * 2**20, "while pending requests have this many bytes, new ones are rejected (503)", unit="bytes", ge=1024
    )
    waiting_pages: int = setting(
        4_096,
        "while this many pages wait for their verdicts, new ones are rejected (503)",
        unit="pages",
        ge=1,
        le=2**20,
    )
    linger_ms: float = setting(
        5.0,
        "if a client that is alone sends several requests at a time, the longest wait for other requests of a batch",
        unit="ms",
        ge=0,
        le=1_000,
    )
    connections: int = setting(
        1_024,
        "concurrent connections; a further one takes the place of one without a complete request, or is rejected (503)",
        ge=1,
        le=65_536,
    )
    client_share: float = setting(
        0.5,
        "largest share of connections, waiting_bytes and waiting_pages for one client address; 1 behind a proxy",
        gt=0,
        le=1,
    )
    client_requests: int = setting(
        64,
        "requests of a client address judged at a time; several clients share this number, and further requests wait",
        ge=1,
        le=65_536,
    )
    head_bytes: int = setting(
        16_384, "longer request lines and headers are rejected (431)", unit="bytes", ge=1_024, le=2**20
    )
    max_headers: int = setting(64, "requests with more headers are rejected (431)", ge=8, le=1_024)
    head_seconds: float = setting(10.0, "longest time to receive request line and headers (408)", unit="s", gt=0)
    body_seconds: float = setting(30.0, "longest time to receive a body (408), and to take a response", unit="s", gt=0)
    stop_seconds: int = setting(8, "time to finish pending requests after SIGTERM", unit="s", ge=1, le=600)


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "lowest level shown")
    format: Literal["auto", "json", "text"] = setting("auto", "auto: text on a terminal, JSON elsewhere")
    summary_seconds: float = setting(60.0, "time between summary lines; 0: no summary", unit="s", ge=0)
