"""The style of all plots, and how they are written: the same figures give the same bytes."""

from pathlib import Path
from typing import Any

STYLE: dict[Any, Any] = {"svg.hashsalt": "spotsieve", "axes.spines.top": False, "axes.spines.right": False}
"""Parameters of matplotlib, while a plot is drawn and written."""


def save_svg(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib as an SVG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    # matplotlib ends lines of path data with a space, which git and editors mark.
    path.write_text("\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()) + "\n", "utf-8")
