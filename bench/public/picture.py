"""Draws quality against speed as SVG, in the reader's light or dark scheme. The same figures give equal bytes."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from bench.peers.filters import OURS
from bench.public.report import FilterRow

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 44, 56
LINE = 16
"""The least distance of two labels."""
GAP = 12
"""Between a point and its label."""
LETTER = 7.2
"""The width of a letter of a label, on average."""
STYLE = (
    "text{fill:#1b2430}.n{fill:#4a5a6a;font-size:13px}.g{stroke:#c9d3dd;stroke-width:1}.p{fill:#6b7b8b}"
    ".o{fill:#3b6ea5}.ours{fill:#2b5c92;font-weight:600}"
    "@media (prefers-color-scheme: dark){text{fill:#e8eef4}.n{fill:#a9b8c6}.g{stroke:#3a4652}.p{fill:#9aa9b8}"
    ".o{fill:#7fb0e3}.ours{fill:#9cc4ee}}"
)


class _Label(NamedTuple):
    text: str
    x: float
    y: float
    anchor: str


def draw(filters: Sequence[FilterRow]) -> str:
    """The picture. filters: their figures over all sets"""
    least = math.floor(math.log10(min(one.pages_per_s for one in filters)))
    most = math.ceil(math.log10(max(one.pages_per_s for one in filters)))

    def x_of(pages_per_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(pages_per_s) - least) / (most - least)

    def y_of(f1: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * f1

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' role="img" aria-labelledby="t d" font-family="system-ui, sans-serif" font-size="14">',
        '<title id="t">Quality against speed</title>',
        f'<desc id="d">{escape(_described(filters))}</desc>',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="24">F1 of the dropped pages, mean of the sets</text>',
    ]
    for tenths in range(0, 11, 2):
        y = y_of(tenths / 10)
        parts.append(f'<path class="g" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_note(LEFT - 10, y + 4, f"{tenths / 10:.1f}", "end"))
    for power in range(least, most + 1):
        x = x_of(10.0**power)
        parts.append(f'<path class="g" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(_note(x, HEIGHT - BOTTOM + 20, f"{10**power:,}"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_note(middle, HEIGHT - 12, "pages/s on one core, logarithmic"))
    points = [(one.name, x_of(one.pages_per_s), y_of(one.f1)) for one in filters]
    for name, x, y in points:
        kind, radius = ("o", 8) if name == OURS else ("p", 5)
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')
    for label in _labels(points):
        kind = ' class="ours"' if label.text == OURS else ""
        parts.append(
            f'<text{kind} x="{label.x:.1f}" y="{label.y:.1f}" text-anchor="{label.anchor}">{escape(label.text)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _note(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="n" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _labels(points: Sequence[tuple[str, float, float]]) -> list[_Label]:
    """A label beside each point, right or left of it, at the nearest height where it covers no label and no point."""
    placed = list[_Label]()
    for name, x, y in sorted(points, key=lambda point: point[2]):
        others = [(across, down) for other, across, down in points if other != name]
        placed.append(
            next(
                label
                for label in _places(name, x, y + 5)
                if not any(_touch(label, other) for other in placed)
                and not any(_covers(label, *other) for other in others)
            )
        )
    return placed


def _places(name: str, x: float, y: float) -> Iterator[_Label]:
    """The places for a label, the best first; those that lie within the picture."""
    for shift in range(HEIGHT):
        for down in (shift, -shift):
            for label in (_Label(name, x + GAP, y + down, "start"), _Label(name, x - GAP, y + down, "end")):
                first, last = _span(label)
                if first >= LEFT and last <= WIDTH:
                    yield label


def _touch(one: _Label, other: _Label) -> bool:
    first, second = _span(one), _span(other)
    return abs(one.y - other.y) < LINE and first[0] < second[1] and second[0] < first[1]


def _covers(label: _Label, x: float, y: float) -> bool:
    first, last = _span(label)
    return first - GAP / 2 < x < last + GAP / 2 and abs(label.y - 5 - y) < GAP


def _span(label: _Label) -> tuple[float, float]:
    width = LETTER * len(label.text)
    return (label.x, label.x + width) if label.anchor == "start" else (label.x - width, label.x)


def _described(filters: Sequence[FilterRow]) -> str:
    return "; ".join(f"{one.name}: F1 {one.f1:.2f} at {one.pages_per_s:,.0f} pages/s" for one in filters)
