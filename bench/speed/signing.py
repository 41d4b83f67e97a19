"""Measures signing with every registered scheme: pages of 20 KB to complete signatures, on one core."""

import time
from collections.abc import Sequence

from bench.speed.pages import PAGE_BYTES, html_pages
from spotsieve.stream.base.page import Page
from spotsieve.stream.sign.schemes import Scheme
from spotsieve.stream.sign.schemes.registry import SCHEMES, scheme_of
from tests.fixtures.pages.scheme_settings import settings_named

BATCH_PAGES = 256


def signing_pages(count: int) -> list[Page]:
    """Generated pages of 20 KB, mostly markup, as in the pipeline benchmark."""
    bodies = html_pages(count, 5)
    return [
        Page("bench", 0, number, f"https://{number % 50}.example/{number}", body, True, 0)
        for number, body in enumerate(bodies)
    ]


def signing_us(scheme: Scheme, pages: Sequence[Page], rounds: int) -> float:
    """CPU microseconds per page of this thread, the minimum of some rounds: other programs can only add to it."""
    scheme.sign(pages[:2])
    least = float("inf")
    for _ in range(rounds):
        before = time.thread_time()
        scheme.sign(pages)
        least = min(least, time.thread_time() - before)
    return least / len(pages) * 1e6


def measure_signing(rounds: int = 5, count: int = BATCH_PAGES) -> dict[str, float]:
    """Scheme -> CPU microseconds per page, with its defaults; models are built from the tests' small crawl.

    LSI vectors of `concept` are of that model's few concepts: docs/measured/papers.md has what more of them cost.
    """
    pages = signing_pages(count)
    figures = {name: round(signing_us(scheme_of(settings_named(name)), pages, rounds), 1) for name in SCHEMES}
    return figures | {"page_bytes": PAGE_BYTES}
