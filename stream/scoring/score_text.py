"""Writes scores as the lines and the JSON of ../shared/data/score.py, which judges all filters."""

from typing import Any

from spotsieve.stream.scoring.measures import ClusterScores, LinkScores, PageScores, Retrieval, Scores, share
from spotsieve.stream.scoring.truth import Label

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
