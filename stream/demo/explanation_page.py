"""Writes the demo's explanation page: one dropped page, explained by the state of the filter that runs."""

from pathlib import Path
from typing import Any

from spotsieve.state.still.reading import read_only_state
from spotsieve.state.still.view import ReadOnlyView
from spotsieve.stream.demo.crawl import CrawlMessage
from spotsieve.stream.demo.explain import decode
from spotsieve.stream.explain.asking import ExplainContext, explain, subject_of
from spotsieve.stream.explain.in_files import parse_verdict
from spotsieve.stream.intake import Decoder
from spotsieve.stream.page import Page
from spotsieve.stream.schemes.registry import scheme_in_scope
from spotsieve.stream.settings.model import Settings
from spotsieve.stream.signature import page_of_id

PAGE_FILE = "demo-explanation.html"


def write_page(
    folder: Path, crawl: list[CrawlMessage], report: dict[str, Any], raw: bytes, settings: Settings
) -> Path | None:
    """Explain the page of a report, both texts at hand; None where the package for HTML is not installed.

    report, raw: the report of the topic of duplicates, parsed and as it is. Raises StateError.
    """
    try:
        from spotsieve.stream.explain.as_html import html_page
    except ImportError:
        return None
    decoder = Decoder(settings.input)
    of_url = {sent.url: sent for sent in crawl}
    page, original = (decode(decoder, of_url[report[side]["url"]]) for side in ("page", "duplicate_of"))
    scheme, directory = scheme_in_scope(settings), Path(settings.index.directory)
    with read_only_state(directory) as state:
        view = ReadOnlyView(state)
        judged = ExplainContext(settings, scheme, view, state.clock, "of the demo's filter", view.entry_count)
        subject = subject_of(_with_id(page, report["page"]["id"]), scheme, f"the topic {settings.topics.input}")
        told = explain(page.url, subject, judged, recorded=parse_verdict(raw), texts=[original])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PAGE_FILE
    path.write_text(html_page(told), encoding="utf-8")
    return path


def _with_id(page: Page, text: str) -> Page:
    """The page under the id that it had in its topic."""
    page_id = page_of_id(text)
    if page_id is None:
        return page
    source, partition, offset = page_id
    return page._replace(source=source, partition=partition, offset=offset)
