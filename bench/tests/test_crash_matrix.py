"""The crash matrix kills at the named steps, and its document changes only with its results."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.crash_matrix import document, rewrite
from tests.fixtures.services.killed_at import POINTS, Killer, Point, owner_of
from tests.fixtures.services.matrix import CELLS, WAVE, Column, Outcome

LOSSLESS = Outcome(pages=WAVE, missing=0, repeats=0, differing=0)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_every_step_has_a_function_to_be_killed_after(point: Point) -> None:
    functions = [*filter(None, {point.exactly_once, point.at_least_once})]
    assert functions
    for function in functions:
        owner, name = owner_of(function)
        assert callable(getattr(owner, name))


def test_a_step_whose_function_is_gone_cannot_be_waited_for(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        Killer(POINTS[0], 1, tmp_path / "armed").patch("spotsieve.stream.service.worker:Worker.no_such_step")


def test_the_matrix_has_a_row_for_each_step_and_a_dash_where_a_guarantee_has_none() -> None:
    rows = [
        line for line in document(dict.fromkeys(CELLS, LOSSLESS), "2026-01-02").splitlines() if line.startswith("| ")
    ]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[2:]] == [point.name for point in POINTS]
    dashes = [row.split(" | ")[0] for row in rows if row.endswith("| - | - |")]
    assert dashes == ["| transaction begun", "| offsets sent"]
    assert len(CELLS) == 44


def test_the_document_is_left_alone_where_only_the_date_and_repeats_differ(tmp_path: Path) -> None:
    path = tmp_path / "crash-matrix.md"
    cells = dict.fromkeys(CELLS, LOSSLESS)
    rewrite(path, cells)
    kept = path.read_text("utf-8").replace("those of 20", "those of 19")
    path.write_text(kept, "utf-8")
    cells[Column("at_least_once", 1), "filed"] = replace(LOSSLESS, repeats=25)
    rewrite(path, cells)
    assert path.read_text("utf-8") == kept
    del cells[Column("at_least_once", 1), "fetched"]
    rewrite(path, cells)
    assert path.read_text("utf-8") != kept
