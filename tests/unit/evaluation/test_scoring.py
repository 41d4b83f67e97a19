"""The measures of a stream of seven pages that can be checked by hand, and labels that do not fit."""

from itertools import combinations
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.research.scoring import Label, Scores, Truth, check_verdicts, load_truth, score
from spotsieve.stream.research.scoring.comparison import as_json, as_text, three_decimals
from spotsieve.stream.research.scoring.measures import join
from tests.fixtures.pages.labelled_sets import write_labels

TRUTH = """id	kind	host
a	cluster	h1
b	cluster	h2
c	singleton	h1
d	cluster	h2
e	quote	h3
f	thin	h3
g	cluster	h3
"""
PAIRS = """id_a	id_b	similarity	containment	kind
a	b	0.9	0.95	copy
a	d	0.5	0.9	trimmed
b	d	0.7	0.9	cut
a	e	0.1	0.4	quote
c	g	0.3	0.5	natural
"""


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return load_truth(write_labels(tmp_path, TRUTH, PAIRS))


def scored(truth: Truth, **originals: str) -> Scores:
    return score(truth, check_verdicts(truth, [(page, originals.get(page)) for page in truth.ids], "set"))


def test_a_page_is_labelled_by_its_most_similar_earlier_page(truth: Truth) -> None:
    assert dict(zip("abcdefg", truth.labels, strict=True)) == {
        "a": (Label.NOVEL, "cluster"),
        "b": (Label.DUPLICATE, "copy"),
        "c": (Label.NOVEL, "singleton"),
        "d": (Label.DUPLICATE, "cut"),
        "e": (Label.NOVEL, "quote"),
        "f": (Label.NOVEL, "thin"),
        "g": (Label.IGNORED, "cluster"),
    }


def test_of_two_equally_similar_pages_the_earlier_gives_the_kind(tmp_path: Path) -> None:
    pairs = PAIRS.replace("b\td\t0.7", "b\td\t0.5").replace("0.5\t", "0.8\t")
    assert load_truth(write_labels(tmp_path, TRUTH, pairs)).labels[3] == (Label.DUPLICATE, "trimmed")


def test_perfect_verdicts_score_one_at_every_level(truth: Truth) -> None:
    scores = scored(truth, b="a", d="b")
    assert (scores.pages.retrieval.f1, scores.clusters.retrieval.f1, scores.clusters.adjusted_rand) == (1.0, 1.0, 1.0)
    assert (scores.pages.duplicates, scores.pages.novel, scores.pages.ignored) == (2, 4, 1)
    assert (scores.links.links, scores.links.count(Label.DUPLICATE), scores.pages.lost_count) == (2, 2, 0)


def test_a_dropped_novel_page_is_lost_and_costs_precision(truth: Truth) -> None:
    scores = scored(truth, b="a", e="a")
    assert scores.pages.lost == {"cluster": (0, 1), "quote": (1, 1), "singleton": (0, 1), "thin": (0, 1)}
    assert scores.pages.found == {"copy": (1, 1), "cut": (0, 1)}
    assert (scores.pages.retrieval.precision, scores.pages.retrieval.recall) == (0.5, 0.5)
    assert scores.links.by_kind == {"copy": {Label.DUPLICATE: 1}, "quote": {Label.NOVEL: 1}}


def test_a_pair_between_the_bounds_counts_neither_for_nor_against(truth: Truth) -> None:
    scores = scored(truth, b="a", d="b", g="c")
    assert (scores.pages.retrieval.f1, scores.clusters.retrieval.f1, scores.clusters.excused_pairs) == (1.0, 1.0, 1)
    assert scores.clusters.adjusted_rand == pytest.approx((3 - 3 * 4 / 21) / (3.5 - 3 * 4 / 21))


def test_links_join_clusters_through_pages_between_them(truth: Truth) -> None:
    scores = scored(truth, d="a", b="a")
    assert (scores.clusters.expected_pairs, scores.clusters.reported_pairs) == (3, 3)
    assert scores.clusters.retrieval.f1 == 1.0
    assert scores.links.by_kind == {"copy": {Label.DUPLICATE: 1}, "trimmed": {Label.IGNORED: 1}}


def test_a_link_that_no_listed_pair_supports_is_negative_and_unlisted(truth: Truth) -> None:
    assert scored(truth, f="a").links.by_kind == {"unlisted": {Label.NOVEL: 1}}


def test_without_a_duplicate_verdict_there_is_no_precision(truth: Truth) -> None:
    scores = scored(truth)
    assert (scores.pages.retrieval.precision, scores.pages.retrieval.recall) == (None, 0.0)
    assert as_json(scores)["links"]["positive"] is None
    assert "precision -  recall 0.000" in as_text(scores)


def test_the_bounds_move_the_labels(tmp_path: Path) -> None:
    truth = load_truth(write_labels(tmp_path, TRUTH, PAIRS), positive=0.3, negative=0.05)
    assert [label for label, _ in truth.labels[4:]] == [Label.IGNORED, Label.NOVEL, Label.DUPLICATE]


def test_a_part_of_the_stream_is_labelled_as_if_there_were_no_other_page(truth: Truth) -> None:
    part = truth.part([0, 3, 6])
    assert part.ids == ("a", "d", "g")
    assert part.hosts == ("h1", "h2", "h3")
    assert [label for label, _ in part.labels] == [Label.NOVEL, Label.IGNORED, Label.NOVEL]


def test_a_set_of_one_cluster_and_one_without_any_are_scored(tmp_path: Path) -> None:
    header, pages = TRUTH.split("\n", 1)[0], [f"p{n}\tcluster\th" for n in range(4)]
    pairs = ["id_a\tid_b\tsimilarity\tkind", *(f"p{a}\tp{b}\t1\tcopy" for a, b in combinations(range(4), 2))]
    one = load_truth(write_labels(tmp_path, "\n".join([header, *pages]), "\n".join(pairs)))
    scores = scored(one, p1="p0", p2="p1", p3="p0")
    assert (scores.pages.duplicates, scores.pages.novel, scores.pages.retrieval.f1) == (3, 1, 1.0)
    assert (scores.clusters.retrieval.f1, scores.clusters.adjusted_rand) == (1.0, 1.0)
    none = load_truth(write_labels(tmp_path, "\n".join([header, *pages]), pairs[0]))
    scores = scored(none, p3="p0")
    assert (scores.pages.retrieval.precision, scores.pages.retrieval.recall, scores.pages.lost_count) == (0.0, None, 1)


def test_components_are_named_by_their_least_member() -> None:
    assert join(6, [(4, 2), (2, 5), (1, 0)]) == [0, 0, 2, 3, 2, 2]


def test_three_decimals_or_a_dash() -> None:
    assert (three_decimals(2 / 3), three_decimals(None)) == ("0.667", "-")


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [
        ([("a", None), ("z", None)], "must be in truth.tsv.gz, got 'z'"),
        ([("a", None), ("a", None)], "must be unique, got 'a'"),
        ([("a", "b")], "the original of 'a' must be an earlier page of the set, got 'b'"),
        ([("b", "zz")], "the original of 'b' must be an earlier page of the set, got 'zz'"),
        ([(page, None) for page in "abdefg"], "set: labels must each have a page; 1 labels have none, such as 'c'"),
    ],
)
def test_verdicts_that_do_not_fit_the_labels_are_refused(
    truth: Truth, verdicts: list[tuple[str, str | None]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        check_verdicts(truth, verdicts, "set")


@pytest.mark.parametrize(
    ("truth", "pairs", "message"),
    [
        (TRUTH + "a\tcluster\th9\n", PAIRS, r"truth.tsv.gz line 9 must not repeat a page id, got 'a'"),
        (TRUTH + "h\n", PAIRS, r"truth.tsv.gz line 9 must have 3 columns, has 1"),
        ("id\nx\n", PAIRS, r"truth.tsv.gz must have the columns id, kind, and kind is missing"),
        (TRUTH, PAIRS + "a\tzz\t1\t1\tcopy\n", r"pairs.tsv.gz line 7 must name pages of truth.tsv.gz, got 'zz'"),
        (TRUTH, PAIRS + "d\tc\t1\t1\tcopy\n", r"pairs.tsv.gz line 7 must name the earlier page first, got 'd, c'"),
        *(
            (
                TRUTH,
                PAIRS + f"a\tc\t{bad}\t1\tcopy\n",
                rf"line 7 must have a similarity from 0 to 1, got '{bad}'",
            )
            for bad in ("high", "nan", "inf", "-0.1", "1.01", "")
        ),
        ("id\tkind\n", PAIRS.split("\n", maxsplit=1)[0], r"truth.tsv.gz has no labels"),
    ],
)
def test_labels_that_contradict_themselves_are_refused(tmp_path: Path, truth: str, pairs: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_truth(write_labels(tmp_path, truth, pairs))


def test_labels_behind_a_byte_order_mark_and_with_other_line_ends_are_read(tmp_path: Path, truth: Truth) -> None:
    texts = ("\ufeff" + text.replace("\n", "\r\n") for text in (TRUTH, PAIRS))
    assert load_truth(write_labels(tmp_path, *texts)) == truth


def test_a_damaged_file_of_labels_is_refused(tmp_path: Path) -> None:
    path = write_labels(tmp_path, TRUTH, PAIRS) / "pairs.tsv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"pairs.tsv.gz cannot be read"):
        load_truth(tmp_path)
    path.write_bytes(b"id_a\tid_b")
    with pytest.raises(InputError, match=r"pairs.tsv.gz cannot be read"):
        load_truth(tmp_path)
