"""Takes the pictures of docs/evaluate.md: one pair of a review of the demo's crawl, in light and dark mode.

Run `python -m bench.review_pictures`; it needs Debian's chromium.
"""

import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

from spotsieve.stream.cli import main
from tests.conftest import REPOSITORY
from tests.fixtures.browser import ARGUMENTS

FOLDER = REPOSITORY / "docs" / "measured" / "evaluate"
WINDOW = ViewportSize(width=1000, height=600)
COLOURS = 64
SHOWN_PAIR = 2


def take() -> None:
    """Write both pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        crawl, review = Path(scratch) / "crawl.jsonl", Path(scratch) / "review.html"
        main(["demo", "--crawl", str(crawl)])
        main(["review", str(crawl), "-o", str(review), "--pairs", "120"])
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, viewport=WINDOW).new_page()
            page.goto(review.as_uri())
            for key in "c" * (SHOWN_PAIR - 1) + "v":
                page.keyboard.press(key)
            path = FOLDER / f"review-{scheme}.png"
            page.screenshot(path=path)
            Image.open(path).convert("RGB").quantize(COLOURS).save(path, optimize=True)
        browser.close()


if __name__ == "__main__":
    take()
