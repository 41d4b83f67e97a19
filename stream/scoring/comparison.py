"""Owns how several schemes are shown side by side: one table a set, quality at page and pair level beside cost."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stream.scoring.measures import Scores
from stream.scoring.report import as_json, three_decimals

TITLES = (
    *("scheme", "P", "R", "F1", "lost", "pairs P", "pairs R", "pairs F1"),
    *("candidates", "CPU us", "log B", "state B"),
)
MEANINGS = """P, R, F1: of pages; lost: novel pages dropped; pairs: of pages in one cluster. A page: candidates, the
postings in its buckets; CPU us, to sign and judge it in memory; log B, in the log; state B, in the state, by filed
page, before compression."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a page costs, on average over a set.

    candidates: postings in the probed buckets  cpu_us: to sign and judge, microseconds of CPU  log_bytes: of its record
    state_bytes: of keys, postings and entry, by filed page, not compressed
    """

    candidates: float
    cpu_us: float
    log_bytes: float
    state_bytes: float


@dataclass(frozen=True, slots=True)
class Scored:
    """A scheme on a set."""

    scores: Scores
    cost: Cost


def comparison_json(found: Mapping[str, Scored]) -> dict[str, Any]:
    """Scheme -> every figure by its name."""
    return {name: as_json(scored.scores) | {"cost": asdict(scored.cost)} for name, scored in found.items()}


def comparison_text(found: Mapping[str, Scored]) -> list[str]:
    """The table of one set: its lines, a scheme each, below their titles."""
    rows = [TITLES, *(_row(name, scored) for name, scored in found.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
    return [
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]


def _row(name: str, scored: Scored) -> tuple[str, ...]:
    pages, pairs, cost = scored.scores.pages, scored.scores.clusters.retrieval, scored.cost
    return (
        name,
        *(three_decimals(value) for value in (pages.retrieval.precision, pages.retrieval.recall, pages.retrieval.f1)),
        str(pages.lost_count),
        *(three_decimals(value) for value in (pairs.precision, pairs.recall, pairs.f1)),
        f"{cost.candidates:.1f}",
        *(f"{value:.0f}" for value in (cost.cpu_us, cost.log_bytes, cost.state_bytes)),
    )
