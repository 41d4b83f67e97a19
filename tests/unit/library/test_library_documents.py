"""The Python of README and docs/library.md runs as it is printed, with the real packages."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY


def examples(document: Path) -> list[tuple[int, str]]:
    """(line, code) of every Python block."""
    text = document.read_text("utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start()) + 1, block[1]) for block in found]


@pytest.mark.parametrize(("name", "blocks"), [("README.md", 1), ("docs/library.md", 10)])
def test_the_python_of_a_document_runs_from_its_beginning_to_its_end(
    name: str, blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {}
    found = examples(REPOSITORY / name)
    assert len(found) == blocks
    for line, code in found:
        # Each block stands on its line, so that a traceback names the line of the document.
        exec(compile("\n" * line + code, name, "exec"), given)
    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"# prints (.*)$", "\n".join(code for _, code in found), re.MULTILINE)


def test_readme_s_library_is_six_lines() -> None:
    ((_, code),) = examples(REPOSITORY / "README.md")
    assert len(list(filter(None, code.splitlines()))) == 6
