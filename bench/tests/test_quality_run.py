"""The quality run without its peers: sets, judging again, candidates, robustness, the document."""

import json
import lzma
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.quality import ablations, figures, ours, report, report_targets, robustness, variants
from bench.quality.__main__ import _shown, main
from bench.quality.ablations import Ablation, Replacement
from bench.quality.candidates import ways_of_finding
from bench.quality.orders import OrderRuns
from bench.quality.sets import LabelledSet, find_sets, load_set
from bench.quality.thresholds import AXES, Axis, axis
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.cli import main as spotsieve
from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.sieve import blocks_of
from tests.fixtures.filter_crawl import article, lines, page, page_in_a_site
from tests.fixtures.pages import crawls
from tests.fixtures.pages.labelled_sets import write_labels

COUNT = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve articles on six hosts, and an exact copy of each of the first four."""
    made = tmp_path / "small"
    made.mkdir()
    pages: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    truth, pairs = ["id\tkind\tgroup\thost"], ["id_a\tid_b\tsimilarity\tkind"]
    for seed in [*range(COUNT), *range(4)]:
        name = f"p{seed}" if len(pages) < COUNT else f"copy{seed}"
        pages.append(
            page(seed, name)
            | {"body": page_in_a_site(seed).replace("site", "place") if "c" in name else page_in_a_site(seed)}
        )
        truth.append(f"{name}\t{'cluster' if seed < 4 else 'singleton'}\tg{seed}\th{len(pages) % 6}")
        texts.append({"id": name, "text": article(seed)})
        if name.startswith("copy"):
            pairs.append(f"p{seed}\t{name}\t1.0\tcopy")
    (made / "pages.jsonl.xz").write_bytes(lzma.compress(lines(pages)))
    (made / "texts.jsonl.xz").write_bytes(lzma.compress(lines(texts)))
    return write_labels(made, "\n".join(truth) + "\n", "\n".join(pairs) + "\n")


@pytest.fixture
def small(folder: Path) -> LabelledSet:
    return load_set(folder)


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    config = tmp_path / "chain.toml"
    config.write_text('[scheme]\nname = "chain"\n', "utf-8")
    return config


def test_a_set_knows_its_hosts_clusters_and_main_texts(small: LabelledSet) -> None:
    assert small.hosts[:3] == ("h1", "h2", "h3")
    assert small.clusters == (*range(COUNT), *range(4))
    assert small.main_texts["copy1"] == article(1)
    part = small.part([0, 2, 13])
    assert ([page.label for page in part.pages], part.truth.ids) == (["p0", "p2", "copy1"], ("p0", "p2", "copy1"))


def test_a_folder_given_by_hand_is_measured_after_those_beside_the_repository(folder: Path) -> None:
    assert find_sets([folder])[-1] == folder


def test_the_figures_are_those_of_spotsieve_score(
    small: LabelledSet, chain: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged = ours.run(small, ours.settings_with({}, chain))
    assert spotsieve(["score", str(small.folder), "--json", "-c", str(chain)]) == 0
    pages = json.loads(capsys.readouterr().out)["pages"]
    assert (judged.scores.pages.found_count, judged.lost, judged.f1) == (pages["found"], pages["lost"], pages["f1"])
    assert judged.reasons.total() == len(small.pages)


def test_pages_signed_once_are_judged_under_other_thresholds_as_if_signed_anew(small: LabelledSet, chain: Path) -> None:
    signed = ours.sign(small.pages, ours.settings_with({}, chain))
    for step in AXES["chain"][0].swept:
        settings = ours.settings_with(step.overrides, chain)
        again, fresh = ours.judge(signed, small.truth, settings), ours.run(small, settings)
        assert again.originals == fresh.originals


def test_a_threshold_that_changes_signatures_is_refused_as_an_axis(
    small: LabelledSet, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: Sequence[Axis] = [axis("scheme.distance", [1, 2])]
    monkeypatch.setattr(figures, "AXES", {"chain": wrong})
    run = figures.Run([small], {}, chain, True, lambda _: None)
    with pytest.raises(SettingError, match=r"scheme\.distance must not change signatures"):
        figures.measure_sweeps(run, figures.Figures())


def test_the_keys_that_lead_to_an_original_are_told_by_their_kind(small: LabelledSet, chain: Path) -> None:
    judged = ours.run(small, ours.settings_with({}, chain))
    ways = ways_of_finding(judged, small.truth)
    assert ways["tables only"] == sum(ways.values()) == judged.scores.pages.found_count
    found_by = [KeyKind(0)] * COUNT + [
        KeyKind.BLOCKS | KeyKind.MINIMA,
        KeyKind.MINIMA,
        KeyKind.MINIMA | KeyKind.TEXT,
        KeyKind.BODY,
    ]
    assert ways_of_finding(replace(judged, found_by=tuple(found_by)), small.truth) == {
        "exact digest": 2,
        "tables only": 0,
        "MinHash values only": 1,
        "blocks only": 0,
        "title only": 0,
        "several": 1,
    }


def test_without_a_kind_of_keys_pages_meet_under_the_others(small: LabelledSet) -> None:
    settings = ours.settings_with({})
    for off, left in ((KeyKind.BLOCKS, KeyKind.MINIMA), (KeyKind.MINIMA, KeyKind.BLOCKS)):
        row = Ablation("fewer keys", keys_off=(off,))
        judged = variants.run_ablation(row, small, settings)
        assert set(judged.found_by) == {0, left}
        assert judged.f1 == 1.0


def test_a_scheme_without_titles_leaves_the_rest_of_a_page_as_it_is() -> None:
    settings = ours.settings_with({})
    pages = [Page("x", 0, 0, "http://a.example.com/", f"<title>One two</title><p>{article(1)}".encode(), True, 0)]
    whole, untitled = (
        variants.scheme_of(Ablation("", instead=instead), settings).sign(pages)
        for instead in (None, Replacement.NO_TITLES)
    )
    assert (len(whole.titles), len(untitled.titles), untitled.titles_bounds.tolist()) == (2, 0, [0, 0])
    assert whole.blocks.tolist() == untitled.blocks.tolist()
    assert whole.samples.tolist() == untitled.samples.tolist()


def test_policies_of_the_default_scheme_are_measured(small: LabelledSet) -> None:
    words = crawls.article(1).split()
    bodies = [f"<p>{' '.join(words)} Price 15", f"<p>{' '.join(words)} Price 25", f"<p>{' '.join(words[:40])}"]
    part = small.part([0, 1, 2])
    pages = [page._replace(body=body.encode()) for page, body in zip(part.pages, bodies, strict=True)]
    copies = {}
    for name, value in (("variants", "drop"), ("variants", "keep"), ("parts", "drop")):
        settings = ours.settings_with({f"policy.{name}": value})
        judged = ours.judge(ours.sign(pages, settings), part.truth, settings)
        copies[name, value] = judged.originals
    assert copies == {
        ("variants", "drop"): (None, 0, None),
        ("variants", "keep"): (None, None, None),
        ("parts", "drop"): (None, 0, 0),
    }


def test_a_group_of_cards_is_switched_by_points_alone(small: LabelledSet) -> None:
    html = small.pages[0].body
    every, first = (
        Ablation("", instead=instead) for instead in (Replacement.EVERY_BLOCK, Replacement.FIRST_CARD_ALONE)
    )
    with variants.points_of(every):
        assert all(block.kept for block in blocks_of(html, True))
    with variants.points_of(first):
        assert not all(block.kept for block in blocks_of(html, True))
        assert scorecard.frozen_points()["words"] == (0,) * 11
    assert any(scorecard.frozen_points()["words"])


def test_an_unedited_copy_is_found_and_a_rewritten_one_is_not(small: LabelledSet, chain: Path) -> None:
    settings = ours.settings_with({}, chain)
    sample = robustness.draw_sample(small, 100)
    assert len(sample.pages) == COUNT
    signed = ours.sign(sample.pages, settings)
    for host in (None, "another.example"):
        same = [page.html for page in sample.marked]
        assert robustness.share_found(sample.pages, signed, same, settings, host) == 1.0
        others = [page_in_a_site(100 + number) for number in range(COUNT)]
        assert robustness.share_found(sample.pages, signed, others, settings, host) == 0.0


def test_every_kind_of_edit_changes_every_page_but_the_first_kind(small: LabelledSet) -> None:
    sample = robustness.draw_sample(small, 3)
    for kind in robustness.kinds(sample):
        edited = [kind.edit(page, Random(1)) for page in sample.marked]
        assert [html == page.html for html, page in zip(edited, sample.marked, strict=True)] == [
            kind.name == "unedited"
        ] * 3


def test_a_copy_is_at_another_address_of_its_host_or_at_another_host(small: LabelledSet) -> None:
    original = small.pages[0]
    near, far = (robustness.copy_of(original, "<p>x", host) for host in (None, "another.example"))
    assert near.url.startswith("https://example.com/")
    assert far.url.startswith("https://another.example/")
    assert near.url != original.url
    assert near.source != original.source


def test_every_ablation_names_what_there_is() -> None:
    for rows_of in (ablations.ABLATIONS, ablations.GROUPS):
        for scheme, rows in rows_of.items():
            assert len({row.name for row in rows}) == len(rows)
            base = ours.settings_with({"scheme.name": scheme})
            for row in rows:
                is_default = ours.settings_with({"scheme.name": scheme, **row.overrides}) == base
                assert is_default is not bool(row.overrides)
                assert row.overrides or row.instead or row.rules or row.without or row.keys_off
                for rule in row.rules:
                    module, name = rule.split(".")
                    value = getattr(import_module(f"spotsieve.stream.judge.by_host.{module}"), name)
                    assert isinstance(value, int | float)
                    assert value != row.rules[rule]


def test_a_quick_run_writes_the_document(folder: Path, chain: Path, tmp_path: Path) -> None:
    parts = ["sets", "orders", "speed", "ablations", "sweeps", "validation"]
    pytest.importorskip("matplotlib", reason="plots need the packages that `make quality` installs")
    out = tmp_path / "q.md"
    assert main([*parts, "--quick", "--only", "--sets", str(folder), "-c", str(chain), "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    for title in (
        "By page",
        "Orders",
        "Errors by kind",
        "What finds the originals",
        "Cross-validation",
    ):
        assert f"\n## {title}\n" in text
    assert "| small | 16 |" in text
    assert str(tmp_path) not in text.replace(f"--out {out}", "").replace(str(folder), "").replace(str(chain), "")
    assert (tmp_path / "q" / "sweep-scheme-max-distance-bits.svg").exists()


def test_the_document_names_no_folder_of_this_machine() -> None:
    given = ["sets", "--cache", "/somewhere", "--keep", "/there", "--quick", "--out", "/else/where.md"]
    assert _shown(given) == ["sets", "--quick"]


def test_each_target_is_met_or_not(small: LabelledSet, chain: Path) -> None:
    run = figures.Run([replace(small, name="docs")], {}, chain, True, lambda _: None)
    found = figures.Figures(ordered={"docs": OrderRuns([ours.run(small, run.settings)] * 2)})
    found.robustness["docs"] = [
        robustness.RobustnessRow("half of it", 0.9, 0.95, 0.89),
        robustness.RobustnessRow("none of it", None, 0.1, 0.1),
    ]
    text = report_targets.targets(run, found)
    wished = ">= 0.995, <= 0 of 12 lost | met |"
    assert f"| docs: page F1, median of 2 orders | 1.000, 0 lost, worst 0 | {wished}" in text
    assert "| found: half of it | 0.890 | >= 0.9 | NOT MET |" in text
    assert "none of it" not in text
    assert report_targets.targets(run, figures.Figures()) == ""


def test_the_speed_of_signing_is_shown_as_a_multiple_of_the_peer_s(small: LabelledSet, chain: Path) -> None:
    run = figures.Run([replace(small, name="news")], {}, chain, True, lambda _: None)
    found = figures.Figures(judged={"news": ours.run(small, run.settings)})
    found.speed = figures.Speed("news", 16, 500.0, 0.1, 3, 0.5)
    assert "## Speed of signing" not in report.as_markdown(run, found, "quality", {})
    found.peers["news"] = [figures.PeerFigures(report_targets.SPEED_PEER, found.judged["news"].scores, 20.0, None)]
    text = report.as_markdown(run, found, "quality", {})
    assert "| trafilatura + MinHash 20.0 ms a page, ours 100 us: times as quick | 200 x | >= 50 x | met |" in text
    assert "MB/s" not in text


def test_a_part_of_the_run_is_printed(folder: Path, chain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sets", "ablations", "--quick", "--only", "--sets", str(folder), "-c", str(chain)]) == 0
    shown = capsys.readouterr().out
    assert "\n## Ablations\n" in shown
    assert "| small | 16 | 1.000 |" in shown


def test_what_cannot_be_measured_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sets", "--only", "--sets", str(tmp_path / "nowhere")]) == 3
    assert main(["sets", "--only"]) == 3
    assert main(["sets", "--set", "scheme.nonsense=1"]) == 2
    assert capsys.readouterr().err.count("\n") == 3
