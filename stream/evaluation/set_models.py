"""Builds the throwaway models of `score --build-models`: term statistics of the very pages that are judged afterwards.

Such a model knows how common every term of these pages is, even on pages that the scheme has not met yet. In a stream
the statistics would come from an older sample, so the figures are somewhat better here than there.
"""

from collections.abc import Sequence
from pathlib import Path

from spotsieve.stream.evaluation.choices import Model, lacks_model
from spotsieve.stream.evaluation.trial import pages_of
from spotsieve.stream.files.writer import write_whole
from spotsieve.stream.models.building import build_model
from spotsieve.stream.progress import OnPages, OnProgress
from spotsieve.stream.schemes.by_terms.idf import digest_of
from spotsieve.stream.schemes.registry import TERMS
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import SchemeSettings


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
