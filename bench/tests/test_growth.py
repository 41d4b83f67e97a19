"""`make growth` at tiny sizes: a killed run continues, the model fits known costs, and the page says what fails."""

import json
import shutil
from math import e, log2
from pathlib import Path
from typing import Any

import pytest

from bench.large_state import filling, growth
from bench.large_state.cost_model import UNIT, CostModel, GrowthRow, Line, crawl, fit
from bench.large_state.filling import fill, write_file
from bench.large_state.growth import LARGEST, LESS, SIZES, measure, sizes_for
from bench.large_state.growth_page import BOUND_FROM, broken_bound, growth_page
from bench.large_state.judging import BACKGROUND, JUDGE, PHASES
from bench.large_state.variants import LargeStatePlan
from bench.scale.costs import Costs, StepCost
from spotsieve.state.store.rocks_options import TUNING

PAGES, JUDGED = 2_000, 1_024
MODEL = CostModel(Line(50.0, 2.0, 30.0), Line(60.0, 3.0, 90.0), 4.0)


class KilledError(Exception):
    """Ends a fill as a kill would."""


def made_row(pages: int, memory: str, reads: float) -> GrowthRow:
    """A row whose CPU and time are those of MODEL."""
    cpu_us, wall_us = (line.at(pages, reads) for line in (MODEL.cpu_us, MODEL.wall_us))
    bytes_ = {"disk": 10 * pages, "resident": pages, "filled_bytes": 600 * pages, "cache_mb": 8}
    phases = {name: {"cpu_us": 1.0, "reads": 0.5} for name in [*dict.fromkeys(PHASES.values()), JUDGE, BACKGROUND]}
    figures = {
        "cpu_us": cpu_us,
        "wall_us": wall_us,
        "reads": reads,
        "system_us": 9.0,
        "read_bytes": 1e3,
        "compacted": 1e3,
    }
    return {
        "pages_filled": pages, "memory": memory, "phases": phases, "load_average": 0.5, "on": "2026-11-29",
        **bytes_, **figures,
    }  # fmt: skip


def made_rows() -> list[GrowthRow]:
    """Rows of four sizes; the largest has the reads of MODEL."""
    sizes = {100_000: 2.0, UNIT: 7.0, 4 * UNIT: 6.5, 30 * UNIT: MODEL.reads}
    limited = [made_row(pages, "a tenth", reads) for pages, reads in sizes.items()]
    return [made_row(UNIT, "all", 0.0), *limited]


def made_costs() -> Costs:
    """Costs of roles: a worker takes 100 us a page, a single judge 50 us, shards 60 us and 1 us for each shard."""
    nothing, step = StepCost(0.0, 0.0, 0.0), StepCost(60e-6, 1e-6, 0.0)
    return Costs(
        60e-6, 40e-6, 0.0, 50e-6, step, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
        0.0, {}, 2e4,
    )  # fmt: skip


@pytest.mark.usefixtures("one_process")
def test_a_killed_run_keeps_its_table_files_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, old = LargeStatePlan(PAGES, JUDGED, growth.BATCH_PAGES, 32).load()
    written = list[str]()

    def killed_after_two(job: filling.Job) -> tuple[str, str]:
        if len(written) == 2:
            raise KilledError
        written.append(job.path)
        return write_file(job)

    monkeypatch.setattr(filling, "write_file", killed_after_two)
    with pytest.raises(KilledError):
        fill(tmp_path / str(PAGES), PAGES, load, old, TUNING)
    made = {path: Path(path).stat().st_mtime_ns for path in written}

    def unchanged(job: filling.Job) -> tuple[str, str]:
        result = write_file(job)
        assert Path(job.path).stat().st_mtime_ns == made.get(job.path, Path(job.path).stat().st_mtime_ns)
        return result

    monkeypatch.setattr(filling, "write_file", unchanged)
    rows = list[GrowthRow]()
    measure(tmp_path, PAGES, JUDGED, rows, tmp_path / "rows.json")
    measure(tmp_path, PAGES, JUDGED, rows, tmp_path / "rows.json")

    assert [row["memory"] for row in rows] == ["all", "a tenth"]
    assert json.loads((tmp_path / "rows.json").read_text("utf-8")) == rows
    assert [file.name for file in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.usefixtures("one_process")
def test_the_phases_are_the_whole_cost(tmp_path: Path) -> None:
    rows = list[GrowthRow]()

    measure(tmp_path, PAGES, JUDGED, rows, tmp_path / "rows.json")

    for row in rows:
        assert sum(phase["cpu_us"] for phase in row["phases"].values()) == pytest.approx(row["cpu_us"])
        assert 0 < sum(phase["reads"] for phase in row["phases"].values()) <= row["reads"]
        assert row["phases"]["buckets"]["cpu_us"] > 0
        assert row["pages"] == JUDGED // 2


def test_the_largest_state_fits_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_free(bytes_: int) -> tuple[int, ...]:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": bytes_}))
        return sizes_for(tmp_path)

    assert with_free(90 * 10**9) == (*SIZES, LARGEST)
    assert with_free(90 * 10**9 - 1) == (*SIZES, LESS)
    (tmp_path / "100000000.tables").mkdir()
    (tmp_path / "100000000.tables" / "buckets-1-0.sst").write_bytes(b"1")
    assert with_free(90 * 10**9 - 1) == (*SIZES, LARGEST), "a killed run continues with its size"


def test_the_model_of_known_costs_is_found() -> None:
    for found, known in zip(fit(made_rows()), MODEL, strict=True):
        assert found == pytest.approx(known, abs=1e-6)


def test_a_crawl_costs_what_its_parts_cost() -> None:
    alone, sharded = (crawl(MODEL, made_costs(), 600.0, 10**9, shards) for shards in (0, 8))

    typical = log2(10**9 / e / UNIT)
    assert alone.cpu_us == pytest.approx(100.0 + 50.0 + 2.0 * typical + 30.0 * 4.0)
    assert alone.cpu_hours == pytest.approx(alone.cpu_us * 10**9 / 3.6e9)
    assert alone.days == pytest.approx((60.0 + 3.0 * typical + 90.0 * 4.0) * 1e3 / 86_400)
    # The part of CPU that does not read grows from 50 us to 60 + 8 us; each shard has an eighth of the pages.
    less = typical - 3
    assert sharded.cpu_us == pytest.approx(100.0 + 68 / 50 * (50.0 + 2.0 * less) + 30.0 * 4.0)
    assert sharded.days < alone.days / 5


def test_the_page_says_whether_the_memory_bound_holds() -> None:
    figures: dict[str, Any] = {
        "machine": {"cores": 2, "cpu": "a CPU", "system": "Linux", "python": "3.11"},
        "rows": made_rows(),
    }
    large, model = figures["rows"][-1], fit(figures["rows"])

    assert large["pages_filled"] >= BOUND_FROM
    assert broken_bound(figures["rows"]) == ""
    assert "All holds" in growth_page(figures, model)
    assert "| 100,000 | a tenth | 1 MiB | 0 MiB | 103 | - | 9 |" in growth_page(figures, model)
    large["resident"] += 4_000_000
    assert "30,000,000 pages is 8.8 times the memory" in growth_page(figures, model)
