"""The import rules of pyproject.toml hold, would catch a breach, and name what exists; every dependency is declared."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import imported_names

OURS = "spotsieve"
PACKAGES = ("stream", "state")
# Import name -> distribution, where they differ.
DISTRIBUTIONS = {"cchardet": "faust-cchardet", "sklearn": "scikit-learn"}
# Of a declared dependency's own making: pydantic pins pydantic_core, Jinja2 escapes by markupsafe. They come with it.
BROUGHT_ALONG = {"pydantic_core", "markupsafe"}


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))


def contracts() -> list[dict[str, Any]]:
    found = project()["tool"]["importlinter"]["contracts"]
    assert isinstance(found, list)
    return found


def pure_contract() -> dict[str, Any]:
    """The contract of the part that is plain functions: it forbids event loops and stores."""
    (found,) = [one for one in contracts() if {"asyncio", "rocksdict"} <= set(one.get("forbidden_modules", ()))]
    return found


def modules_named(contract: dict[str, Any]) -> Iterator[str]:
    """Our modules that a contract names, in whichever of its lists: wildcards as they are, optional ones too."""
    for key in ("source_modules", "forbidden_modules", "modules", "containers", "ancestors"):
        yield from (name for name in contract.get(key, ()) if is_ours(name))
    for container in contract.get("containers", [""]):
        for layer in contract.get("layers", ()):
            for name in re.split(r"[|:]", layer):
                full = ".".join(filter(None, (container, name.strip(" ()"))))
                if is_ours(full):
                    yield full
    for line in (*contract.get("ignore_imports", ()), *contract.get("exhaustive_ignores", ())):
        yield from (name.strip() for name in line.split("->") if is_ours(name.strip()))


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == OURS


def exists(name: str, root: Path = REPOSITORY) -> bool:
    """Whether the tree has this module: a file, or a folder with an __init__.py. A wildcard must fit at least one."""
    pattern = "/".join(name.split(".")[1:])
    found = [*root.glob(f"{pattern}.py"), *root.glob(f"{pattern}/__init__.py")] if pattern else [root]
    return bool(found)


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract["name"])
def test_every_module_that_a_contract_names_exists(contract: dict[str, Any]) -> None:
    named = list(modules_named(contract))
    assert named
    assert [name for name in named if not exists(name)] == []


def test_a_contract_that_names_a_folder_that_is_gone_is_found() -> None:
    gone = {"source_modules": ["spotsieve.stream.policy"], "layers": ["spotsieve.stream.cli", "(spotsieve.state.old)"]}
    named = {name: exists(name) for name in modules_named(gone)}
    assert named == {"spotsieve.stream.policy": False, "spotsieve.stream.cli": True, "spotsieve.state.old": False}


def layers_of_districts() -> list[set[str]]:
    (contract,) = [one for one in contracts() if one["type"] == "layers" and "containers" not in one]
    return [{module.strip() for module in layer.split("|")} for layer in contract["layers"]]


def test_the_drawing_of_architecture_shows_the_layers_of_the_contract() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text("utf-8").split("## Districts")[1]
    (drawing, *_) = re.findall(r"(?:^     .*\n)+", text, re.MULTILINE)
    drawn = iter(re.findall(r"(?:stream|state)/\w+", drawing))
    undrawn = {"spotsieve.stream.__main__", "spotsieve.stream.warm"}
    for layer in layers_of_districts():
        expected = {name.removeprefix(f"{OURS}.").replace(".", "/") for name in layer - undrawn}
        assert {next(drawn, "nothing") for _ in expected} == expected, (
            "draw the layers of pyproject.toml in their order"
        )
    assert list(drawn) == []


def test_every_folder_has_its_place_in_the_layers() -> None:
    tree = {
        f"{OURS}.{package}.{path.stem}"
        for package in PACKAGES
        for path in (REPOSITORY / package).iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert set().union(*layers_of_districts()) == tree


def test_an_import_that_goes_uphill_is_caught(planted: Path) -> None:
    make_module(planted, "spotsieve.stream.sign.text", "from spotsieve.stream import engine\n")
    assert "districts import downhill BROKEN" in lint_imports(planted).stdout


def test_modules_of_a_folder_that_import_each_other_are_caught(planted: Path) -> None:
    make_module(planted, "spotsieve.state.store.memory", "from spotsieve.state.store import rocks\n")
    make_module(planted, "spotsieve.state.store.rocks", "from spotsieve.state.store import memory\n")
    assert "in a circle BROKEN" in lint_imports(planted).stdout


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or directory == REPOSITORY}
    return subprocess.run(
        command, cwd=directory, env=inherited, capture_output=True, text=True, check=False, timeout=400
    )


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
    for path in sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        make_module(tmp_path, ".".join((OURS, *(part for part in parts if part != "__init__"))))
    return tmp_path


def test_the_import_rules_hold() -> None:
    done = lint_imports(REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_pass_where_nothing_is_planted(planted: Path) -> None:
    done = lint_imports(planted)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("forbidden", ["asyncio", "aiokafka", "rocksdict"])
def test_a_pure_module_that_imports_it_through_another_module_is_caught(planted: Path, forbidden: str) -> None:
    make_module(planted, "spotsieve.stream.base.terminal", f"import {forbidden}\n")
    make_module(planted, "spotsieve.stream.sign.text", "from spotsieve.stream.base import terminal\n")
    done = lint_imports(planted)
    assert done.returncode == 1
    assert re.search(rf"sign\.text -> \S*terminal.*\n.*terminal -> {forbidden}", done.stdout), done.stdout


def test_state_that_imports_the_service_is_caught(planted: Path) -> None:
    make_module(planted, "spotsieve.state.store.rocks", "import spotsieve.stream.service\n")
    assert lint_imports(planted).returncode == 1


@pytest.fixture(scope="module")
def loaded_by() -> dict[str, set[str]]:
    """Pure module -> the modules that its import loads, each in a fork that has numba alone."""
    # numba itself imports parts of asyncio's neighbours; what counts is that our import adds none of these.
    code = (
        "import importlib, os, sys, numba; before = set(sys.modules)\n"
        "for name in sys.argv[1:]:\n"
        "    if not os.fork():\n"
        "        importlib.import_module(name)\n"
        "        print(name, *sorted(set(sys.modules) - before)); sys.exit()\n"
        "    assert os.wait()[1] == 0, name"
    )
    command = [sys.executable, "-c", code, *pure_contract()["source_modules"]]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return {name: set(loaded) for name, *loaded in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("name", pure_contract()["source_modules"])
def test_importing_a_pure_module_loads_neither_event_loop_nor_broker_nor_store(
    name: str, loaded_by: dict[str, set[str]]
) -> None:
    loaded = loaded_by[name]
    assert name in loaded
    assert not loaded & ({*pure_contract()["forbidden_modules"], "asyncio.events"} - {"asyncio", "threading", "socket"})


def third_party_imports() -> Iterator[tuple[str, Path]]:
    for path in sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")):
        for name in imported_names(path.read_bytes()):
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in (OURS, "_typeshed"):
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
    # aiokafka loads cramjam itself, for lz4, snappy and zstd; uvicorn loads httptools.
    assert declared_dependencies() - imported <= {"cramjam", "httptools"}
