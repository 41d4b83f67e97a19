"""Kernels are compiled by stream/base/jit.py alone, and an edit of a module that they import compiles them again."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from spotsieve.stream.base.jit import imported_files
from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked

JIT = "stream/base/jit.py"
DECORATED = re.compile(r"^@(?:kernel|part|inlined)$", re.MULTILINE)
UNTYPED = {"kernel", "part", "inlined", "intrinsic"}
"""Decorators of functions whose argument types numba infers."""

ACROSS_HOSTS = """
import numpy as np
from spotsieve.stream.judge.by_host.containment import new_comparison
from spotsieve.stream.judge.by_host.distinctive_text import EntryTexts, PageTexts, new_view
from spotsieve.stream.sign.schemes import HostThresholds
from spotsieve.stream.sharding.confirmation import EntryPairs, _test_kernel as across

# One block of 9 words of main text, without samples or a title.
host, site, blocks = np.ones(1, np.uint64), np.zeros(1, np.uint16), np.array([1 << 24 | 9 << 8 | 0xF1], np.uint64)
zero, one, nothing, bounds = np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(2, np.int64), np.array([0, 1])
no_samples, no_hashes, bit = np.empty(0, np.uint64), np.empty(0, np.uint16), np.zeros(1, np.uint8)

page = PageTexts(host, site, blocks, bounds, no_samples, nothing, no_hashes, nothing, bit)
sizes = [np.full(1, 9, np.uint8) for _ in range(3)]
sample = np.zeros(1, np.uint32), no_hashes, zero, zero
entry = EntryTexts(host + host, site, *sizes, *sample, blocks, zero, one, no_hashes, zero, zero)
results, alike = np.zeros(1, np.uint8), np.zeros(1, np.bool_)
thresholds = HostThresholds(0.5, 0.6, 0.0, False, False, False)
pairs = EntryPairs(zero, zero, bit)
across(pairs, zero, page, entry, thresholds, bit, new_view(), new_comparison(), results, alike)
print("result", results[0])
"""
SHINGLES = """
import numpy as np
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.text.tokens import PageTokens

print("result", *shingle_pages(PageTokens(np.arange(4, 28, 4, dtype=np.uint64), np.array([0, 6])), 2, 2)[0])
"""
BITS = """
import numpy as np
from spotsieve.stream.sign.fingerprints.simhash import count_bits

print("result", count_bits(np.uint64(7)))
print("loaded", sum(count_bits.stats.cache_hits.values()))
print("folder", count_bits.stats.cache_path)
"""
OF_A_USER = """
from mine import doubled

assert doubled(21) == 42
print("loaded", sum(doubled.stats.cache_hits.values()))
"""
MINE = """
from numba import njit

@njit(cache=True)
def doubled(number):
    return 2 * number
"""


OF_A_CLASS = """
from typing import NamedTuple

from spotsieve.stream.base.jit import kernel

class Former(NamedTuple):
    number: int

@kernel
def doubled(value):
    return 2 * value.number
"""


class Tree:
    """A copy of the package and its byte code below a folder of its own, and processes that import it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.package = folder / "spotsieve"
        for path in (*tracked("stream/*.py", "state/*.py"), *tracked("stream/*.txt"), REPOSITORY / "__init__.py"):
            copy = self.package / path.relative_to(REPOSITORY)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)  # Byte code is valid for the time of its source.
            if path.suffix == ".py" and (code := Path(cache_from_source(path))).exists():
                Path(cache_from_source(copy)).parent.mkdir(exist_ok=True)
                shutil.copy(code, cache_from_source(copy))
        (folder / "mine.py").write_text(MINE, "utf-8")

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a text that the file has once."""
        path = self.package / name
        text = path.read_text("utf-8")
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, after), "utf-8")

    def run(self, program: str, **environment: str) -> dict[str, str]:
        """Run a program in a process of its own; the lines that it prints, by their first word."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CACHE")}
        inherited |= {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, cwd=self._folder, env=inherited | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return {word: rest for word, _, rest in (line.partition(" ") for line in done.stdout.splitlines())}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "name", "before", "after"),
    [
        (
            ACROSS_HOSTS,
            "stream/judge/by_host/containment.py",
            "compared.counts[0] + compared.counts[1] > 0",
            "compared.counts[0] + compared.counts[1] > 1",
        ),
        (SHINGLES, "stream/sign/text/hashing.py", "return folded_product(state ^ K1, K2)", "return state"),
    ],
    ids=["judge", "text"],
)
def test_a_process_runs_an_edited_function_that_a_cached_kernel_inlines(
    tree: Tree, program: str, name: str, before: str, after: str
) -> None:
    quick = {"NUMBA_OPT": "1"}
    first, again = (tree.run(program + OF_A_USER, **quick) for _ in range(2))
    assert (first["result"], again["loaded"]) == (again["result"], "1")
    tree.edit(name, before, after)
    edited = tree.run(program + OF_A_USER, **quick)
    assert edited["result"] != first["result"]
    # A kernel of the user's own has numba's cache: our edit does not compile it again.
    assert edited["loaded"] == "1"


@pytest.mark.compiles
def test_a_process_starts_after_the_class_of_a_cached_kernels_argument_was_renamed(tree: Tree) -> None:
    module = tree.package / "stream" / "base" / "tried.py"
    for name in ("Former", "Renamed"):
        module.write_text(OF_A_CLASS.replace("Former", name), "utf-8")
        program = (
            f"from spotsieve.stream.base.tried import {name}, doubled\n"
            f"print('result', doubled({name}(21)))\n"
            "print('loaded', sum(doubled.stats.cache_hits.values()))"
        )
        assert [tree.run(program) for _ in range(2)] == [{"result": "42", "loaded": loaded} for loaded in ("0", "1")]


TRIED = "spotsieve.stream.base." + "tried"
"""A module that only the copy of the package has."""
OF_TWO_KERNELS = """
from spotsieve.stream.base.jit import kernel

@kernel
def doubled(number):
    return 2 * number

@kernel
def plus(number):
    return doubled(number) + 1
"""


@pytest.mark.compiles
def test_a_cached_kernel_goes_into_a_kernel_that_is_compiled_later(tree: Tree) -> None:
    module = tree.package / "stream" / "base" / "tried"
    module.with_suffix(".py").write_text(OF_TWO_KERNELS, "utf-8")
    assert tree.run(f"from {TRIED} import doubled; doubled(1)") == {}
    ran = tree.run(
        f"from {TRIED} import doubled, plus\n"
        "print('first', doubled(20))\n"
        "(library,) = [one.library for one in doubled.overloads.values()]\n"
        "print('parsed', library._shared_module is not None)\n"
        "print('result', plus(20), doubled(20))\n"
        "print('loaded', *(sum(one.stats.cache_hits.values()) for one in (doubled, plus)))\n"
        "print('later', library._shared_module is not None)"
    )
    # Loading a kernel parses no bitcode. A kernel that is compiled with it takes its bitcode in.
    assert ran == {"first": "40", "parsed": "False", "result": "41 40", "loaded": "1 0", "later": "True"}


@pytest.mark.compiles
def test_a_numba_that_loads_libraries_in_another_way_loads_them_itself(tree: Tree) -> None:
    module = tree.package / "stream" / "base" / "tried"
    module.with_suffix(".py").write_text(OF_TWO_KERNELS, "utf-8")
    assert tree.run(f"from {TRIED} import plus; plus(1)") == {}
    ran = tree.run(
        "from numba.core.codegen import JITCodeLibrary\n"
        "numbas = JITCodeLibrary._unserialize.__func__\n"
        "JITCodeLibrary._unserialize = classmethod(lambda cls, codegen, state: numbas(cls, codegen, state))\n"
        f"from {TRIED} import plus\n"
        "print('result', plus(20))\n"
        "print('loaded', sum(plus.stats.cache_hits.values()))\n"
        "(library,) = [one.library for one in plus.overloads.values()]\n"
        "print('parsed', library._shared_module is not None)"
    )
    assert ran == {"result": "41", "loaded": "1", "parsed": "True"}


@pytest.mark.compiles
def test_another_process_loads_an_unedited_kernel(tree: Tree) -> None:
    ran = [tree.run(BITS) for _ in range(2)]
    assert [one["loaded"] for one in ran] == ["0", "1"]
    assert ran[0]["folder"] == str(tree.package / "stream/sign/fingerprints/__pycache__")


@pytest.mark.compiles
def test_a_package_that_cannot_be_written_keeps_kernels_in_the_users_cache(tree: Tree, tmp_path: Path) -> None:
    for folder in {path.parent for path in tree.package.rglob("*.py")}:
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        (folder / "__pycache__").touch()  # A file, so that even root cannot write below it.
    ran = [tree.run(BITS, XDG_CACHE_HOME=str(tmp_path / "cache")) for _ in range(2)]
    assert [one["loaded"] for one in ran] == ["0", "1"]
    assert ran[0]["folder"].startswith(str(tmp_path / "cache"))


@pytest.fixture
def installed(tree: Tree) -> Iterator[Tree]:
    """A package with a compiled kernel, as a wheel installs it. No test writes into it."""
    assert tree.run(BITS)["loaded"] == "0"
    folder = tree.package / "stream/sign/fingerprints/__pycache__"
    before = sorted(path.name for path in folder.iterdir())
    assert any(name.endswith(".nbi") for name in before)
    yield tree
    assert sorted(path.name for path in folder.iterdir()) == before


AFTER_NUMBA = (
    """
import numba

numba.njit(lambda number: number + 1)(1)
"""
    + BITS
)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("program", "environment"),
    [
        (BITS, {}),
        (BITS, {"NUMBA_CACHE_DIR": "cache"}),
        (BITS, {"NUMBA_CACHE_LOCATOR_CLASSES": "UserWideCacheLocator", "XDG_CACHE_HOME": "cache"}),
        (AFTER_NUMBA, {"NUMBA_CACHE_DIR": "cache"}),
        (AFTER_NUMBA, {}),
    ],
    ids=["in place", "cache elsewhere", "user's cache", "numba first, cache elsewhere", "numba first"],
)
def test_an_installed_kernel_is_loaded_from_anywhere_and_after_numba(
    installed: Tree, tmp_path: Path, program: str, environment: dict[str, str]
) -> None:
    placed = {name: str(tmp_path / text) if text == "cache" else text for name, text in environment.items()}
    assert installed.run(program, **placed)["result"] == "3"
    assert sorted((tmp_path / "cache").rglob("*.nb[ic]")) == []


@pytest.mark.compiles
@pytest.mark.parametrize(
    "setting", [{"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}, {"NUMBA_BOUNDSCHECK": "1"}]
)
def test_an_installed_kernel_is_compiled_again_for_another_cpu_or_bounds_checks(
    installed: Tree, tmp_path: Path, setting: dict[str, str]
) -> None:
    installed.run(BITS, NUMBA_CACHE_DIR=str(tmp_path / "cache"), **setting)
    assert list((tmp_path / "cache").rglob("*.nbc"))


@pytest.mark.compiles
def test_an_installed_kernel_that_is_out_of_date_is_compiled_again(installed: Tree, tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    installed.edit("stream/sign/text/hashing.py", "return folded_product(state ^ K1, K2)", "return state")
    assert [installed.run(BITS, **cache)["loaded"] for _ in range(2)] == ["0", "1"]


@pytest.mark.compiles
@pytest.mark.parametrize("chosen", ["NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"])
def test_the_users_choice_of_a_cache_folder_counts_and_edits_are_noticed_there(
    tree: Tree, tmp_path: Path, chosen: str
) -> None:
    folder = tmp_path / "cache"
    environment = {
        "NUMBA_CACHE_DIR": {chosen: str(folder)},
        "NUMBA_CACHE_LOCATOR_CLASSES": {chosen: "UserWideCacheLocator", "XDG_CACHE_HOME": str(folder)},
    }[chosen]
    first = tree.run(BITS, **environment)
    assert first["folder"].startswith(str(folder))
    tree.edit("state/index.py", "It imports no store.", "")
    assert tree.run(BITS, **environment)["loaded"] == "1"
    tree.edit("stream/sign/text/hashing.py", "return folded_product(state ^ K1, K2)", "return state")
    assert tree.run(BITS, **environment)["loaded"] == "0"


def test_importing_kernels_reads_no_source_files() -> None:
    program = (
        "import spotsieve.stream.engine, spotsieve.stream.sign.schemes.registry; "
        "from spotsieve.stream.base import jit; print(jit.source_digest.cache_info().currsize)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "0"


def untyped_functions(body: ast.AST) -> Iterator[str]:
    """Functions without annotations that no decorator hands to numba."""
    for node in ast.iter_child_nodes(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if UNTYPED & {one.id for one in node.decorator_list if isinstance(one, ast.Name)}:
                continue
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            bare = [one.arg for one in given if one.annotation is None and one.arg not in ("self", "cls")]
            if bare or node.returns is None:
                yield node.name
        yield from untyped_functions(node)


def where(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def product_files() -> list[Path]:
    return [path for path in tracked("stream", "state") if path.suffix == ".py"]


def test_every_function_that_is_no_kernel_has_annotations() -> None:
    # mypy does not check it: pyproject.toml allows functions without types in the whole package, for the kernels.
    found = {str(path): list(untyped_functions(parsed(path))) for path in product_files()}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_function_without_annotations_is_found() -> None:
    source = """
@kernel
def typed_by_numba(a): ...
class Pages:
    def without_argument(self, a) -> int: ...
    def typed(self) -> int: ...
def without_result(a: int): ...
"""
    assert list(untyped_functions(ast.parse(source))) == ["without_argument", "without_result"]


def decorates_by_numba(node: ast.AST) -> bool:
    """Whether a line imports what compiles a function."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "numba" and not {"jit", "njit", "vectorize", "guvectorize"}.isdisjoint(
            one.name for one in node.names
        )
    return isinstance(node, ast.Import) and any(one.name == "numba" for one in node.names)


def test_one_module_alone_imports_numbas_decorators() -> None:
    found = [path for path in product_files() if any(map(decorates_by_numba, ast.walk(parsed(path))))]
    assert found == [REPOSITORY / JIT]


def module_of(path: str) -> str:
    return f"spotsieve/{path}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def imported_modules(path: Path) -> set[str]:
    """The modules of this package that a file imports, lazily too: paths relative to the repository."""
    found = set[str]()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spotsieve."):
            name = str(node.module).removeprefix("spotsieve.").replace(".", "/")
            found |= {name, *(f"{name}/{one.name}" for one in node.names)}
        if isinstance(node, ast.Import):
            found |= {one.name.removeprefix("spotsieve.").replace(".", "/") for one in node.names}
    names = {f"{name}{ending}" for name in found for ending in (".py", "/__init__.py")}
    return {name for name in names if (REPOSITORY / name).is_file()}


def test_the_digest_covers_every_module_that_a_kernel_is_made_of() -> None:
    kernels = [where(path) for path in product_files() if DECORATED.search(path.read_text("utf-8"))]
    assert len(kernels) > 30
    for kernel in kernels:
        reached = {kernel}
        waiting = [kernel]
        while waiting:
            new = imported_modules(REPOSITORY / waiting.pop()) - reached
            waiting += new
            reached |= new
        assert imported_files(module_of(kernel)) == reached, kernel


def test_an_edit_of_the_state_keeps_the_compiled_kernels_of_the_text() -> None:
    sieve = imported_files("spotsieve.stream.sign.features.sieve")
    assert "stream/sign/text/html/scan.py" in sieve
    assert [path for path in sieve if path.startswith(("state/", "stream/judge/"))] == []


def test_kernels_have_no_free_variables() -> None:
    # A kernel inside a function could contain a name of that function, which no import statement of its module shows.
    for path in product_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                inner = [one for one in ast.walk(node) if isinstance(one, ast.FunctionDef) and one is not node]
                decorators = {ast.unparse(decorator) for one in inner for decorator in one.decorator_list}
                assert not UNTYPED & decorators, where(path)
