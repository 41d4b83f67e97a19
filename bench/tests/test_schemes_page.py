"""docs/measured/schemes.md: the section of a set that `python -m bench.schemes` writes, and its place on the page."""

import re
from pathlib import Path

import pytest

from bench.schemes import BEGIN, END, main
from spotsieve.stream.sign.schemes.registry import SCHEMES
from tests.conftest import REPOSITORY
from tests.fixtures.pages.labelled_sets import labelled

__all__ = ["labelled"]


def test_the_tables_and_plots_are_replaced_and_the_rest_stays(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "schemes.md"
    page.write_text(f"before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n", "utf-8")
    for _ in range(2):
        assert main([str(labelled), "--page", str(page)]) == 0
        text = page.read_text("utf-8")
        assert text.startswith(f"before\n\n{BEGIN}\n\nMeasured on 2")
        assert text.endswith(f"uncompressed.\n\n{END}\n\nafter\n")
        assert "old" not in text
        assert [line.split("  ")[0] for line in text.split("```")[1].strip().splitlines()] == ["scheme", *SCHEMES]
        assert f"![{labelled.name}](schemes/{labelled.name}.svg)" in text
    assert (tmp_path / "schemes" / f"{labelled.name}.svg").stat().st_size > 10_000
    assert not capsys.readouterr().out


def test_the_page_shows_registered_schemes_on_three_sets_with_their_plots() -> None:
    text = (REPOSITORY / "docs" / "measured" / "schemes.md").read_text("utf-8")
    written = text.split(BEGIN)[1].split(END)[0]
    tables, plots = written.split("```")[1::2], re.findall(r"!\[\w+\]\((.*?)\)", written)
    assert len(tables) == 3
    for table in tables:
        rows = {line.split("  ")[0] for line in table.strip().splitlines()[1:]}
        assert "spotsieve" in rows
        assert rows <= set(SCHEMES)
    assert all((REPOSITORY / "docs" / "measured" / plot).is_file() for plot in plots)
