"""The documentation site builds without a warning, holds every document, and is readable on a telephone."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds. A broken link or a page outside the contents is a warning, and ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(REPOSITORY / "docs"), str(folder / "html")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.slow
def test_the_site_has_every_document_and_the_words_of_the_library(site: Path) -> None:
    documents = {path.stem for path in (REPOSITORY / "docs").glob("*.md")}
    assert documents <= {path.stem for path in site.glob("*.html")}
    assert "add_many" in (site / "api.html").read_text("utf-8")
    assert "scheme.min_jaccard" in (site / "configuration.html").read_text("utf-8")
    assert "pages.jsonl" in (site / "quick-start.html").read_text("utf-8")


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_machines(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text("utf-8")
        assert 'src="http' not in text, page.name
        assert '<link rel="stylesheet" type="text/css" href="http' not in text, page.name
