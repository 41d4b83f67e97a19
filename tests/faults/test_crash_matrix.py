"""Kill -9 after any step of a page's way loses nothing, doubles nothing, changes no verdict."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.crash_matrix import rewrite
from spotsieve.stream.demo.localkafka.jars import KAFKA_VERSION, release
from tests.conftest import Broker
from tests.fixtures.pages.crawls import Crawl, crawl
from tests.fixtures.services.matrix import CELLS, COLUMNS, WAVE, Column, Outcome, Ran, run_column
from tests.guarantees import page_to_write

UNDISTURBED = Column("exactly_once", 1)


class Matrix:
    """The columns that the tests of this run ask for, killed side by side on one broker."""

    def __init__(self, servers: str, directory: Path, cells: set[tuple[Column, str]], pages: Crawl) -> None:
        self._pool = ThreadPoolExecutor(len(COLUMNS) + 1)
        self._columns: dict[Column, Future[Ran]] = {}
        for column in COLUMNS:
            points = [point for point in column.points() if (column, point.name) in cells]
            where = directory / f"{column.guarantee}-{column.workers}"
            if points:
                self._columns[column] = self._pool.submit(run_column, servers, where, column, points, pages)
        self._undisturbed = self._pool.submit(run_column, servers, directory / "undisturbed", UNDISTURBED, (), pages)
        self.outcomes: dict[tuple[Column, str], Outcome] = {}
        """The cells that were found as promised."""

    def column(self, column: Column) -> Ran:
        """Wait for a column. Raises what made it fail."""
        return self._columns[column].result()

    def undisturbed(self) -> Ran:
        """The verdicts of the same pages where nothing was killed."""
        return self._undisturbed.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def pages() -> Crawl:
    return crawl(WAVE * max(len(column.points()) for column in COLUMNS), seed=5)


@pytest.fixture(scope="module")
def matrix(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory, pages: Crawl
) -> Iterator[Matrix]:
    selected: set[tuple[Column, str]] = set()
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == Path(__file__) and hasattr(item, "callspec"):
            given: Mapping[str, Any] = item.callspec.params
            names = [given["point"]] if "point" in given else [point.name for point in given["column"].points()]
            selected.update((given["column"], name) for name in names)
    running = Matrix(kafka.bootstrap_servers, tmp_path_factory.mktemp("matrix"), selected, pages)
    yield running
    running.close()
    if running.outcomes.keys() == set(CELLS) and release() == KAFKA_VERSION:
        rewrite(page_to_write(request.config, "docs/measured/crash-matrix.md"), running.outcomes)


def _cells(guarantee: str) -> list[object]:
    """The cells of a guarantee. Those of two workers take as long again, and are left to `make guarantees`."""
    return [
        pytest.param(
            column,
            name,
            id=f"{name.replace(' ', '-')}-{column.workers}",
            marks=[pytest.mark.long] if column.workers > 1 else [],
        )
        for column, name in CELLS
        if column.guarantee == guarantee
    ]


@pytest.mark.guarantee(
    "exactly_once: every page has exactly one verdict", fault="kill -9 after each step, 1 or 2 workers"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("column", "point"), _cells("exactly_once"))
def test_killed_after_any_step_every_page_has_exactly_the_one_verdict_of_the_log(
    matrix: Matrix, column: Column, point: str
) -> None:
    found = matrix.column(column).outcomes[point]
    assert found == Outcome(pages=WAVE, missing=0, repeats=0, differing=0)
    matrix.outcomes[column, point] = found


@pytest.mark.guarantee(
    "at_least_once: no page is lost, and repeats have the same verdict", fault="kill -9 after each step, 1 or 2 workers"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("column", "point"), _cells("at_least_once"))
def test_killed_after_any_step_at_least_once_loses_no_page_and_repeats_say_the_same(
    matrix: Matrix, column: Column, point: str
) -> None:
    found = matrix.column(column).outcomes[point]
    assert found == Outcome(pages=WAVE, missing=0, repeats=found.repeats, differing=0)
    matrix.outcomes[column, point] = found


@pytest.mark.guarantee("a crash changes no verdict", fault="kill -9 after each step, beside an undisturbed run")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("column", [column for column in COLUMNS if column.workers == 1])
def test_a_worker_killed_after_every_step_gives_the_verdicts_of_an_undisturbed_run(
    matrix: Matrix, column: Column, pages: Crawl
) -> None:
    # One partition, so the input alone gives the order, and with it every verdict.
    undisturbed = matrix.undisturbed().verdicts
    assert undisturbed.keys() == pages.articles.keys()
    killed = matrix.column(column).verdicts
    assert len(killed) == WAVE * len(matrix.column(column).outcomes)
    differing = {key: verdicts for key, verdicts in killed.items() if set(verdicts) != set(undisturbed[key])}
    assert not differing, f"{len(differing)} pages, such as {next(iter(differing.items()))}"
    assert {kind for verdicts in killed.values() for kind, _ in verdicts} == {"novel", "duplicate"}
