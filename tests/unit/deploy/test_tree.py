"""House rules that a tool of its own does not check: one import name, shared fixtures in one place, readable tests."""

import ast
import re
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import imported_names, tracked

SHARED = ("tests.fixtures", "tests.reference", "tests.conftest", "tests.guarantees")
TEST_FILES = ("tests/*.py", "bench/tests/*.py")
OLD_NAME = re.compile(r"^\s*(?:from|import) (?:stream|state)\b(?!-)[. ]|-m[\", ]+(?:stream|state)\b", re.MULTILINE)
NAME_LENGTH = 80
FORMATTING = re.compile(r"# fmt: (?:skip|off)")
EXEMPTIONS = 29
"""For tables that the formatter would destroy, such as golden bytes where a line is a field."""
KILL_PROGRAM = re.compile(r"""(?:run|Popen|call|check_\w+)\(\s*\[?\s*f?["']p?kill(?:all)?\b""")
"""procps 4.0.2 reads the group in `kill -2 -12345` as 1, which is every process; `os.killpg` means what it says."""
SLEEPS = re.compile(r"\b(?:time|asyncio)\.sleep\((?!0\))")


def where(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def test_nothing_is_imported_or_run_but_under_the_one_import_name() -> None:
    files = tracked("*.py", "*.md", "*.toml", "*.yaml", "*.yml", "*.sh", "Makefile", "deploy/Dockerfile", ".ci/run")
    found = [
        f"{where(path)}: {match[0].strip()}" for path in files for match in OLD_NAME.finditer(path.read_text("utf-8"))
    ]
    assert found == []
    names = {(where(path), name) for path in tracked("*.py") for name in imported_names(path.read_bytes())}
    assert [one for one in names if one[1].partition(".")[0] in ("stream", "state", "deploy")] == []


def test_what_tests_share_is_in_fixtures_reference_conftest_or_bench() -> None:
    found = [
        f"{where(path)} imports {name}"
        for path in tracked("tests/*.py", "bench/*.py")
        for name in imported_names(path.read_bytes())
        if (name.startswith("tests.") and not name.startswith(SHARED)) or name.startswith("bench.tests")
    ]
    assert found == []


def test_the_product_imports_neither_tests_nor_bench() -> None:
    found = [
        f"{where(path)} imports {name}"
        for path in tracked("stream/*.py", "state/*.py", "__init__.py")
        for name in imported_names(path.read_bytes())
        if name.partition(".")[0] in ("tests", "bench")
    ]
    assert found == []


def test_fixtures_import_no_test_and_no_measurement() -> None:
    found = [
        f"{where(path)} imports {name}"
        for path in tracked("tests/fixtures/*.py")
        for name in imported_names(path.read_bytes())
        if name.partition(".")[0] in ("tests", "bench")
        and not name.startswith(("tests.fixtures", "tests.reference", "tests.conftest"))
    ]
    assert found == []


def test_names_of_tests_are_sentences_that_fit_a_line() -> None:
    found = [
        f"{where(path)}::{node.name}"
        for path in tracked(*TEST_FILES)
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and len(node.name) > NAME_LENGTH
    ]
    assert found == []


def test_a_test_sleeps_only_where_time_itself_is_its_subject_and_says_so() -> None:
    found = []
    for path in tracked(*TEST_FILES):
        lines = path.read_text("utf-8").splitlines()
        if "time is their subject" in lines[0]:
            continue
        for number, (before, line) in enumerate(zip(["", *lines], lines, strict=False), 1):
            if SLEEPS.search(line) and "Time itself:" not in before + line:
                found.append(f"{where(path)}:{number}: {line.strip()}")
    assert [one for one in found if not one.startswith("tests/fixtures/waiting.py:")] == []


def test_signals_are_sent_by_calls_and_not_by_the_kill_program() -> None:
    assert KILL_PROGRAM.search('subprocess.run(["kill", "-2", "-12345"])')
    found = [where(path) for path in tracked("*.py") if KILL_PROGRAM.search(path.read_text("utf-8"))]
    assert found == ["tests/unit/deploy/test_tree.py"]


def test_few_places_are_exempt_from_the_formatter() -> None:
    exempt = [where(path) for path in tracked("*.py") for _ in FORMATTING.finditer(path.read_text("utf-8"))]
    assert len(exempt) <= EXEMPTIONS, sorted(set(exempt))
