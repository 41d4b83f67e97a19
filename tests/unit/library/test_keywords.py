"""The library has a typed keyword for each setting."""

from bench.deploy.keywords import FILE_OF_KEYWORDS, keywords_module
from spotsieve import Deduplicator
from spotsieve.stream.base.settings.load import load_settings


def test_the_keywords_are_written_from_the_models() -> None:
    assert FILE_OF_KEYWORDS.read_text("utf-8") == keywords_module(), "run: python -m bench.deploy.keywords"


def test_a_section_and_its_settings_are_equal_ways_to_give_one() -> None:
    with Deduplicator(policy={"keep": "longest"}) as one, Deduplicator(policy__keep="longest") as other:
        assert one.settings == other.settings == load_settings(None, {}, {"policy.keep": "longest"})
