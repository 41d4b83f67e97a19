"""A real browser for tests of pages that people open: Debian's chromium, driven by Playwright.

Import the fixture `browser` where it is wanted: `from tests.worlds.browser import browser, opened`. The tests are
skipped where chromium is not there, and the end of the run says so (tests/worlds/debian.py).
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.worlds.debian import needs_debian

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
"""Nothing here may ask the network for anything but what a test serves."""


class Opened(NamedTuple):
    """A page that is open. page: Playwright's  told: what it wrote to its console, and errors of its scripts

    asked: addresses that it asked for, its own first
    """

    page: Any
    told: list[str]
    asked: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window, for the tests of a module. They open contexts of their own in it.

    Not for longer: while it is open, Playwright's event loop counts as running, and tests with a loop of theirs fail.
    """
    chromium = needs_debian("chromium", program="chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield started
        started.close()


@contextlib.contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[Opened]:
    """A file in a context of its own. context: as of Browser.new_context, such as color_scheme, viewport"""
    own = browser.new_context(accept_downloads=True, **context)
    page = own.new_page()
    told: list[str] = []
    asked: list[str] = []

    def refuse(dialog: Any) -> None:
        told.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("dialog", refuse)
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(path.resolve().as_uri())
        yield Opened(page, told, asked)
    finally:
        own.close()
