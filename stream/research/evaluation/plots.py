"""Draws the plots of a comparison: precision and recall, F1 and CPU cost, and F1 over each scheme's threshold.

A curve consists of a scheme's points over the values of its threshold. matplotlib is used without its global state, so
the same figures produce the same bytes. Colour and marker distinguish schemes. The palette is safe for colour-blind
people (Okabe, Ito 2008); its yellow is left out because it is too light on white.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, sqrt
from numbers import Real
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator, NullFormatter

from spotsieve.stream.base.settings.schemes import SCHEME_SETTINGS
from spotsieve.stream.base.terminal import escape_control_characters
from spotsieve.stream.research.evaluation.choices import Choice
from spotsieve.stream.research.evaluation.trial import SetResult
from spotsieve.stream.research.scoring.comparison import SchemeResult

if TYPE_CHECKING:
    from matplotlib.figure import SubFigure

COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d", "*")
"""13 markers and 7 colours have no common divisor, so 91 schemes have distinct looks."""
DPI = 150
LEAST_SPAN = 2.0
"""The axis of costs extends at least by this factor to both sides of its middle, which leaves room for some ticks."""
_FAINT = "#BBBBBB"
_GREY = "#666666"
_WIDTH = 10.0
"""Width of the whole plot in inches."""
_PANELS = 4
"""Panels of thresholds in one row."""
Drawn = Callable[[Axes], None]


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the table as a point of its curve."""

    choice: Choice
    scored: SchemeResult

    @property
    def value(self) -> Any:
        """The value of the swept setting; None if nothing is swept."""
        return self.choice.value

    @property
    def precision(self) -> float | None:
        """The precision of pages; None if no page was dropped."""
        return self.scored.scores.pages.retrieval.precision

    @property
    def recall(self) -> float | None:
        """The recall of pages; None if the set has no duplicate."""
        return self.scored.scores.pages.retrieval.recall

    @property
    def f1(self) -> float | None:
        """F1 of pages."""
        return self.scored.scores.pages.retrieval.f1


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of a scheme, in the order of the swept values.

    number: chooses colour and marker; it is the same in every plot of the same schemes
    setting, unit: name and unit of the swept setting; "" if nothing is swept
    """

    name: str
    number: int
    setting: str
    unit: str
    points: Sequence[Point]

    @property
    def own(self) -> Point | None:
        """The point of the configured settings; None if they are not among the swept values."""
        return next((point for point in self.points if point.choice.own), None)

    @property
    def best(self) -> Point | None:
        """The point with the greatest F1, or the middle one of several such points; None if no point has an F1."""
        most = max((point.f1 for point in self.points if point.f1 is not None), default=None)
        equal = [point for point in self.points if point.f1 == most]
        return equal[len(equal) // 2] if most is not None else None


def curves_of(outcome: SetResult) -> list[Curve]:
    """The curves of a set, in the order of its table rows."""
    by_curve: dict[str, list[Point]] = {}
    for choice in outcome.choices:
        by_curve.setdefault(choice.curve, []).append(Point(choice, outcome.scored[choice.name]))
    registered = list(SCHEME_SETTINGS)
    known = all(name in registered for name in by_curve)
    return [
        Curve(name, registered.index(name) if known else place, *_swept(points[0].choice), points)
        for place, (name, points) in enumerate(by_curve.items())
    ]


def _swept(choice: Choice) -> tuple[str, str]:
    """Name and unit of the swept setting, "" without a sweep. The name of a scheme setting has no section."""
    *sections, name = choice.setting.split(".")
    model: Any = choice.settings
    for section in sections:
        model = getattr(model, section)
    if not name:
        return "", ""
    extra = type(model).model_fields[name].json_schema_extra
    unit = str(extra["unit"]) if isinstance(extra, dict) else ""
    return choice.setting.removeprefix("scheme."), unit


def plot(outcomes: Sequence[SetResult], names: Sequence[str], form: str) -> bytes:
    """All plots in one picture, with the sets one below the other. names: the names of the sets; form: png or svg"""
    with _style():
        sets = [curves_of(outcome) for outcome in outcomes]
        rows = [-(-sum(len(curve.points) > 1 for curve in curves) // _PANELS) for curves in sets]
        tops = [4.0 + 0.2 * -(-len(curves) // 5) for curves in sets]
        heights = [top + 2.0 * count + 0.3 for top, count in zip(tops, rows, strict=True)]
        figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(outcomes), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, name, curves, top, count in zip(parts, names, sets, tops, rows, strict=True):
            part.suptitle(escape_control_characters(name), fontweight="bold")
            _draw_set(part, curves, top, count)
        return _bytes_of(figure, form)


def precision_recall_svg(curves: Sequence[Curve]) -> str:
    """The plot of precision and recall with its legend, as an SVG document."""
    return _single_svg(lambda axes: draw_precision_recall(axes, curves), 4.6, 3.9, curves)


def cost_svg(curves: Sequence[Curve]) -> str:
    """The plot of F1 and CPU with its legend, as an SVG document."""
    return _single_svg(lambda axes: draw_cost(axes, curves), 4.6, 3.9, curves)


def threshold_svg(curve: Curve) -> str:
    """The plot of F1, precision and recall over a scheme's threshold, as an SVG document."""
    return _single_svg(lambda axes: draw_threshold(axes, curve, legend=True), 3.0, 2.5)


def draw_precision_recall(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw a line for each curve, with a large point for the configured settings.

    Points without a dropped page have no precision and are left out.
    """
    for level in (0.2, 0.4, 0.6, 0.8):
        least = level / (2 - level)
        recall = [least * (1 / least) ** (step / 16) for step in range(17)]
        axes.plot(recall, [level * r / (2 * r - level) for r in recall], color=_FAINT, linewidth=0.6, zorder=0)
        label = {"boxstyle": "square,pad=0.1", "color": "white"}
        place = (0.9, level * 0.9 / (1.8 - level))
        axes.annotate(f"F1 {level}", place, color=_GREY, fontsize=7, ha="center", va="center", zorder=0, bbox=label)
    for curve in curves:
        _draw_points(axes, curve, lambda point: (point.recall, point.precision), joined=True)
    lowest = min((point.precision or 0.0 for one in curves for point in one.points if _is_placed(point)), default=0.0)
    axes.set(xlabel="recall of pages", ylabel="precision of pages", xlim=(-0.03, 1.03))
    _from(axes, lowest)
    axes.set_title("Precision and recall")


def draw_cost(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw F1 over the CPU microseconds of a page, on a logarithmic axis."""
    for curve in curves:
        # The points are not joined: CPU varies more from run to run than between most thresholds.
        _draw_points(axes, curve, lambda point: (point.scored.cost.cpu_us, point.f1), joined=False)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    middle, half = sqrt(low * high), max(sqrt(high / low), LEAST_SPAN)
    low, high = middle / half, middle * half
    axes.set_xlim(low, high)
    ticks = [
        digit * 10**power
        for power in range(-1, 8)
        for digit in (1, 1.5, 2, 3, 5, 7)
        if low <= digit * 10**power <= high
    ]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(color=_FAINT, linewidth=0.4)
    lowest = min((point.f1 for one in curves for point in one.points if point.f1 is not None), default=0.0)
    axes.set(xlabel="CPU of a page, µs", ylabel="F1 of pages")
    _from(axes, lowest)
    axes.set_title("Cost and F1")


def draw_threshold(axes: Axes, curve: Curve, *, legend: bool) -> None:
    """Draw F1, precision and recall over the swept values, with a line at the configured settings."""
    even = all(isinstance(point.value, Real) and not isinstance(point.value, bool) for point in curve.points)
    places: list[Any] = [point.value if even else number for number, point in enumerate(curve.points)]
    colour, marker, _ = _look(curve)
    series: tuple[tuple[str, Callable[[Point], float | None], dict[str, Any]], ...] = (
        ("precision", lambda point: point.precision, {"color": _GREY, "linestyle": "--", "linewidth": 1}),
        ("recall", lambda point: point.recall, {"color": _GREY, "linestyle": ":", "linewidth": 1.4}),
        ("F1", lambda point: point.f1, {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.6}),
    )
    for name, figure, look in series:
        values = [figure(point) for point in curve.points]
        known = [(place, value) for place, value in zip(places, values, strict=True) if value is not None]
        axes.plot([place for place, _ in known], [value for _, value in known], label=name, **look)
    if curve.own is not None:
        place = places[[point is curve.own for point in curve.points].index(True)]
        axes.axvline(place, color=_FAINT, linewidth=1, zorder=0, label="as set")
    if all(isinstance(point.value, int) for point in curve.points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not even:
        axes.set_xticks(places, [escape_control_characters(_shown(point.value)) for point in curve.points])
    unit = f", {curve.unit}" if curve.unit else ""
    axes.set(xlabel=escape_control_characters(f"{curve.setting}{unit}"), ylim=(-0.03, 1.03))
    axes.set_title(escape_control_characters(curve.name))
    axes.grid(axis="y", color=_FAINT, linewidth=0.4)
    if legend:
        axes.figure.legend(loc="outside lower center", ncols=4, fontsize=7, handlelength=1.6, columnspacing=1)


def _draw_set(part: "SubFigure", curves: Sequence[Curve], top: float, rows: int) -> None:
    swept = [curve for curve in curves if len(curve.points) > 1]
    halves = part.subfigures(2 if rows else 1, 1, height_ratios=[top, 2.0 * rows] if rows else None, squeeze=False)
    left, right = halves[0, 0].subplots(1, 2)
    draw_precision_recall(left, curves)
    draw_cost(right, curves)
    handles, labels = left.get_legend_handles_labels()
    halves[0, 0].legend(handles, labels, loc="outside lower center", ncols=5)
    if rows:
        panels = list(halves[1, 0].subplots(rows, _PANELS, squeeze=False, sharey=True).flat)
        for axes, curve in zip(panels, swept, strict=False):
            draw_threshold(axes, curve, legend=False)
        for axes in panels[len(swept) :]:
            axes.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        halves[1, 0].legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_points(
    axes: Axes, curve: Curve, place: Callable[[Point], tuple[float | None, float | None]], *, joined: bool
) -> None:
    colour, marker, line = _look(curve)
    look: dict[str, Any] = {"color": colour, "marker": marker, "linewidth": 0.9}
    known = [(x, y) for x, y in map(place, curve.points) if x is not None and y is not None]
    joined = joined and len(curve.points) > 1
    if len(curve.points) > 1:
        across, up = [x for x, _ in known], [y for _, y in known]
        axes.plot(across, up, linestyle=line if joined else "none", markersize=2.8, alpha=0.75, **look)
    large = curve.own if curve.own is not None else curve.best
    shown = [(x, y) for x, y in ([place(large)] if large is not None else []) if x is not None and y is not None]
    axes.plot(
        [x for x, _ in shown],
        [y for _, y in shown],
        linestyle=line if joined else "none",
        markersize=8,
        markeredgecolor="white",
        label=escape_control_characters(curve.name),
        zorder=3,
        **look,
    )


def _is_placed(point: Point) -> bool:
    return point.precision is not None and point.recall is not None


def _from(axes: Axes, lowest: float) -> None:
    """Begin the vertical axis 0.1 below the lowest share, so that the points of good schemes spread out."""
    low = min(0.5, max(0.0, floor(10 * lowest - 1) / 10))
    axes.set_ylim(low - 0.02, 1.02)
    axes.yaxis.set_major_locator(MultipleLocator(0.2 if low < 0.4 else 0.1))


def _look(curve: Curve) -> tuple[str, str, str]:
    """The colour, marker and line style of a curve."""
    return (
        COLOURS[curve.number % len(COLOURS)],
        MARKERS[curve.number % len(MARKERS)],
        ("-", "--")[curve.number // len(COLOURS) % 2],
    )


def _single_svg(draw: Drawn, width: float, height: float, curves: Sequence[Curve] = ()) -> str:
    with _style():
        figure = Figure(figsize=(width, height + 0.2 * -(-len(curves) // 3)), layout="constrained")
        draw(figure.add_subplot())
        if curves:
            figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        return _bytes_of(figure, "svg").decode()


def _bytes_of(figure: Figure, form: str) -> bytes:
    file = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    with warnings.catch_warnings():
        # The name of a set may be in any script. matplotlib's font may lack its glyphs; a viewer of the SVG has them.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(file, format=form, dpi=DPI, metadata=metadata)
    if form != "svg":
        return file.getvalue()
    # matplotlib ends lines of path data with a space, which git and editors report as trailing white space.
    return b"\n".join(line.rstrip() for line in file.getvalue().splitlines()) + b"\n"


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """Apply Spotsieve's plot style, independent of the user's matplotlibrc."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "axes.edgecolor": "#555555",
                "axes.spines.right": False,
                "axes.spines.top": False,
                "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib; an SVG viewer may use another sans-serif
                "font.size": 9.0,
                "legend.frameon": False,
                "svg.fonttype": "none",  # keep text as text: smaller and searchable
                "svg.hashsalt": "spotsieve",
                "text.parse_math": False,  # a set may be called $x$
            }
        )
        yield


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
