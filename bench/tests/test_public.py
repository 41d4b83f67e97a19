"""The public benchmark: layouts of NEWS-COPY and CORE, the download, a whole run over small sets, the page."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.peers.filters import OURS
from bench.public import __main__ as public
from bench.public.datasets import read_core, read_news_copy
from bench.public.hub import DownloadError, download
from bench.public.labelled import prepare
from bench.public.measuring import LEAST_WORK_S, FilterFigures, SetFigures
from bench.public.picture import _covers, _labels, _touch, draw
from bench.public.report import ALL, as_markdown, names_of, summarize
from bench.quality.sets import load_set
from spotsieve.stream.base.errors import InputError
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article

EXACT = "exact hash (Polars)"
NEWS = "chenghao/NEWS-COPY-eval"
CORE = "pinecone/core-2020-05-10-deduplication"


def articles() -> list[dict[str, Any]]:
    """Rows as NEWS-COPY has them: two reprints with a letter misread, one equal reprint, two single articles."""
    texts = [article(1), article(2), article(1).replace("the", "tbe", 1), article(2), article(3)]
    clusters = [0, 1, 0, 1, 4]
    return [
        {
            "image_file_name": f"page-{place}.jpg",
            "object_id": [place],
            "headline": f"HEADLINE {cluster}",
            "article": text,
            "byline": None if place else "By A. Reporter",
            "id": f"1974-May-28-{place}",
            "idx": place,
            "cluster": cluster,
            "duplicates": [other for other, one in enumerate(clusters) if one == cluster],
        }
        for place, (text, cluster) in enumerate(zip(texts, clusters, strict=True))
    ]


def write_table(folder: Path) -> None:
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(articles()), folder / "test-00000-of-00001.parquet")


def write_documents(folder: Path) -> None:
    rows = [
        {
            "core_id": core_id,
            "doi": None,
            "original_title": f"On mill {core_id}",
            "original_abstract": article(seed),
            "processed_title": "",
            "processed_abstract": "",
            "cat": cat,
            "labelled_duplicates": duplicates,
        }
        for core_id, seed, cat, duplicates in (
            ("11", 1, "exact_dup", ["12", "999"]),
            ("12", 1, "exact_dup", ["11"]),
            ("13", 3, "non_dup", []),
        )
    ]
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_both_layouts_of_news_copy_give_the_same_texts_and_pairs(tmp_path: Path) -> None:
    write_table(tmp_path / "table")
    found = read_news_copy(tmp_path / "table")
    named = [f"1974-May-28-{place}" for place in range(5)]
    assert [text.name for text in found.texts] == named
    assert found.pairs == {(named[0], named[2]), (named[1], named[3])}
    assert [text.kind for text in found.texts] == ["reprint"] * 4 + ["single"]
    assert found.texts[0].text == f"HEADLINE 0\nBy A. Reporter\n{article(1)}"
    objects = tmp_path / "objects"
    objects.mkdir()
    rows = {row.pop("id"): row for row in articles()}
    (objects / "test_inf_data.json").write_text(json.dumps(rows), "utf-8")
    (objects / "full_test_gt.json").write_text(json.dumps([*found.pairs, ["gone", named[0]]]), "utf-8")
    assert read_news_copy(objects) == found


def test_core_gives_titles_with_abstracts_and_the_pairs_within_the_set(tmp_path: Path) -> None:
    write_documents(tmp_path / "raw")
    found = read_core(tmp_path / "raw")
    assert [(text.name, text.kind) for text in found.texts] == [
        ("11", "exact_dup"),
        ("12", "exact_dup"),
        ("13", "non_dup"),
    ]
    assert found.pairs == {("11", "12"), ("12", "11")}
    assert found.texts[2].text == f"On mill 13\n{article(3)}"


def test_a_folder_in_another_layout_is_refused_with_the_layout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\*_inf_data\.json"):
        read_news_copy(tmp_path)
    with pytest.raises(InputError, match=r"\*\.jsonl"):
        read_core(tmp_path)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A local server with both data sets replaces the hub. The fixture is its folder."""
    root = tmp_path / "hub"
    for name, write, folder in ((NEWS, write_table, "data"), (CORE, write_documents, "")):
        files = root / "datasets" / name / "resolve" / "main" / folder
        write(files)
        listed = [
            {"rfilename": path.relative_to(root / "datasets" / name / "resolve" / "main").as_posix()}
            for path in files.iterdir()
        ]
        about = root / "api" / "datasets" / name
        about.parent.mkdir(parents=True)
        about.write_text(json.dumps({"siblings": [{"rfilename": "README.md"}, *listed]}), "utf-8")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield root
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_public_set_is_downloaded_once_and_becomes_a_labelled_set(hub: Path, tmp_path: Path) -> None:
    folder = prepare("news-copy", tmp_path / "data")
    labelled = load_set(folder)
    assert labelled.truth.ids == tuple(row["id"] for row in articles())
    assert [(pair.earlier, pair.later, pair.kind) for pair in labelled.truth.pairs] == [
        (0, 2, "reprint"),
        (1, 3, "reprint"),
    ]
    assert not any(page.markup for page in labelled.pages)
    fresh = labelled.fresh_text([None, None, 0, 1, None])
    assert fresh
    assert (len(fresh.lost), len(fresh.missed)) == (0, 0)
    (hub / "api" / "datasets" / NEWS).unlink()
    assert prepare("news-copy", tmp_path / "data") == folder


def test_a_set_that_cannot_be_downloaded_is_named_with_its_place(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DownloadError, match=r"has no file \*\.zip"):
        download(NEWS, "*.zip", tmp_path)
    (hub / "datasets" / CORE / "resolve" / "main" / "train.jsonl").unlink()
    with pytest.raises(DownloadError, match=rf"{CORE} cannot be downloaded \(HTTP Error 404"):
        prepare("core", tmp_path / "data")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DownloadError, match="Connection refused"):
        prepare("core", tmp_path / "data")


def test_a_run_measures_the_sets_that_are_there_and_says_which_are_not(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (hub / "api" / "datasets" / CORE).unlink()
    monkeypatch.setattr(public, "filters", lambda: ([OURS, EXACT], {"other": ["no-such-package"]}))
    out = tmp_path / "page" / "public.md"
    assert public.main(["news-copy", "core", "--data", str(tmp_path / "data"), "--rounds", "1", "--out", str(out)]) == 0
    page = out.read_text("utf-8")
    assert "- core (titles and abstracts of papers): it could not be downloaded" in page
    assert "- other: no-such-package could not be installed." in page
    assert re.search(rf"core is left out: http://127.*{CORE} cannot be downloaded", capsys.readouterr().err)
    kept = json.loads(out.with_suffix(".json").read_text("utf-8"))
    ours, exact = (kept["sets"]["news-copy"]["filters"][name] for name in (OURS, EXACT))
    assert (ours["recall"], ours["novel_lost"], ours["lost"], ours["missed"]) == (1.0, 0, 0, 0)
    assert (exact["recall"], exact["missed"]) == (0.5, 1)
    assert ours["peak_mib"] > 50
    assert (page, (out.parent / "images" / "public.svg").read_text("utf-8")) == public.page_and_picture(
        kept, "images/public.svg"
    )


def test_without_any_set_the_run_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(public, "find_sets", list)
    assert public.main(["--data", str(tmp_path / "data"), "--out", str(tmp_path / "public.md")]) == 3
    shown = capsys.readouterr().err
    assert "news-copy is left out" in shown
    assert public.NO_SETS in shown
    assert "name the folder of a labelled set with --sets" in shown


def figures(cpu_s: float, f1: float, precision: float | None = 1.0, lost: int | None = 0) -> FilterFigures:
    return FilterFigures(cpu_s, 1.0, 100.0, 3, precision, f1, f1, 10, 1, lost, 2)


def small_sets() -> dict[str, SetFigures]:
    one = {OURS: figures(2.0, 0.9), EXACT: figures(1.0, 0.1, None)}
    other = {OURS: figures(3.0, 0.7), EXACT: figures(1.05, 0.3, None), "resiliparse + rensa": figures(4.0, 0.8)}
    return {"one": SetFigures(100, 1.0, "today", one), "other": SetFigures(200, 2.0, "today", other)}


def test_a_row_of_all_sets_has_their_mean_quality_and_their_pages_by_their_cpu() -> None:
    sets = small_sets()
    assert names_of(sets) == [OURS, EXACT]
    ours, exact = (summarize(sets, name) for name in (OURS, EXACT))
    assert (ours.pages_per_s, ours.times, ours.novel_lost, ours.novel) == (100.0, 1.0, 2, 20)
    assert ours.f1 == pytest.approx(0.8)
    assert exact.pages_per_s == pytest.approx(300 / (2 * LEAST_WORK_S))
    assert (exact.precision, exact.is_bound, ours.is_bound) == (None, True, False)
    page = as_markdown(sets, "a machine", "picture.svg", [], {})
    assert f"| {ALL}, 300 pages | **{OURS}** | 100 | 1.00 x |" in page
    assert "| other, 200 pages | resiliparse + rensa | 67 | 1.50 x |" in page
    assert "Left out" not in page
    assert f"| {ALL}, 300 pages | {EXACT} | > 1,500 | < 0.07 x |" in page
    few = {
        "few": SetFigures(
            9,
            1.0,
            "today",
            {**dict.fromkeys((OURS, EXACT), figures(1.0, 0.9)), "resiliparse + rensa": figures(1.2, 0.9)},
        )
    }
    page = as_markdown(few, "a machine", "picture.svg", [], {})
    assert f"| few, 9 pages | **{OURS}** | > 90 | 1.00 x |" in page
    assert f"| few, 9 pages | {EXACT} | > 90 |  |" in page
    assert "| few, 9 pages | resiliparse + rensa | 45 | > 2.00 x |" in page


def test_a_label_of_the_picture_covers_no_other_one_and_no_point() -> None:
    points = [(f"a filter {number}", 300.0 + 9 * number, 100.0 + 5 * number) for number in range(6)]
    points.append(("a filter at the edge", 700.0, 101.0))
    labels = _labels(points)
    assert {label.text for label in labels} == {name for name, _, _ in points}
    assert not any(_touch(one, other) for one in labels for other in labels if one is not other)
    assert not any(_covers(label, x, y) for label in labels for name, x, y in points if name != label.text)
    assert {label.anchor for label in labels} == {"start", "end"}


def test_the_picture_is_a_picture_that_names_every_filter_and_its_figures() -> None:
    sets = small_sets()
    rows = [summarize(sets, name) for name in names_of(sets)]
    root = ET.fromstring(draw(rows))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {OURS, EXACT, "F1 of the dropped pages, mean of the sets"} <= set(texts)
    about = next(root.iter("{http://www.w3.org/2000/svg}desc")).text
    assert about is not None
    assert "spotsieve: F1 0.80 at 100 pages/s" in about
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2


def test_the_page_and_the_picture_are_those_of_the_kept_figures() -> None:
    folder = REPOSITORY / "docs" / "measured"
    kept = json.loads((folder / "public.json").read_text("utf-8"))
    page, picture = public.page_and_picture(kept, "images/public.svg")
    assert (folder / "public.md").read_text("utf-8") == page, "run `make public`"
    assert (folder / "images" / "public.svg").read_text("utf-8") == picture, "run `make public`"
