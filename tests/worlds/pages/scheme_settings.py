"""The settings of each scheme for tests: its defaults, with a model of the small crawl if it needs one."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS, SchemeSettings
from spotsieve.stream.research.models.concepts import ConceptCounter
from spotsieve.stream.research.models.term_counter import TermCounter
from spotsieve.stream.sign.schemes.registry import TERMS
from spotsieve.stream.sign.schemes.terms import ConceptTerms, IdfModel, Terms, digest_of, encode_concepts, encode_model
from tests.worlds.pages.small_crawl import crawl_of_two_hosts

_FOLDER = TemporaryDirectory(prefix="spotsieve-models-")


@cache
def settings_named(name: str) -> SchemeSettings:
    """The crawl is counted twice, so that a story that occurs three times is in the range of the defaults."""
    settings = SCHEME_SETTINGS[name]()
    if name not in TERMS:
        return settings
    pages = [one for one in crawl_of_two_hosts() if one.body]
    content = model_bytes(TERMS[name](settings), [pages, pages])
    path = Path(_FOLDER.name) / f"{name}.idf"
    path.write_bytes(content)
    return settings.model_copy(update={"idf_model": str(path), "idf_digest": digest_of(content)})


def model_bytes(terms: Terms, batches: Sequence[Sequence[Page]]) -> bytes:
    """The file that `spotsieve model build` writes for these pages."""
    if isinstance(terms, ConceptTerms):
        concepts = ConceptCounter(terms)
        for batch in batches:
            concepts.add(batch)
        return encode_concepts(concepts.model())
    counter = TermCounter()
    for batch in batches:
        counter.add(*terms.of(batch))
    return encode_model(IdfModel(terms.about, counter.pages, *counter.counted()))
