"""Explains dropped pages of the demo with the filter's own functions: main text, shingles and fresh words.

`write_page` explains one dropped page with the state of the running filter, as an HTML page.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spotsieve.state.still.reading import read_only_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import page_of_id
from spotsieve.stream.demo.articles import NEWSPAPERS, ArticleEdit
from spotsieve.stream.demo.crawl import CrawlMessage
from spotsieve.stream.demo.traffic import difference
from spotsieve.stream.insight.explain.context import ExplainContext, explain, subject_of
from spotsieve.stream.insight.explain.page_lookup import parse_verdict
from spotsieve.stream.insight.explain.rendering import html_page
from spotsieve.stream.insight.explain.texts import (
    longest_boilerplate,
    longest_run,
    main_text_words,
    read_pair,
    source_lines,
)
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes.registry import salted, scheme_in_scope, scheme_of

CLEAR_EDITS = (ArticleEdit.NONE, ArticleEdit.WORDS, ArticleEdit.DATELINE, ArticleEdit.TYPOGRAPHY, ArticleEdit.CUT)
"""The kinds of clear-cut examples: the first CLEAR_EXAMPLES kinds that the crawl has are shown."""
CLEAR_EXAMPLES = 2
CLEAR_SCORE = 0.8
"""A clear-cut example has at least this estimated containment; the threshold is 0.6."""
SHOWN_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class DuplicateExample:
    """A dropped page and its original. Pairs are (page, original).

    borderline: it is the dropped page with the least containment, not a clear-cut example
    words, main_words: tokens of the page, and of its main text  boilerplate: the page's longest blocks of it
    shingles: different shingles of the page's main text, and how many of them the original has
    fresh_words: words of the main text that the original lacks, in runs of ten and more
    shared_minhash: MinHash values in common
    run: longest run of main text words in common  sources: the source of both pages where the run begins
    """

    report: dict[str, Any]
    borderline: bool
    difference: str
    words: tuple[int, int]
    main_words: tuple[int, int]
    boilerplate: tuple[str, ...]
    shingles: tuple[int, int]
    shared_shingles: tuple[str, ...]
    fresh_words: int
    shared_minhash: int
    run: tuple[str, ...]
    sources: tuple[str, str]

    @property
    def containment(self) -> float:
        """The share of the page's main text that the original contains. The verdict's score estimates it."""
        own, shared = self.shingles
        return shared / max(own, 1)


def choose_examples(crawl: list[CrawlMessage], reports: list[dict[str, Any]]) -> list[tuple[dict[str, Any], bool]]:
    """The reports to explain, each with whether it is borderline.

    First clear-cut copies, the most similar one of each kind. Then the least similar copy of all, which is borderline.
    """
    truth = {sent.url: sent for sent in crawl}
    ranked = sorted(reports, key=lambda report: (-report["score"], report["page"]["url"]))
    clearest: dict[str, dict[str, Any]] = {}
    # Sentences of a template count as main text at first, so copies between sites without such sentences come first.
    for plain in (True, False):
        for report in ranked:
            pair = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
            if report["score"] >= CLEAR_SCORE and plain == all(sent.template in NEWSPAPERS for sent in pair):
                clearest.setdefault(difference(*pair), report)
    clear = [clearest[edit.value] for edit in CLEAR_EDITS if edit.value in clearest][:CLEAR_EXAMPLES]
    borderline = [report for report in ranked[-1:] if report["score"] < CLEAR_SCORE]
    return [(report, False) for report in clear] + [(report, True) for report in borderline]


def explain_example(
    crawl: list[CrawlMessage], report: dict[str, Any], settings: Settings, *, borderline: bool
) -> DuplicateExample:
    """Sign the page of a report and its original again, and compare them."""
    truth = {sent.url: sent for sent in crawl}
    sent, first = truth[report["page"]["url"]], truth[report["duplicate_of"]["url"]]
    decoder = Decoder(settings.input)
    page, original = decode(decoder, sent), decode(decoder, first)
    scheme = default_scheme(settings)
    signatures = scheme_of(scheme).sign([page, original])
    blocks, original_blocks = blocks_of(page.body, page.markup), blocks_of(original.body, original.markup)
    words, original_words = main_text_words(blocks), main_text_words(original_blocks)
    texts = read_pair(page, original, scheme)
    run = longest_run(words, original_words)
    minhash, original_minhash = np.split(signatures.features, signatures.features_bounds[1:-1])
    return DuplicateExample(
        report,
        borderline,
        difference(sent, first),
        (sum(len(block.tokens) for block in blocks), sum(len(block.tokens) for block in original_blocks)),
        (len(words), len(original_words)),
        longest_boilerplate(blocks, SHOWN_BLOCKS),
        (texts.page.shingles, texts.page.shared),
        texts.examples,
        texts.page.fresh_words,
        len(np.intersect1d(minhash, original_minhash)),
        run,
        source_lines(page.body, original.body, run),
    )


def default_scheme(settings: Settings) -> SpotsieveSettings:
    """The settings of the demo's scheme. Raises TypeError for any scheme but the default."""
    if not isinstance(settings.scheme, SpotsieveSettings):
        raise TypeError(f"the demo explains the default scheme, not {settings.scheme.name}")
    return settings.scheme


def decode(decoder: Decoder, sent: CrawlMessage) -> Page:
    """The page in a message of the crawl."""
    return decoder.decode(Message(sent.key, sent.value, (), "demo", 0, 0, 0))


def pages_can_be_written() -> bool:
    """Whether the package jinja2, which write_page needs, is installed."""
    return find_spec("jinja2") is not None


def write_page(path: Path, crawl: list[CrawlMessage], report: dict[str, Any], raw: bytes, settings: Settings) -> None:
    """Write the explanation of a report as HTML.

    report, raw: the report from the topic of duplicates, parsed and as bytes. Raises StateError.
    """
    decoder = Decoder(settings.input)
    of_url = {sent.url: sent for sent in crawl}
    page, original = (decode(decoder, of_url[report[side]["url"]]) for side in ("page", "duplicate_of"))
    with read_only_state(Path(settings.index.directory)) as state:
        scheme = salted(scheme_in_scope(settings), state.salt)
        context = ExplainContext(settings, scheme, state, state.clock, "of the demo's filter", state.entry_count)
        subject = subject_of(_with_id(page, report["page"]["id"]), scheme, f"the topic {settings.topics.input}")
        explanation = explain(page.url, subject, context, recorded=parse_verdict(raw), texts=[original])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_page(explanation), encoding="utf-8")


def _with_id(page: Page, text: str) -> Page:
    """The page with the id that it has in its topic."""
    page_id = page_of_id(text)
    if page_id is None:
        return page
    source, partition, offset = page_id
    return page._replace(source=source, partition=partition, offset=offset)
