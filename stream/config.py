"""Owns the settings: one frozen model a stage, each field with its unit, and whether it changes verdicts."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


def setting(default: Any, about: str, *, unit: str = "", verdicts: bool = False, **rules: Any) -> Any:
    """A field that says what it is, its unit, and whether it changes verdicts (`config example` prints all)."""
    return Field(default, description=about, json_schema_extra={"unit": unit, "verdicts": verdicts}, **rules)


class Section(BaseModel):
    """What all sections share: frozen, unknown names are errors, values are never coerced into another meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class FieldPaths(Section):
    """Where a JSON message keeps what; a path is names joined by dots, and "" means the message has no such field."""

    url: str = setting("url", "path of the page's address")
    body: str = setting("body", "path of the page's body", verdicts=True, min_length=1)
    content_type: str = setting("content_type", "path of the Content-Type header's value", verdicts=True)
    fetched_at: str = setting("fetched_at", "path of the fetch time: ISO 8601, or epoch seconds or milliseconds")
    body_encoding: str = setting("", "path of a field that says text or base64 for each message", verdicts=True)
    charset: str = setting("", "path of the charset of a base64 body, where content_type names none", verdicts=True)
    id: str = setting("id", "path of the page's own name, shown in verdicts and reports; no page needs one")


class InputSettings(Section):
    """How a message becomes a page."""

    preset: Literal["", "scrapy-cluster", "norconex"] = setting(
        "", "ready-made [input.fields]; a path there that differs from its default wins over the preset", verdicts=True
    )
    format: Literal["json", "html"] = setting(
        "json", "json: fields as in [input.fields]; html: the message is the page", verdicts=True
    )
    fields: FieldPaths = Field(default=FieldPaths())
    body_encoding: Literal["text", "base64", "auto"] = setting(
        "auto",
        "how JSON holds the body; auto: base64 where the whole body is valid base64 of at least 64 characters",
        verdicts=True,
    )
    url_from: str = setting(
        "key", "format html: where the address is, `key` or `header:NAME`", pattern=r"^(key|header:.+)$"
    )
    content_type_header: str = setting("content-type", "format html: header that holds the Content-Type", verdicts=True)
    max_page_bytes: int = setting(
        16 * 2**20,
        "a larger body is passed on as unchecked (its digest is still compared)",
        unit="bytes",
        verdicts=True,
        ge=1024,
        le=2**30,
    )


class SpotsSection(Section):
    """Scheme chain: text to spots (Theobald et al. 2008). The scheme spotsieve has no use for these."""

    distance: int = setting(
        2, "spot distance d: every d-th word after the antecedent", unit="words", verdicts=True, ge=1, le=16
    )
    chain_length: int = setting(3, "chain length c: words in a chain", unit="words", verdicts=True, ge=1, le=8)
    antecedents: tuple[str, ...] = setting(
        (), "words that start a chain; empty: the built-in English list", verdicts=True
    )
    stop_words: tuple[str, ...] = setting(
        (), "words a chain steps over; empty: the built-in English list", verdicts=True
    )


CHAIN_DEFAULTS = {"max_distance_bits": 3, "tables": 10}
"""Manku et al. 2007, sec. 4: k = 3 for 64 bits. For `spotsieve` tables only name candidates, and few do."""


class SchemeSettings(Section):
    """How pages are judged."""

    name: Literal["spotsieve", "chain"] = setting(
        "spotsieve",
        "spotsieve: kept text, 3-shingles, sketches; chain: spots, simhash 64, permuted tables (Manku et al. 2007)",
        verdicts=True,
    )
    max_distance_bits: int = setting(
        1,
        "k: fingerprints this near are candidates (spotsieve), or copies (chain, where 3 is the default)",
        unit="bits",
        verdicts=True,
        ge=0,
        le=7,
    )
    tables: int = setting(
        2,
        "permuted tables; for k = 1: 2 to 64; for k = 3: 4, 10 (chain's default), 16, 20 and more",
        verdicts=True,
        ge=1,
        le=255,
    )
    min_features: int = setting(
        8,
        "pages with fewer features are unchecked: only their digest is compared",
        unit="shingles or spots",
        verdicts=True,
        ge=1,
        le=10_000,
    )
    shingle_words: int = setting(3, "spotsieve: words of a shingle", unit="words", verdicts=True, ge=1, le=16)
    minima: int = setting(
        8,
        "spotsieve: smallest hashes of phrases (2 * shingle_words - 1 words) under which a page is filed",
        verdicts=True,
        ge=1,
        le=255,
    )
    minima_cap: int = setting(
        16,
        "spotsieve: a smallest hash takes no more pages than this; what more novel pages have tells none apart",
        unit="pages",
        verdicts=True,
        ge=1,
        le=65_536,
    )
    sketch_bits: int = setting(
        512,
        "spotsieve: 1-bit minwise sketch, a multiple of 64",
        unit="bits",
        verdicts=True,
        ge=64,
        le=2048,
        multiple_of=64,
    )
    min_jaccard: float = setting(
        0.32, "spotsieve: pages of different hosts at least this alike are copies", verdicts=True, gt=0, le=1
    )
    same_host_min_jaccard: float = setting(
        0.46, "spotsieve: on one host, copies are at least this alike", verdicts=True, gt=0, le=1
    )
    same_host_min_own: float = setting(
        0.3,
        "spotsieve: on one host, copies share this much of what neither owes to the host's template",
        verdicts=True,
        ge=0,
        lt=1,
    )
    presumed_template: float = setting(
        0.48,
        "spotsieve: share of a host's first page that is taken for template, as there is no other page to tell",
        verdicts=True,
        ge=0,
        le=0.9,
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_scheme(cls, given: Any) -> Any:
        """`name = "chain"` alone is the published system, not its tables at another scheme's k."""
        return {**CHAIN_DEFAULTS, **given} if isinstance(given, dict) and given.get("name") == "chain" else given


class IndexSettings(Section):
    """What is remembered, and where."""

    directory: Path = setting(Path("spotsieve-state"), "state directory, owned by one process")
    bucket_cap: int = setting(
        256, "a bucket takes no more entries than this", unit="entries", verdicts=True, ge=1, le=65_536
    )
    candidate_limit: int = setting(
        256,
        "a page is compared with no more pages that share a key; the earliest count",
        unit="entries",
        verdicts=True,
        ge=1,
        le=4096,
    )
    cache_mb: int = setting(256, "RocksDB block cache", unit="MiB", ge=8)
    write_buffer_mb: int = setting(32, "RocksDB write buffer", unit="MiB", ge=1)


class KafkaSettings(Section):
    """How to reach the broker. Secrets come from the environment or a file, and are never logged."""

    bootstrap_servers: str = setting("localhost:9092", "brokers, host:port joined by commas", min_length=1)
    group_id: str = setting("spotsieve", "consumer group, also the stem of the transactional ids", min_length=1)
    client_id: str = setting("spotsieve", "client id shown in the broker's logs and quotas")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting("PLAINTEXT", "transport")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = setting("PLAIN", "SASL mechanism")
    sasl_username: str = setting("", "SASL user")
    sasl_password: SecretStr = setting(SecretStr(""), "SASL password; better SPOTSIEVE_KAFKA__SASL_PASSWORD")
    ssl_cafile: str = setting("", "CA certificates, PEM; empty: the system's")
    ssl_certfile: str = setting("", "client certificate, PEM")
    ssl_keyfile: str = setting("", "client key, PEM")
    session_timeout_ms: int = setting(30_000, "a worker silent for so long loses its partitions", unit="ms", ge=1_000)
    rebalance_timeout_ms: int = setting(
        60_000, "time for a worker to finish its batches when partitions move", unit="ms", ge=1_000
    )
    request_timeout_ms: int = setting(40_000, "longest wait for one request", unit="ms", ge=1_000)
    transaction_timeout_ms: int = setting(
        60_000, "the broker aborts a transaction older than this", unit="ms", ge=1_000
    )
    fetch_max_bytes: int = setting(16 * 2**20, "most bytes of one fetch", unit="bytes", ge=2**16)
    start: Literal["earliest", "latest"] = setting("earliest", "where a group without committed offsets begins")
    isolation_level: Literal["read_committed", "read_uncommitted"] = setting(
        "read_committed", "whether pages of open or aborted transactions are read"
    )


class TopicSettings(Section):
    """Names of the topics."""

    input: str = setting("pages", "crawled pages", min_length=1)
    novel: str = setting("pages.novel", "pages let through, unchanged, plus verdict headers", min_length=1)
    duplicates: str = setting("pages.duplicates", "a JSON report for each dropped page", min_length=1)
    rejected: str = setting(
        "pages.rejected", "dead letters: messages that are no page, unchanged, plus the reason", min_length=1
    )
    log: str = setting("signatures", "the log: one partition, the one order of pages", min_length=1)


class ServiceSettings(Section):
    """How the worker moves pages."""

    guarantee: Literal["exactly_once", "at_least_once"] = setting(
        "exactly_once", "exactly_once: outputs and offsets in one transaction; at_least_once: flush, then commit"
    )
    mode: Literal["filter", "annotate"] = setting(
        "filter", "filter: duplicates leave the stream; annotate: every page passes, with its verdict in headers"
    )
    batch_pages: int = setting(512, "most pages in a micro-batch", unit="pages", ge=1, le=65_536)
    batch_bytes: int = setting(16 * 2**20, "a micro-batch is cut after this many bytes", unit="bytes", ge=2**16)
    linger_ms: int = setting(50, "longest wait for a micro-batch to fill", unit="ms", ge=0, le=60_000)
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = setting(
        "none", "compression of produced messages; CPU for 20 KB of pages: snappy 65, zstd 85, lz4 390, gzip 880 us"
    )
    shutdown_timeout_ms: int = setting(8_000, "SIGTERM: time to finish what was fetched", unit="ms", ge=0, le=9_000)


class MetricsSettings(Section):
    """Where metrics, health and readiness are served."""

    enabled: bool = setting(True, "serve /metrics, /healthz and /readyz")
    host: str = setting("0.0.0.0", "address to bind")  # scraped from outside the container; 127.0.0.1 closes it
    port: int = setting(9464, "port; 0: any free one", ge=0, le=65_535)


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "least level shown")
    format: Literal["auto", "json", "text"] = setting("auto", "auto: text on a terminal, JSON elsewhere")
    summary_seconds: float = setting(60.0, "time between summary lines; 0: none", unit="s", ge=0)


class Settings(Section):
    """All settings."""

    input: InputSettings = Field(default=InputSettings())
    spots: SpotsSection = Field(default=SpotsSection())
    scheme: SchemeSettings = Field(default=SchemeSettings())
    index: IndexSettings = Field(default=IndexSettings())
    kafka: KafkaSettings = Field(default=KafkaSettings())
    topics: TopicSettings = Field(default=TopicSettings())
    service: ServiceSettings = Field(default=ServiceSettings())
    metrics: MetricsSettings = Field(default=MetricsSettings())
    log: LogSettings = Field(default=LogSettings())
