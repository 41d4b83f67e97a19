"""Prints lines and files of every district, and the imports between districts: `python -m bench.modules [TREE]`.

A district is a folder of stream/, or one of state/, bench/ and tests/. TREE is another checkout to compare with;
there a folder of stream/ counts as a district whatever its name is.
"""

import argparse
import ast
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PARTS = ("state", "bench", "tests")
PRODUCT = ("stream", "state")


class Module(NamedTuple):
    """A Python file. imports: districts that it imports, with the number of import statements for each"""

    district: str
    lines: int
    imports: Counter[str]


def district_of(parts: tuple[str, ...]) -> str:
    """The district of a path or of a dotted name without `spotsieve`, or "" if it has none."""
    if parts[:1] == ("stream",):
        return f"stream/{parts[1]}" if len(parts) > 1 else "stream"
    return parts[0] if parts and parts[0] in PARTS else ""


def read_module(path: Path, tree: Path) -> Module:
    """Reads one file of `tree`. Imports inside functions count too."""
    relative = path.relative_to(tree)
    text = path.read_text("utf-8")
    district = district_of(relative.parts if len(relative.parts) > 2 else relative.parts[:1])
    imports: Counter[str] = Counter()
    for node in ast.walk(ast.parse(text)):
        for name in _imported(node):
            parts = tuple(name.split("."))
            other = district_of(parts[1:] if parts[0] == "spotsieve" else parts)
            if other not in ("", district):
                imports[other] += 1
    return Module(district, len(text.splitlines()), imports)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return []
    if node.module == "spotsieve.stream":  # `from spotsieve.stream import cli` imports a district by its name.
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [node.module]


def read_tree(tree: Path) -> list[Module]:
    """All modules of a checkout, without the package's own __init__.py."""
    folders = ("stream", *PARTS)
    return [read_module(path, tree) for folder in folders for path in sorted((tree / folder).rglob("*.py"))]


def table_of(modules: list[Module]) -> list[str]:
    """A Markdown table: files, lines, median lines of a file, and the imported districts of each district."""
    rows = ["| district | files | lines | median | imports (number of statements) |", "|---|---|---|---|---|"]
    for district in sorted({module.district for module in modules}, key=lambda name: (name.split("/")[0], name)):
        members = [module for module in modules if module.district == district]
        imports: Counter[str] = sum((module.imports for module in members), Counter())
        imported = ", ".join(f"{name.removeprefix('stream/')} {count}" for name, count in imports.most_common())
        rows.append(f"| {district} | {len(members)} | {_lines(members):,} | {_median(members)} | {imported or '-'} |")
    product = [module for module in modules if module.district.split("/")[0] in PRODUCT]
    rows.append(f"| stream and state | {len(product)} | {_lines(product):,} | {_median(product)} | |")
    return rows


def _lines(modules: list[Module]) -> int:
    return sum(module.lines for module in modules)


def _median(modules: list[Module]) -> int:
    return round(median(module.lines for module in modules))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print lines, files and imports of every district.")
    parser.add_argument("tree", nargs="?", type=Path, default=REPOSITORY, help="the checkout to read (default: this)")
    print("\n".join(table_of(read_tree(parser.parse_args().tree))))
