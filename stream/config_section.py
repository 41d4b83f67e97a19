"""Owns what every section of the settings is made of: a frozen model, and fields that say what they are."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, about: str, *, unit: str = "", verdicts: bool = False, **rules: Any) -> Any:
    """A field that says what it is, its unit, and whether it changes verdicts (`config example` prints all)."""
    return Field(default, description=about, json_schema_extra={"unit": unit, "verdicts": verdicts}, **rules)


class Section(BaseModel):
    """What all sections share: frozen, unknown names are errors, values are never coerced into another meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
