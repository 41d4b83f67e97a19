"""Owns what every section of the settings is made of: a frozen model, and fields that say what they are."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field


def setting(default: Any, about: str, *, unit: str = "", verdicts: bool = False, **rules: Any) -> Any:
    """A field that says what it is, its unit, and whether it changes verdicts (`config example` prints all)."""
    return Field(default, description=about, json_schema_extra={"unit": unit, "verdicts": verdicts}, **rules)


class Section(BaseModel):
    """What all sections share: frozen, unknown names are errors, values are never coerced into another meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


_Scheme = TypeVar("_Scheme", bound=Section)


class Threshold(NamedTuple):
    """The one setting of a scheme that makes it stricter or looser, and what `score --sweep` tries of it.

    setting: its name  swept: each value, ascending, the default among them -> the other settings that it takes with it:
    none mostly, but a distance of k bits needs a number of tables that there is for k
    signs: whether signing reads any of these settings; if not, pages that were signed once are judged under every value
    """

    setting: str
    swept: Mapping[float, Mapping[str, object]]
    signs: bool = True

    def at(self, scheme: _Scheme, value: float) -> _Scheme:
        """A scheme's settings with this value of those swept. Raises pydantic's ValidationError where it takes none."""
        return type(scheme).model_validate(scheme.model_dump() | {self.setting: value, **self.swept[value]})


def alone(*values: float) -> dict[float, Mapping[str, object]]:
    """Values that take no other setting with them."""
    return {value: {} for value in values}
