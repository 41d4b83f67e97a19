"""The demo's crawl is what it says, and its truth and its explanations hold."""

import json
import urllib.request
from collections import Counter
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest
from aiokafka.structs import ConsumerRecord

from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.cli.demo import _name_dashboard
from spotsieve.stream.demo.articles import SITES, ArticleEdit, edit_article, render, write_articles
from spotsieve.stream.demo.crawl import HOME, ODD, RECRAWL, SEED, SYNDICATED, CrawlMessage, build_crawl
from spotsieve.stream.demo.explain import choose_examples, default_scheme, explain_example
from spotsieve.stream.demo.present import _about_borderline
from spotsieve.stream.demo.traffic import OutputMessages, compare
from spotsieve.stream.insight.explain.texts import shingles_in_words
from spotsieve.stream.judge import judge
from spotsieve.stream.sign.features.sieve import blocks_of
from spotsieve.stream.sign.intake import Decoder, Message
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.fixtures.pages.page_tokens import tokens_of

CRAWL = build_crawl()
MUCH_COPIED = Counter(sent.article for sent in CRAWL if sent.kind == SYNDICATED).most_common(1)[0][0]
SETTINGS = Settings()


def pages_of(crawl: list[CrawlMessage]) -> list[Page]:
    decoder = Decoder(SETTINGS.input)
    return [
        decoder.decode(Message(sent.key, sent.value, (), "pages", 0, number, 0))
        for number, sent in enumerate(crawl)
        if sent.article is not None
    ]


def record(sent: CrawlMessage, value: bytes) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("t", 0, 0, 0, 0, sent.key, value, None, 0, 0, ())


def outputs(crawl: list[CrawlMessage], originals: dict[int, int]) -> OutputMessages:
    """What a filter would give that drops page i as a copy of originals[i]."""
    novel = [record(sent, sent.value or b"") for number, sent in enumerate(crawl) if number not in originals]
    reports = [
        record(crawl[copy], orjson.dumps({"page": {"url": crawl[copy].url}, "duplicate_of": {"url": crawl[first].url}}))
        for copy, first in originals.items()
    ]
    return OutputMessages(novel, reports, [])


def test_the_same_seed_gives_the_same_crawl_and_another_seed_another() -> None:
    assert build_crawl(SEED) == CRAWL
    assert build_crawl(SEED + 1) != CRAWL


def test_the_crawl_has_every_kind_of_page_and_every_edit() -> None:
    kinds = Counter(sent.kind for sent in CRAWL)
    assert kinds[HOME] == 80
    assert all(kinds[kind] for kind in (RECRAWL, SYNDICATED, ODD))
    assert {sent.edit for sent in CRAWL if sent.kind == SYNDICATED} == set(ArticleEdit)
    assert len({sent.template for sent in CRAWL if sent.template}) == 8


def test_articles_are_really_different_texts() -> None:
    sentences = [set(" ".join(article.paragraphs).split(". ")) for article in write_articles(SEED)]
    shared = [len(one & other) / min(len(one), len(other)) for one, other in combinations(sentences, 2)]
    assert max(shared) < 0.4
    assert np.mean(shared) < 0.01


def test_articles_are_whole_sentences_without_open_slots() -> None:
    for article in write_articles(SEED):
        for paragraph in article.paragraphs:
            assert "{" not in paragraph
            assert paragraph[0].isupper() or paragraph[0] in "\"'"
            assert paragraph.rstrip('"').endswith((".", "?", "!"))


def test_pages_show_the_article_and_keep_no_template_slot() -> None:
    article = write_articles(SEED)[0]
    for site in SITES:
        _, markup = render(site, article, ArticleEdit.NONE, Random(1))
        tokens = [token for block in tokens_of(markup.encode(), True) for token in block]
        assert " ".join(article.paragraphs[0].lower().split()[:3]) in " ".join(tokens)
        assert "$" not in markup
        assert "style" not in tokens


def test_every_edit_but_typography_changes_the_words() -> None:
    article = write_articles(SEED)[0]
    for edit in ArticleEdit:
        edited = edit_article(article, edit, Random(3))
        assert (edited.paragraphs != article.paragraphs) == (
            edit in (ArticleEdit.DATELINE, ArticleEdit.CUT, ArticleEdit.WORDS)
        )


def test_the_edit_of_words_replaces_one_word_in_twenty() -> None:
    article = write_articles(SEED)[0]
    edited = edit_article(article, ArticleEdit.WORDS, Random(3))
    pairs = zip(" ".join(article.paragraphs).split(), " ".join(edited.paragraphs).split(), strict=False)
    assert sum(old != new for old, new in pairs) >= 0.04 * article.words


def test_the_filter_finds_nearly_all_copies_and_loses_no_novel_page_of_the_demo() -> None:
    crawl = [sent for sent in CRAWL if sent.article is not None]
    scheme = scheme_of(SETTINGS.scheme)
    signatures = scheme.sign(pages_of(crawl))
    verdicts, _ = judge(signatures, scheme, memory_state(), SETTINGS.index.bucket_cap, 64)
    article_of = {sent.url: sent.article for sent in crawl}
    dropped = np.flatnonzero(verdicts.kind == Kind.DUPLICATE)
    assert len(dropped) > 170
    for number in dropped:
        original = verdicts.originals[int(number)]
        assert original is not None
        assert article_of[original.url] == crawl[number].article


def test_the_comparison_counts_copies_found_and_missed() -> None:
    first, copy, other = [sent for sent in CRAWL if sent.article == MUCH_COPIED and sent.kind != RECRAWL][:3]
    crawl = [first, replace(copy, edit=ArticleEdit.CUT), replace(other, edit=ArticleEdit.DATELINE)]
    outcome = compare(crawl, outputs(crawl, {2: 0}))
    assert outcome.good
    assert outcome.found == {ArticleEdit.DATELINE.value: 1}
    assert outcome.missed == {ArticleEdit.CUT.value: 1}


def test_a_page_dropped_for_another_article_is_lost() -> None:
    crawl = CRAWL[:2]
    outcome = compare(crawl, outputs(crawl, {1: 0}))
    assert outcome.lost == [crawl[1].url]
    assert not outcome.good


def test_a_message_that_is_missing_or_doubled_is_noticed() -> None:
    crawl = CRAWL[:3]
    received = outputs(crawl, {})
    missing = OutputMessages(received.novel[1:], [], [])
    doubled = OutputMessages(received.novel + received.novel[:1], [], [])
    assert compare(crawl, missing).strays == [crawl[0].url]
    assert compare(crawl, doubled).strays == [crawl[0].url]


def test_an_explanation_has_as_many_shingles_as_the_kernel_hashes() -> None:
    pages = pages_of(CRAWL[:20])
    counts = scheme_of(SETTINGS.scheme).sign(pages).feature_count
    for page, count in zip(pages, counts, strict=True):
        kept = [block.tokens for block in blocks_of(page.body, page.markup) if block.kept and block.place is not None]
        assert sum(len(shingles_in_words(tokens, default_scheme(SETTINGS).shingle_words)) for tokens in kept) == count


def test_a_short_text_is_one_shingle_and_an_empty_text_has_none() -> None:
    assert shingles_in_words(["a", "b"], 3) == [("a", "b")]
    assert shingles_in_words([], 3) == []


def test_an_explanation_has_the_common_shingles_and_the_longest_common_run() -> None:
    first = CRAWL[0]
    copy = next(sent for sent in CRAWL if sent.article == first.article and sent.url != first.url)
    report = {"page": {"id": "1", "url": copy.url}, "duplicate_of": {"id": "0", "url": first.url}, "score": 1.0}
    explanation = explain_example(CRAWL, report, SETTINGS, borderline=False)
    own, shared = explanation.shingles
    assert 0 < shared <= own
    assert len(explanation.run) > 20
    assert explanation.main_words[0] < explanation.words[0]
    assert explanation.boilerplate
    scheme = scheme_of(SETTINGS.scheme)
    verdicts, _ = judge(scheme.sign(pages_of([first, copy])), scheme, memory_state(), SETTINGS.index.bucket_cap, 64)
    assert abs(verdicts.score[1] - explanation.containment) < 0.15
    assert all(explanation.run[0] in source.lower() for source in explanation.sources)


def report_of(copy: CrawlMessage, score: float) -> dict[str, Any]:
    """The report of a copy of the page that has its article first."""
    original = next(sent for sent in CRAWL if sent.article == copy.article and sent.url != copy.url)
    return {"page": {"id": "1", "url": copy.url}, "duplicate_of": {"id": "0", "url": original.url}, "score": score}


def copies(edit: ArticleEdit, count: int) -> list[CrawlMessage]:
    """Copies by this edit whose article's first page is unedited."""
    found = [
        sent for sent in CRAWL if (sent.kind, sent.edit) == (SYNDICATED, edit) and sent.article in FIRST_IS_UNEDITED
    ]
    return found[:count]


FIRST_IS_UNEDITED = {
    sent.article for sent in reversed({one.article: one for one in reversed(CRAWL)}.values()) if sent.kind == HOME
}


def test_clear_cut_examples_come_first_and_then_one_borderline_case() -> None:
    (one, other), (words,), (cut,) = (
        copies(edit, count) for edit, count in ((ArticleEdit.NONE, 2), (ArticleEdit.WORDS, 1), (ArticleEdit.CUT, 1))
    )
    clear, clearer, edited, barely = (
        report_of(copy, score) for copy, score in ((one, 0.9), (other, 1.0), (words, 0.81), (cut, 0.62))
    )
    chosen = choose_examples(CRAWL, [barely, edited, clear, clearer])
    assert chosen == [(clearer, False), (edited, False), (barely, True)]
    # A copy near the threshold is never presented as a clear-cut one, nor a clear-cut one as borderline.
    assert choose_examples(CRAWL, [barely]) == [(barely, True)]
    assert choose_examples(CRAWL, [clear, clearer]) == [(clearer, False)]


def test_the_borderline_case_has_its_estimate_its_exact_value_and_the_threshold() -> None:
    (copy,) = copies(ArticleEdit.WORDS, 1)
    example = explain_example(CRAWL, report_of(copy, 0.62), SETTINGS, borderline=True)
    below = _about_borderline(replace(example, shingles=(100, 58)), default_scheme(SETTINGS))
    assert "0.62 by samples, and 0.6 is needed" in below
    assert "it is 0.58, which is below the threshold" in below
    assert "which agrees" in _about_borderline(replace(example, shingles=(100, 61)), default_scheme(SETTINGS))


def test_the_demo_names_a_dashboard_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    _name_dashboard()
    link = capsys.readouterr().out.split()[-1]
    assert link.startswith("file:///")
    with urllib.request.urlopen(link) as file:
        assert json.load(file)["panels"]
