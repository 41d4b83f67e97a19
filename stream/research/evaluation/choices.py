"""Chooses the settings to score: the named schemes as configured, over their thresholds, or over values of a sweep."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.digest import digest_of_settings, verdict_settings_text
from spotsieve.stream.base.settings.load import unknown_scheme
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS, SchemeSettings
from spotsieve.stream.research.evaluation import ALL, THRESHOLD
from spotsieve.stream.sign.schemes.registry import TERMS

MOST_SWEPT = 200
_SECTION = "scheme."


@dataclass(frozen=True, slots=True)
class Choice:
    """One row of a comparison: settings, and their point on a curve.

    name: the name of the row
    curve: the name of the curve; its rows differ in one setting
    setting: the name of that setting; "" for a single point
    value: the value of that setting
    own: whether these are the configured settings of the scheme, and not values of a sweep
    """

    name: str
    settings: Settings
    curve: str
    setting: str = ""
    value: Any = None
    own: bool = True

    @property
    def digest(self) -> str:
        """The digest of all settings that change verdicts, as 32 hex digits. A state is bound to it."""
        return digest_of_settings(self.settings).hex()


@dataclass(frozen=True, slots=True)
class Model:
    """A model of term statistics.

    about: the terms that it counts
    path, digest: the values of the settings idf_model and idf_digest
    """

    about: str
    path: str
    digest: str


def read_models(paths: Sequence[str]) -> list[Model]:
    """The models of `--idf-model`. Raises SettingError for a file that is not a model."""
    from spotsieve.stream.sign.schemes.terms import read_model

    return [Model(model.about, path, digest) for path, (model, digest) in ((path, read_model(path)) for path in paths)]


def named_schemes(names: Sequence[str], settings: Settings) -> list[SchemeSettings]:
    """The settings of each named scheme, without repetitions; without names, the scheme of the settings.

    The scheme of the settings keeps its settings; other schemes get their defaults. Raises SettingError for an unknown
    name.
    """
    wanted = list(SCHEME_SETTINGS) if ALL in names else list(dict.fromkeys(names)) or [settings.scheme.name]
    for name in wanted:
        if name not in SCHEME_SETTINGS:
            raise unknown_scheme("--scheme", name)
    return [settings.scheme if name == settings.scheme.name else SCHEME_SETTINGS[name]() for name in wanted]


def lacks_model(scheme: SchemeSettings) -> bool:
    """Whether the scheme needs a model and its settings name none."""
    return scheme.name in TERMS and not getattr(scheme, "idf_model", "")


def with_model(scheme: SchemeSettings, models: Sequence[Model]) -> SchemeSettings:
    """The scheme with the model that counts its terms, if it lacks a model and one of these fits."""
    if lacks_model(scheme):
        about = TERMS[scheme.name](scheme).about
        for model in models:
            if model.about == about:
                return scheme.model_copy(update={"idf_model": model.path, "idf_digest": model.digest})
    return scheme


def how_to_get_a_model(name: str) -> str:
    """The message for a scheme that is not scored because it has no model."""
    return (
        f"it needs a model of term statistics: add --build-models to count the scored pages, or build a model with "
        f"`spotsieve model build --scheme {name} FILES -o MODEL` and add --idf-model MODEL"
    )


def single(settings: Settings, scheme: SchemeSettings) -> Choice:
    """The choice of a scheme as configured, without a sweep."""
    return Choice(scheme.name, settings.model_copy(update={"scheme": scheme}), scheme.name)


def over_its_threshold(settings: Settings, scheme: SchemeSettings) -> list[Choice]:
    """A scheme at every value of its threshold: the values of its sweep and its configured one, ascending."""
    threshold = scheme.threshold
    configured: float = getattr(scheme, threshold.setting)
    return [
        Choice(
            f"{scheme.name} {threshold.setting}={value:g}",
            settings.model_copy(update={"scheme": scheme if value == configured else threshold.at(scheme, value)}),
            scheme.name,
            _SECTION + threshold.setting,
            value,
            own=value == configured,
        )
        for value in sorted({*threshold.swept, configured})
    ]


def over_given_values(
    sweeps: Sequence[str], load: Callable[[Mapping[str, object]], Settings], models: Sequence[Model]
) -> list[Choice]:
    """A scheme at every combination of the values of the sweeps. The values of the last sweep form a curve.

    sweeps: texts of the form NAME=VALUES
    load: returns the settings with the given values set
    Raises SettingError.
    """
    axes = [_axis(sweep) for sweep in sweeps]
    count = math.prod(len(values) for _, values in axes)
    if count > MOST_SWEPT:
        rule = f"must have at most {MOST_SWEPT} combinations of values"
        raise SettingError("--sweep", rule, count, "use fewer values")
    chosen, before = list[Choice](), verdict_settings_text(load({}))
    for values in itertools.product(*(values for _, values in axes)):
        assignment = dict(zip((name for name, _ in axes), values, strict=True))
        settings = load(assignment)
        own = verdict_settings_text(settings) == before
        scheme, last = with_model(settings.scheme, models), axes[-1][0]
        shown = [f"{name.removeprefix(_SECTION)}={value}" for name, value in assignment.items()]
        chosen.append(
            Choice(
                " ".join([scheme.name, *shown]),
                settings.model_copy(update={"scheme": scheme}),
                " ".join([scheme.name, *shown[:-1]]),
                last,
                _value_of(settings, last),
                own,
            )
        )
    return chosen


def _axis(sweep: str) -> tuple[str, list[str]]:
    """The setting's name and its values, from NAME=1,2,5 or NAME=1..5. Raises SettingError."""
    name, _, values = sweep.partition("=")
    span = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", values)
    if span:
        first, last = int(span[1]), int(span[2])
        return name, [str(value) for value in range(first, min(last, first + MOST_SWEPT) + 1)]
    if not name or not all(values.split(",")):
        rule = f"must be NAME=VALUE,VALUE or NAME=FIRST..LAST, or {THRESHOLD}"
        raise SettingError("--sweep", rule, sweep, "such as scheme.k=0..10; put the sets before --sweep")
    return name, values.split(",")


def _value_of(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value
