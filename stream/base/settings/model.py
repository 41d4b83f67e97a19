"""The settings: one frozen model with a section for each stage, from the message to the verdict.

The sections here hold nearly all settings that change verdicts. runtime.py has the sections around the verdict, and
schemes/ has one model for each scheme.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.digest import RANKED_BY_FIELD
from spotsieve.stream.base.settings.runtime import (
    ClusterSettings,
    KafkaSettings,
    LogSettings,
    MetricsSettings,
    ServeSettings,
    ServiceSettings,
    TopicSettings,
)
from spotsieve.stream.base.settings.schemes import DEFAULT_SCHEME, SchemeSettings, SpotsieveSettings
from spotsieve.stream.base.settings.schemes.fields import DEFAULT_BUCKET_CAP
from spotsieve.stream.base.settings.section import Section, judging_setting, setting
from spotsieve.stream.base.urls import installed_list


class FieldPaths(Section):
    """Paths of the fields of a JSON message: names joined by dots; "" means that the message has no such field.

    Paths change no verdict on the same pages: a state stays usable when a crawler renames its fields.
    """

    url: str = setting("url", "path of the page's URL; the verdict depends on its host")
    body: str = setting("body", "path of the page's body", min_length=1)
    content_type: str = setting("content_type", "path of the Content-Type header's value")
    fetched_at: str = setting("fetched_at", "path of the fetch time: ISO 8601, or epoch seconds or milliseconds")
    body_encoding: str = setting("", "path of a field that is text or base64 in each message")
    charset: str = setting("", "path of the charset of a base64 body, where content_type names none")
    status: str = setting("status", "path of the HTTP status, a number; any other value counts as no status")
    id: str = setting("id", "path of the page's own id, shown in verdicts and reports; optional")


class InputSettings(Section):
    """How a message becomes a page."""

    preset: Literal[
        "",
        "scrapy-cluster",
        "norconex",
        "datatrove",
        "huggingface",
        "commoncrawl-wet",
        "stormcrawler",
        "nutch",
        "browsertrix",
    ] = setting(
        "", "predefined [input.fields]; paths in [input.fields] that differ from their defaults win over the preset"
    )
    format: Literal["json", "html"] = setting(
        "json", "json: the message has the fields of [input.fields]; html: the message is the page", verdicts=True
    )
    fields: FieldPaths = Field(default=FieldPaths())
    body_encoding: Literal["text", "base64", "auto"] = setting(
        "auto",
        "encoding of the body in JSON; auto: base64 if the whole body is valid base64 of at least 64 characters",
        verdicts=True,
    )
    url_from: str = setting(
        "key",
        "format html: source of the URL, `key` or `header:NAME`",
        pattern=r"^(key|header:.+)$",
    )
    rank_from: str = setting(
        "",
        "rank of a page, for policy.keep = highest or lowest: the path of a number or a date in the message, or "
        "header:NAME",
        verdicts=True,
        stored_default=False,
    )
    content_type_header: str = setting("content-type", "format html: header that holds the Content-Type")
    status_header: str = setting("status", "format html: header that holds the HTTP status")
    accepted_statuses: tuple[Annotated[str, StringConstraints(pattern=r"^[1-5]([0-9]{2}|xx)$")], ...] = setting(
        ("2xx",),
        "pages with another HTTP status are emitted unchecked and never become originals; empty: all are judged",
        verdicts=True,
    )
    accepted_types: tuple[Annotated[str, StringConstraints(pattern=r"^[^/ ]+/[^/ ]+$")], ...] = setting(
        (),
        'pages with another Content-Type are emitted unchecked, too: "text/html", "text/*"; empty: all are judged',
        verdicts=True,
    )
    script_text: bool = setting(
        True,
        "a page with little visible text is judged by the prose in its JSON-LD, __NEXT_DATA__, __NUXT__ or other "
        "inline data; a page with scripts and without any text of its own is emitted unchecked",
        verdicts=True,
    )
    companion_uris: tuple[Annotated[str, StringConstraints(pattern=r"^[^ ]+$")], ...] = setting(
        (
            "urn:*:http*",
            "urn:pageinfo:*",
            "urn:text:*",
            "urn:fulltext:*",
            "urn:view:*",
            "urn:fullpage:*",
            "urn:thumbnail:*",
            "urn:embeds:*",
            "urn:x-crocoite:*",
            "urn:x-wpull:*",
            "metadata:*",
            "screenshot:*",
            "thumbnail:*",
            "youtube-dl:*",
        ),
        "URIs of resource, conversion and metadata records that a crawler writes about a page, such as its text or a "
        "screenshot: they go with the page and are never pages; * matches any text; empty: there are none",
    )
    max_page_bytes: int = setting(
        16 * 2**20,
        "pages with a larger body are emitted unchecked (their digest is still compared)",
        unit="bytes",
        verdicts=True,
        ge=1024,
        le=2**30,
    )


AUTHOR_PATHS = ("/~",)
"""Home pages on a host of several people have had such paths since NCSA's httpd (UserDir)."""


class IndexSettings(Section):
    """The state: its directory, its bounds, and the pages that a page is compared with."""

    directory: Path = setting(Path("spotsieve-state"), "state directory; one process owns it")
    bucket_cap: int = judging_setting(DEFAULT_BUCKET_CAP, "most entries in a bucket", unit="entries", ge=1, le=65_536)
    candidate_limit: int = judging_setting(
        0,
        "most candidates that a page is compared with; the earliest win; 0: 256, spotsigs 4096",
        unit="entries",
        ge=0,
        le=65_536,
    )
    horizon_hours: float = judging_setting(
        0.0,
        "deduplication window, in event time: older originals are removed; 0: unlimited",
        unit="hours",
        ge=0,
        le=876_000,
    )
    scope: Literal["global", "host", "domain"] = setting(
        "global",
        "global: all pages are compared, and one of all copies is kept; host: pages of the same host are compared, and "
        "one copy for each host is kept; domain: the same for each registered domain",
        verdicts=True,
    )
    domain_list: str = setting(
        "",
        "scope domain: release of the public suffix list; empty: the installed release; a state belongs to one release",
        verdicts=True,
    )
    author_paths: tuple[Annotated[str, StringConstraints(pattern=r"^/[^?#*]{1,99}$")], ...] = setting(
        AUTHOR_PATHS,
        "beginnings of paths that the name of an author follows: pages below /~smith are a host of their own, with its "
        "own memory and scope; add /users/ or /@ where others write on a host",
        verdicts=True,
        max_length=100,
        examples=[["/~", "/users/"]],
    )
    salt_from: Path | None = setting(
        None,
        "state or snapshot whose salt a new state adopts, so that the block identities of both compare; verdicts do "
        "not depend on the salt; refused for a state or log that has another salt",
    )
    cache_mb: int = setting(256, "RocksDB block cache", unit="MiB", ge=8)
    write_buffer_mb: int = setting(32, "RocksDB write buffer", unit="MiB", ge=1)

    @field_validator("salt_from", mode="before")
    @classmethod
    def _read_salt_from(cls, directory: Any) -> Any:
        """Read an empty name, as in the example configuration, as no state."""
        return None if directory == "" else directory

    @field_validator("directory", mode="before")
    @classmethod
    def _check_directory(cls, directory: Any) -> Any:
        """Reject an empty name, as an unset variable leaves it: it would be the current directory."""
        if isinstance(directory, str) and not directory.strip():
            raise ValueError("must name a directory, and is empty: is a variable unset?")
        return directory


class PolicySettings(Section):
    """The treatment of copies."""

    keep: Literal["first", "longest", "newest", "highest", "lowest", "canonical"] = judging_setting(
        "first",
        "first: copies are dropped; longest, newest, highest, lowest, canonical: a copy that is longer, was fetched "
        "later, has a higher or lower input.rank_from, or a better URL than all its originals is novel, and its "
        "verdict names the page it replaces",
    )
    longer_by: float = judging_setting(
        1.2,
        "keep = longest: a copy replaces its original if it has more than this many times its features",
        ge=1,
        le=100,
    )
    variants: Literal["drop", "keep"] = judging_setting(
        "drop",
        "pages of one host whose distinctive texts differ in numbers only, such as the sizes and prices of a product: "
        "drop: they are judged like other pages; keep: they are no copies (only with scheme spotsieve)",
    )
    parts: Literal["keep", "drop"] = judging_setting(
        "keep",
        "a page that is a small part of a longer one, such as a post and the front page that shows it: keep: it is "
        "novel if the longer page has more than twice its length; drop: it is a copy (only with scheme spotsieve)",
    )
    recrawl: Literal["drop", "identical", "pass"] = judging_setting(
        "drop",
        "a page whose URL was fetched before: drop: it is judged like other pages; identical: it is a copy of a page "
        "with its URL only if bytes or text are equal; pass: it is never a copy of a page with its URL",
    )


MATCHERS = ("host", "host_suffix", "url")
_EFFECTS = ("exempt", "threshold", "scope")
MAX_PATTERN_CHARACTERS = 2048
LOOK_AT_RULE = "compare it with the URLs of the pages: host is a host name alone, and url matches the whole URL"
"""Advice for a rule that matched no page."""


class Rule(Section):
    """Pages by one of `host`, `host_suffix` and `url`, and at least one setting that is different for these pages."""

    host: str = setting("", "pages of this host, with or without www.", verdicts=True, examples=["shop.example"])
    host_suffix: str = setting("", "pages of this host and its subdomains", verdicts=True)
    url: str = setting("", "pages whose whole URL matches; * matches any text, ? any character", verdicts=True)
    exempt: bool = setting(False, "these pages are emitted unchecked and never become originals", verdicts=True)
    threshold: float | None = setting(
        None,
        "the threshold for these pages, as --threshold sets it (only with scheme spotsieve)",
        verdicts=True,
        examples=[0.7],
    )
    scope: Literal["", "global", "host", "domain"] = setting(
        "", "index.scope for these pages: the pages that they are compared with", verdicts=True
    )

    @property
    def matcher(self) -> tuple[str, str]:
        """The name and the value of the one field that selects the pages."""
        return next((name, getattr(self, name)) for name in MATCHERS if getattr(self, name))

    @field_validator("host", "host_suffix")
    @classmethod
    def _check_host(cls, host: str) -> str:
        if any(character in host for character in "/:*?@ ") or host.startswith(".") or not host.isascii():
            raise ValueError("must be a host name alone, such as shop.example, in ASCII (xn--...)")
        return host.lower().removeprefix("www.").rstrip(".")

    @field_validator("url")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        if pattern and ("://" not in pattern and "*" not in pattern):
            raise ValueError("must match whole URLs, such as https://shop.example/sale/*")
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"must have at most {MAX_PATTERN_CHARACTERS} characters")
        return pattern

    @model_validator(mode="after")
    def _check_matcher_and_effects(self) -> "Rule":
        matchers = [name for name in MATCHERS if getattr(self, name)]
        if len(matchers) != 1:
            raise ValueError(
                f"must select pages by one of host, host_suffix and url, and has {' and '.join(matchers) or 'none'}"
            )
        effects = [name for name in _EFFECTS if _is_set(getattr(self, name))]
        if not effects:
            raise ValueError("must set exempt, threshold or scope for these pages")
        if self.exempt and len(effects) > 1:
            raise ValueError(f"must not have exempt and {effects[1]} together: exempt pages are not compared")
        return self


def _is_set(value: Any) -> bool:
    return value not in (False, None, "")


class Settings(Section):
    """All settings."""

    rules: tuple[Rule, ...] = setting(
        (),
        "settings (exempt, threshold, scope) for pages of a host, host_suffix or url (https://*/print/*); the first "
        "matching rule applies",
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
    def _default_scheme(cls, values: Any) -> Any:
        """Name the default scheme in a [scheme] without a name."""
        scheme = values.get("scheme") if isinstance(values, dict) else None
        return {**values, "scheme": {"name": DEFAULT_SCHEME, **scheme}} if isinstance(scheme, dict) else values

    @model_validator(mode="after")
    def _check_ranks(self) -> "Settings":
        """Check that input.rank_from is set with policy.keep = highest or lowest, and only then."""
        keep, rank_from = self.policy.keep, self.input.rank_from
        ranked = keep in RANKED_BY_FIELD
        if ranked and not rank_from:
            then = "name a field of the message, such as quality.score, or header:NAME; for the fetch time use newest"
            raise SettingError("input.rank_from", f"must be set with policy.keep = {keep}", None, then)
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
        """Store the release of the public suffix list in the settings, so that a state and its log belong to it."""
        if self.index.scope != "domain" and all(rule.scope != "domain" for rule in self.rules):
            return self
        installed, wanted = installed_list(), self.index.domain_list
        if wanted not in ("", installed):
            raise SettingError(
                "index.domain_list",
                f"must be the installed public suffix list ({installed})",
                wanted,
                f"install publicsuffixlist=={wanted.partition(' ')[0]}, or start a new state and log without it",
            )
        object.__setattr__(self, "index", self.index.model_copy(update={"domain_list": installed}))
        return self
