"""A real browser for tests of HTML that people open: Debian's chromium, driven by Playwright.

Import the fixture: `from tests.worlds.browser import browser, opened`. Without chromium the tests are skipped, and the
end of the run reports it (tests/worlds/debian.py).
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
"""The browser must not use the network, except for the files that a test serves."""


class Opened(NamedTuple):
    """An open page. page: Playwright's  told: its console messages and errors of its scripts

    asked: URLs that it requested, its own first
    """

    page: Any
    told: list[str]
    asked: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser for the tests of a module. They open their own contexts in it.

    Not for longer: while it is open, Playwright's event loop counts as running, and tests with their own loop fail.
    """
    chromium = needs_debian("chromium", program="chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield started
        started.close()


@contextlib.contextmanager
def opened(browser: Any, path: Path, **context: Any) -> Iterator[Opened]:
    """Open a file in a separate context. context: arguments of Playwright's new_context, such as viewport"""
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
