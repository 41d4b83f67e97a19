"""The settings of each scheme for tests: its defaults, and a model of the small crawl where it needs one."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from stream.config_schemes import SCHEME_SETTINGS, SchemeSettings
from stream.files.modelling import TermCounter
from stream.schemes.idf import IdfModel, digest_of, encode_model
from stream.schemes.registry import TERMS
from tests.reference.crawl import crawl_of_two_hosts

_FOLDER = TemporaryDirectory(prefix="spotsieve-models-")


@cache
def settings_named(name: str) -> SchemeSettings:
    """The crawl is counted twice: a story that it has three times is then in the range of the defaults."""
    settings = SCHEME_SETTINGS[name]()
    if name not in TERMS:
        return settings
    terms, counter, pages = TERMS[name](settings), TermCounter(), [one for one in crawl_of_two_hosts() if one.body]
    for _ in range(2):
        counter.add(*terms.of(pages))
    path, content = (
        Path(_FOLDER.name) / f"{name}.idf",
        encode_model(IdfModel(terms.about, counter.pages, *counter.counted())),
    )
    path.write_bytes(content)
    return settings.model_copy(update={"idf_model": str(path), "idf_digest": digest_of(content)})
