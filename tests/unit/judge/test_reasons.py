"""The table of reasons is complete, and metrics, summaries and documents derive from it."""

import re
from collections import Counter

import pytest

from spotsieve.stream.base.verdict import REASONS, Kind, Reason, reason_table, reasons_of
from spotsieve.stream.local.summary import FilterSummary
from spotsieve.stream.observe.metrics import Metrics
from tests.conftest import REPOSITORY


def test_a_reason_without_a_row_fails_at_import() -> None:
    rows = [row for row in REASONS.values() if row.reason is not Reason.CONTAINED]
    with pytest.raises(TypeError, match="CONTAINED"):
        reason_table(*rows)


def test_a_reason_with_two_rows_fails_at_import() -> None:
    with pytest.raises(TypeError, match="EMPTY"):
        reason_table(*REASONS.values(), REASONS[Reason.EMPTY])


def test_every_meaning_is_a_clause_of_its_own() -> None:
    meanings = Counter(row.meaning for row in REASONS.values())
    assert set(meanings.values()) == {1}
    assert all(re.fullmatch(r"[a-z].*[^.\s]", meaning) for meaning in meanings)


def test_a_summary_lists_reasons_beside_their_verdict_in_the_order_of_the_table() -> None:
    summary = FilterSummary(reasons=Counter({reason.label: 1 for reason in reversed(Reason)}))
    lines = summary.as_text().splitlines()
    for kind in Kind:
        (line,) = (line for line in lines if line.startswith(f"  {kind.name.lower()} "))
        listed = [reason.label for reason in reasons_of(kind) if reason not in (Reason.NO_MATCH, Reason.FIRST_ATTEMPT)]
        assert line.endswith(f" ({', '.join(f'{label} 1' for label in listed)})")


def test_every_reason_has_one_series_from_the_start() -> None:
    (family,) = Metrics().pages.collect()
    labels = [sample.labels for sample in family.samples if sample.name.endswith("_total")]
    expected = [{"verdict": reason.kind.name.lower(), "reason": reason.name.lower()} for reason in Reason]
    assert sorted(labels, key=str) == sorted(expected, key=str)


def test_the_guide_has_the_table_of_reasons() -> None:
    guide = (REPOSITORY / "docs/guide.md").read_text("utf-8")
    rows = [f"| `{row.kind.name.lower()}` | `{row.reason.label}` | {row.meaning} |" for row in REASONS.values()]
    missing = [row for row in rows if row not in guide.splitlines()]
    assert missing == [], "add these rows to the table of reasons in docs/guide.md"
    table = "\n".join(["| verdict | reason | why |", "|---|---|---|", *rows, ""])
    assert table in guide, f"put the rows of docs/guide.md into the order of REASONS:\n{table}"
