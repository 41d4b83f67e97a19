"""Plans what is scored on one labelled set: the choices of settings, and the models that they need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spotsieve.stream.evaluation import ALL, THRESHOLD
from spotsieve.stream.evaluation.choices import (
    Choice,
    Model,
    how_to_get_a_model,
    lacks_model,
    named_schemes,
    over_given_values,
    over_its_threshold,
    single,
    with_model,
)
from spotsieve.stream.evaluation.set_models import build_models
from spotsieve.stream.progress import OnProgress
from spotsieve.stream.settings.model import Settings


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What `spotsieve score` was asked for.

    schemes: names, ALL for every one  sweeps: NAME=VALUES, or THRESHOLD alone
    settings: as they are without a sweep  load: gives the settings with these values put over them
    models: those that were given  built: where models of the sets' own pages are written, None for none
    """

    schemes: Sequence[str]
    sweeps: Sequence[str]
    settings: Settings
    load: Callable[[Mapping[str, object]], Settings]
    models: Sequence[Model]
    built: Path | None


class ScorePlan(NamedTuple):
    """What is scored. left_out: schemes without a model, and why  modelled: schemes with a model of the set's pages"""

    choices: list[Choice]
    left_out: dict[str, str]
    modelled: list[str]


def plan(folder: Path, wanted: ScoreRequest, on_progress: OnProgress) -> ScorePlan:
    """The choices for a set; the models of its own pages are built here.

    Raises SettingError, and InputError where a set has too few pages for a model.
    """
    schemes = [with_model(scheme, wanted.models) for scheme in named_schemes(wanted.schemes, wanted.settings)]
    models = list(wanted.models)
    modelled = [str(scheme.name) for scheme in schemes if wanted.built is not None and lacks_model(scheme)]
    if modelled and wanted.built is not None:
        models += build_models(folder, wanted.settings, schemes, wanted.built, on_progress)
        schemes = [with_model(scheme, models) for scheme in schemes]
    left_out: dict[str, str] = {}
    if ALL in wanted.schemes:
        left_out = {scheme.name: how_to_get_a_model(scheme.name) for scheme in schemes if lacks_model(scheme)}
        schemes = [scheme for scheme in schemes if scheme.name not in left_out]
    if THRESHOLD in wanted.sweeps:
        chosen = [choice for scheme in schemes for choice in over_its_threshold(wanted.settings, scheme)]
    elif wanted.sweeps:
        named = {"scheme.name": wanted.schemes[0]} if wanted.schemes else {}
        chosen = over_given_values(wanted.sweeps, lambda values: wanted.load({**named, **values}), models)
    else:
        chosen = [single(wanted.settings, scheme) for scheme in schemes]
    return ScorePlan(chosen, left_out, modelled)
