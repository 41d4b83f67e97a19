"""papers.md: how a section gets into it; resemblances and distances against brute force; kinds of pairs."""

from pathlib import Path

import numpy as np
import pytest

from bench.papers import __main__ as papers
from bench.papers import ye
from bench.papers.manku import candidates, expected, shared
from bench.papers.page import HEAD, decimals, find_papers, table, with_section
from bench.papers.roul import PageCounts, all_duplicates, found_pages, sample_of
from bench.papers.williams_giles import kinds_of
from bench.papers.yuan import distances, resemblances, shingle_sets
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ConceptSettings
from spotsieve.stream.research.models.sampling import SizeClass, Trials, sampling_trials
from spotsieve.stream.research.scoring.truth import Truth, TruthPair
from spotsieve.stream.sign.fingerprints.permuted_tables import design_tables
from spotsieve.stream.sign.schemes.concept import similarities
from tests.fixtures.pages.spotsieve_pages import STORIES, newspaper, page
from tests.reference.shingles import shingles_of, words_of


def some_pages() -> list[Page]:
    texts = [STORIES["English", 1], STORIES["English", 2], STORIES["French", 1], STORIES["English", 1][:2], []]
    return [page(number, "", newspaper(text)) for number, text in enumerate(texts)]


def test_resemblances_of_all_pairs_are_shared_over_all_shingles() -> None:
    pages = some_pages()
    found = resemblances(shingle_sets(pages, 3))
    sets = [set(shingles_of(words_of(one.body, True), 3, 3)) for one in pages]
    for one, left in enumerate(sets):
        for other, right in enumerate(sets[:one]):
            assert abs(found[one, other] - len(left & right) / len(left | right)) < 1e-6
    assert 0.3 < found[0, 3] < 1


def test_distances_of_all_pairs_count_differing_bits() -> None:
    sketch = np.array([[0, 2**63], [7, 2**63], [0, 0]], np.uint64)
    assert distances(sketch).tolist() == [[0, 3, 1], [3, 0, 4], [1, 4, 0]]


def test_a_section_takes_the_place_of_its_old_one_and_leaves_the_others_alone() -> None:
    page = HEAD
    for name, title in (("yuan", "Yuan"), ("manku", "Manku"), ("ye", "Ye")):
        page = with_section(page, name, title, [f"old {name}"])
    assert page.startswith(HEAD)
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## Manku", "## Ye", "## Yuan"]
    again = with_section(page, "ye", "Ye", ["new", "", "| a |"])
    assert again == page.replace("old ye", "new\n\n| a |")
    assert with_section(again, "ye", "Ye", ["old ye"]) == page


def test_the_document_has_a_section_for_every_paper_in_the_order_of_titles() -> None:
    text = papers.DOCUMENT.read_text("utf-8")
    found = find_papers()
    assert {"yuan", "williams_giles"} <= set(found)
    places = [text.index(f"<!-- papers: {name} -->\n\n## {found[name].TITLE}\n") for name in found]
    by_title = sorted(zip((found[name].TITLE for name in found), places, strict=True))
    assert [place for _, place in by_title] == sorted(places)
    assert text.startswith(HEAD)


def test_an_unknown_paper_and_missing_data_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        papers.main(["yuen"])
    assert "got 'yuen'" in capsys.readouterr().err
    out = tmp_path / "papers.md"
    assert papers.main(["yuan", "--data", str(tmp_path / "none"), "--out", str(out)]) == 3
    assert "must hold labelled sets" in capsys.readouterr().err
    assert not out.exists()


def test_tables_are_markdown() -> None:
    assert table(["k", "P"], [[3, decimals(0.91)], [4, decimals(None)]]) == [
        "| k | P |",
        "|---|---:|",
        "| 3 | 0.910 |",
        "| 4 |  |",
    ]


def test_duplicates_are_exact_preprints_or_versions_and_other_pairs_are_none() -> None:
    pairs = (
        TruthPair(0, 1, 1.0, "cut"),
        TruthPair(0, 2, 0.9, "headline"),
        TruthPair(1, 2, 0.8, "natural-version"),
        TruthPair(0, 3, 0.5, "headline"),
        TruthPair(1, 3, 0.1, "copy"),
    )
    truth = Truth(tuple("abcd"), ("page",) * 4, pairs)
    assert kinds_of(truth) == {(0, 1): "exact", (0, 2): "preprint", (1, 2): "content or version"}


def test_ye_s_tables_are_cut_to_a_ratio_and_told_by_the_words_where_it_changes() -> None:
    found = np.array([[4, 0, 0, 0], [3, 2, 0, 0], [1, 1, 2, 1]])
    one = Trials(4, found, found // 2, np.array([80, 40, 20.0]))
    classes = [SizeClass(words, 10, one) for words in (0, 500, 1000, 2000)]
    assert ye.ratios_text(classes, [2, 4, 4, 1]) == "1/2, 1/4 from 500, 1/1 from 2000"
    assert ye.ratios_text(classes, [8, 8, 8, 8]) == "1/8"
    both = ye.together(classes[:2])
    assert (both.similar, both.found[2].tolist(), both.sampled.tolist()) == (8, [2, 2, 4, 2], [160, 80, 40])
    assert both.precision(1) == one.precision(1) == (1 / 3 + 1 / 2) / 2
    assert [len(column) for column in ye.up_to(classes, 2)[3].trials[1:]] == [2, 2, 2]
    assert ye.by_group({0.6: classes}, "recall", 2)[-1] == "| all | 40 | 100 | 0.25 |"
    six = SizeClass(0, 10, sampling_trials(np.arange(64, dtype=np.uint64), np.array([0, 64]), 0.5, 1, ye.LEVELS))
    assert ye.by_ratio([six])[2:] == ["| >= 0 | .57 |  |  |  |  |  |", "| all | .70 |  |  |  |  |  |"]


def test_candidates_of_a_design_are_counted_table_by_table_and_near_what_is_expected() -> None:
    designs = {4: design_tables(3, 4), 10: design_tables(3, 10)}
    found = dict(candidates(designs, (12, 16)))
    assert set(found) == {(4, 12), (4, 16), (10, 12), (10, 16)}
    assert found[4, 16] == pytest.approx(expected(designs[4], 16), rel=0.05)
    assert expected(designs[4], 16) == 4
    keys = np.array([[1, 5], [1, 6], [2, 6]], np.uint64)
    assert shared(keys, np.array([[1, 6], [1, 6], [3, 7]], np.uint64)) == 4 + 4


def truth_of_posts() -> Truth:
    """300 posts: 10 and 20 are duplicates of 5, 30 is a little like 6, the others are novel."""
    pairs = (TruthPair(5, 10, 0.9, "natural"), TruthPair(5, 20, 0.7, "natural"), TruthPair(6, 30, 0.4, "natural"))
    return Truth(tuple(map(str, range(300))), ("post",) * 300, pairs)


def test_the_sample_has_all_duplicates_and_other_posts_evenly_spread() -> None:
    places = sample_of(truth_of_posts())
    assert len(places) == len(set(places)) == 128
    assert places == sorted(places)
    assert {5, 10, 20} <= set(places)
    assert 30 not in places
    assert sum(place < 150 for place in places) == pytest.approx(64, abs=3)


def test_pages_paired_with_an_earlier_one_are_found_and_pages_between_do_not_count() -> None:
    found = found_pages(truth_of_posts(), np.array([[5, 10], [4, 10], [6, 30], [1, 7]]))
    assert found == PageCounts(found=2, right=1, duplicates=2)
    assert found.cells() == ["0.500", "0.500", "0.500"]
    nothing = found_pages(truth_of_posts(), np.empty((0, 2), np.int64))
    assert nothing.cells() == ["", "0.000", "0.000"]


def test_all_duplicates_are_those_of_every_pair() -> None:
    random, settings = np.random.default_rng(2), ConceptSettings(th1=30, th2=36, th4=0.1)
    sketch = random.integers(0, 2**64, (30, 3), np.uint64)
    expected = []
    for later in range(30):
        for earlier in range(later):
            textual, conceptual = similarities(sketch[[earlier]], sketch[[later]])
            if textual[0] > 36 or (textual[0] > 30 and conceptual[0] > 0.1):
                expected.append((earlier, later))
    assert [tuple(pair) for pair in all_duplicates(sketch, settings).tolist()] == expected
    assert len(expected) > 20
