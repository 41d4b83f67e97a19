"""The types of the keyword settings of Deduplicator. Written by bench/deploy/keywords.py."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

SchemeName = Literal[
    "spotsieve",
    "chain",
    "manku",
    "subhash",
    "minhash",
    "onebit",
    "adaptive-shingles",
    "imatch",
    "imatch-s",
    "spotsigs",
    "spotsigs-lsh",
    "concept",
]
"""The names of the schemes."""


class SettingKeywords(TypedDict, total=False):
    """Every setting, with two underscores below each section; a section takes a mapping."""

    cluster: Mapping[str, object]
    cluster__resolver_session_ms: int
    cluster__round_pages: int
    cluster__shards: int
    cluster__snapshots: str
    index: Mapping[str, object]
    index__author_paths: Sequence[str]
    index__bucket_cap: int
    index__cache_mb: int
    index__candidate_limit: int
    index__directory: str | os.PathLike[str]
    index__domain_list: str
    index__horizon_hours: float
    index__salt_from: str | os.PathLike[str] | None
    index__scope: Literal["global", "host", "domain"]
    index__write_buffer_mb: int
    input: Mapping[str, object]
    input__accepted_statuses: Sequence[str]
    input__accepted_types: Sequence[str]
    input__body_encoding: Literal["text", "base64", "auto"]
    input__companion_uris: Sequence[str]
    input__content_type_header: str
    input__fields: Mapping[str, object]
    input__fields__body: str
    input__fields__body_encoding: str
    input__fields__charset: str
    input__fields__content_type: str
    input__fields__fetched_at: str
    input__fields__id: str
    input__fields__status: str
    input__fields__url: str
    input__format: Literal["json", "html"]
    input__max_page_bytes: int
    input__preset: Literal[
        "",
        "scrapy-cluster",
        "norconex",
        "datatrove",
        "huggingface",
        "commoncrawl-wet",
        "stormcrawler",
        "nutch",
        "browsertrix",
    ]
    input__rank_from: str
    input__script_text: bool
    input__status_header: str
    input__url_from: str
    kafka: Mapping[str, object]
    kafka__bootstrap_servers: str
    kafka__client_id: str
    kafka__fetch_max_bytes: int
    kafka__group_id: str
    kafka__isolation_level: Literal["read_committed", "read_uncommitted"]
    kafka__max_poll_interval_ms: int
    kafka__prefetch_bytes: int
    kafka__rebalance_timeout_ms: int
    kafka__request_timeout_ms: int
    kafka__restart_from: Literal["refuse", "earliest", "latest"]
    kafka__sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    kafka__sasl_password: str
    kafka__sasl_password_file: str
    kafka__sasl_username: str
    kafka__security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    kafka__session_timeout_ms: int
    kafka__ssl_cafile: str
    kafka__ssl_certfile: str
    kafka__ssl_key_password: str
    kafka__ssl_key_password_file: str
    kafka__ssl_keyfile: str
    kafka__start: Literal["earliest", "latest"]
    kafka__transaction_timeout_ms: int
    log: Mapping[str, object]
    log__format: Literal["auto", "json", "text"]
    log__level: Literal["debug", "info", "warning", "error"]
    log__summary_seconds: float
    metrics: Mapping[str, object]
    metrics__enabled: bool
    metrics__host: str
    metrics__port: int
    policy: Mapping[str, object]
    policy__keep: Literal["first", "longest", "newest", "highest", "lowest", "canonical"]
    policy__longer_by: float
    policy__parts: Literal["keep", "drop"]
    policy__recrawl: Literal["drop", "identical", "pass"]
    policy__variants: Literal["drop", "keep"]
    rules: Sequence[Mapping[str, object]]
    scheme__antecedents: Sequence[str]
    scheme__c: int
    scheme__chain_length: int
    scheme__dimensions: int
    scheme__distance: int
    scheme__h: int
    scheme__idf_digest: str
    scheme__idf_max: float
    scheme__idf_min: float
    scheme__idf_model: str
    scheme__k: int
    scheme__l: int
    scheme__leading_bits: int
    scheme__max_distance_bits: int
    scheme__max_fresh_words: int
    scheme__min_containment: float
    scheme__min_features: int
    scheme__min_shingles: int
    scheme__min_spots: int
    scheme__min_terms: int
    scheme__min_tokens: int
    scheme__minima: int
    scheme__minima_cap: int
    scheme__most_shingles: int
    scheme__phrase_words: int
    scheme__r: float
    scheme__ratios: Sequence[int]
    scheme__resemblance: float
    scheme__shingle_size: int
    scheme__shingle_words: int
    scheme__sizes: Sequence[int]
    scheme__stop_words: Sequence[str]
    scheme__tables: int
    scheme__tau: float
    scheme__template_share: float
    scheme__th1: int
    scheme__th2: int
    scheme__th3: int
    scheme__th4: float
    scheme__w: int
    serve: Mapping[str, object]
    serve__allowed_hosts: Sequence[str]
    serve__body_seconds: float
    serve__client_requests: int
    serve__client_share: float
    serve__connections: int
    serve__head_bytes: int
    serve__head_seconds: float
    serve__host: str
    serve__linger_ms: float
    serve__max_body_bytes: int
    serve__max_headers: int
    serve__max_pages: int
    serve__port: int
    serve__refresh_seconds: float
    serve__stop_seconds: int
    serve__tls_certfile: str
    serve__tls_keyfile: str
    serve__token: str
    serve__token_file: str
    serve__waiting_bytes: int
    serve__waiting_pages: int
    service: Mapping[str, object]
    service__batch_bytes: int
    service__batch_pages: int
    service__compression: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    service__guarantee: Literal["exactly_once", "at_least_once"]
    service__linger_ms: int
    service__mode: Literal["filter", "annotate"]
    service__shutdown_timeout_ms: int
    topics: Mapping[str, object]
    topics__duplicates: str
    topics__input: str
    topics__log: str
    topics__matches: str
    topics__novel: str
    topics__rejected: str
    topics__verdicts: str
