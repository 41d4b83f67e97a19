"""Draws the plots of docs/measured/quality.md. The same figures give byte-identical SVG files."""

from collections.abc import Sequence
from math import floor
from pathlib import Path
from typing import Any

from bench.plots import STYLE, save_svg
from bench.quality.figures import Figures
from bench.quality.robustness import RobustnessRow
from spotsieve.stream.base.settings.model import Settings

FEW = 10
"""Novel pages lost up to this number are drawn on a linear scale."""


def draw_plots(figures: Figures, folder: Path, settings: Settings) -> dict[str, str]:
    """Write the plots; returns title -> path from the folder's parent. settings: the measured ones"""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(STYLE)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for name in figures.sweeps:
        file = f"sweep-{name.replace('.', '-').replace('_', '-')}.svg"
        _draw_sweep(figures, name, folder / file, settings)
        drawn[name] = f"{folder.name}/{file}"
    for name, rows in figures.robustness.items():
        _draw_robustness(rows, folder / f"robustness-{name}.svg")
        drawn[f"robustness-{name}"] = f"{folder.name}/robustness-{name}.svg"
    return drawn


def _draw_sweep(figures: Figures, name: str, path: Path, settings: Settings) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    steps = figures.sweeps[name]
    values = [step.value for step in steps]
    canvas, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for labelled in steps[0].by_set:
        found = [step.by_set[labelled] for step in steps]
        left.plot(values, [judged.f1 for judged in found], marker=".", label=labelled)
        right.plot(values, [judged.lost for judged in found], marker=".", label=labelled)
    every = [judged for step in steps for judged in step.by_set.values()]
    least, most = min(judged.f1 for judged in every), max(judged.lost for judged in every)
    left.set(xlabel=name, ylabel="page F1", ylim=(max(0.0, floor(10 * least) / 10 - 0.05), 1.01))
    right.set(xlabel=name, ylabel="novel pages lost", ylim=(-0.05 * max(1, most), max(1, 1.1 * most)))
    if most > FEW:
        right.set(yscale="symlog", ylim=(-0.2, 1.5 * most))
    else:
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
    right.yaxis.set_major_formatter("{x:g}")
    section, _, setting = name.partition(".")
    for axes in (left, right):
        axes.axvline(
            getattr(getattr(settings, section), setting), color="0.7", linestyle=":", zorder=0, label="setting"
        )
    left.legend(frameon=False)
    _save(canvas, path)


def _draw_robustness(rows: Sequence[RobustnessRow], path: Path) -> None:
    from matplotlib import pyplot as plt

    places = range(len(rows))
    series = {
        "ours, another host": [row.other_host for row in rows],
        "ours, same host": [row.same_host for row in rows],
    }
    height = 0.8 / len(series)
    canvas, axes = plt.subplots(figsize=(9, 0.6 * len(rows) + 1), layout="constrained")
    for number, (name, shares) in enumerate(series.items()):
        axes.barh([place + number * height for place in places], shares, height, label=name)
    axes.set_yticks([place + 0.4 - height / 2 for place in places], [row.name for row in rows])
    axes.margins(y=0.02)
    axes.invert_yaxis()
    axes.set(xlabel="share of edited copies found", xlim=(0, 1))
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.4, -0.09), ncols=2)
    _save(canvas, path)


def _save(canvas: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    save_svg(canvas, path)
    plt.close(canvas)
