"""Orders of a set, figures stored from run to run, and a document that is measured part by part."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.quality import figures, keep, ours, report_orders
from bench.quality.orders import Arrivals, OrderRuns, count_arrivals, in_orders
from bench.quality.sets import LabelledSet
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.research.scoring import Label, Truth
from spotsieve.stream.research.scoring.fresh_text import FreshText, LostPage, MissedPage
from spotsieve.stream.research.scoring.truth import TruthPair
from tests.fixtures.filter_crawl import article

COUNT = 30


@pytest.fixture
def shop() -> LabelledSet:
    """Pages of one host; page 1 is a copy of page 0, and the last one of page 3."""
    seeds = [0, 0, *range(2, COUNT - 1), 3]
    pages = tuple(
        Page("x", 0, place, f"http://shop.example/{place}", f"<p>{article(seed)}".encode(), True, 0, label=f"p{place}")
        for place, seed in enumerate(seeds)
    )
    pairs = (TruthPair(0, 1, 1.0, "copy"), TruthPair(3, COUNT - 1, 1.0, "copy"))
    return LabelledSet("shop", Path(), pages, Truth(tuple(page.label for page in pages), ("page",) * COUNT, pairs))


def test_in_another_order_the_page_that_comes_later_is_the_duplicate(shop: LabelledSet) -> None:
    turned = shop.in_order(range(COUNT - 1, -1, -1))
    assert turned.truth.ids == tuple(reversed(shop.truth.ids)) == tuple(page.label for page in turned.pages)
    duplicates = {
        page for page, (label, _) in zip(turned.truth.ids, turned.truth.labels, strict=True) if label is Label.DUPLICATE
    }
    assert duplicates == {"p0", "p3"}
    judged = ours.run(turned, ours.settings_with({}))
    assert (judged.f1, judged.lost) == (1.0, 0)


def test_the_first_order_is_the_set_s_own_and_the_others_are_the_same_every_time(shop: LabelledSet) -> None:
    orders = [labelled.truth.ids for labelled in in_orders(shop, 3)]
    assert orders[0] == shop.truth.ids
    assert len(set(orders)) == 3
    assert orders == [labelled.truth.ids for labelled in in_orders(shop, 3)]
    assert {frozenset(order) for order in orders} == {frozenset(shop.truth.ids)}


def test_pages_are_counted_as_the_first_or_the_later_ones_of_their_host(shop: LabelledSet) -> None:
    judged = ours.run(shop, ours.settings_with({}))
    originals = [None] * (COUNT - 1) + [3]
    originals[5] = 4
    first, later = count_arrivals([(shop, replace(judged, originals=tuple(originals)))] * 2)
    assert first == Arrivals(duplicates=2, missed=2, novel=38, lost=2)
    assert later == Arrivals(duplicates=2, missed=0, novel=18, lost=0)
    found = figures.Figures(first_pages=[figures.FirstPages(4, {"shop": (first, later)})])
    assert "| 4 | shop | 2 of 2 | 2 of 38 | 0 of 2 | 0 of 18 |" in report_orders.first_pages(found)


def test_the_document_has_the_median_and_the_worst_order(shop: LabelledSet) -> None:
    judged = ours.run(shop, ours.settings_with({}))
    pages = judged.scores.pages
    worse = replace(judged, scores=replace(judged.scores, pages=replace(pages, lost={"page": (3, 28)})))
    ordered = OrderRuns([judged, worse, judged])
    assert (ordered.median_lost, ordered.lost) == (0, [0, 3, 0])
    text = report_orders.orders(figures.Figures(ordered={"shop": ordered}))
    assert "| shop | 1.000, 1.000 | 1.000, 1.000 | 0, 3 |  |  |" in text
    lost, missed = LostPage(3, 1, 25, 40), MissedPage(5, 2)
    fresh = [FreshText(28, 28, 9, 0, (lost,) * count, (missed,) * (count // 2), 25) for count in (1, 0, 2)]
    text = report_orders.orders(figures.Figures(ordered={"shop": ordered}, fresh_ordered={"shop": fresh}))
    assert "| shop | 1.000, 1.000 | 1.000, 1.000 | 0, 3 | 1, 2 | 0, 1 |" in text


def test_a_later_run_takes_the_parts_that_an_earlier_one_kept(shop: LabelledSet, tmp_path: Path) -> None:
    run = figures.Run([shop], {}, None, True, lambda _: None)
    measured = figures.Figures(judged={"shop": ours.run(shop, run.settings)})
    keep.keep(tmp_path, keep.part_of("sets", run, measured, 1.5))
    found = figures.Figures(peer_pages=7)
    [part] = keep.kept_parts(tmp_path, run, {"speed"})
    part.add_to(found)
    assert found.judged == measured.judged
    assert (found.seconds, found.peer_pages) == ({"sets": 1.5}, 7)
    assert keep.kept_parts(tmp_path, run, {"sets"}) == []
    with pytest.raises(InputError, match="must be of the same sets and settings"):
        keep.kept_parts(tmp_path, replace(run, base={"scheme.min_containment": 0.7}), set())


def test_a_document_keeps_the_sections_that_were_not_measured_with_their_date() -> None:
    before = "# Quality\n\non 2026-01-02 (commit abc123)\n\n## One\n\n1\n\n## Two\n\n2\n"
    after = keep.with_sections_of("# Quality\n\non 2026-02-03 (commit def456)\n\n## One\n\nnew\n", before)
    dated = "As measured on 2026-01-02 (commit abc123), before the other figures here."
    assert after.endswith(f"## One\n\nnew\n\n## Two\n\n{dated}\n\n2\n")
    again = keep.with_sections_of("# Quality\n\non 2026-03-04 (commit 789abc)\n\n## One\n\nnewer\n", after)
    assert again.endswith(f"## One\n\nnewer\n\n## Two\n\n{dated}\n\n2\n")
