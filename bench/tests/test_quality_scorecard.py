"""The fit of the scorecards: its columns are what the kernel computes, its points the committed ones."""

from pathlib import Path

import numpy as np
import pytest

from bench.quality import scorecard_fit
from bench.quality.cards import (
    UNUSED_SECTIONS,
    Columns,
    Points,
    first_places,
    first_sums,
    second_places,
    second_sums,
    starts,
)
from bench.quality.sets import load_set
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, KEEP_ABOVE, SECOND_CARD
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.text.html.elements import SECTIONS
from tests.fixtures.filter_crawl import article, page_in_a_site
from tests.reference.blocks import noted_blocks_of
from tests.reference.scorecard import chances_of, first_classes, second_classes, sizes_of

NAMES = [elements[0] for elements in SECTIONS]


def columns_of(html: bytes) -> Columns:
    blocks = blocks_of(html, True)
    columns = zip(*((len(block.tokens), block.links, block.sections) for block in blocks), strict=True)
    return Columns(*(np.array(column, np.int64) for column in columns))


@pytest.fixture(scope="module")
def real_pages(shared_data: Path) -> list[bytes]:
    pages = load_set(shared_data / "news", 400).pages[::50]
    return [page.body for page in (*pages, *load_set(shared_data / "docs", 400).pages[::100])]


def test_classes_of_whole_pages_are_those_of_each_block_alone(real_pages: list[bytes]) -> None:
    first_start, second_start = starts(FIRST_CARD), starts(SECOND_CARD)
    for html in real_pages:
        page, noted = columns_of(html), noted_blocks_of(html, True)
        firsts = first_sums(page, scorecard.frozen_points())
        found = list(zip(first_places(page).tolist(), second_places(page, firsts).tolist(), strict=True))
        assert len(found) == len(noted)
        sizes = sizes_of(noted)
        chances = chances_of(sizes, firsts.tolist())
        for block, (first, second) in enumerate(found):
            expected = {first_start[group] + chosen for group, chosen in first_classes(noted, sizes, block).items()}
            around = [section in noted[block].sections for section, name in enumerate(NAMES)]
            expected |= {
                first_start["sections around"] + 2 * section + inside
                for section, inside in enumerate(around)
                if NAMES[section] not in UNUSED_SECTIONS
            }
            assert set(first) == expected
            classes = second_classes(sizes, firsts.tolist(), chances, block)
            assert set(second) == {second_start[group] + chosen for group, chosen in classes.items()}


def test_sums_of_whole_pages_keep_the_blocks_that_the_kernel_keeps(shared_data: Path) -> None:
    points = scorecard.frozen_points()
    for labelled in (load_set(shared_data / "news", 150), load_set(shared_data / "docs", 50)):
        for page in labelled.pages:
            blocks = blocks_of(page.body, page.markup)
            if page.markup and blocks:
                columns = columns_of(page.body)
                seconds = second_sums(columns, first_sums(columns, points), points)
                assert [second > KEEP_ABOVE for second in seconds] == [block.reason == "kept" for block in blocks]


def test_a_group_that_is_left_out_has_no_points() -> None:
    pytest.importorskip("sklearn", reason="the fit needs the packages that `make quality` installs")
    pages = [scorecard_fit.label_blocks(page_in_a_site(seed).encode(), article(seed)) for seed in range(5)]
    fit = scorecard_fit.Fit([page for page in pages if page is not None])
    every, first, second = (fit.points(without) for without in ((), ("words near",), ("text before",)))
    for group in ("words near", "text before"):
        assert any(every[group])
    assert not any(first["words near"])
    assert any(first["text before"])
    assert not any(second["text before"])
    assert second["words near"] == every["words near"]
    assert fit.points() == every
    assert {group: len(numbers) for group, numbers in every.items()} == {
        group: len(numbers) for group, numbers in scorecard.frozen_points().items()
    }


def test_text_of_a_page_is_told_by_the_runs_it_shares_with_the_main_text() -> None:
    html = b"<p>one two three four five six</p><p>seven eight nine ten</p><li>one two<li>one two three x y z w"
    page = scorecard_fit.label_blocks(html, "zero one two three four five six")
    assert page is not None
    assert page.is_text.tolist() == [True, False, False, False]
    assert page.weights.tolist() == [6 / 20, 4 / 20, 2 / 20, 7 / 20]
    assert scorecard_fit.label_blocks(html, "") is None
    assert scorecard_fit.label_blocks(b"<br>", "one two three") is None


def test_nothing_to_fit_on_is_refused() -> None:
    with pytest.raises(InputError, match="must have HTML pages with main texts"):
        scorecard_fit.Fit([])


def test_the_file_is_written_as_the_kernel_reads_it(tmp_path: Path) -> None:
    source = Path(scorecard.__file__)
    (tmp_path / "scorecard.py").write_bytes(source.read_bytes())
    scorecard_fit.write(scorecard.frozen_points(), tmp_path)
    assert (tmp_path / "scorecard.txt").read_bytes() == source.with_name("scorecard.txt").read_bytes()
    assert (tmp_path / "scorecard.py").read_bytes() == source.read_bytes()
    other = {**scorecard.frozen_points(), "first start": (1,)}
    scorecard_fit.write(other, tmp_path)
    assert scorecard.DIGEST not in (tmp_path / "scorecard.py").read_text("utf-8")
    assert scorecard_fit.greatest_difference(other, scorecard.frozen_points())[1] == "first start"


def test_points_are_replaced_only_within() -> None:
    other = {**scorecard.frozen_points(), "second start": (-100_000,)}
    page = page_in_a_site(3).encode()
    with scorecard_fit.points_replaced(other):
        assert "kept" not in {block.reason for block in blocks_of(page, True)}
    assert "kept" in {block.reason for block in blocks_of(page, True)}


def kept_by(pages: list[scorecard_fit.LabelledBlocks], points: Points) -> list[bool]:
    """Whether these points keep a block, for each block of the pages."""
    return [
        bool(second > KEEP_ABOVE)
        for page in pages
        for second in second_sums(page.columns, first_sums(page.columns, points), points)
    ]


@pytest.mark.slow
def test_a_fit_to_a_hundred_pages_keeps_the_blocks_of_the_committed_card(shared_data: Path) -> None:
    pytest.importorskip("sklearn", reason="the fit needs the packages that `make quality` installs")
    pages = scorecard_fit.Material(load_set(shared_data / "news", 100)).of()
    frozen = scorecard.frozen_points()
    fitted = kept_by(pages, scorecard_fit.Fit(pages).points())

    def agreement(points: Points) -> float:
        return float(np.mean(np.equal(fitted, kept_by(pages, points))))

    assert agreement(frozen) > 0.99
    # Points of classes in another order are another card.
    for group in ("share of largest", "sections around", "first card", "share of text"):
        assert agreement({**frozen, group: frozen[group][::-1]}) < 0.98, group


@pytest.mark.long
@pytest.mark.guarantee("the committed scorecard is the fit to its labelled set", fault="none: every page of news")
def test_the_committed_scorecard_is_the_fit_to_news(shared_data: Path) -> None:
    pytest.importorskip("sklearn", reason="the fit needs the packages that `make quality` installs")
    assert scorecard_fit.main(["--check", "--on", str(shared_data / "news")]) == 0


@pytest.mark.slow
def test_link_lists_of_the_same_pages_are_put_into_their_copies(shared_data: Path) -> None:
    material = scorecard_fit.Material(load_set(shared_data / "news", 60))
    pages = material.of()
    assert 80 < len(pages) <= 120
    page, copy = material.of([0])
    assert (page.share, copy.share) == (1.0, scorecard_fit.COPY_SHARE)
    assert copy.columns.links.sum() >= page.columns.links.sum() + min(scorecard_fit.LIST_WORDS)
    assert (copy.columns.words - copy.columns.links).sum() == (page.columns.words - page.columns.links).sum()
    assert [one.is_text.tolist() for one in material.of()] == [one.is_text.tolist() for one in pages]
