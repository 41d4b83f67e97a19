"""Checks the sizes of modules: few, cohesive modules instead of many small ones (issue 35)."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from statistics import median

from tests.conftest import REPOSITORY
from tests.fixtures.source_tree import tracked_names

MAX_MODULES = 380
MIN_MEDIAN_LINES = 125
MAX_LINES = 450
SMALL_LINES = 60
"""A module with fewer lines and one importer belongs into its importer."""
PACKAGE = "spotsieve"
PATTERNS = ("stream/*.py", "state/*.py")

EXCEPTIONS: dict[str, str] = {}
"""Small modules that may have one importer: path -> the reason."""


def line_counts() -> dict[str, int]:
    """The number of lines of each module of the product, by path."""
    return {name: len((REPOSITORY / name).read_bytes().splitlines()) for name in tracked_names(*PATTERNS)}


def importers(sources: Mapping[str, bytes]) -> dict[str, set[str]]:
    """The paths of the modules that import each module. sources: text by path"""
    found: dict[str, set[str]] = defaultdict(set)
    paths = {f"{PACKAGE}.{path.removesuffix('.py').replace('/', '.')}": path for path in sources}
    for importer, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                if name in paths:
                    found[paths[name]].add(importer)
    return found


def needless(sources: Mapping[str, bytes]) -> list[str]:
    """The paths of small modules that exactly one other module imports."""
    found = importers(sources)
    return sorted(
        path
        for path, text in sources.items()
        if len(text.splitlines()) < SMALL_LINES and not path.endswith("__init__.py") and len(found[path]) == 1
    )


def test_the_product_has_few_modules_of_a_readable_size() -> None:
    lines = line_counts()
    assert len(lines) <= MAX_MODULES
    assert median(lines.values()) >= MIN_MEDIAN_LINES


def test_no_module_is_too_long_to_read_in_one_go() -> None:
    assert {path: count for path, count in line_counts().items() if count > MAX_LINES} == {}


def test_a_small_module_with_one_importer_is_part_of_that_importer() -> None:
    found = needless({path: (REPOSITORY / path).read_bytes() for path in tracked_names(*PATTERNS)})
    assert sorted(set(found) - set(EXCEPTIONS)) == [], "merge these modules into their importers"
    assert sorted(set(EXCEPTIONS) - set(found)) == [], "these exceptions are not needed: remove them"
    assert all(EXCEPTIONS.values())


def test_a_planted_small_module_is_found_by_each_form_of_import() -> None:
    planted = {"stream/small.py": b"X = 1\n", "stream/large.py": b"X = 1\n" * SMALL_LINES}
    for line in (
        b"import spotsieve.stream.small",
        b"from spotsieve.stream import small",
        b"from spotsieve.stream.small import X",
    ):
        one = {"stream/user.py": line + b"\n" * SMALL_LINES}
        assert needless(planted | one) == ["stream/small.py"]
        assert needless(planted | one | {"stream/other.py": line + b"\n" * SMALL_LINES}) == []
