"""Chooses what is scored: the named schemes, as they are, over their own thresholds or over given values."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.settings.digest import settings_digest, verdict_settings_text
from spotsieve.stream.base.settings.load import unknown_scheme
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS, SchemeSettings
from spotsieve.stream.research.evaluation import ALL, THRESHOLD
from spotsieve.stream.sign.schemes.registry import TERMS

MOST_SWEPT = 200
_SECTION = "scheme."


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: settings, and where they stand on a curve.

    name: of the row  curve: its name; the rows of one curve differ in one setting  setting: that setting, "" for a
    single point  value: of that setting, here  own: whether these are the scheme's settings as given, not swept
    """

    name: str
    settings: Settings
    curve: str
    setting: str = ""
    value: Any = None
    own: bool = True

    @property
    def digest(self) -> str:
        """The digest of all settings that change verdicts, 32 hex digits. A state is bound to it."""
        return settings_digest(verdict_settings_text(self.settings)).hex()


@dataclass(frozen=True, slots=True)
class Model:
    """A model of term statistics. about: what it counts  path, digest: for the settings"""

    about: str
    path: str
    digest: str


def read_models(paths: Sequence[str]) -> list[Model]:
    """The models that `--idf-model` names. Raises SettingError for a file that is no model."""
    from spotsieve.stream.sign.schemes.terms import read_model

    return [Model(model.about, path, digest) for path, (model, digest) in ((path, read_model(path)) for path in paths)]


def named_schemes(names: Sequence[str], settings: Settings) -> list[SchemeSettings]:
    """The settings of each named scheme, once each; without a name those of the scheme in the settings.

    The scheme that the settings name has these settings; the others have their defaults. Raises SettingError for an
    unknown name.
    """
    wanted = list(SCHEME_SETTINGS) if ALL in names else list(dict.fromkeys(names)) or [settings.scheme.name]
    for name in wanted:
        if name not in SCHEME_SETTINGS:
            raise unknown_scheme("--scheme", name)
    return [settings.scheme if name == settings.scheme.name else SCHEME_SETTINGS[name]() for name in wanted]


def lacks_model(scheme: SchemeSettings) -> bool:
    """Whether the scheme needs a model, and its settings name none."""
    return scheme.name in TERMS and not getattr(scheme, "idf_model", "")


def with_model(scheme: SchemeSettings, models: Sequence[Model]) -> SchemeSettings:
    """The scheme with the model that counts its terms, if it needs one and there is one."""
    if lacks_model(scheme):
        about = TERMS[scheme.name](scheme).about
        for model in models:
            if model.about == about:
                return scheme.model_copy(update={"idf_model": model.path, "idf_digest": model.digest})
    return scheme


def how_to_get_a_model(name: str) -> str:
    """The advice for a scheme that is left out for want of its model."""
    return (
        f"it needs a model of term statistics: --build-models counts the pages that are scored; or build one with "
        f"`spotsieve model build --scheme {name} FILES -o MODEL` and add --idf-model MODEL"
    )


def single(settings: Settings, scheme: SchemeSettings) -> Choice:
    """A scheme as it is."""
    return Choice(scheme.name, settings.model_copy(update={"scheme": scheme}), scheme.name)


def over_its_threshold(settings: Settings, scheme: SchemeSettings) -> list[Choice]:
    """A scheme under every value of its threshold: those that its settings name and its own one, ascending."""
    threshold = scheme.threshold
    has: float = getattr(scheme, threshold.setting)
    return [
        Choice(
            f"{scheme.name} {threshold.setting}={value:g}",
            settings.model_copy(update={"scheme": scheme if value == has else threshold.at(scheme, value)}),
            scheme.name,
            _SECTION + threshold.setting,
            value,
            own=value == has,
        )
        for value in sorted({*threshold.swept, has})
    ]


def over_given_values(
    sweeps: Sequence[str], load: Callable[[Mapping[str, object]], Settings], models: Sequence[Model]
) -> list[Choice]:
    """A scheme under every combination of the swept values; the values of the last sweep make a curve.

    sweeps: NAME=VALUES  load: gives the settings with these values put over them. Raises SettingError.
    """
    axes = [_axis(sweep) for sweep in sweeps]
    count = math.prod(len(values) for _, values in axes)
    if count > MOST_SWEPT:
        raise SettingError("--sweep", f"must give at most {MOST_SWEPT} choices in all", count, "take wider steps")
    chosen, before = list[Choice](), verdict_settings_text(load({}))
    for values in itertools.product(*(values for _, values in axes)):
        given = dict(zip((name for name, _ in axes), values, strict=True))
        settings = load(given)
        own = verdict_settings_text(settings) == before
        scheme, last = with_model(settings.scheme, models), axes[-1][0]
        shown = [f"{name.removeprefix(_SECTION)}={value}" for name, value in given.items()]
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


def signing_text(settings: Settings) -> str:
    """A text that is equal for settings under which pages have the same signatures, as far as the schemes tell."""
    threshold = settings.scheme.threshold
    if threshold.signs:
        return verdict_settings_text(settings)
    judging = {threshold.setting, *(name for beside in threshold.swept.values() for name in beside)}
    model = type(settings.scheme)()
    blank = settings.scheme.model_copy(update={name: getattr(model, name) for name in judging})
    return verdict_settings_text(settings.model_copy(update={"scheme": blank}))


def _axis(sweep: str) -> tuple[str, list[str]]:
    """NAME=1,2,5 or NAME=1..5 -> the setting's name, and its values."""
    name, _, values = sweep.partition("=")
    span = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", values)
    if span:
        first, last = int(span[1]), int(span[2])
        return name, [str(value) for value in range(first, min(last, first + MOST_SWEPT) + 1)]
    if not name or not all(values.split(",")):
        rule = f"must be NAME=VALUE,VALUE or NAME=FIRST..LAST, or {THRESHOLD}"
        raise SettingError("--sweep", rule, sweep, "such as scheme.k=0..10; name the sets before it")
    return name, values.split(",")


def _value_of(settings: Settings, name: str) -> Any:
    value: Any = settings
    for part in name.split("."):
        value = getattr(value, part)
    return value
