"""The documentation site builds without a warning, holds every document, and is readable on a telephone."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import REPOSITORY
from tests.fixtures.browser import browser, opened  # noqa: F401 - `browser` is a fixture

WIDTHS = 360, 1200
OVERFLOW = """() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (one) => {  // a table or a listing may scroll by itself, the article may not
        for (let at = one.parentElement; at && at.tagName !== "ARTICLE"; at = at.parentElement)
            if (["auto", "scroll"].includes(getComputedStyle(at).overflowX)) return true;
        return false;
    };
    const past = [...document.querySelectorAll("article *")].filter(
        (one) => one.getBoundingClientRect().right > width + 1 && !scrolls(one));
    const wide = document.documentElement.scrollWidth - width;
    return [...(wide > 0 ? [wide] : []), ...past.slice(0, 3).map((one) => one.outerHTML.slice(0, 80))];
}"""
"""By how many pixels a page can be scrolled to the right, and what stands beyond its edge; [] where all fits."""
TOO_WIDE = """() => {
    const one = document.createElement("div");
    one.style.width = "2000px";
    document.querySelector("article").append(one);
}"""


class Linked(HTMLParser):
    """What a page links to, and the places in it that may be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links, self.places = list[str](), set[str]()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
        self.places.update(value for name, value in attrs if name in ("id", "name") and value)


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
    documents = {path.stem for path in (REPOSITORY / "docs").rglob("*.md")}
    assert documents <= {path.stem for path in site.rglob("*.html")}
    assert "add_many" in (site / "api.html").read_text("utf-8")
    assert "scheme.min_containment" in (site / "configuration.html").read_text("utf-8")
    assert "pages.jsonl" in (site / "quick-start.html").read_text("utf-8")


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_machines(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert 'src="http' not in text, page.name
        assert '<link rel="stylesheet" type="text/css" href="http' not in text, page.name


@pytest.mark.slow
def test_every_link_within_the_site_leads_to_a_file_and_a_place(site: Path) -> None:
    read = {page: Linked(page) for page in site.rglob("*.html")}
    assert len(read) > 30
    checked = 0
    for page, linked in read.items():
        for link in linked.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = page.parent / unquote(parts.path) if parts.path else page
            assert target.exists(), f"{page.name} links to {link}"
            if parts.fragment and target in read:
                assert unquote(parts.fragment) in read[target].places, f"{page.name} links to {link}"
            checked += 1
    assert checked > 1000


@pytest.mark.slow
def test_every_page_fits_a_telephone_and_a_screen_and_no_script_fails(site: Path, browser: Any) -> None:  # noqa: F811 - the fixture
    first, *others = sorted(site.rglob("*.html"))
    faults = list[str]()
    with opened(browser, first) as shown:
        for page in (first, *others):
            shown.page.set_viewport_size({"width": min(WIDTHS), "height": 800})
            shown.page.goto(page.resolve().as_uri())
            for width in WIDTHS:
                shown.page.set_viewport_size({"width": width, "height": 800})
                if over := shown.page.evaluate(OVERFLOW):
                    faults.append(f"{page.name} at {width} px: {over}")
        shown.page.evaluate(TOO_WIDE)
        for width in WIDTHS:
            shown.page.set_viewport_size({"width": width, "height": 800})
            assert shown.page.evaluate(OVERFLOW), "the check sees what does not fit"
        faults += shown.messages
        faults += [url for url in shown.requests if not url.startswith(("file:", "data:"))]
    assert not faults, "\n".join(faults)
