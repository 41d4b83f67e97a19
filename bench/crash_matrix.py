"""Writes docs/measured/crash-matrix.md: the verdicts of the pages in flight when a worker is killed, step by step."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.fixtures.services.killed_at import POINTS
from tests.fixtures.services.matrix import COLUMNS, WAVE, Column, Outcome

ABOUT = """# Crash matrix

A worker process is killed (SIGKILL) right after each step of a page's pipeline, on a real broker, while {pages} pages
flow and others are already in the state. Then it is started again. With two workers, the other one continues meanwhile.
Every verdict that a read_committed consumer finds is compared with the log judged again from its beginning, and with
one worker also with an undisturbed run of the same pages. Outputs and offsets of a transaction are sent concurrently.

`make guarantees` writes this page (`tests/faults/test_crash_matrix.py`) if every cell keeps the guarantee: under
exactly_once every page has exactly one verdict, under at_least_once at least one, and repeats have the same verdict.
Repeats depend on the pages in flight at the kill; those of {date} are shown.
"""
VARYING = re.compile(r"\d{4}-\d\d-\d\d|\d+ repeats")
"""The parts of the text that differ between two runs with the same result."""


def document(outcomes: Mapping[tuple[Column, str], Outcome], date: str) -> str:
    """The text of the document. A dash marks a step that a guarantee does not have."""
    heads = ["killed after", "when", *(f"{column.guarantee}, {_workers(column)}" for column in COLUMNS)]
    rows = [heads, ["---", "---", *("---:" for _ in COLUMNS)]]
    for point in POINTS:
        cells = [_cell(outcomes.get((column, point.name))) for column in COLUMNS]
        rows.append([point.name, point.about, *cells])
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    pages, repeats = (sum(getattr(found, name) for found in outcomes.values()) for name in ("pages", "repeats"))
    total = (
        f"{len(outcomes)} kills among {pages:,} pages: "
        f"{sum(found.missing for found in outcomes.values())} pages without a verdict, "
        f"{sum(found.differing for found in outcomes.values())} with another verdict than without the kill, "
        f"{repeats} repeats."
    )
    return f"{ABOUT.format(date=date, pages=WAVE)}\n{table}\n\n{total}\n"


def rewrite(path: Path, outcomes: Mapping[tuple[Column, str], Outcome]) -> None:
    """Write the document if the result changed; a new date or another number of repeats alone does not count."""
    text = document(outcomes, datetime.now(UTC).date().isoformat())
    former = path.read_text("utf-8") if path.exists() else ""
    if VARYING.sub("", former) != VARYING.sub("", text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def _workers(column: Column) -> str:
    return f"{column.workers} worker{'s' if column.workers > 1 else ''}"


def _cell(found: Outcome | None) -> str:
    if found is None:
        return "-"
    return f"{found.missing} missing, {found.differing} differ, {found.repeats} repeats"
