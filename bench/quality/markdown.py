"""Writes Markdown for the documents: tables and paragraphs."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table; the first column, or the first `texts` columns, are text, the others are figures."""
    rule = [*["---"] * texts, *["---:"] * (len(header) - texts)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def paragraph(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())
