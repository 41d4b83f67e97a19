"""Explains why a page was dropped: it compares kept text, shingles and sketches by the filter's own functions.

Writes the demo's explanation page: one dropped page, explained by the state of the filter that runs.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spotsieve.state.still.reading import read_only_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.demo.articles import ArticleEdit
from spotsieve.stream.demo.crawl import RECRAWL, CrawlMessage
from spotsieve.stream.demo.traffic import difference
from spotsieve.stream.insight.explain.context import ExplainContext, explain, subject_of
from spotsieve.stream.insight.explain.page_lookup import parse_verdict
from spotsieve.stream.insight.explain.texts import (
    kept_words,
    longest_left_out,
    longest_run,
    shingles_in_words,
    source_lines,
)
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes.registry import scheme_in_scope, scheme_of

EXAMPLES = 3
SHOWN_BLOCKS = 3
SHOWN_SHINGLES = 3


@dataclass(frozen=True, slots=True)
class DuplicateExample:
    """One dropped page beside its original; pairs are (of the page, of the original).

    words, kept_words: all tokens, and those of kept blocks  left_out: the longest blocks of the page that are left out
    shingles: of the page, of the original, of both, with repeats  same_host: whether the bars for one host apply
    differing_bits: of the two sketches  shared_minima: smallest hashes of both pages
    run: the longest run of kept words in both pages  sources: the bytes where that run begins
    """

    report: dict[str, Any]
    difference: str
    words: tuple[int, int]
    kept_words: tuple[int, int]
    left_out: tuple[str, ...]
    shingles: tuple[int, int, int]
    shared_shingles: tuple[str, ...]
    same_host: bool
    differing_bits: int
    shared_minima: int
    run: tuple[str, ...]
    sources: tuple[str, str]

    @property
    def jaccard(self) -> float:
        """The exact Jaccard of the two multisets of shingles, which the verdict's score estimates."""
        own, other, shared = self.shingles
        return shared / max(own + other - shared, 1)


def choose_examples(crawl: list[CrawlMessage], reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to EXAMPLES reports of different kinds: the most edited kinds, and of each kind the least similar copy."""
    truth = {sent.url: sent for sent in crawl}
    kinds = [RECRAWL, *(edit.value for edit in ArticleEdit)]

    def kind(report: dict[str, Any]) -> int:
        return kinds.index(difference(truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]))

    by_kind: dict[int, dict[str, Any]] = {}
    for report in sorted(reports, key=lambda report: (-report["score"], report["page"]["url"])):
        by_kind[kind(report)] = report
    return [by_kind[number] for number in sorted(by_kind)[-EXAMPLES:]]


def explain_examples(crawl: list[CrawlMessage], report: dict[str, Any], settings: Settings) -> DuplicateExample:
    """Sign both pages again, and find out what they share."""
    truth = {sent.url: sent for sent in crawl}
    sent, first = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
    decoder = Decoder(settings.input)
    page, original = decode(decoder, sent), decode(decoder, first)
    scheme = default_scheme(settings)
    signatures = scheme_of(scheme).sign([page, original])
    blocks, original_blocks = blocks_of(page.body, page.markup), blocks_of(original.body, original.markup)
    kept, original_kept = kept_words(blocks), kept_words(original_blocks)
    shingles = Counter(shingles_in_words(kept, scheme.shingle_words))
    original_shingles = Counter(shingles_in_words(original_kept, scheme.shingle_words))
    shared = shingles & original_shingles
    run = longest_run(kept, original_kept)
    own_minima, other_minima = np.split(signatures.features, signatures.features_bounds[1:-1])
    return DuplicateExample(
        report,
        difference(sent, first),
        (sum(len(block.tokens) for block in blocks), sum(len(block.tokens) for block in original_blocks)),
        (len(kept), len(original_kept)),
        longest_left_out(blocks, SHOWN_BLOCKS),
        (shingles.total(), original_shingles.total(), shared.total()),
        tuple(" ".join(shingle) for shingle in list(shared)[:SHOWN_SHINGLES]),
        bool(signatures.host[0] == signatures.host[1]),
        int(np.bitwise_count(signatures.sketch[0] ^ signatures.sketch[1]).sum()),
        len(np.intersect1d(own_minima, other_minima)),
        run,
        source_lines(page.body, original.body, run),
    )


def default_scheme(settings: Settings) -> SpotsieveSettings:
    """The settings of the scheme that the demo runs and explains."""
    if not isinstance(settings.scheme, SpotsieveSettings):
        raise TypeError(f"the demo explains the default scheme, not {settings.scheme.name}")
    return settings.scheme


def decode(decoder: Decoder, sent: CrawlMessage) -> Page:
    """A message of the crawl as a page."""
    return decoder.decode(Message(sent.key, sent.value, (), "demo", 0, 0, 0))


PAGE_FILE = "demo-explanation.html"


def write_page(
    folder: Path, crawl: list[CrawlMessage], report: dict[str, Any], raw: bytes, settings: Settings
) -> Path | None:
    """Explain the page of a report, both texts at hand; None where the package for HTML is not installed.

    report, raw: the report of the topic of duplicates, parsed and as it is. Raises StateError.
    """
    try:
        from spotsieve.stream.insight.explain.rendering import html_page
    except ImportError:
        return None
    decoder = Decoder(settings.input)
    of_url = {sent.url: sent for sent in crawl}
    page, original = (decode(decoder, of_url[report[side]["url"]]) for side in ("page", "duplicate_of"))
    scheme, directory = scheme_in_scope(settings), Path(settings.index.directory)
    with read_only_state(directory) as state:
        view = state
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
