"""The benchmarks measure what they say: pages, copies, codecs, and the table's outcomes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from bench.speed import index, index_load, library, report, serve
from bench.speed.compression import CODECS, measure_compression
from bench.speed.index import measure_candidates
from bench.speed.library import measure_library
from bench.speed.pages import DUPLICATES, json_messages
from bench.speed.peers import measure_peers
from bench.speed.report import table
from bench.speed.serve import measure_serve
from tests.fixtures.pages.page_tokens import tokens_of
from tests.reference.signatures import assert_same

MACHINE = {"cpu": "a CPU", "cores": 2, "python": "3.11", "kafka": "4.1.0"}


def test_pages_have_20_kb_and_are_the_same_for_the_same_seed() -> None:
    messages = list(json_messages(100, 7))
    assert messages == list(json_messages(100, 7))
    assert 19_000 < sum(len(value) for _, value in messages) / len(messages) < 21_000
    assert len({key for key, _ in messages}) == 100


def test_three_pages_in_ten_bring_the_article_of_an_earlier_one() -> None:
    articles = []
    for _, value in json_messages(400, 7):
        blocks = tokens_of(orjson.loads(value)["body"].encode(), True)
        articles.append(max((" ".join(block) for block in blocks), key=len))
    copies = 1 - len(set(articles)) / len(articles)
    assert abs(copies - DUPLICATES) < 0.08


def test_pages_are_mostly_markup_as_real_ones_are() -> None:
    bodies = [orjson.loads(value)["body"].encode() for _, value in json_messages(50, 7)]
    words = sum(len(token) + 1 for body in bodies for block in tokens_of(body, True) for token in block)
    assert 0.1 < words / sum(map(len, bodies)) < 0.25


def test_every_codec_is_measured_and_only_none_leaves_the_size_alone() -> None:
    figures = measure_compression(rounds=1)
    assert set(figures) == set(CODECS)
    assert [codec for codec, parts in figures.items() if parts["ratio"] <= 1] == ["none"]


@pytest.mark.parametrize(("ratio", "verdict"), [(0.9, "| met |"), (0.89, "| NOT MET |")])
def test_the_table_says_whether_a_target_is_met(ratio: float, verdict: str) -> None:
    pace = {"pages_per_s": 1000.0, "client_cpu_us": 200.0, "broker_cpu_us": 100.0}
    pipeline: dict[str, Any] = {
        "exactly_once": {"ratio": ratio, "ratio_least": ratio, "ratio_most": ratio},
        "exactly_once.filter": pace,
        "exactly_once.passthrough": pace,
    }
    lines = table({"pipeline": pipeline, "machine": MACHINE}).splitlines()
    (line,) = [line for line in lines if "filter / pass-through" in line]
    assert line.endswith(verdict)


@pytest.mark.parametrize(
    ("p50", "p99", "verdict"), [(50, 120, "| met |"), (51, 120, "| NOT MET |"), (50, 121, "| NOT MET |")]
)
def test_the_table_judges_both_percentiles_of_a_latency(p50: float, p99: float, verdict: str) -> None:
    latency = {"exactly_once.200": {"p50_ms": p50, "p99_ms": p99}, "measured": "2026-11-23"}
    (row,) = (line for line in table({"latency": latency, "machine": MACHINE}).splitlines() if "200/s" in line)
    assert row.endswith(verdict)


def test_the_library_is_measured_beside_the_filter_and_drops_the_same_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "bench_messages", json_messages)
    figures = measure_library(1, 150, lambda _: None)
    assert figures["ratio"] == pytest.approx(figures["filter_pages_per_s"] / figures["library_pages_per_s"], rel=0.01)
    (line,) = [line for line in table({"library": figures, "machine": MACHINE}).splitlines() if "<= 1.1" in line]
    assert line.endswith("| met |" if figures["ratio"] <= 1.1 else "| NOT MET |")


@pytest.mark.parametrize(("ratio", "verdict"), [(1.6, "| met |"), (1.59, "| NOT MET |")])
def test_the_table_judges_backfill_by_the_time_of_whole_commands(ratio: float, verdict: str) -> None:
    backfill = {"backfill_s": 10.0, "filter_s": 10.0 * ratio, "ratio": ratio, "pace_ratio": 2.0, "pages": 1_000}
    (line,) = [line for line in table({"backfill": backfill, "machine": MACHINE}).splitlines() if ">= 1.6 x" in line]
    assert line.endswith(verdict)


@pytest.mark.parametrize(("ratio", "verdict"), [(3.6, "| met |"), (3.5, "| NOT MET |")])
def test_the_table_judges_the_filter_beside_a_peer(ratio: float, verdict: str) -> None:
    peers = {"filter_us": 500.0, "peer_us": 500 * ratio, "ratio": ratio, "bound_ratio": 2.0, "source": "some pages"}
    lines = table({"peers": peers, "machine": MACHINE}).splitlines()
    assert verdict in next(line for line in lines if "as fast the filter is" in line)


def test_the_filter_is_measured_beside_a_peer_and_an_exact_hash() -> None:
    pytest.importorskip("rensa", reason="`make bench` installs it")
    figures = measure_peers(rounds=1, pages=300, progress=lambda _: None)
    assert figures["pages"] == 300
    assert all(isinstance(figures[name], float) for name in ("filter_us", "peer_us", "bound_us", "ratio"))
    assert 50 < float(figures["peer_us"]) < 50_000


def test_look_ups_are_measured_by_a_client_of_its_own_at_a_steady_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "bench_messages", json_messages)
    figures = measure_serve(1, 100, 0.5, lambda _: None)
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]
    assert 0 < figures["lookups_per_s"] <= figures["rate"] * 1.1
    (line,) = [line for line in table({"serve": figures, "machine": MACHINE}).splitlines() if "steady" in line]
    good = figures["lookups_per_s"] >= 1_960 and figures["p99_ms"] <= 20
    assert line.endswith("| met |" if good else "| NOT MET |")


def test_the_index_load_has_the_promised_copies_and_strangers_that_share_a_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "has_real_pages", lambda: False)
    figures = measure_candidates(5_000, lambda _: None)
    assert abs(figures["duplicates"] / 5_000 - index_load.DUPLICATES) < 0.03
    assert figures["entries"] + figures["duplicates"] == 5_000
    assert figures["state_bytes_per_entry"] > 100
    again = (
        index_load.CandidateLoad(500, np.random.default_rng(1)),
        index_load.CandidateLoad(500, np.random.default_rng(1)),
    )
    assert_same(again[0].signatures(0, 500), again[1].signatures(0, 500))


def test_kept_figures_name_the_machine_but_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "bench_file", lambda: tmp_path / "docs" / "measured" / "bench.json")
    report.keep({"compression": {"none": {"cpu_us_per_page": 1.0, "ratio": 1.0}}})
    report.keep({"memory": {"growth": 0.0}})
    kept = json.loads((tmp_path / "docs" / "measured" / "bench.json").read_text("utf-8"))
    assert set(kept) == {"compression", "memory", "machine"}
    assert kept["machine"]["cores"]
    assert "/" not in json.dumps(kept["machine"])
