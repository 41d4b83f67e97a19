"""Builds the file of a model, as `spotsieve model build` writes it: the frozen statistics of the terms of a scheme."""

from collections.abc import Sequence

from spotsieve.stream.files.inputs import Input
from spotsieve.stream.models.concepts import count_concepts
from spotsieve.stream.models.counting import count_terms
from spotsieve.stream.progress import OnPages
from spotsieve.stream.schemes.by_terms.concept_model import encode_concepts
from spotsieve.stream.schemes.by_terms.idf import Terms, encode_model
from spotsieve.stream.schemes.by_terms.terms import ConceptTerms
from spotsieve.stream.settings.model import Settings


def build_model(inputs: Sequence[Input], settings: Settings, terms: Terms, on_pages: OnPages) -> bytes:
    """The bytes of a model of the pages of the files, for a scheme that counts these terms.

    Raises InputError for a file that cannot be read or too few pages, and SettingError where the package that
    decomposes the terms of `concept` is not installed.
    """
    if isinstance(terms, ConceptTerms):
        return encode_concepts(count_concepts(inputs, settings, terms, on_pages))
    return encode_model(count_terms(inputs, settings, terms, on_pages))
