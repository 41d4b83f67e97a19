"""The parts that settings are made of: a frozen model for each section, and fields that describe themselves.

A field says what it does, its unit and whether it changes verdicts; `spotsieve config` prints all three.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


class Section(BaseModel):
    """Base of all sections. It is frozen, and unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    def caution(self) -> str | None:
        """A warning about these settings, such as a limit on the number of pages; None without a warning."""
        return None


def setting(
    default: Any,
    about: str,
    *,
    unit: str = "",
    verdicts: bool = False,
    signs: bool = True,
    stored_default: bool = True,
    **rules: Any,
) -> Any:
    """A field with its description.

    about: what the setting does, a phrase for documents
    unit: the unit of the value, for documents
    verdicts: whether the setting changes verdicts; then a state and a log belong to one value
    signs: for verdicts=True: whether signatures depend on it. If not, `spotsieve migrate` judges the signatures of a
    log again; otherwise it signs the pages again.
    stored_default: for verdicts=True: whether the settings text of a state holds the value even if it is the default.
    False for a setting that is newer than stored states, so that these stay usable.
    rules: constraints of pydantic's Field
    """
    more: JsonDict = {
        "unit": unit,
        "verdicts": verdicts,
        "signs": verdicts and signs,
        "stored_default": stored_default,
    }
    return Field(default, description=about, json_schema_extra=more, **rules)


def judging_setting(default: Any, about: str, **more: Any) -> Any:
    """A setting that changes verdicts on the same signatures.  more: of setting()"""
    return setting(default, about, verdicts=True, signs=False, **more)


_Scheme = TypeVar("_Scheme", bound=Section)


class Threshold(NamedTuple):
    """The setting of a scheme that makes it stricter or looser, with the values that `score --sweep` tries.

    setting: its name
    swept: each value, ascending, including the default -> the other settings that change with it. For most schemes
    there are none, but a distance of k bits needs a number of tables that fits k.
    """

    setting: str
    swept: Mapping[float, Mapping[str, object]]

    def at(self, scheme: _Scheme, value: float) -> _Scheme:
        """The settings of the scheme with a swept value. Raises pydantic's ValidationError for a wrong value."""
        return type(scheme).model_validate(scheme.model_dump() | {self.setting: value, **self.swept[value]})

    def beside(self, value: float) -> Mapping[str, object]:
        """The other settings that go with any value of the threshold.

        A swept value has them in its row. Between swept values they are interpolated linearly. Outside of the swept
        range those of the nearest swept value are used; above it they are raised to the value itself, at most 1.
        Settings that are no fractions, such as a number of tables, exist for swept values only.
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


def independent(*values: float) -> dict[float, Mapping[str, object]]:
    """Swept values that change no other setting."""
    return {value: {} for value in values}


# Reading models: for loading, the example file and the reference.


def leaf_settings(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The path and the pydantic field of every setting below a model; [scheme] yields those of every scheme in turn."""
    for name, field in model.model_fields.items():
        sections = sections_of(field.annotation)
        for section in sections:
            yield from leaf_settings(section, (*prefix, name))
        if not sections:
            yield (*prefix, name), field


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field can hold: one for a section, several for [scheme], none for a plain value."""
    if get_origin(annotation) is tuple:
        return []  # A list of tables, such as [[rules]]: its fields have no path of their own.
    return _models_in(get_args(annotation) or (annotation,))


def tables_of(annotation: Any) -> list[type[BaseModel]]:
    """The model of the tables in a list of tables, such as [[rules]]; none for any other field."""
    return _models_in(get_args(annotation)) if get_origin(annotation) is tuple else []


def _models_in(kinds: tuple[Any, ...]) -> list[type[BaseModel]]:
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
