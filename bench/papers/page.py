"""Lays out docs/measured/papers.md: a section for each paper between two marks, ordered by title.

A paper is a module of this package with TITLE and `section(data)`, which measures over the labelled sets in the folder
`data` and returns the lines below the title, in Markdown. Nothing else needs to know the module.
"""

import pkgutil
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from bench import papers

HEAD = """# The papers' figures, and ours

Each section is written by `.venv/bin/python -m bench.papers NAME`, all of them without a name.
"""
_SECTION = re.compile(r"<!-- papers: (\w+) -->\n\n## ([^\n]*)\n.*?<!-- end of \1 -->\n", re.DOTALL)


class Paper(Protocol):
    """A module of this package that reproduces a paper's figures."""

    TITLE: str

    def section(self, data: Path) -> list[str]:
        """The lines below the title. data: the folder of the labelled sets"""


def find_papers() -> Mapping[str, Paper]:
    """Module name -> module, for all modules with a TITLE."""
    modules = (module.name for module in pkgutil.iter_modules(papers.__path__) if module.name != "__main__")
    found = {name: import_module(f"bench.papers.{name}") for name in sorted(modules)}
    return {name: cast("Paper", module) for name, module in found.items() if hasattr(module, "TITLE")}


def with_section(text: str, name: str, title: str, lines: Sequence[str]) -> str:
    """The text with this section in place of its old version; text outside of marks stays on top."""
    sections = {found[1]: (found[2], found[0]) for found in _SECTION.finditer(text)}
    body = "\n".join(lines)
    sections[name] = (title, f"<!-- papers: {name} -->\n\n## {title}\n\n{body}\n\n<!-- end of {name} -->\n")
    parts = [_SECTION.sub("", text).rstrip("\n") + "\n", *(whole for _, whole in sorted(sections.values()))]
    return "\n".join(parts)


def paragraphs(*parts: Sequence[str]) -> list[str]:
    """The lines of all parts, separated by empty lines."""
    return [line for number, part in enumerate(parts) for line in (*([""] if number else []), *part)]


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table in Markdown; all columns except the first are right-aligned."""
    rule = f"|{'|'.join(['---', *['---:'] * (len(titles) - 1)])}|"
    head, *lines = (f"| {' | '.join(map(str, row))} |" for row in (titles, *rows))
    return [head, rule, *lines]


def decimals(value: float | None, digits: int = 3) -> str:
    """A figure for a table; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"
