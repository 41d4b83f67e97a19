"""Owns the settings: one frozen model a stage, each field with its unit, and whether it changes verdicts."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr


def setting(default: Any, about: str, *, unit: str = "", verdicts: bool = False, **rules: Any) -> Any:
    """A field that says what it is, its unit, and whether it changes verdicts (`spotsieve config example` prints all)."""
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
    id: str = setting("", "path of the page's own name, shown in verdicts and reports")


class InputSettings(Section):
    """How a message becomes a page."""

    preset: Literal["", "scrapy-cluster", "norconex"] = setting("", "ready-made format and fields", verdicts=True)
    format: Literal["json", "html"] = setting(
        "json", "json: fields as in [input.fields]; html: the message is the page", verdicts=True
    )
    fields: FieldPaths = Field(default=FieldPaths())
    body_encoding: Literal["text", "base64", "auto"] = setting(
        "auto", "how JSON holds the body; auto: base64 where the whole body is valid base64 of at least 64 characters",
        verdicts=True,
    )
    url_from: str = setting("key", "format html: where the address is, `key` or `header:NAME`", pattern=r"^(key|header:.+)$")
    content_type_header: str = setting("content-type", "format html: header that holds the Content-Type", verdicts=True)
    max_page_bytes: int = setting(
        16 * 2**20, "a larger body is passed on as unchecked (its digest is still compared)", unit="bytes", verdicts=True,
        ge=1024, le=2**30,
    )


class SpotsSection(Section):
    """Text to spots (Theobald et al. 2008)."""

    distance: int = setting(2, "spot distance d: every d-th word after the antecedent", unit="words", verdicts=True, ge=1, le=16)
    chain_length: int = setting(3, "chain length c: words in a chain", unit="words", verdicts=True, ge=1, le=8)
    antecedents: tuple[str, ...] = setting((), "words that start a chain; empty: the built-in English list", verdicts=True)
    stop_words: tuple[str, ...] = setting((), "words a chain steps over; empty: the built-in English list", verdicts=True)


class SchemeSettings(Section):
    """Which published system judges, and its parameters."""

    name: Literal["chain"] = setting("chain", "scheme: spots, simhash 64, permuted tables (Manku et al. 2007)", verdicts=True)
    max_distance_bits: int = setting(3, "k: fingerprints this near are copies", unit="bits", verdicts=True, ge=0, le=7)
    tables: int = setting(10, "permuted tables; for k = 3: 4, 10, 16 or 20 (keys differ, so a state belongs to one design)", verdicts=True, ge=1, le=255)
    min_features: int = setting(
        8, "pages with fewer spots are unchecked: only their digest is compared", unit="spots", verdicts=True, ge=1, le=10_000
    )


class IndexSettings(Section):
    """What is remembered, and where."""

    directory: Path = setting(Path("spotsieve-state"), "state directory, owned by one process")
    bucket_cap: int = setting(256, "a bucket takes no more entries than this", unit="entries", verdicts=True, ge=1, le=65_536)
    cache_mb: int = setting(256, "RocksDB block cache", unit="MiB", ge=8)
    write_buffer_mb: int = setting(32, "RocksDB write buffer", unit="MiB", ge=1)
