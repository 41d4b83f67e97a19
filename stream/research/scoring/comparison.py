"""Formats scores and costs: the text and JSON of one scheme, and the table that compares several schemes.

Text and JSON of one scheme have the layout of ../shared/data/score.py, which scores all filters.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from spotsieve.stream.base.terminal import table_lines
from spotsieve.stream.research.scoring.fresh_text import FreshText, fresh_json
from spotsieve.stream.research.scoring.measures import ClusterScores, LinkScores, PageScores, Retrieval, Scores, share
from spotsieve.stream.research.scoring.truth import Label

_WORDS = {Label.DUPLICATE: "positive", Label.NOVEL: "negative", Label.IGNORED: "between"}
MEANINGS = """P, R, F1: of pages; lost: dropped novel pages; pairs: pairs of pages in one cluster. By text,
without labels: t lost, dropped pages with much text that their original lacks; t missed, emitted pages that an earlier
emitted page contains; gone, words of dropped pages that no emitted page has. Per page: candidates, postings in its
buckets; CPU us, to sign and judge it in memory; log B, bytes in the log; state B, bytes in the state per indexed page,
uncompressed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The average cost of a page of a set.

    candidates: postings in the buckets that it probes
    cpu_us: CPU microseconds to sign and judge it
    log_bytes: bytes of its part of a log record
    state_bytes: bytes of keys, postings and entry, per indexed page, uncompressed
    """

    candidates: float
    cpu_us: float
    log_bytes: float
    state_bytes: float


@dataclass(frozen=True, slots=True)
class SchemeResult:
    """The figures of a scheme on a set. fresh: by fresh text; None if it was not measured"""

    scores: Scores
    cost: Cost
    fresh: FreshText | None = None


def as_json(scores: Scores) -> dict[str, Any]:
    """Every figure by its JSON name."""
    return {"pages": _pages(scores.pages), "links": _links(scores.links), "clusters": _clusters(scores.clusters)}


def as_text(scores: Scores) -> str:
    """The scores as text: the three levels, then found duplicates, lost pages and links by kind."""
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
    """A share with three decimals; "-" for None."""
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


def _fresh_number(scored: SchemeResult, name: str) -> str:
    return "-" if scored.fresh is None else str(fresh_json(scored.fresh)[name])


class Column(NamedTuple):
    """A column of the comparison table.

    title: the title in a terminal
    group, heading, about: group, title and explanation in HTML
    shown: returns the text of a cell
    """

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
        "The share of duplicates among the dropped pages. Ignored pages do not count.",
        lambda one: three_decimals(one.scores.pages.retrieval.precision),
    ),
    Column(
        "R",
        "pages",
        "recall",
        "The share of dropped pages among the duplicates.",
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
        "The number of dropped novel pages.",
        lambda one: str(one.scores.pages.lost_count),
    ),
    Column(
        "pairs P",
        "pairs of pages",
        "precision",
        "The share of pairs in one cluster of the labels among the pairs in one cluster of the verdicts.",
        lambda one: three_decimals(one.scores.clusters.retrieval.precision),
    ),
    Column(
        "pairs R",
        "pairs of pages",
        "recall",
        "The share of pairs in one cluster of the verdicts among the pairs in one cluster of the labels.",
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
        "t lost",
        "by fresh text",
        "lost",
        "The number of dropped pages with much text that their original lacks.",
        lambda one: _fresh_number(one, "lost"),
    ),
    Column(
        "t missed",
        "by fresh text",
        "missed",
        "The number of emitted pages that an earlier emitted page contains.",
        lambda one: _fresh_number(one, "missed"),
    ),
    Column(
        "gone",
        "by fresh text",
        "words gone",
        "The number of words of dropped pages that no emitted page has.",
        lambda one: _fresh_number(one, "words_gone"),
    ),
    Column(
        "candidates",
        "per page",
        "candidates",
        "Postings in the buckets that a page probes.",
        lambda one: f"{one.cost.candidates:.1f}",
    ),
    Column(
        "CPU us",
        "per page",
        "CPU µs",
        "CPU time in microseconds to sign a page and judge it against an index in memory, without reading files. It "
        "varies by 10 % or more from run to run.",
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
        "Bytes of keys, postings and entry of an indexed page, before RocksDB compresses them.",
        lambda one: f"{one.cost.state_bytes:.0f}",
    ),
)


def result_json(scored: SchemeResult) -> dict[str, Any]:
    """Every figure of a scheme by its JSON name, without its cost."""
    fresh = {} if scored.fresh is None else {"fresh_text": fresh_json(scored.fresh)}
    return as_json(scored.scores) | fresh


def comparison_json(found: Mapping[str, SchemeResult]) -> dict[str, Any]:
    """Every figure of each scheme by its JSON name."""
    return {name: result_json(scored) | {"cost": asdict(scored.cost)} for name, scored in found.items()}


def comparison_text(found: Mapping[str, SchemeResult]) -> list[str]:
    """The lines of the table of one set: the column titles, then a line for each scheme."""
    titles = ("scheme", *(column.title for column in COLUMNS))
    return table_lines([titles, *((name, *(column.shown(one) for column in COLUMNS)) for name, one in found.items())])


def fresh_lines(found: Mapping[str, FreshText], width: int | None = None) -> list[str]:
    """The lines of a table of verdicts without labels: the column titles, then a line for each choice of settings."""
    rows: list[tuple[str, ...]] = [("by fresh text", "dropped", "lost", "missed", "words gone")]
    for name, fresh in found.items():
        numbers = (fresh.dropped, len(fresh.lost), len(fresh.missed), fresh.words_gone)
        rows.append((name, *(f"{number:,}" for number in numbers)))
    return table_lines(rows, width)
