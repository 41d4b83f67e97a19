"""Owns the throwaway models of `score --build-models`: term statistics of the very pages that are then judged.

A scheme with such a model knows how common every term of these pages is, also of pages it has not met yet. In a stream
it would have the statistics of an older sample, so its figures are somewhat better here than there.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from spotsieve.stream.evaluation.choices import Model, lacks_model
from spotsieve.stream.evaluation.trial import pages_of
from spotsieve.stream.files.writer import write_whole
from spotsieve.stream.models.counting import build_model
from spotsieve.stream.schemes.idf import digest_of
from spotsieve.stream.schemes.registry import TERMS
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.settings.schemes import SchemeSettings


def build_models(
    folder: Path,
    settings: Settings,
    schemes: Sequence[SchemeSettings],
    directory: Path,
    told: Callable[[str, int, int], None],
) -> list[Model]:
    """A model for each of the schemes that lacks one; schemes that count the same terms share theirs.

    folder: of the set  directory: the models are written there  told: now and then, the scheme, pages and bytes
    Raises InputError where the set has fewer than two pages of text.
    """
    built: dict[str, Model] = {}
    for scheme in schemes:
        if not lacks_model(scheme):
            continue
        terms = TERMS[scheme.name](scheme)
        if terms.about in built:
            continue
        content = build_model([pages_of(folder)], settings, terms, partial(told, scheme.name))
        digest = digest_of(content)
        path = directory / f"{digest}.idf"
        write_whole(path, content)
        built[terms.about] = Model(terms.about, str(path), digest)
    return list(built.values())
