"""One rule for pages of some addresses: which pages, and what is other for them."""

from typing import Any, Literal

from pydantic import field_validator, model_validator

from spotsieve.stream.settings.section import Section, setting

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
