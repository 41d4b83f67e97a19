"""Writes the first table of docs/quality.md: each target of the default scheme, and whether this run met it."""

from collections.abc import Iterator, Mapping

from spotsieve.stream.scoring import Scores
from spotsieve.stream.scoring.score_text import three_decimals
from tests.measure.quality.figures import Figures, Run
from tests.measure.quality.markdown import paragraph, table

TARGETS: Mapping[str, tuple[str, float, int]] = {
    "news": ("f1", 0.98, 4),
    "docs": ("f1", 0.98, 0),
    "newsgroups": ("recall", 0.90, 2),
}
"""Issue 4: which figure of a set must reach what, and how many novel pages may be lost."""
TIMES_QUICKER = 50
SPEED_PEER = "trafilatura + datasketch MinHash >= 0.5"


def targets(run: Run, figures: Figures) -> str:
    """The table; "" where nothing was measured that has a target."""
    rows = [[*cells, "met" if met else "**NOT MET**"] for *cells, met in _rows(run, figures)]
    if not rows:
        return ""
    note = paragraph("""
        One setting for all sets. Of an edit the lesser of two shares counts: copies at another host, and copies at
        another address of the same host, whose only known page the original is mostly. `make bench` measures the speed
        of signing, the cost of the index and the bytes a page takes in the state: docs/speed.md.
    """)
    return f"## Targets\n\n{note}\n\n" + table(["what", "reached", "target", "met"], rows)


def is_met(name: str, scores: Scores) -> bool | None:
    """Whether a set's figures reach its target; None for a set without one."""
    if name not in TARGETS:
        return None
    figure, least, most_lost = TARGETS[name]
    return (getattr(scores.pages.retrieval, figure) or 0.0) >= least and scores.pages.lost_count <= most_lost


def times_quicker(figures: Figures) -> tuple[float, float] | None:
    """Milliseconds of CPU a page of the assembled peer, and how many times that is ours; None where not measured."""
    if figures.speed is None:
        return None
    for peer in figures.peers.get(figures.speed.set_name, ()):
        if peer.name == SPEED_PEER:
            return peer.cpu_ms, peer.cpu_ms / figures.speed.cpu_ms
    return None


def _rows(run: Run, figures: Figures) -> Iterator[tuple[str, str, str, bool]]:
    for labelled in run.sets:
        judged = figures.judged.get(labelled.name)
        if judged is None or labelled.name not in TARGETS:
            continue
        figure, least, most_lost = TARGETS[labelled.name]
        word, pages = "F1" if figure == "f1" else figure, judged.scores.pages
        reached = f"{three_decimals(getattr(pages.retrieval, figure))}, {pages.lost_count} lost"
        wished = f">= {least:.2f}, <= {most_lost} of {pages.novel:,} lost"
        yield f"{labelled.name}: page {word}", reached, wished, bool(is_met(labelled.name, judged.scores))
    for row in figures.robustness:
        if row.kind.target is not None:
            share = min(row.same_host, row.other_host)
            yield f"found: {row.kind.name}", f"{share:.3f}", f">= {row.kind.target:g}", share >= row.kind.target
    quicker = times_quicker(figures)
    if quicker is not None:
        times = quicker[1]
        yield "times as quick as trafilatura + MinHash", f"{times:.0f}", f">= {TIMES_QUICKER}", times >= TIMES_QUICKER
