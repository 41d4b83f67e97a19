"""A replay compares places, the log's order and recorded verdicts, and reports the differences."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from spotsieve.state.index import CommitMark
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import ChainSettings
from spotsieve.stream.base.signature import Entry, Signatures, page_of_id
from spotsieve.stream.insight.replay.comparison import (
    OTHER_TOPIC,
    UNKNOWN_ORIGINAL,
    Comparison,
    PageOutcome,
    RecordedOutcomes,
    ReplayVerdict,
)
from spotsieve.stream.insight.replay.order import CommitMarks, LogOrder, LogRun
from spotsieve.stream.insight.replay.range import OUTSIDE, Bound, RangePlaces, parse_bound, span
from spotsieve.stream.insight.replay.report import ReplayReport, as_json, as_text
from spotsieve.stream.sign.schemes.registry import scheme_of

PLACES = RangePlaces("pages", [(10, 20), (0, 0), (5, 8)])


def named(*ids: tuple[int, int], source: str = "pages") -> Signatures:
    """Signatures of pages with these partitions and offsets."""
    pages = [Page(source, partition, offset, "", b"", False, 0) for partition, offset in ids]
    return scheme_of(ChainSettings()).sign(pages)


def entry(partition: int, offset: int, source: str = "pages") -> Entry:
    return Entry(source, partition, offset, 0, "https://original.example/", "")


def duplicate(partition: int, offset: int) -> ReplayVerdict:
    return ReplayVerdict(PageOutcome.DUPLICATE, "near", entry(partition, offset), 0.5)


NOVEL = ReplayVerdict(PageOutcome.NOVEL, "no_match")


def test_offsets_of_the_range_and_places_map_to_each_other() -> None:
    pages = [(partition, offset) for partition, (first, end) in enumerate(PLACES.spans) for offset in range(first, end)]
    partitions, offsets = np.array(pages, np.int64).T
    places = PLACES.of(partitions.astype(np.int32), offsets)
    assert places.tolist() == list(range(len(PLACES))) == [PLACES.of_page("pages", *page) for page in pages]
    assert [PLACES.page(place) for place in places.tolist()] == pages


@pytest.mark.parametrize("page", [(0, 9), (0, 20), (1, 0), (2, 4), (2, 8), (3, 5), (-1, 12), (0, -1)])
def test_a_page_that_is_not_in_the_range_has_no_place(page: tuple[int, int]) -> None:
    assert PLACES.of_page("pages", *page) == OUTSIDE
    assert PLACES.of(np.array([page[0]], np.int32), np.array([page[1]], np.int64)).tolist() == [OUTSIDE]
    assert PLACES.of_page("other", 0, 12) == OUTSIDE


def test_pages_are_in_the_order_of_their_first_occurrence_in_the_log() -> None:
    order = LogOrder(PLACES)
    order.add(named((0, 12), (0, 13), (2, 5), (2, 6), (0, 15)))
    order.add(named((0, 12), (0, 13), (0, 14), (0, 15), (0, 16)))  # submitted again, after a crash
    order.add(named((0, 10), (0, 10), (2, 7)))  # the group's offsets were set back; one page twice in a record
    order.add(named((0, 9), (1, 0)))
    order.add(named((0, 17), source="other"))
    assert list(order.steps(again=False)) == [
        LogRun(0, 12, 13),
        LogRun(2, 5, 6),
        LogRun(0, 15, 15),
        LogRun(0, 14, 14),
        LogRun(0, 16, 16),
        LogRun(0, 10, 10),
        LogRun(2, 7, 7),
    ]
    assert list(order.steps(again=True)) == [
        LogRun(0, 12, 13),
        LogRun(2, 5, 6),
        LogRun(0, 15, 15),
        LogRun(0, 12, 13, True),
        LogRun(0, 14, 14),
        LogRun(0, 15, 15, True),
        LogRun(0, 16, 16),
        LogRun(0, 10, 10),
        LogRun(0, 10, 10, True),
        LogRun(2, 7, 7),
    ]
    assert order.again == 4
    assert [order.logged_span(partition) for partition in range(3)] == [(10, 17), None, (5, 8)]


def test_the_steps_have_repeated_pages_after_a_mark_of_their_commit() -> None:
    order = LogOrder(PLACES)
    order.add(named((0, 12), (0, 13), (0, 14)))
    order.commit((CommitMark("other", 0, 99), CommitMark("pages", 7, 1)))  # not of the range
    order.add(named((0, 12)))
    order.commit((CommitMark("pages", 0, 13),))
    order.commit((CommitMark("pages", 2, 6), CommitMark("pages", 0, 14)))
    order.add(named((0, 12), (0, 13), (0, 14), (2, 5)))
    order.commit((CommitMark("pages", 0, 10),))
    order.add(named((0, 13), (2, 5)))
    marks = CommitMarks((CommitMark("pages", 0, 14), CommitMark("pages", 2, 6)))
    lower = CommitMarks((CommitMark("pages", 0, 10),))
    steps = [
        LogRun(0, 12, 14),
        marks,
        LogRun(0, 12, 13, True),
        LogRun(2, 5, 5),
        lower,
        LogRun(0, 13, 13, True),
        LogRun(2, 5, 5, True),
    ]
    assert list(order.steps(again=False)) == steps
    assert (order.judged_again(False), order.judged_again(True)) == (4, 6)
    steps[1:1] = [LogRun(0, 12, 12, True)]
    steps[4:4] = [LogRun(0, 14, 14, True)]
    assert list(order.steps(again=True)) == steps


def test_of_marks_without_pages_between_them_the_highest_one_counts() -> None:
    order = LogOrder(RangePlaces("pages", [(0, 20), (0, 20)]))
    order.commit((CommitMark("pages", 0, 2**63 - 1), CommitMark("pages", 1, 3)))
    order.commit((CommitMark("pages", 0, 5), CommitMark("pages", 1, 4)))
    assert list(order.steps(again=False)) == [
        CommitMarks((CommitMark("pages", 0, 2**63 - 1), CommitMark("pages", 1, 4)))
    ]


def test_a_run_does_not_span_two_partitions() -> None:
    order = LogOrder(PLACES)
    order.add(named((0, 19), (2, 5)))
    assert list(order.steps(again=True)) == [LogRun(0, 19, 19), LogRun(2, 5, 5)]


def test_the_first_message_of_a_page_counts_and_contradictions_are_reported() -> None:
    recorded = RecordedOutcomes(PLACES)
    recorded.note(0, PageOutcome.DUPLICATE, "near", (0, 11))
    recorded.note(0, PageOutcome.DUPLICATE, "near", (0, 11))
    recorded.note(
        0, PageOutcome.DUPLICATE, "near"
    )  # passed under mode = "annotate": its original's place is not reported
    recorded.note(0, PageOutcome.DUPLICATE, "near", (0, 12))
    recorded.note(0, PageOutcome.NOVEL, "no_match")
    recorded.note(1, PageOutcome.NOVEL, "no_match")
    recorded.note(1, PageOutcome.NOVEL, "no_match")
    recorded.note(OUTSIDE, PageOutcome.NOVEL)
    assert recorded.original(0) == (0, 11)
    assert recorded.reasons[recorded.reason[0]] == "near"
    assert (recorded.again, recorded.differing) == (2, [0, 0])
    assert np.count_nonzero(recorded.outcome) == 2


def compare(recorded: RecordedOutcomes, replayed: Sequence[tuple[int, ReplayVerdict]], examples: int = 3) -> Comparison:
    comparison = Comparison(recorded, examples)
    for place, verdict in replayed:
        comparison.note(place, f"https://page.example/{place}", verdict)
    return comparison


def test_verdicts_differ_by_kind_or_original_and_each_pair_of_kinds_has_its_examples() -> None:
    recorded = RecordedOutcomes(PLACES)
    for place in range(6):
        recorded.note(place, PageOutcome.DUPLICATE, "near", (0, 10))
    recorded.note(6, PageOutcome.NOVEL, "no_match")
    recorded.note(7, PageOutcome.REJECTED, "not_json")
    changed = [(place, NOVEL) for place in (1, 2, 3)]
    comparison = compare(recorded, [(0, duplicate(0, 10)), *changed, (4, duplicate(2, 5)), (6, NOVEL), (7, NOVEL)], 2)
    assert comparison.differ == 5
    assert comparison.other_original == {PageOutcome.DUPLICATE: 1}
    assert comparison.compared == 7
    assert comparison.not_replayed() == 1
    assert comparison.pages[PageOutcome.DUPLICATE, PageOutcome.NOVEL] == 3
    kept = {pair: [difference.page for difference in found] for pair, found in comparison.differences.items()}
    assert kept == {
        (PageOutcome.DUPLICATE, PageOutcome.NOVEL): ["pages/0/11", "pages/0/12"],
        (PageOutcome.DUPLICATE, PageOutcome.DUPLICATE): ["pages/0/14"],
        (PageOutcome.REJECTED, PageOutcome.NOVEL): ["pages/0/17"],
    }


@pytest.mark.parametrize("original", [(0, 9), (2, 8), OTHER_TOPIC])
def test_a_duplicate_of_a_page_outside_the_range_is_counted_separately(original: tuple[int, int]) -> None:
    recorded = RecordedOutcomes(PLACES)
    for place in (0, 1):
        recorded.note(place, PageOutcome.DUPLICATE, "near", original)
    comparison = compare(recorded, [(0, NOVEL), (1, duplicate(0, 10))])
    assert (comparison.original_outside, comparison.differ, comparison.compared) == (2, 0, 0)


def test_unrecorded_and_undelivered_pages_are_not_differences() -> None:
    recorded = RecordedOutcomes(PLACES)
    recorded.note(0, PageOutcome.UNDELIVERED, "too_large")
    comparison = compare(recorded, [(0, NOVEL), (1, duplicate(0, 10))])
    assert (comparison.differ, comparison.compared) == (0, 0)
    assert comparison.pages[PageOutcome.NOT_RECORDED, PageOutcome.DUPLICATE] == 1


def test_an_original_that_the_outputs_do_not_name_counts_as_equal() -> None:
    recorded = RecordedOutcomes(PLACES)
    recorded.note(0, PageOutcome.DUPLICATE, "near")
    assert compare(recorded, [(0, duplicate(2, 6))]).differ == 0
    assert compare(recorded, [(0, NOVEL)]).differ == 1


def test_a_page_that_was_judged_twice_is_equal_if_one_of_its_verdicts_is() -> None:
    recorded = RecordedOutcomes(PLACES)
    recorded.note(0, PageOutcome.NOVEL, "no_match")
    recorded.note(1, PageOutcome.DUPLICATE, "near", (0, 10))
    recorded.note(2, PageOutcome.NOVEL, "no_match")
    recorded.note(3, PageOutcome.DUPLICATE, "near", (0, 10))
    first = [(0, duplicate(2, 5)), (1, duplicate(2, 5)), (2, duplicate(2, 5)), (3, duplicate(0, 10))]
    assert compare(recorded, first).differ == 3
    comparison = compare(recorded, [*first, (0, NOVEL), (1, duplicate(0, 10)), (2, duplicate(2, 6)), (3, NOVEL)])
    assert (comparison.differ, comparison.other_original.total(), comparison.compared, comparison.messages) == (
        1,
        0,
        4,
        4,
    )
    assert comparison.pages[PageOutcome.NOVEL, PageOutcome.DUPLICATE] == 1
    assert (comparison.pages[PageOutcome.NOVEL, PageOutcome.NOVEL], comparison.replayed[PageOutcome.NOVEL]) == (1, 1)
    assert [[difference.page for difference in kept] for kept in comparison.differences.values()] == [
        ["pages/0/12"],
        [],
    ]


def test_the_superseded_page_is_part_of_the_verdict() -> None:
    recorded = RecordedOutcomes(PLACES)
    for place, replaced in enumerate([(0, 10), (0, 10), (0, 10), UNKNOWN_ORIGINAL, (0, 9)]):
        recorded.note(place, PageOutcome.NOVEL, "longer", replaced)
    longer = ReplayVerdict(PageOutcome.NOVEL, "longer", duplicate(0, 10).original)
    other = ReplayVerdict(PageOutcome.NOVEL, "longer", duplicate(2, 5).original)
    comparison = compare(recorded, [(0, longer), (1, other), (2, NOVEL), (3, longer), (4, NOVEL)])
    assert (comparison.differ, comparison.other_original, comparison.compared) == (3, {PageOutcome.NOVEL: 3}, 4)
    assert comparison.original_outside == 1, "what the fifth replaced lies before the range"
    text = as_text(report_of(comparison))
    assert "recorded and replayed as novel, superseding another page, or none: 3" in text
    assert "recorded  novel (longer) superseding pages/0/10\n  replayed  novel (longer) superseding pages/2/5" in text
    assert "recorded  novel (longer) superseding pages/0/10\n  replayed  novel (no_match)\n" in text
    examples = as_json(report_of(comparison))["examples"]
    assert [(one["recorded"].get("replaces"), one["replayed"].get("replaces")) for one in examples] == [
        ("pages/0/10", "pages/2/5"),
        ("pages/0/10", None),
        (None, "pages/0/10"),
    ]


def report_of(comparison: Comparison) -> ReplayReport:
    return ReplayReport(
        comparison, LogOrder(PLACES), "signatures", by_log=5, after=2, seconds=2.0, notices=["a notice"]
    )


def test_the_report_has_the_matrix_the_order_and_both_originals_of_an_example() -> None:
    recorded = RecordedOutcomes(PLACES)
    recorded.note(0, PageOutcome.DUPLICATE, "near", (2, 5))
    recorded.note(0, PageOutcome.NOVEL)
    comparison = Comparison(recorded, 3)
    comparison.note(0, "https://evil.example/\x1b[31m", duplicate(2, 7))
    text = as_text(report_of(comparison))
    assert "\x1b" not in text
    lines = text.splitlines()
    assert "duplicate                      0           1           0           0" in lines
    assert (
        "order      5 as in the log signatures; 2 after the last page of their partition in the log, by timestamp"
        in lines
    )
    assert "compared   1 pages: 0 equal, 1 differ (1 only in the original)" in lines
    assert "           1 further messages in the output topics CONTRADICT the first one, for pages/0/10" in lines
    assert "  recorded  duplicate (near) of pages/2/5" in lines
    assert "  replayed  duplicate (near) of pages/2/7  https://original.example/  score 0.5000" in lines
    assert "notice     a notice" in lines
    assert "interrupted" not in text
    found = as_json(dataclasses.replace(report_of(comparison), interrupted=True))
    assert found["interrupted"] is True
    assert found["recorded_by_replayed"]["duplicate"] == {"novel": 0, "duplicate": 1, "unchecked": 0, "rejected": 0}
    assert found["examples"][0]["replayed"]["duplicate_of"] == "pages/2/7"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("0", Bound(offset=0)),
        ("99999999999", Bound(offset=99_999_999_999)),
        ("1700000000000", Bound(time_ms=1_700_000_000_000)),
        ("0:5,12:7", Bound(by_partition={0: 5, 12: 7})),
        ("2023-11-14T22:13:20", Bound(time_ms=1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", Bound(time_ms=1_700_000_000_000)),
        ("2023-11-14", Bound(time_ms=1_699_920_000_000)),
    ],
)
def test_a_bound_is_an_offset_or_one_per_partition_or_a_time(text: str, bound: Bound) -> None:
    assert parse_bound("--from", text) == bound


@pytest.mark.parametrize("text", ["", " ", "-1", "yesterday", "0:", "0:1,", "1e3", "2023-13-01", "1:2:3"])
def test_an_invalid_bound_is_rejected(text: str) -> None:
    with pytest.raises(SettingError, match="--to must be an offset"):
        parse_bound("--to", text)


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        (None, None, (100, 200)),
        (Bound(offset=150), None, (150, 200)),
        (Bound(offset=5), Bound(offset=500), (100, 200)),
        (Bound(offset=150), Bound(offset=120), (150, 150)),
        (Bound(by_partition={1: 7}), Bound(by_partition={0: 130}), (100, 130)),
        (Bound(time_ms=1), Bound(time_ms=2), (140, 200)),
        (Bound(time_ms=2), None, (200, 200)),
    ],
)
def test_a_range_is_limited_to_the_offsets_of_the_partition(
    first: Bound | None, end: Bound | None, expected: tuple[int, int]
) -> None:
    at = {1: 140, 2: None}
    times = {
        which: {0: at[bound.time_ms]} if bound and bound.time_ms else {}
        for which, bound in (("first", first), ("end", end))
    }
    assert span(0, (100, 200), first, end, times) == expected


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("pages/0/12", ("pages", 0, 12)),
        ("a/b.warc/0/3", ("a/b.warc", 0, 3)),
        ("pages/0", None),
        ("/0/1", None),
        ("pages/-1/2", None),
        ("pages/0/\u0663", None),
        (f"pages/0/{2**63}", None),
        (f"pages/{2**31}/0", None),
    ],
)
def test_only_page_ids_parse_as_page_ids(text: str, page: tuple[str, int, int] | None) -> None:
    assert page_of_id(text) == page
