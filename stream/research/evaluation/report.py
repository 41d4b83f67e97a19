"""Writes the HTML report of a comparison: one file that loads no other resources, with all foreign text escaped.

Jinja2 escapes every value of the template. The SVG documents of stream/research/evaluation/plots.py are parsed, and
their ids get a prefix per plot, because one page contains several of them. The report names the machine, the release
and the digests of the sets' files.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import xxhash
from markupsafe import Markup
from pydantic import BaseModel

import spotsieve
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.insight.explain.rendering import html_template
from spotsieve.stream.research.evaluation.choices import Choice
from spotsieve.stream.research.evaluation.plots import (
    Curve,
    Point,
    cost_svg,
    curves_of,
    precision_recall_svg,
    threshold_svg,
)
from spotsieve.stream.research.evaluation.trial import PAGES_FILE, SetResult
from spotsieve.stream.research.scoring.comparison import COLUMNS, three_decimals
from spotsieve.stream.research.scoring.truth import PAIRS_FILE, TRUTH_FILE

_CPUINFO = Path("/proc/cpuinfo")
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_MOST_SHOWN = 200


def machine() -> dict[str, str | int | None]:
    """CPU, cores, system and versions of the machine that measures, without host names and paths."""
    model = platform.processor()
    if _CPUINFO.exists():
        models = [line for line in _CPUINFO.read_text("utf-8").splitlines() if line.startswith("model name")]
        model = models[0].partition(":")[2].strip() if models else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }


def measured_on(now: datetime) -> list[str]:
    """The lines of the report for the time, the release and the machine. now: a time with its time zone"""
    about = machine()
    return [
        now.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        f"spotsieve {spotsieve.__version__}",
        f"{about['cpu'] or 'processor unknown'}, {about['cores']} cores, {about['system']}",
        f"Python {about['python']}, NumPy {about['numpy']}, Numba {about['numba']}",
    ]


def file_digests(folder: Path) -> dict[str, str]:
    """The XXH3-128 of each file of a labelled set, as 32 hex digits by file name."""
    return {name: _digest_of(folder / name) for name in (PAGES_FILE, PAIRS_FILE, TRUTH_FILE)}


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


class Plot(NamedTuple):
    """An inline SVG and its caption."""

    svg: Markup
    caption: str


class Row(NamedTuple):
    """A row of a table. best: for each cell, whether it is the best of its column"""

    choice: Choice
    cells: Sequence[str]
    best: Sequence[bool]


class ShownSetting(NamedTuple):
    """A setting that changes verdicts. changed: whether its value differs from the default"""

    name: str
    value: str
    unit: str
    about: str
    changed: bool


def html_page(outcomes: Sequence[SetResult], names: Sequence[str], now: datetime) -> str:
    """The HTML report. names: the names of the sets; now: the time of the report, with its time zone"""
    sets = [
        _about_set(name, outcome, number) for number, (name, outcome) in enumerate(zip(names, outcomes, strict=True))
    ]
    first = outcomes[0].choices[0].settings
    return html_template(__package__, "report.html").render(
        measured_on=measured_on(now),
        columns=COLUMNS,
        groups=[(group, len(list(inner))) for group, inner in groupby(COLUMNS, lambda column: column.group)],
        sets=sets,
        truth=outcomes[0].truth,
        common=[one for one in _settings_of(first, ()) if not one.name.startswith("scheme.")],
    )


def _about_set(name: str, outcome: SetResult, number: int) -> dict[str, Any]:
    curves = curves_of(outcome)
    swept = [curve for curve in curves if len(curve.points) > 1]
    every = [point for curve in curves for point in curve.points]
    own = [curve.own for curve in curves if curve.own is not None]
    own = own if len(own) == len(curves) < len(every) else []
    return {
        "name": name,
        "folder": str(outcome.folder),
        "scores": outcome.first.scores,
        "digests": file_digests(outcome.folder),
        "left_out": outcome.left_out,
        "modelled": sorted(outcome.modelled),
        "rows": list(_rows(own or every)),
        "all_rows": list(_rows(every)) if own else [],
        "plots": [
            _inline(precision_recall_svg(curves), f"s{number}pr", "Precision and recall of pages, by scheme"),
            _inline(cost_svg(curves), f"s{number}cost", "F1 of pages and CPU of a page, by scheme"),
        ],
        "thresholds": [
            Plot(
                _inline(threshold_svg(curve), f"s{number}t{place}", f"{curve.name}: F1 over {curve.setting}"),
                _best(curve),
            )
            for place, curve in enumerate(swept)
        ],
        "choices": outcome.choices,
        "schemes": [
            (point.choice.name, list(_settings_of(point.choice.settings.scheme, ())))
            for point in own or [curve.points[0] for curve in curves]
        ],
    }


def _rows(points: Sequence[Point]) -> Iterator[Row]:
    """The rows of a table. With several rows, the best cell of each F1 column is marked."""
    f1 = [place for place, column in enumerate(COLUMNS) if column.title.endswith("F1")]
    table = [[column.shown(point.scored) for column in COLUMNS] for point in points]
    most = {place: max(row[place] for row in table) for place in f1} if len(table) > 1 else {}
    for point, cells in zip(points, table, strict=True):
        yield Row(point.choice, cells, [most.get(place) == cell for place, cell in enumerate(cells)])


def _best(curve: Curve) -> str:
    own, best = curve.own, curve.best
    parts = [f"as set: F1 {three_decimals(own.f1)} at {own.value}"] if own is not None else []
    if best is not None and best is not own:
        parts.append(f"best: {three_decimals(best.f1)} at {best.value}")
    return "; ".join(parts)


def _settings_of(model: BaseModel, path: tuple[str, ...]) -> Iterator[ShownSetting]:
    """Every setting below the model that changes verdicts."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _settings_of(value, (*path, name))
            continue
        extra = field.json_schema_extra
        if isinstance(extra, dict) and extra.get("verdicts"):
            text = json.dumps(model.model_dump(mode="json", include={name})[name], ensure_ascii=False)
            shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ... ({len(value)} in all)"
            yield ShownSetting(
                ".".join((*path, name)),
                shown,
                str(extra.get("unit", "")),
                field.description or "",
                value != field.default,
            )


def _inline(document: str, prefix: str, label: str) -> Markup:
    """An SVG document as an HTML element, with ids that begin with the prefix. label: the text for screen readers"""
    root = ET.fromstring(document)
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                element.set(name, f"{prefix}-{value}")
            elif name == f"{{{_XLINK}}}href" and value.startswith("#"):
                element.set(name, f"#{prefix}-{value[1:]}")
            elif value.startswith("url(#"):
                element.set(name, value.replace("url(#", f"url(#{prefix}-"))
    root.attrib.pop("width")
    root.attrib.pop("height")
    root.set("role", "img")
    root.set("aria-label", escape_control_characters(label))
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return Markup(ET.tostring(root, encoding="unicode"))
