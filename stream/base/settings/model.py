"""The settings, whole: one frozen model for each stage. Each field has its unit and says whether it changes verdicts.

Those of everything around the verdict are in stream/base/settings/runtime.py, those of schemes in
stream/base/settings/schemes/.

One rule for pages of some addresses: which pages, and what is other for them.

Settings of a service whose state several processes hold together.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.runtime import (
    KafkaSettings,
    LogSettings,
    MetricsSettings,
    ServeSettings,
    ServiceSettings,
    TopicSettings,
)
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SchemeSettings, SpotsieveSettings
from spotsieve.stream.base.settings.schemes.fields import DEFAULT_BUCKET_CAP
from spotsieve.stream.base.settings.section import Section, setting
from spotsieve.stream.base.urls import installed_list

MOST_ROUND_PAGES = 65_536
"""Records of rounds are read within this bound, too (stream/sharding/records/frame.py)."""


class ClusterSettings(Section):
    """Who judges where one process is not enough: shards that hold the state together, and a resolver.

    Nothing here changes a verdict. Each process is started with its role (`spotsieve run --role`).
    """

    shards: int = setting(0, "shards that hold the state together; 0: every worker holds all of it", ge=0, le=1_024)
    round_pages: int = setting(16_384, "most pages that are judged together", unit="pages", ge=1, le=MOST_ROUND_PAGES)
    resolver_session_ms: int = setting(
        6_000, "a resolver silent for so long is replaced by one that stands by", unit="ms", ge=1_000
    )


MATCHERS = ("host", "host_suffix", "url")
_EFFECTS = ("exempt", "threshold", "scope")
MAX_PATTERN_CHARACTERS = 2048
LOOK_AT_RULE = "compare it with the addresses of the pages: a host stands alone, and url matches the whole address"
"""What to do about a rule that takes no page."""


class Rule(Section):
    """Which pages: one of `host`, `host_suffix` and `url`. What is other for them: at least one of the rest."""

    host: str = setting("", "pages of this host, with or without www.", verdicts=True, examples=["shop.example"])
    host_suffix: str = setting("", "pages of this host and of all below it", verdicts=True)
    url: str = setting("", "pages whose whole address matches; * is any text, ? any character", verdicts=True)
    exempt: bool = setting(False, "they are passed on as unchecked and never an original", verdicts=True)
    threshold: float | None = setting(
        None,
        "how strict the scheme is for them, as --threshold has it (only with scheme spotsieve)",
        verdicts=True,
        examples=[0.7],
    )
    scope: Literal["", "global", "host", "domain"] = setting(
        "", "which pages they may meet: index.scope for them", verdicts=True
    )

    @property
    def matcher(self) -> tuple[str, str]:
        """Which of the three names the pages, and how."""
        return next((name, getattr(self, name)) for name in MATCHERS if getattr(self, name))

    @field_validator("host", "host_suffix")
    @classmethod
    def _is_host(cls, given: str) -> str:
        if any(character in given for character in "/:*?@ ") or given.startswith(".") or not given.isascii():
            raise ValueError("must be a host's name alone, such as shop.example, in ASCII (xn--...)")
        return given.lower().removeprefix("www.").rstrip(".")

    @field_validator("url")
    @classmethod
    def _is_pattern(cls, given: str) -> str:
        if given and ("://" not in given and "*" not in given):
            raise ValueError("must match whole addresses, such as https://shop.example/sale/*")
        if len(given) > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"must have at most {MAX_PATTERN_CHARACTERS} characters")
        return given

    @model_validator(mode="after")
    def _whole(self) -> "Rule":
        named = [name for name in MATCHERS if getattr(self, name)]
        if len(named) != 1:
            raise ValueError(
                f"must name pages by one of host, host_suffix and url, and has {' and '.join(named) or 'none'}"
            )
        effects = [name for name in _EFFECTS if _is_set(getattr(self, name))]
        if not effects:
            raise ValueError("must say what is other for these pages: exempt, threshold or scope")
        if self.exempt and len(effects) > 1:
            raise ValueError(f"must not have exempt and {effects[1]} together: exempt pages are compared with none")
        return self


def _is_set(value: Any) -> bool:
    return value not in (False, None, "")


class FieldPaths(Section):
    """Where a JSON message keeps what; a path is names joined by dots, and "" means the message has no such field.

    Names change no verdict on the same pages, so a state goes on when a crawler renames its fields.
    """

    url: str = setting("url", "path of the page's address, whose host the verdict depends on")
    body: str = setting("body", "path of the page's body", min_length=1)
    content_type: str = setting("content_type", "path of the Content-Type header's value")
    fetched_at: str = setting("fetched_at", "path of the fetch time: ISO 8601, or epoch seconds or milliseconds")
    body_encoding: str = setting("", "path of a field that says text or base64 for each message")
    charset: str = setting("", "path of the charset of a base64 body, where content_type names none")
    status: str = setting("status", "path of the HTTP status, a number; anything else there is none")
    id: str = setting("id", "path of the page's own name, shown in verdicts and reports; no page needs one")


class InputSettings(Section):
    """How a message becomes a page."""

    preset: Literal["", "scrapy-cluster", "norconex"] = setting(
        "", "ready-made [input.fields]; a path there that differs from its default wins over the preset"
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
        "key",
        "format html: where the address is, `key` or `header:NAME`",
        pattern=r"^(key|header:.+)$",
    )
    rank_from: str = setting(
        "",
        "policy.keep highest or lowest: the path of a number or a date in the message, or header:NAME; that of two "
        "copies says which is kept",
        verdicts=True,
        told=False,
    )
    content_type_header: str = setting("content-type", "format html: header that holds the Content-Type")
    status_header: str = setting("status", "format html: header that holds the HTTP status")
    accepted_statuses: tuple[Annotated[str, StringConstraints(pattern=r"^[1-5]([0-9]{2}|xx)$")], ...] = setting(
        ("2xx",),
        "pages with another HTTP status are passed on as unchecked and never an original; none: all are judged",
        verdicts=True,
    )
    accepted_types: tuple[Annotated[str, StringConstraints(pattern=r"^[^/ ]+/[^/ ]+$")], ...] = setting(
        (),
        'pages with another Content-Type likewise: "text/html", "text/*"; none: all are judged',
        verdicts=True,
    )
    max_page_bytes: int = setting(
        16 * 2**20,
        "a larger body is passed on as unchecked (its digest is still compared)",
        unit="bytes",
        verdicts=True,
        ge=1024,
        le=2**30,
    )


class IndexSettings(Section):
    """What is remembered, and where."""

    directory: Path = setting(Path("spotsieve-state"), "state directory, owned by one process")
    bucket_cap: int = setting(
        DEFAULT_BUCKET_CAP,
        "a bucket takes no more entries than this",
        unit="entries",
        verdicts=True,
        signs=False,
        ge=1,
        le=65_536,
    )
    candidate_limit: int = setting(
        0,
        "a page is compared with no more pages that share a key; the earliest count; 0: 256, spotsigs 4096",
        unit="entries",
        verdicts=True,
        signs=False,
        ge=0,
        le=65_536,
    )
    horizon_hours: float = setting(
        0.0,
        "how far back, in the pages' event time, an original counts; older ones are removed; 0: for ever",
        unit="hours",
        verdicts=True,
        signs=False,
        ge=0,
        le=876_000,
    )
    scope: Literal["global", "host", "domain"] = setting(
        "global",
        "global: one page is kept of all copies; host: one for each host, and no page meets one of another host; "
        "domain: the same for each registered domain",
        verdicts=True,
    )
    domain_list: str = setting(
        "",
        "scope domain: the public suffix list; empty: the installed one, to which a state is bound",
        verdicts=True,
    )
    cache_mb: int = setting(256, "RocksDB block cache", unit="MiB", ge=8)
    write_buffer_mb: int = setting(32, "RocksDB write buffer", unit="MiB", ge=1)

    @field_validator("directory", mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """Refuse an empty name, as an unset variable leaves it: it would be the current directory."""
        if isinstance(given, str) and not given.strip():
            raise ValueError("must name a directory, and is empty: is a variable unset?")
        return given


class PolicySettings(Section):
    """What becomes of copies."""

    keep: Literal["first", "longest", "newest", "highest", "lowest"] = setting(
        "first",
        "first: a copy is dropped; longest, newest, highest, lowest: one that is longer, was fetched later, or has a "
        "higher or lower input.rank_from than all that it is a copy of is let through, and says which page it replaces",
        verdicts=True,
        signs=False,
    )
    longer_by: float = setting(
        1.2,
        "keep = longest: how many times the features of a page a copy must exceed to replace it",
        verdicts=True,
        signs=False,
        ge=1,
        le=100,
    )
    variants: Literal["drop", "keep"] = setting(
        "drop",
        "pages of one host whose own texts differ in numbers alone, as sizes and prices of a product: drop: they "
        "are judged like any; keep: they are no copies (only with scheme spotsieve)",
        verdicts=True,
        signs=False,
    )
    recrawl: Literal["drop", "identical", "pass"] = setting(
        "drop",
        "a page whose address was fetched before: drop: it is judged like any; identical: of its own address it is a "
        "copy only where bytes or text are the same; pass: of its own address it is never a copy",
        verdicts=True,
        signs=False,
    )


class Settings(Section):
    """All settings."""

    rules: tuple[Rule, ...] = setting(
        (),
        "what is other (exempt, threshold, scope) for pages of a host, host_suffix or url (https://*/print/*); the "
        "first rule that matches counts",
        verdicts=True,
    )
    input: InputSettings = Field(default=InputSettings())
    scheme: Annotated[SchemeSettings, Field(discriminator="name")] = Field(default=SpotsieveSettings())
    index: IndexSettings = Field(default=IndexSettings())
    policy: PolicySettings = Field(default=PolicySettings())
    kafka: KafkaSettings = Field(default=KafkaSettings())
    topics: TopicSettings = Field(default=TopicSettings())
    cluster: ClusterSettings = Field(default=ClusterSettings())
    service: ServiceSettings = Field(default=ServiceSettings())
    metrics: MetricsSettings = Field(default=MetricsSettings())
    serve: ServeSettings = Field(default=ServeSettings())
    log: LogSettings = Field(default=LogSettings())

    @model_validator(mode="before")
    @classmethod
    def _default_scheme(cls, given: Any) -> Any:
        """Without a name, [scheme] holds the settings of the default scheme."""
        scheme = given.get("scheme") if isinstance(given, dict) else None
        return {**given, "scheme": {"name": DEFAULT_SCHEME, **scheme}} if isinstance(scheme, dict) else given

    @model_validator(mode="after")
    def _with_ranks(self) -> "Settings":
        """Check that pages have ranks where these say which copy is kept, and nowhere else."""
        keep, rank_from = self.policy.keep, self.input.rank_from
        ranked = keep in ("highest", "lowest")
        if ranked and not rank_from:
            then = "name a field of the message, such as quality.score, or header:NAME; for the fetch time set newest"
            raise SettingError("input.rank_from", f"must be given with policy.keep = {keep}", None, then)
        if rank_from and not ranked:
            then = "set policy.keep to one of these, or leave input.rank_from out"
            raise SettingError("input.rank_from", "is for policy.keep = highest or lowest", rank_from, then)
        header, colon, name = rank_from.partition(":")
        if colon and header == "header" and not name.strip():
            raise SettingError("input.rank_from", "must name a header", rank_from, "write header:NAME")
        if rank_from and self.input.format == "html" and not (colon and header == "header"):
            then = "name a header of the message: header:NAME"
            raise SettingError("input.rank_from", "must be header:NAME with input.format = html", rank_from, then)
        return self

    @model_validator(mode="after")
    def _with_domains(self) -> "Settings":
        """Note the public suffix list by which domains are told apart, so that states and logs are bound to it."""
        if self.index.scope != "domain" and all(rule.scope != "domain" for rule in self.rules):
            return self
        installed, wanted = installed_list(), self.index.domain_list
        if wanted not in ("", installed):
            raise SettingError(
                "index.domain_list",
                f"must be the installed public suffix list ({installed})",
                wanted,
                f"install publicsuffixlist=={wanted.partition(' ')[0]}, or begin a new state and log without it",
            )
        object.__setattr__(self, "index", self.index.model_copy(update={"domain_list": installed}))
        return self
