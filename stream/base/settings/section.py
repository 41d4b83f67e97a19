"""What every section of the settings is made of: a frozen model, and fields that describe themselves."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


def setting(
    default: Any,
    about: str,
    *,
    unit: str = "",
    verdicts: bool = False,
    signs: bool = True,
    told: bool = True,
    **rules: Any,
) -> Any:
    """A field with its description, its unit, and whether it changes verdicts (`config example` prints all three).

    signs: of a setting that changes verdicts: whether signatures are made by it. Where it is only judged by, a log of
    another value is judged again as it is (`spotsieve migrate`), else its pages are signed again.
    told: of a setting that changes verdicts: whether states and logs are told its default. One that came later is not:
    states and logs from before it go on.
    """
    more: JsonDict = {"unit": unit, "verdicts": verdicts, "signs": verdicts and signs, "told": told}
    return Field(default, description=about, json_schema_extra=more, **rules)


class Section(BaseModel):
    """The base of all sections: it is frozen, unknown names are errors, and a value never takes another meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def caution(self) -> str | None:
        """What a person should know of these settings before they rely on them; None: nothing."""
        return None


_Scheme = TypeVar("_Scheme", bound=Section)


class Threshold(NamedTuple):
    """The one setting of a scheme that makes it stricter or looser, and what `score --sweep` tries of it.

    setting: its name
    swept: each value, ascending, including the default -> the other settings that change with it. Most values change
    nothing else, but a distance of k bits needs a number of tables that fits k.
    signs: whether signing reads any of these settings; if it does not, pages are signed once for all values
    """

    setting: str
    swept: Mapping[float, Mapping[str, object]]
    signs: bool = True

    def at(self, scheme: _Scheme, value: float) -> _Scheme:
        """The scheme's settings with one of the swept values. Raises pydantic's ValidationError for a wrong value."""
        return type(scheme).model_validate(scheme.model_dump() | {self.setting: value, **self.swept[value]})

    def beside(self, value: float) -> Mapping[str, object]:
        """The other settings that go with any value: those of a swept one as they stand, and in between in proportion.

        Beyond the swept values, those of the nearest one, but none below the value itself, and none above 1. A setting
        that is no fraction, such as a number of tables, goes with swept values alone.
        """
        if value in self.swept:
            return self.swept[value]
        low = max((swept for swept in self.swept if swept < value), default=min(self.swept))
        high = min((swept for swept in self.swept if swept > value), default=max(self.swept))
        part = (value - low) / (high - low) if low < value < high else float(value > high)
        least = value if value > high else 0.0
        return {
            name: min(max(least, round(below + part * (above - below), 4)), 1.0)
            for name, below in self.swept[low].items()
            if isinstance(below, float) and isinstance(above := self.swept[high][name], float)
        }


def alone(*values: float) -> dict[float, Mapping[str, object]]:
    """Swept values that change no other setting."""
    return {value: {} for value in values}
