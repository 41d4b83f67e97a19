"""Writes Markdown for the documents: tables and paragraphs."""

from collections.abc import Sequence

from spotsieve.stream.research.scoring.fresh_text import FreshText

FRESH_HEADER = ("lost", "missed", "words gone")
"""The columns of fresh_cells."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table; the first column, or the first `texts` columns, are text, the others are figures."""
    rule = [*["---"] * texts, *["---:"] * (len(header) - texts)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def fresh_cells(fresh: FreshText | None) -> tuple[str, str, str]:
    """The measures by fresh text, empty if they were not measured."""
    if fresh is None:
        return "", "", ""
    return f"{len(fresh.lost):,}", f"{len(fresh.missed):,}", f"{fresh.words_gone:,}"


def paragraph(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())
