"""Plans the scoring of one labelled set: chooses the settings, and builds the models of `score --build-models`.

Such a model is temporary and counts the terms of the same pages that are judged afterwards, including pages that the
scheme has not seen yet. In a stream the statistics would come from an older sample, so the figures here are somewhat
better than in a stream.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from spotsieve.stream.base.progress import OnPages, OnProgress
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SchemeSettings
from spotsieve.stream.files.outputs import write_whole
from spotsieve.stream.research.evaluation import ALL, THRESHOLD
from spotsieve.stream.research.evaluation.choices import (
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
from spotsieve.stream.research.evaluation.trial import pages_file
from spotsieve.stream.research.models.concepts import build_model
from spotsieve.stream.sign.schemes.registry import TERMS
from spotsieve.stream.sign.schemes.terms import digest_of


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """The options of `spotsieve score`.

    schemes: names of schemes; ALL for every scheme
    sweeps: texts of the form NAME=VALUES, or only THRESHOLD
    settings: the settings without a sweep
    load: returns the settings with the given values set
    models: the models of --idf-model
    built: the directory for models of the sets' own pages; None builds no models
    """

    schemes: Sequence[str]
    sweeps: Sequence[str]
    settings: Settings
    load: Callable[[Mapping[str, object]], Settings]
    models: Sequence[Model]
    built: Path | None


class ScorePlan(NamedTuple):
    """The settings to score on one set.

    left_out: the message for each scheme that is not scored because it has no model
    modelled: names of the schemes whose model was built from the set's own pages
    """

    choices: list[Choice]
    left_out: dict[str, str]
    modelled: list[str]


def plan(folder: Path, request: ScoreRequest, on_progress: OnProgress) -> ScorePlan:
    """The plan for the labelled set in a folder. Builds the models of its own pages, if requested.

    Raises SettingError, and InputError if a set has too few pages for a model.
    """
    schemes = [with_model(scheme, request.models) for scheme in named_schemes(request.schemes, request.settings)]
    models = list(request.models)
    modelled = [str(scheme.name) for scheme in schemes if request.built is not None and lacks_model(scheme)]
    if modelled and request.built is not None:
        models += build_models(folder, request.settings, schemes, request.built, on_progress)
    return ScorePlan(*choose(request, models), modelled)


def choose(request: ScoreRequest, models: Sequence[Model]) -> tuple[list[Choice], dict[str, str]]:
    """The settings to score, and the message for each scheme that is left out because it has no model.

    Raises SettingError.
    """
    schemes = [with_model(scheme, models) for scheme in named_schemes(request.schemes, request.settings)]
    left_out: dict[str, str] = {}
    if ALL in request.schemes:
        left_out = {scheme.name: how_to_get_a_model(scheme.name) for scheme in schemes if lacks_model(scheme)}
        schemes = [scheme for scheme in schemes if scheme.name not in left_out]
    if THRESHOLD in request.sweeps:
        chosen = [choice for scheme in schemes for choice in over_its_threshold(request.settings, scheme)]
    elif request.sweeps:
        named = {"scheme.name": request.schemes[0]} if request.schemes else {}
        chosen = over_given_values(request.sweeps, lambda values: request.load({**named, **values}), models)
    else:
        chosen = [single(request.settings, scheme) for scheme in schemes]
    return chosen, left_out


def build_models(
    folder: Path,
    settings: Settings,
    schemes: Sequence[SchemeSettings],
    directory: Path,
    on_progress: OnProgress,
) -> list[Model]:
    """A model for each scheme that lacks one. Schemes that count the same terms share a model.

    folder: the folder of the labelled set
    directory: the directory for the files of the models
    Raises InputError if the set has fewer than two pages with text.
    """
    built: dict[str, Model] = {}
    for scheme in schemes:
        if not lacks_model(scheme):
            continue
        terms = TERMS[scheme.name](scheme)
        if terms.about in built:
            continue
        content = build_model([pages_file(folder)], settings, terms, _on_pages(scheme.name, on_progress))
        digest = digest_of(content)
        path = directory / f"{digest}.idf"
        write_whole(path, content)
        built[terms.about] = Model(terms.about, str(path), digest)
    return list(built.values())


def _on_pages(scheme: str, on_progress: OnProgress) -> OnPages:
    return lambda pages, _, __: on_progress(f"counting the terms of {scheme}, pages", pages, 0)
