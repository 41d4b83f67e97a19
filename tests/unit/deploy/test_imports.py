"""Owns the proof of the import rules: they hold, they would catch a breach, and every dependency is declared."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

PACKAGES = ("stream", "state", "deploy")
PURE = (
    "page",
    "signature",
    "verdict",
    "text",
    "features",
    "fingerprints",
    "schemes",
    "judge",
    "policy",
    "scoring",
    "replay",
)
IMPURE = ("asyncio.events", "aiokafka", "rocksdict", "prometheus_client", "structlog")
# Import name -> distribution, where they differ.
DISTRIBUTIONS = {"cchardet": "faust-cchardet", "sklearn": "scikit-learn"}
# Of a declared dependency's own making: pydantic pins pydantic_core, Jinja2 escapes by markupsafe. They come with it.
BROUGHT_ALONG = {"pydantic_core", "markupsafe"}


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))


def contracts() -> list[dict[str, Any]]:
    found = project()["tool"]["importlinter"]["contracts"]
    assert isinstance(found, list)
    return found


def pure_modules() -> list[str]:
    return [f"stream.{name}" for name in PURE if any(REPOSITORY.glob(f"stream/{name}*")) and has_code(name)]


def has_code(name: str) -> bool:
    return (REPOSITORY / f"stream/{name}.py").is_file() or (REPOSITORY / f"stream/{name}/__init__.py").is_file()


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=400)


def make_module(root: Path, name: str, text: str = "") -> None:
    """Write an empty package for each part of a dotted name, and `text` into the last."""
    place = root
    for part in name.split("."):
        place = place / part
        place.mkdir(exist_ok=True)
        (place / "__init__.py").touch()
    if text:
        (place / "__init__.py").write_text(text, "utf-8")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A project with our contracts and empty modules, where a breach can be planted."""
    text = (REPOSITORY / "pyproject.toml").read_text("utf-8")
    (tmp_path / "pyproject.toml").write_text(text[text.index("[tool.importlinter]") :], "utf-8")
    for contract in contracts():
        for name in [*contract["source_modules"], *contract["forbidden_modules"], *PACKAGES]:
            if name.partition(".")[0] in PACKAGES:
                make_module(tmp_path, name)
    return tmp_path


def test_the_import_rules_hold() -> None:
    done = lint_imports(REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_pure_module_is_under_the_rules() -> None:
    assert sorted(pure_modules()) == sorted(contracts()[0]["source_modules"])


def test_the_rules_pass_where_nothing_is_planted(planted: Path) -> None:
    assert lint_imports(planted).returncode == 0


@pytest.mark.parametrize("forbidden", ["asyncio", "aiokafka", "rocksdict"])
def test_a_pure_module_that_imports_it_through_another_module_is_caught(planted: Path, forbidden: str) -> None:
    make_module(planted, "stream.clock", f"import {forbidden}\n")
    make_module(planted, "spotsieve.stream.text", "from stream import clock\n")
    done = lint_imports(planted)
    assert done.returncode == 1
    assert re.search(rf"stream\.text -> stream\.clock.*\n.*stream\.clock -> {forbidden}", done.stdout)


def test_state_that_imports_the_service_is_caught(planted: Path) -> None:
    make_module(planted, "spotsieve.state.store.rocks", "import spotsieve.stream.service\n")
    assert lint_imports(planted).returncode == 1


@pytest.mark.parametrize("name", pure_modules())
def test_importing_a_pure_module_loads_neither_event_loop_nor_broker_nor_store(name: str) -> None:
    # numba itself imports parts of asyncio's neighbours; what counts is that our import adds none of these.
    code = f"import sys, numba; before = set(sys.modules); import {name}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert name in loaded
    assert not loaded & {*IMPURE, "spotsieve.stream.service", "spotsieve.stream.cli"}


def third_party_imports() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                for name in names:
                    top = name.partition(".")[0]
                    if top not in sys.stdlib_module_names and top not in PACKAGES and top != "_typeshed":
                        yield top, path.relative_to(REPOSITORY)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared_dependencies() -> set[str]:
    settings = project()["project"]
    lines = settings["dependencies"] + [line for extra in settings["optional-dependencies"].values() for line in extra]
    return {canonical(re.split(r"[><=~!;\[ ]", line)[0]) for line in lines}


def test_every_imported_package_is_a_declared_dependency() -> None:
    declared = declared_dependencies()
    missing = {
        (name, str(path))
        for name, path in third_party_imports()
        if name not in BROUGHT_ALONG and canonical(DISTRIBUTIONS.get(name, name)) not in declared
    }
    assert not missing


def test_every_declared_dependency_is_imported() -> None:
    imported = {canonical(DISTRIBUTIONS.get(name, name)) for name, _ in third_party_imports()}
    # aiokafka loads cramjam itself, for lz4, snappy and zstd.
    assert declared_dependencies() - imported <= {"cramjam"}
