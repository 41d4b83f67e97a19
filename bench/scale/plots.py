"""Draws throughput and latency over the number of shards. The same figures give a byte-identical SVG."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.plots import STYLE, save_svg
from bench.scale.cases import SHARDS, Cases

COLOURS = {False: "#0072B2", True: "#D55E00"}
LABELS = {False: "nothing read ahead", True: "as it is"}


def draw(cases: Cases, path: Path) -> None:
    """Write the plot."""
    with rc_context(STYLE):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_reach(left, cases)
        _draw_waits(right, cases)
        save_svg(figure, path)


def _draw_reach(axes: Axes, cases: Cases) -> None:
    for ahead, colour in COLOURS.items():
        reached = [cases.reached[shards, ahead].full.pages_per_s for shards in SHARDS]
        axes.plot(SHARDS, reached, marker="o", color=colour, label=LABELS[ahead])
    axes.axhline(cases.ceiling, color="0.5", linestyle="--", label="any number of single processes")
    axes.set(ylabel="pages/s, as many as are taken", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _shards(axes)


def _draw_waits(axes: Axes, cases: Cases) -> None:
    for ahead, colour in COLOURS.items():
        half = [cases.reached[shards, ahead].half for shards in SHARDS]
        axes.plot(SHARDS, [one.p99_ms for one in half], marker="o", color=colour, label=f"p99, {LABELS[ahead]}")
        label = f"p50, {LABELS[ahead]}"
        axes.plot(SHARDS, [one.p50_ms for one in half], marker=".", linestyle=":", color=colour, label=label)
    axes.set(ylabel="ms, at half of these pages/s", ylim=(0, None))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    _shards(axes)


def _shards(axes: Axes) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(SHARDS, [str(shards) for shards in SHARDS])
    axes.set_xlabel("shards")
    axes.legend(frameon=False)
