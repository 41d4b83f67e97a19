"""Shows several schemes side by side: a table for each set, with quality by page and by pair beside the cost."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from spotsieve.stream.scoring.measures import Scores
from spotsieve.stream.scoring.score_text import as_json, three_decimals

MEANINGS = """P, R, F1: of pages; lost: novel pages dropped; pairs: of pages in one cluster. A page: candidates, the
postings in its buckets; CPU us, to sign and judge it in memory; log B, in the log; state B, in the state, by filed
page, before compression."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a page costs, on average over a set.

    candidates: postings in the probed buckets  cpu_us: CPU microseconds to sign and judge it
    log_bytes: of its part of a record  state_bytes: of keys, postings and entry, by filed page, not compressed
    """

    candidates: float
    cpu_us: float
    log_bytes: float
    state_bytes: float


@dataclass(frozen=True, slots=True)
class SchemeResult:
    """The figures of a scheme on a set."""

    scores: Scores
    cost: Cost


class Column(NamedTuple):
    """A column of the table. title: for a terminal  group, heading, about: for HTML  shown: the text of a cell"""

    title: str
    group: str
    heading: str
    about: str
    shown: Callable[[SchemeResult], str]


COLUMNS = (
    Column(
        "P",
        "pages",
        "precision",
        "Of the dropped pages, those that count for nothing left out, the share that are duplicates.",
        lambda one: three_decimals(one.scores.pages.retrieval.precision),
    ),
    Column(
        "R",
        "pages",
        "recall",
        "The share of the duplicates that was dropped.",
        lambda one: three_decimals(one.scores.pages.retrieval.recall),
    ),
    Column(
        "F1",
        "pages",
        "F1",
        "The harmonic mean of precision and recall.",
        lambda one: three_decimals(one.scores.pages.retrieval.f1),
    ),
    Column(
        "lost",
        "pages",
        "lost",
        "Novel pages that were dropped.",
        lambda one: str(one.scores.pages.lost_count),
    ),
    Column(
        "pairs P",
        "pairs of pages",
        "precision",
        "Of the pairs that the verdicts put into one cluster, the share that the labels put into one too.",
        lambda one: three_decimals(one.scores.clusters.retrieval.precision),
    ),
    Column(
        "pairs R",
        "pairs of pages",
        "recall",
        "Of the pairs that the labels put into one cluster, the share that the verdicts put into one too.",
        lambda one: three_decimals(one.scores.clusters.retrieval.recall),
    ),
    Column(
        "pairs F1",
        "pairs of pages",
        "F1",
        "The harmonic mean of precision and recall.",
        lambda one: three_decimals(one.scores.clusters.retrieval.f1),
    ),
    Column(
        "candidates",
        "per page",
        "candidates",
        "Postings in the buckets that a page is looked up under.",
        lambda one: f"{one.cost.candidates:.1f}",
    ),
    Column(
        "CPU us",
        "per page",
        "CPU µs",
        "Processor time to sign a page and judge it against an index in memory, microseconds; reading files is not "
        "counted. It varies by a tenth or more from run to run.",
        lambda one: f"{one.cost.cpu_us:.0f}",
    ),
    Column(
        "log B",
        "per page",
        "log bytes",
        "Bytes of a page's part of a log record.",
        lambda one: f"{one.cost.log_bytes:.0f}",
    ),
    Column(
        "state B",
        "per page",
        "state bytes",
        "Bytes of keys, postings and entry, of each page that was filed, before RocksDB compresses them.",
        lambda one: f"{one.cost.state_bytes:.0f}",
    ),
)


def comparison_json(found: Mapping[str, SchemeResult]) -> dict[str, Any]:
    """For each scheme every figure by its name."""
    return {name: as_json(scored.scores) | {"cost": asdict(scored.cost)} for name, scored in found.items()}


def comparison_text(found: Mapping[str, SchemeResult]) -> list[str]:
    """The lines of the table of one set: the titles, then a line for each scheme."""
    titles = ("scheme", *(column.title for column in COLUMNS))
    rows = [titles, *((name, *(column.shown(scored) for column in COLUMNS)) for name, scored in found.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(titles))]
    return [
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
