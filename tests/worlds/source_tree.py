"""The project's own source tree: tracked files, and the imports of its modules."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


def tracked_names(*patterns: str) -> list[str]:
    """Paths of tracked files that exist, relative to the project's folder."""
    done = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=REPOSITORY, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("needs a git work tree")
    return [name for name in done.stdout.decode().split("\0") if name and (REPOSITORY / name).is_file()]


def tracked(*patterns: str) -> list[Path]:
    """Paths of tracked files that exist."""
    return [REPOSITORY / name for name in tracked_names(*patterns)]


def imported_names(text: bytes) -> Iterator[str]:
    """The dotted names of the modules that a module imports, or imports from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


COMMENT_OR_DOCSTRING = re.compile(r'^[ \t]*"""(.*?)"""|(?:^|(?<=\s))# [^\n]*', re.MULTILINE | re.DOTALL)


def comments_and_docstrings(text: str) -> Iterator[tuple[int, str]]:
    """The comments and bare strings of a module, each with the number of its first line.

    It reads by a pattern: parsing the whole tree would take ten times as long. A `# ` in a string counts as a comment.
    """
    for match in COMMENT_OR_DOCSTRING.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[0]
