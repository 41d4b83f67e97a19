"""A moment without memory marks no page: filter, backfill and library raise the error, and the next run judges."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.errors import EXIT_DEFECT
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.cli import main
from spotsieve.stream.local.library import CrawledPage, Deduplicator
from spotsieve.stream.sign.schemes.spotsieve import SpotsieveScheme
from tests.fixtures.backfills import backfilled, verdict_rows
from tests.fixtures.filter_crawl import article, filter_json, read_json, write_crawl

REASONS = ["no_match", "no_match", "contained", "too_few_features", "exact"]
"""The reasons of the crawl's pages."""


@pytest.fixture(params=["sign", "probe"])
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signing, or the judge's lookup of keys, fails the first time."""
    step: Callable[..., Any] = getattr(SpotsieveScheme, request.param)
    errors: list[Exception] = [MemoryError("no memory now")]

    def fail_once(scheme: SpotsieveScheme, pages: Signatures | Sequence[Page]) -> Any:
        sources = pages.sources if isinstance(pages, Signatures) else [page.source for page in pages]
        if errors and "warm" not in sources:  # The pages that compile the kernels go through.
            raise errors.pop()
        return step(scheme, pages)

    monkeypatch.setattr(SpotsieveScheme, request.param, fail_once)


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.jsonl"
    write_crawl(path)
    return path


@pytest.mark.usefixtures("failing")
def test_filter_stops_and_the_next_run_judges_every_page(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = tmp_path / "verdicts.jsonl"
    options = ("--state", tmp_path / "state", "--verdicts", verdicts)
    assert main(["filter", str(crawl), *map(str, options)]) == EXIT_DEFECT
    assert "MemoryError" in capsys.readouterr().err
    assert not verdicts.exists()
    filter_json(capsys, crawl, *options)
    reasons = [line["reason"] for line in read_json(verdicts)]
    # A record that the log has already is applied when the state is opened: its pages were submitted before.
    assert [{"first_attempt": "no_match"}.get(reason, reason) for reason in reasons] == REASONS


@pytest.mark.usefixtures("failing")
def test_backfill_stops_and_the_next_run_judges_every_page(crawl: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        backfilled([str(crawl)], tmp_path / "out", Settings())
    backfilled([str(crawl)], tmp_path / "out", Settings())
    reasons = [row["reason"] for row in verdict_rows(tmp_path / "out")]
    assert [{"first_attempt": "no_match"}.get(str(reason), reason) for reason in reasons] == REASONS


@pytest.mark.usefixtures("failing")
def test_the_library_raises_and_marks_no_page() -> None:
    with Deduplicator() as seen, pytest.raises(MemoryError):
        list(seen.add_many([CrawledPage("a", "https://a.example/", article(1))]))
