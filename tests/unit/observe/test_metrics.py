"""The service counts arrays into histograms and verdicts into counters, and nothing twice."""

from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from spotsieve.stream.base.errors import RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.base.verdict import KeyKind, Kind, Reason, Verdicts
from spotsieve.stream.observe.metrics import TEXTS, ArrayHistogram, Metrics
from spotsieve.stream.sign.features.languages import path_names
from spotsieve.stream.sign.schemes.registry import scheme_of
from tests.conftest import REPOSITORY
from tests.fixtures.pages.spotsieve_pages import newspaper, page
from tests.reference.signatures import make_signatures


def verdicts(*pairs: tuple[Kind, Reason]) -> Verdicts:
    kinds = np.array([kind for kind, _ in pairs], np.uint8)
    reasons = np.array([reason for _, reason in pairs], np.uint8)
    nothing, none = np.zeros(len(pairs)), (None,) * len(pairs)
    return Verdicts(
        kinds, reasons, nothing, none, nothing.astype(np.int64), kinds * np.uint8(0), nothing.astype(np.bool_), none
    )


def test_an_array_histogram_counts_like_one_that_takes_single_values() -> None:
    registry = CollectorRegistry()
    histogram = ArrayHistogram("spotsieve_test", "Test.", (1, 4, 16), registry)
    histogram.observe(np.array([0, 1, 2, 4, 5, 16, 17, 1000]))
    histogram.observe([])
    found = {
        bound: registry.get_sample_value("spotsieve_test_bucket", {"le": bound}) for bound in ("1", "4", "16", "+Inf")
    }
    assert found == {"1": 2, "4": 4, "16": 6, "+Inf": 8}
    assert registry.get_sample_value("spotsieve_test_sum") == 1045
    assert registry.get_sample_value("spotsieve_test_count") == 8


def test_verdicts_are_counted_by_kind_and_reason_and_only_the_rows_given() -> None:
    metrics = Metrics()
    every = [(reason.kind, reason) for reason in Reason]
    judged = verdicts(*every, (Kind.NOVEL, Reason.NO_MATCH))
    rows = np.array([0, every.index((Kind.DUPLICATE, Reason.NEAR)), len(judged) - 1])
    metrics.count_verdicts(judged, rows, np.array([10, 20, 30]))
    value = metrics.registry.get_sample_value
    assert value("spotsieve_pages_total", {"verdict": "novel", "reason": "no_match"}) == 2
    assert value("spotsieve_pages_total", {"verdict": "duplicate", "reason": "near"}) == 1
    assert value("spotsieve_pages_total", {"verdict": "unchecked", "reason": "empty"}) == 0
    assert value("spotsieve_page_bytes_total", {"verdict": "novel"}) == 40
    assert metrics.pages_by_kind() == {Kind.NOVEL: 2, Kind.DUPLICATE: 1, Kind.UNCHECKED: 0}


def test_buckets_swept_are_counted_on_and_the_watermark_is_in_seconds() -> None:
    metrics = Metrics()
    stats = {"entries": 5, "bytes_on_disk": 9, "floor": 7, "watermark_ms": 1_500, "swept_buckets": 3}
    metrics.observe_state(stats, (100, 40))
    metrics.observe_state({**stats, "swept_buckets": 10}, (100, 39))
    value = metrics.registry.get_sample_value
    assert value("spotsieve_swept_buckets_total") == 10
    assert value("spotsieve_watermark_seconds") == 1.5
    assert (value("spotsieve_state_first_live_entry"), value("spotsieve_state_entries")) == (7, 5)
    assert (value("spotsieve_disk_size_bytes"), value("spotsieve_disk_free_bytes")) == (100, 39)


def test_every_verdict_language_text_and_key_is_there_before_the_first_page() -> None:
    # A rate() over a series that appears with its first page misses that page.
    metrics = Metrics()
    there = [("languages", "language", path_names()), ("texts", "text", TEXTS)]
    keys = ("body", "text", "tables", "minhash", "block_fingerprints", "title", "url")
    for name, label, values in [*there, ("duplicates_by_key", "key", keys)]:
        family = f"spotsieve_{name if name == 'duplicates_by_key' else f'page_{name}'}_total"
        assert [metrics.registry.get_sample_value(family, {label: value}) for value in values] == [0] * len(values)
    for rejection in RejectReason:
        labels = {"reason": rejection.value}
        assert metrics.registry.get_sample_value("spotsieve_dead_letters_total", labels) == 0
    for one in Reason:
        labels = {"verdict": one.kind.name.lower(), "reason": one.label}
        assert metrics.registry.get_sample_value("spotsieve_pages_total", labels) == 0


def test_texts_are_counted_by_language_and_by_how_they_were_found() -> None:
    story = (
        "The council said on Monday that the old bridge over the river will be closed for most of the summer, and that "
        "walkers are asked to take the way by the mill until the work is done. "
    )
    whole = f"<nav><a href='/'>Home</a></nav><h1>Bridge closed</h1>{f'<p>{story}</p>' * 8}<footer>copyright</footer>"
    bodies = [whole, f"<p>{story}", "<p>the end", "", "GIF"]
    pages = [Page("pages", 0, n, "", body.encode(), True, 0, "", body != "GIF") for n, body in enumerate(bodies)]
    settings = Settings()
    signatures = scheme_of(settings.scheme).sign(pages)
    metrics = Metrics()
    metrics.count_texts(signatures, np.array([0, 1, 2, 3]))
    metrics.count_texts(signatures, np.array([0, 4]))
    value = metrics.registry.get_sample_value
    texts = {text: value("spotsieve_page_texts_total", {"text": text}) for text in TEXTS}
    assert texts == {"kept": 2, "in_need": 1, "too_little": 1, "none": 2}
    assert value("spotsieve_page_languages_total", {"language": "en"}) == 3
    assert sum(value("spotsieve_page_languages_total", {"language": name}) or 0 for name in path_names()) == 4


def test_a_duplicate_counts_under_every_kind_of_key_that_it_shares_with_its_original() -> None:
    metrics = Metrics()
    judged = verdicts((Kind.NOVEL, Reason.NO_MATCH), (Kind.DUPLICATE, Reason.NEAR), (Kind.DUPLICATE, Reason.EXACT))
    judged.found_by[:] = [0, KeyKind.TABLES | KeyKind.MINIMA, KeyKind.BODY]
    metrics.count_verdicts(judged, np.array([0, 1, 2]), np.array([1, 1, 1]))
    found = {
        key: metrics.registry.get_sample_value("spotsieve_duplicates_by_key_total", {"key": key})
        for key in ("body", "text", "tables", "minhash")
    }
    assert found == {"body": 1, "text": 0, "tables": 1, "minhash": 1}


def test_a_stage_that_fails_is_timed_too() -> None:
    metrics = Metrics()
    with pytest.raises(ValueError, match="broken"), metrics.timed("sign"):
        raise ValueError("broken")
    assert metrics.registry.get_sample_value("spotsieve_stage_duration_seconds_count", {"stage": "sign"}) == 1


def test_two_services_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.commits.inc()
    assert other.registry.get_sample_value("spotsieve_commits_total") == 0


def test_every_path_counts_real_text_of_its_language() -> None:
    lines = (REPOSITORY / "tests/fixtures/pages/declaration.txt").read_text("utf-8").splitlines()
    texts = [line.split(" ", 2) for line in lines if not line.startswith("#")]
    settings = Settings()
    pages = [page(n, "", newspaper([text])) for n, (_, _, text) in enumerate(texts)]
    signatures = scheme_of(settings.scheme).sign(pages)
    assert set(signatures.status.tolist()) == {SignatureStatus.FINGERPRINTED}
    metrics = Metrics()
    metrics.count_texts(signatures, np.arange(len(pages)))
    counted = {
        name: metrics.registry.get_sample_value("spotsieve_page_languages_total", {"language": name})
        for name in path_names()
    }
    assert counted == {name: sum(path == name for path, _, _ in texts) for name in path_names()}
    assert [name for name, number in counted.items() if not number] == ["und"]


def test_filtered_pages_are_counted_by_reason_and_not_as_pages_without_text() -> None:
    metrics = Metrics()
    signatures = replace(make_signatures(3, seed=1), status=np.array([0, 40, 42], np.uint8))
    metrics.count_texts(signatures, np.arange(3))
    assert metrics.registry.get_sample_value("spotsieve_page_texts_total", {"text": "none"}) == 0
    for reason in ("http_status", "redirect", "media_type"):
        labels = {"verdict": "unchecked", "reason": reason}
        assert metrics.registry.get_sample_value("spotsieve_pages_total", labels) == 0
