"""Shows several schemes side by side: a table for each set, with quality by page and by pair beside the cost.

Writes scores as the lines and the JSON of ../shared/data/score.py, which judges all filters.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from spotsieve.stream.research.scoring.measures import ClusterScores, LinkScores, PageScores, Retrieval, Scores, share
from spotsieve.stream.research.scoring.truth import Label

_WORDS = {Label.DUPLICATE: "positive", Label.NOVEL: "negative", Label.IGNORED: "between"}


def as_json(scores: Scores) -> dict[str, Any]:
    """Every figure by its name."""
    return {"pages": _pages(scores.pages), "links": _links(scores.links), "clusters": _clusters(scores.clusters)}


def as_text(scores: Scores) -> str:
    """For people: the three levels, then what was found and lost by kind."""
    pages, links, clusters = scores.pages, scores.links, scores.clusters
    lost = three_decimals(share(pages.lost_count, pages.novel))
    shares = {word: three_decimals(share(links.count(label), links.links)) for label, word in _WORDS.items()}
    links_line = f">= positive {shares['positive']}, between {shares['between']}, < negative {shares['negative']}"
    lines = [
        f"pages     {pages.duplicates} duplicate, {pages.novel} novel, {pages.ignored} ignored",
        f"          {_retrieval_text(pages.retrieval)}  pages lost {pages.lost_count} ({lost})",
        f"links     {links.links}: {links_line}",
        f"clusters  {_retrieval_text(clusters.retrieval)}  adjusted Rand {three_decimals(clusters.adjusted_rand)}",
        "duplicates found, by kind of the closest earlier pair:",
    ]
    lines.extend(_kind_line(kind, *counts) for kind, counts in pages.found.items())
    lines.append("novel pages lost, by kind of page:")
    lines.extend(_kind_line(kind, *counts) for kind, counts in pages.lost.items())
    lines.append("links, by kind of pair:")
    for kind, counts in _links(links)["by_kind"].items():
        lines.append(f"  {kind:<18} {', '.join(f'{word} {count}' for word, count in counts.items())}")
    return "\n".join(lines)


def three_decimals(value: float | None) -> str:
    """A share as people read it; a dash for a share of nothing."""
    return "-" if value is None else f"{value:.3f}"


def _kind_line(kind: str, dropped: int, count: int) -> str:
    return f"  {kind:<18} {dropped:>5} of {count:<5} {three_decimals(share(dropped, count))}"


def _retrieval_text(retrieval: Retrieval) -> str:
    precision, recall, f1 = map(three_decimals, (retrieval.precision, retrieval.recall, retrieval.f1))
    return f"precision {precision}  recall {recall}  F1 {f1}"


def _pages(pages: PageScores) -> dict[str, Any]:
    return {
        "duplicates": pages.duplicates,
        "novel": pages.novel,
        "ignored": pages.ignored,
        "found": pages.found_count,
        "lost": pages.lost_count,
        "lost_share": share(pages.lost_count, pages.novel),
        **_retrieval(pages.retrieval),
        "recall_by_pair_kind": {kind: {"found": found, "of": count} for kind, (found, count) in pages.found.items()},
        "lost_by_page_kind": {kind: {"lost": lost, "of": count} for kind, (lost, count) in pages.lost.items()},
    }


def _links(links: LinkScores) -> dict[str, Any]:
    labels = (Label.DUPLICATE, Label.IGNORED, Label.NOVEL)
    return {
        "links": links.links,
        **{word: share(links.count(label), links.links) for label, word in _WORDS.items()},
        "by_kind": {
            kind: {_WORDS[label]: counts[label] for label in labels if counts[label]}
            for kind, counts in links.by_kind.items()
        },
    }


def _clusters(clusters: ClusterScores) -> dict[str, Any]:
    return {
        "expected_pairs": clusters.expected_pairs,
        "reported_pairs": clusters.reported_pairs,
        "excused_pairs": clusters.excused_pairs,
        **_retrieval(clusters.retrieval),
        "adjusted_rand": clusters.adjusted_rand,
    }


def _retrieval(retrieval: Retrieval) -> dict[str, Any]:
    return {"precision": retrieval.precision, "recall": retrieval.recall, "f1": retrieval.f1}


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
