"""Writes the first table of docs/measured/quality.md: each target of the default scheme, and whether it was met."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import NamedTuple

from bench.quality.figures import Figures, Run
from bench.quality.markdown import paragraph, table
from bench.quality.orders import OrderRuns
from bench.targets import met
from spotsieve.stream.research.scoring import Scores
from spotsieve.stream.research.scoring.comparison import three_decimals


class QualityTarget(NamedTuple):
    """figure: of the set, and its lower bound  most_lost: novel pages lost"""

    figure: str
    least: float
    most_lost: int


TARGETS: Mapping[str, QualityTarget] = {
    "catalogue": QualityTarget("f1", 0.97, 4),
    "news": QualityTarget("f1", 0.996, 1),
    "docs": QualityTarget("f1", 0.995, 0),
    "newsgroups": QualityTarget("recall", 0.90, 2),
}
"""The targets of each set, as medians over the orders. Replies in newsgroups are a quarter to a half fresh text, so the
rule keeps some that the labels call duplicates."""
MOST_LOST_MISSED: Mapping[str, tuple[int, int]] = {
    "lists": (10, 5),
    "news": (1, 3),
    "docs": (0, 2),
    "newsgroups": (1, 8),
    "catalogue": (3, 24),
    "scripts": (0, 0),
}
"""The most lost and missed pages of each set by fresh text, as medians over the orders."""
TIMES_QUICKER = 50
SPEED_PEER = "trafilatura + datasketch MinHash >= 0.5"


def targets(run: Run, figures: Figures) -> str:
    """The table; "" if no set with a target was measured."""
    rows = [[*cells, met(good)] for *cells, good in _rows(run, figures)]
    if not rows:
        return ""
    note = paragraph("""
        One setting for all sets. Of an edit the lesser of two shares counts: copies at another host, and copies at
        another URL of the same host, whose only known page the original is mostly. `make bench` measures the speed
        of signing, the cost of the index and the bytes a page takes in the state: docs/measured/speed.md.
    """)
    return f"## Targets\n\n{note}\n\n" + table(["what", "reached", "target", "met"], rows)


def is_met(name: str, scores: Scores) -> bool | None:
    """Whether a set's figures reach its target; None for a set without one."""
    if name not in TARGETS:
        return None
    target = TARGETS[name]
    reached = getattr(scores.pages.retrieval, target.figure) or 0.0
    return reached >= target.least and scores.pages.lost_count <= target.most_lost


def times_quicker(figures: Figures) -> tuple[float, float] | None:
    """CPU milliseconds per page of the assembled peer, and its ratio to ours; None if not measured."""
    if figures.speed is None:
        return None
    for peer in figures.peers.get(figures.speed.set_name, ()):
        if peer.name == SPEED_PEER:
            return peer.cpu_ms, peer.cpu_ms / figures.speed.cpu_ms
    return None


def _over_orders(name: str, ordered: OrderRuns, novel: int) -> tuple[str, str, str, bool]:
    """The row of a set."""
    target = TARGETS[name]
    word, figures = ("F1", ordered.f1) if target.figure == "f1" else ("recall", ordered.recall)
    reached, worst = median(figures), max(ordered.lost)
    wished = f">= {target.least:.3f}, <= {target.most_lost} of {novel:,} lost"
    return (
        f"{name}: page {word}, median of {len(ordered.runs)} orders",
        f"{three_decimals(reached)}, {ordered.median_lost:g} lost, worst {worst}",
        wished,
        reached >= target.least and ordered.median_lost <= target.most_lost,
    )


def _rows(run: Run, figures: Figures) -> Iterator[tuple[str, str, str, bool]]:
    for labelled in run.sets:
        ordered = figures.ordered.get(labelled.name)
        if ordered is not None and labelled.name in TARGETS:
            yield _over_orders(labelled.name, ordered, ordered.runs[0].scores.pages.novel)
        fresh = figures.fresh_ordered.get(labelled.name)
        if fresh and labelled.name in MOST_LOST_MISSED:
            most = MOST_LOST_MISSED[labelled.name]
            reached = median(len(one.lost) for one in fresh), median(len(one.missed) for one in fresh)
            good = all(count <= bound for count, bound in zip(reached, most, strict=True))
            what = f"{labelled.name}: lost and missed by fresh text, median of {len(fresh)} orders"
            yield what, f"{reached[0]:g}, {reached[1]:g}", f"<= {most[0]}, {most[1]}", good
    for rows in figures.robustness.values():
        for row in rows:
            if row.target is not None:
                yield f"found: {row.name}", f"{row.least:.3f}", f">= {row.target:g}", row.least >= row.target
    quicker = times_quicker(figures)
    if quicker is not None:
        times = quicker[1]
        yield "times as quick as trafilatura + MinHash", f"{times:.0f}", f">= {TIMES_QUICKER}", times >= TIMES_QUICKER
