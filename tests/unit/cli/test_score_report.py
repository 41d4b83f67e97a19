"""`spotsieve score --plot` and `--html`: what is drawn and written is what was scored; names of others stay text."""

import contextlib
import re
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import xxhash
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.research.evaluation.choices import over_its_threshold
from spotsieve.stream.research.evaluation.plots import (
    Curve,
    Point,
    curves_of,
    draw_cost,
    draw_precision_recall,
    draw_threshold,
    plot,
)
from spotsieve.stream.research.evaluation.trial import SetResult, score_set
from spotsieve.stream.research.scoring import load_truth, score
from spotsieve.stream.research.scoring.comparison import COLUMNS, SchemeResult
from spotsieve.stream.sign.schemes.registry import SCHEMES, TERMS
from tests.fixtures.pages.labelled_sets import labelled, refusal
from tests.fixtures.pages.scheme_settings import settings_named

__all__ = ["labelled"]
EVIL = "<script>alert(1)</script>&\"'$x_$ {{ 7*7 }} \u202e\x1b[31m"


class Read(HTMLParser):
    """A page as a browser takes it: elements with their attributes, the texts of table rows, all text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._cell = self._cell or tag in {"td", "th"}
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data


@pytest.fixture
def outcome(labelled: Path) -> SetResult:
    """Two schemes over their thresholds, with verdicts that are wrong in turn: precision is not recall."""
    settings, truth = Settings(), load_truth(labelled)
    choices = [one for name in ("chain", "minhash") for one in over_its_threshold(settings, settings_named(name))]
    with contextlib.closing(ProgressLine(sys.stderr, None)) as line:
        scored = score_set(labelled, truth, choices, line)
    verdicts = ([None, None, 0, None], [None, 0, 0, None], [None, 0, None, None])
    turned = {
        name: replace(one, scores=score(truth, verdicts[place % 3])) for place, (name, one) in enumerate(scored.items())
    }
    return SetResult(labelled, truth, choices, turned, {}, [])


def drawn(curves: list[Curve], draw: Any, **named: Any) -> Axes:
    axes = Figure().add_subplot()
    draw(axes, curves, **named)
    return axes


def points_of(axes: Axes, color: str) -> list[list[tuple[float, ...]]]:
    """The points of each line of this colour."""
    lines = [line for line in axes.lines if line.get_color() == color]
    data: list[Any] = [line.get_data() for line in lines]
    return [list(map(tuple, np.transpose(one).tolist())) for one in data]


def test_a_curve_has_its_scheme_s_points_in_order_and_knows_the_given_and_the_best(
    outcome: SetResult,
) -> None:
    chain, minhash = curves_of(outcome)
    assert (chain.name, chain.setting, chain.unit) == ("chain", "max_distance_bits", "bits")
    assert (minhash.name, minhash.setting, minhash.unit) == ("minhash", "resemblance", "")
    assert [point.value for point in chain.points] == list(range(8))
    assert chain.own is not None
    assert chain.own.value == 3
    assert minhash.best is not None
    assert minhash.best.f1 == max(point.f1 or 0 for point in minhash.points)
    assert chain.number != minhash.number


def test_the_points_that_are_drawn_are_the_figures_of_the_table(outcome: SetResult) -> None:
    chain, minhash = curves = curves_of(outcome)

    def shares(points: Any) -> list[tuple[float | None, float | None]]:
        return [(point.recall, point.precision) for point in points if point.precision is not None]

    def costs(points: Any) -> list[tuple[float, float | None]]:
        return [(point.scored.cost.cpu_us, point.f1) for point in points]

    for draw, figures in ((draw_precision_recall, shares), (draw_cost, costs)):
        axes = drawn(curves, draw)
        for curve, color in ((chain, "#0072B2"), (minhash, "#CC79A7")):
            assert points_of(axes, color) == [figures(curve.points), figures([curve.own])]
        assert axes.get_legend_handles_labels()[1] == ["chain", "minhash"]
    axes = Figure().add_subplot()
    draw_threshold(axes, minhash, legend=False)
    (found,) = points_of(axes, "#CC79A7")
    assert found == [(point.value, point.f1) for point in minhash.points]
    assert axes.get_xlabel() == "resemblance"


def test_a_picture_has_all_sets_and_schemes_and_is_the_same_bytes_again(outcome: SetResult) -> None:
    first = plot([outcome, outcome], ["one", "other"], "svg")
    assert plot([outcome, outcome], ["one", "other"], "svg") == first
    texts = Counter(
        "".join(element.itertext()) for element in ET.fromstring(first).iter("{http://www.w3.org/2000/svg}text")
    )
    assert texts["one"] == texts["other"] == 1
    assert texts["chain"] == texts["minhash"] == 4, "of each set: in the legend, and above the threshold"
    assert texts["max_distance_bits, bits"] == 2
    png = plot([outcome], ["one"], "png")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 20_000


def test_a_report_holds_the_table_the_settings_and_the_digests(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, svg = tmp_path / "report.html", tmp_path / "plot.svg"
    given = ["--scheme", "all", "--sweep", "--set", "scheme.name=subhash", "--set", "scheme.min_tokens=9"]
    assert main(["score", str(labelled), *given, "--html", str(html), "--plot", str(svg)]) == 0
    shown = capsys.readouterr().out.split("\n\n")[0].splitlines()[1:]
    read = Read(html.read_text("utf-8"))
    in_table = [re.split(r"  +", line) for line in shown]
    assert [row for row in read.rows if row in in_table and len(row) == len(COLUMNS) + 1][-len(in_table) :] == in_table
    own = [row for row in in_table if "=3" in row[0] and row[0].startswith("subhash")]
    assert read.rows.count(own[0]) == 2, "as set, and among all that were tried"
    assert ["min_tokens", "9", "tokens"] in [row[:3] for row in read.rows]
    digests = [xxhash.xxh3_128_hexdigest(file.read_bytes()) for file in labelled.iterdir()]
    for text in (
        *TERMS,
        *digests,
        "--build-models",
        "XXH3-128",
        "spotsieve 0.",
        "cores",
        *(column.about for column in COLUMNS),
    ):
        assert text in read.text
    assert sum(tag == "svg" for tag, _ in read.elements) == 2 + len(SCHEMES) - len(TERMS)
    assert "Precision and recall" in svg.read_text("utf-8")


def test_a_report_asks_for_nothing_outside_itself_and_its_ids_are_its_own(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "report.html"
    assert main(["score", str(labelled), str(labelled), "--scheme", "chain", "subhash", "--html", str(html)]) == 0
    capsys.readouterr()
    read = Read(html.read_text("utf-8"))
    assert not {"script", "link", "img", "iframe", "object", "base", "form", "a"} & {tag for tag, _ in read.elements}
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(set(ids)) == len(ids) > 50
    for _, attributes in read.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in {"href", "xlink:href"}:
                assert value is not None
                assert value[0] == "#"
                assert value[1:] in ids
            for target in re.findall(r"url\((.*?)\)", value or ""):
                assert target[0] == "#"
                assert target[1:] in ids


def test_names_that_are_markup_formulas_or_templates_stay_text(
    outcome: SetResult, labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = labelled.rename(labelled.with_name(EVIL.replace("/", "-")))
    html, png = tmp_path / "report.html", tmp_path / "plot.PNG"
    assert (
        main(
            [
                "score",
                str(folder),
                "--scheme",
                "chain",
                "imatch",
                "--build-models",
                "--html",
                str(html),
                "--plot",
                str(png),
            ]
        )
        == 0
    )
    capsys.readouterr()
    page = html.read_text("utf-8")
    read = Read(page)
    shown = folder.name.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
    assert shown in read.text
    assert "Term statistics of imatch were counted on the same pages" in read.text
    assert not any(tag == "script" for tag, _ in read.elements)
    assert not set("\u202e\x1b") & set(page)
    assert "49" not in page.split("<h2>")[1].split("</h2>")[0]
    ET.fromstring(plot([outcome], [EVIL], "svg"))
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plot", "plot.jpg"], "--plot must end in .svg or .png, got 'plot.jpg'"),
        (["--html", "report"], "--html must end in .html or .htm, got 'report'"),
        (["--plot", "nowhere/plot.svg"], "--plot must be a file in a folder that exists, got 'nowhere/plot.svg'"),
    ],
)
def test_a_plot_that_cannot_be_written_is_refused_before_any_work(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refusal(capsys, "no-such-set", *arguments)
    assert (code, message in error) == (2, True), error


@pytest.mark.parametrize(("flag", "package"), [("--plot", "matplotlib"), ("--html", "jinja2")])
def test_what_is_not_installed_is_named_with_how_to_install_it(
    tmp_path: Path, flag: str, package: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    path = tmp_path / ("a.svg" if flag == "--plot" else "a.html")
    code, error = refusal(capsys, "no-such-set", flag, path)
    assert code == 2
    assert f"{flag} needs the Python package {package}; run: pip install 'spotsieve[report]'" in error


def test_values_that_are_no_numbers_have_their_names_below_the_axis(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "plot.svg"
    sweep = ["--sweep", "scheme.min_tokens=1,9000", "--sweep", "index.scope=global,host"]
    assert main(["score", str(labelled), "--scheme", "subhash", *sweep, "--plot", str(svg)]) == 0
    capsys.readouterr()
    texts = Counter("".join(e.itertext()) for e in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text"))
    assert texts["global"] == texts["host"] == 2
    assert texts["index.scope"] == 2
    assert texts["subhash min_tokens=1"] == texts["subhash min_tokens=9000"] == 2


def test_points_without_a_reported_page_are_left_out_where_precision_is_shown(outcome: SetResult) -> None:
    chain, minhash = curves_of(outcome)
    nothing = SchemeResult(score(outcome.truth, [None] * len(outcome.truth.ids)), minhash.points[0].scored.cost)
    silent = replace(minhash, points=[Point(point.choice, nothing) for point in minhash.points])
    assert points_of(drawn([chain, silent], draw_precision_recall), "#CC79A7") == [[], []]
    assert len(points_of(drawn([chain, silent], draw_cost), "#CC79A7")[0]) == len(minhash.points)
