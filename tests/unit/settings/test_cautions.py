"""Settings under which a scheme misses copies silently say so: at the start, and in the summary."""

from pathlib import Path

import pytest

from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS, OnebitSettings, SpotsigsSettings
from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import filter_json, write_crawl


@pytest.mark.parametrize("name", SCHEME_SETTINGS)
def test_only_schemes_that_miss_copies_by_default_caution(name: str) -> None:
    caution = SCHEME_SETTINGS[name]().caution()
    assert (caution is not None) == (name == "spotsigs")


def test_a_caution_names_the_setting_its_value_and_what_to_do() -> None:
    low = OnebitSettings(r=0.7).caution()
    assert low is not None
    assert all(part in low for part in ("scheme.r is 0.7", "raise scheme.r", "about 17,000 pages", "index.bucket_cap"))
    assert OnebitSettings(r=0.8).caution() is None
    assert SpotsigsSettings(tau=0.6).caution() is None
    by_default, few = SpotsigsSettings().caution(), SpotsigsSettings(min_spots=1).caution()
    assert by_default is not None
    assert few is not None
    assert all(part in by_default for part in ("scheme.tau is 0.44", "about 500,000 pages", "index.bucket_cap"))
    assert all(part in few for part in ("share 1 of their rarest", "about 50,000 pages", "index.candidate_limit"))


def test_filter_tells_it_at_the_start_and_in_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl = tmp_path / "crawl.jsonl"
    write_crawl(crawl)
    low = ("--scheme", "onebit", "--threshold", "0.7")
    assert "scheme.r is 0.7" in filter_json(capsys, crawl, *low)["caution"]
    assert main(["filter", str(crawl), *low]) == 0
    assert capsys.readouterr().err.count("scheme.r is 0.7") == 2
    assert "caution" not in filter_json(capsys, crawl, "--scheme", "onebit")
