"""The page of guarantees lists the marked tests, and only a full run that is asked to writes it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.guarantees import BEGIN, END, OUT, PAGE, declared, outcomes_written, with_table

TESTS = """
import pytest

@pytest.mark.guarantee("b | holds", fault="none")
def test_b() -> None: pass

@pytest.mark.guarantee("a holds", fault="it breaks")
@pytest.mark.guarantee("a holds", fault="it bends")
@pytest.mark.parametrize("number", [1, 2])
def test_a(number: int) -> None: assert number < 2

@pytest.mark.guarantee("c holds", fault="the disk is lost")
@pytest.mark.skip(reason="needs a disk")
async def test_c() -> None: pass

def test_that_promises_nothing() -> None: pass
"""
TABLE = """| guarantee | fault | shown by | outcome |
|---|---|---|---|
| a holds | it bends | `tests/test_some.py::test_a` | failed |
| a holds | it breaks | `tests/test_some.py::test_a` | failed |
| b \\| holds | none | `tests/test_some.py::test_b` | passed |
| c holds | the disk is lost | `tests/test_some.py::test_c` | skipped: needs a disk |"""
EMPTY = f"# A project\n\n{BEGIN}\n\n| guarantee |\n|---|\n\n{END}\n\nAnd more.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(TESTS, "utf-8")
    (tmp_path / PAGE).parent.mkdir(parents=True)
    (tmp_path / PAGE).write_text(EMPTY, "utf-8")
    settings = "[pytest]\nmarkers = guarantee(guarantee, fault)\n"
    (tmp_path / "pytest.ini").write_text(settings, "utf-8")
    return tmp_path


def pytest_of(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin", "-p", "tests.guarantees", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def run(project: Path, *arguments: str) -> str:
    """The page after a pytest run of the project that may renew it."""
    ended = pytest_of(project, "--renew-pages", *arguments)
    assert ended.returncode in {0, 1}, ended.stdout + ended.stderr
    return (project / PAGE).read_text("utf-8")


def test_the_page_names_every_promise_of_the_tests_and_no_other() -> None:
    text = (REPOSITORY / PAGE).read_text("utf-8")
    renewed = with_table(text, declared(REPOSITORY), {})
    assert text == renewed, "run `python -m tests.guarantees`: the table is not that of the marked tests"
    assert outcomes_written(text), "a table without a row"


@pytest.mark.parametrize("spread", [(), ("-n", "2")])
def test_a_full_run_writes_a_row_for_each_promise_with_the_worst_outcome(
    project: Path, spread: tuple[str, ...]
) -> None:
    text = run(project, *spread)
    assert text == EMPTY.replace("| guarantee |\n|---|", TABLE)


def test_an_ordinary_full_run_writes_its_table_below_out_and_leaves_the_page(project: Path) -> None:
    assert pytest_of(project).returncode == 1
    assert (project / PAGE).read_text("utf-8") == EMPTY
    assert (project / OUT / "guarantees.md").read_text("utf-8") == EMPTY.replace("| guarantee |\n|---|", TABLE)


def test_a_full_run_with_the_same_outcomes_changes_nothing(project: Path) -> None:
    assert run(project) == run(project)


@pytest.mark.parametrize(
    "part", [("-k", "not test_c"), ("--deselect", "tests/test_some.py::test_a[2]"), ("-x",), ("--collect-only",)]
)
def test_a_part_of_the_tests_writes_nothing(project: Path, part: tuple[str, ...]) -> None:
    assert run(project, *part) == EMPTY


def test_one_parameter_of_the_only_marked_test_is_a_part(project: Path) -> None:
    only = TESTS[TESTS.index('@pytest.mark.guarantee("a') : TESTS.index('@pytest.mark.guarantee("c')]
    (project / "tests" / "test_some.py").write_text("import pytest\n" + only, "utf-8")
    assert run(project, "tests/test_some.py::test_a[1]") == EMPTY
    assert run(project, "-k", "1", "-n", "2") == EMPTY
    assert "| it bends | `tests/test_some.py::test_a` | failed |" in run(project)


def test_rows_brought_up_to_date_without_a_run_keep_their_outcomes(project: Path) -> None:
    first, *others = declared(project)
    text = with_table(EMPTY, [first], {first: "passed"})
    renewed = outcomes_written(with_table(text, [first, *others], {}))
    assert list(renewed.values()) == ["passed", "not run yet", "not run yet", "not run yet"]


@pytest.mark.parametrize("mark", ['("a")', '("a", fault=FAULT)', '("a", "b")', ""])
def test_a_mark_that_cannot_be_read_from_the_source_is_refused(project: Path, mark: str) -> None:
    file = project / "tests" / "test_other.py"
    file.write_text(f"import pytest\n\n@pytest.mark.guarantee{mark}\ndef test_d() -> None: pass\n", "utf-8")
    with pytest.raises(SyntaxError, match=r"a guarantee is marked as .*test_other.py, line 3"):
        declared(project)


def test_a_mark_of_a_whole_module_is_refused(project: Path) -> None:
    mark = 'import pytest\npytestmark = pytest.mark.guarantee("d holds", fault="none")\ndef test_d() -> None: pass\n'
    (project / "tests" / "test_other.py").write_text(mark, "utf-8")
    ended = pytest_of(project)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_d: a guarantee is marked by a decorator of its function" in ended.stderr + ended.stdout


def test_long_tests_show_guarantees_because_only_those_outcomes_are_saved() -> None:
    shown = {guarantee.test.rpartition("::")[2] for guarantee in declared(REPOSITORY)}
    long = [
        node.name
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(ast.unparse(mark) == "pytest.mark.long" for mark in node.decorator_list)
    ]
    assert len(long) >= 2
    assert set(long) <= shown
    assert '-m "not long and not compiles"' in (REPOSITORY / "Makefile").read_text("utf-8")


def test_make_kernels_names_every_file_of_the_tests_that_make_test_leaves_out_for_it() -> None:
    tests = (REPOSITORY / "tests").rglob("test_*.py")
    marked = [path for path in tests if "\n@pytest.mark.compiles\n" in path.read_text("utf-8")]
    named = [path.relative_to(REPOSITORY).as_posix() for path in marked]
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    command = makefile.partition("-m compiles ")[2].partition("\n\n")[0]
    assert sorted(word for word in command.split() if word.endswith(".py")) == sorted(named)
    assert "make kernels" in (REPOSITORY / ".ci" / "run").read_text("utf-8")
