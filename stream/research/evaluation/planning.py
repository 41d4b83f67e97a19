"""Plans what is scored on one labelled set: the choices of settings, and the models that they need.

Builds the throwaway models of `score --build-models`: term statistics of the very pages that are judged afterwards.

Such a model knows how common every term of these pages is, even on pages that the scheme has not met yet. In a stream
the statistics would come from an older sample, so the figures are somewhat better here than there.
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
from spotsieve.stream.research.evaluation.trial import pages_of
from spotsieve.stream.research.models.concepts import build_model
from spotsieve.stream.sign.schemes.registry import TERMS
from spotsieve.stream.sign.schemes.terms import digest_of


def build_models(
    folder: Path,
    settings: Settings,
    schemes: Sequence[SchemeSettings],
    directory: Path,
    on_progress: OnProgress,
) -> list[Model]:
    """A model for each scheme that lacks one; schemes that count the same terms share a model.

    folder: the set's  directory: where the models are written
    Raises InputError where the set has fewer than two pages of text.
    """
    built: dict[str, Model] = {}
    for scheme in schemes:
        if not lacks_model(scheme):
            continue
        terms = TERMS[scheme.name](scheme)
        if terms.about in built:
            continue
        content = build_model([pages_of(folder)], settings, terms, _on_pages(scheme.name, on_progress))
        digest = digest_of(content)
        path = directory / f"{digest}.idf"
        write_whole(path, content)
        built[terms.about] = Model(terms.about, str(path), digest)
    return list(built.values())


def _on_pages(scheme: str, on_progress: OnProgress) -> OnPages:
    return lambda pages, _, __: on_progress(f"counting the terms of {scheme}, pages", pages, 0)


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
