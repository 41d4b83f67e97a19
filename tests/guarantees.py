"""Writes the table of guarantees: a row for each test that is marked with a guarantee, with its outcome in a full run.

    @pytest.mark.guarantee("a deleted state is rebuilt equal from the log", fault="its directory is lost")

The rows come from the source of the tests, so they do not depend on the tests that a run collects. Outcomes are written
after a run in which every marked test ran: to out/guarantees.md, and with --renew-pages (`make guarantees`) to
docs/measured/guarantees.md. `python -m tests.guarantees` updates the page's rows without running any test.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

BEGIN = (
    "<!-- The table is written by `make guarantees` (tests/guarantees.py) from the tests marked with a guarantee. -->"
)
END = "<!-- End of the table of guarantees. -->"
HEAD = ("guarantee", "fault", "shown by", "outcome")
MARK = "pytest.mark.guarantee"
NOT_RUN = "not run yet"
PARTIAL = "guarantees_partial"
PAGE = "docs/measured/guarantees.md"
OUT = "out"
"""Git ignores this folder: pages of an ordinary run are written there."""
FOLDERS = ("tests", "bench/tests")


@dataclass(frozen=True, slots=True, order=True)
class Guarantee:
    """A guarantee, the fault that it covers, and the test (file::name) that shows it; in the order of the table."""

    guarantee: str
    fault: str
    test: str


def declared(root: Path) -> list[Guarantee]:
    """Every guarantee of the tests, in the order of the table.

    Raises SyntaxError, with file and line, if a mark does not consist of two string literals.
    """
    found: list[Guarantee] = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("test_*.py")):
        name, text = path.relative_to(root).as_posix(), path.read_text("utf-8")
        for node in ast.parse(text, name).body if MARK in text else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                texts = [_texts(mark, name) for mark in node.decorator_list if _is_guarantee(mark)]
                found.extend(Guarantee(guarantee, fault, f"{name}::{node.name}") for guarantee, fault in texts)
    return sorted(found)


def _is_guarantee(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).partition("(")[0] == MARK


def _texts(mark: ast.expr, name: str) -> tuple[str, str]:
    match mark:
        case ast.Call(
            args=[ast.Constant(value=str(guarantee))],
            keywords=[ast.keyword(arg="fault", value=ast.Constant(value=str(fault)))],
        ):
            return guarantee, fault
    rule = (
        'a guarantee is marked as @pytest.mark.guarantee("what is promised", fault="what goes wrong"), with plain texts'
    )
    raise SyntaxError(rule, (name, mark.lineno, mark.col_offset + 1, ast.unparse(mark)))


def _cells(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _columns(guarantee: Guarantee) -> str:
    return _cells((guarantee.guarantee, guarantee.fault, f"`{guarantee.test}`"))


def outcomes_written(text: str) -> dict[str, str]:
    """A row's first three columns -> its outcome, from the page's text. Raises ValueError without a table."""
    table = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip().splitlines()[2:]
    rows = [line.removesuffix(" |").rpartition(" | ") for line in table]
    return {f"{columns} |": outcome for columns, _, outcome in rows}


def with_table(text: str, guarantees: Sequence[Guarantee], outcomes: Mapping[Guarantee, str]) -> str:
    """The page's text with a row for each guarantee. Without a new outcome, the written one stays."""
    written = outcomes_written(text)
    lines = [_cells(HEAD), "|---" * len(HEAD) + "|"]
    for guarantee in guarantees:
        outcome = outcomes.get(guarantee, written.get(_columns(guarantee), NOT_RUN))
        lines.append(f"{_columns(guarantee)} {_cells([outcome]).removeprefix('| ')}")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n\n" + "\n".join(lines) + "\n\n" + text[end:]


class Recorder:
    """A pytest plugin that records the outcome of each test, and writes the table after a full run."""

    def __init__(self, root: Path, narrowed: bool) -> None:
        """narrowed: the command line names single tests of a file"""
        self._root = root
        self._partial = narrowed
        self._ended: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Reject a mark that is not a decorator of a function, such as one of a whole module."""
        marked = [(item, mark) for item in items for mark in item.iter_markers("guarantee")]
        known = set(declared(self._root)) if marked else set()
        for item, mark in marked:
            guarantee = " ".join(map(str, mark.args))
            if Guarantee(guarantee, mark.kwargs.get("fault", ""), _function(item.nodeid)) not in known:
                raise pytest.UsageError(f"{item.nodeid}: a guarantee is marked by a decorator of its function")

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """A run without a marked test, or without one of its parameters, shows less than the table would claim."""
        self._partial |= any(item.get_closest_marker("guarantee") for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """With pytest-xdist, only the workers know the tests that were left out."""
        self._partial |= bool(getattr(node, "workeroutput", {}).get(PARTIAL))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.skipped or report.when == "call":
            self._ended.setdefault(_function(report.nodeid), set()).add(_outcome(report))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[PARTIAL] = self._partial
            return
        to_its_end = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED} and not session.shouldfail
        guarantees = declared(self._root)
        if to_its_end and not self._partial and all(guarantee.test in self._ended for guarantee in guarantees):
            outcomes = {guarantee: _worst(self._ended[guarantee.test]) for guarantee in guarantees}
            rewrite(self._root, outcomes, page_to_write(session.config, PAGE))


def _function(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _outcome(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return "skipped: " + report.longrepr[2].removeprefix("Skipped: ")
    return report.outcome


def _worst(outcomes: set[str]) -> str:
    """The outcome of a test with several parameters is the worst of theirs: failed, then skipped, then passed."""
    return min(outcomes - {"passed"}, default="passed")


def page_to_write(config: pytest.Config, page: str) -> Path:
    """The path of a page that a test run writes: below out/, so that the work tree stays clean, or the page itself."""
    root = config.rootpath
    return root / page if config.getoption("--renew-pages") else root / OUT / Path(page).name


def rewrite(root: Path, outcomes: Mapping[Guarantee, str], target: Path) -> None:
    """Write the page to the target, with its table updated from the tree's tests and from these outcomes."""
    text = (root / PAGE).read_text("utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(with_table(text, declared(root), outcomes), "utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-pages",
        action="store_true",
        help="write guarantees.md and crash-matrix.md to docs/measured; without it a full run writes them to out",
    )


def pytest_configure(config: pytest.Config) -> None:
    narrowed = any("::" in argument for argument in config.args)
    config.pluginmanager.register(Recorder(config.rootpath, narrowed), "guarantees recorder")


if __name__ == "__main__":
    repository = Path(__file__).resolve().parents[1]
    rewrite(repository, {}, repository / PAGE)
