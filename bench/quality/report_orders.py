"""Writes the sections about the order of arrival and about the first pages of a host."""

from collections.abc import Sequence, Sized
from statistics import median

from bench.quality.figures import Figures, FirstPages
from bench.quality.markdown import paragraph, table
from bench.quality.orders import FIRST_PAGES, Arrivals
from spotsieve.stream.research.scoring.comparison import three_decimals
from spotsieve.stream.research.scoring.fresh_text import FreshText


def orders(figures: Figures) -> str:
    """Every set in each order."""
    if not figures.ordered:
        return ""
    rows = []
    for name, ordered in figures.ordered.items():
        fresh = figures.fresh_ordered.get(name, ())
        rows.append(
            [
                name,
                *(
                    f"{three_decimals(median(shares))}, {three_decimals(min(shares))}"
                    for shares in (ordered.f1, ordered.recall)
                ),
                _median_worst(ordered.lost),
                *(_median_worst([len(part) for part in parts]) for parts in _lost_and_missed(fresh)),
            ]
        )
    count = len(next(iter(figures.ordered.values())).runs)
    note = paragraph(f"""
        Each set in {count} orders: its own, then shuffled by the seeds 1 to {count - 1}. Which page of a pair is the
        duplicate, and so how many are novel, follows the order. "Novel lost" follows the labels, "lost" and
        "missed" the fresh text.
    """)
    header = ["set", *(f"{what}: median, worst" for what in ("F1", "recall", "novel lost", "lost", "missed"))]
    return f"## Orders\n\n{note}\n\n" + table(header, rows)


def _lost_and_missed(fresh: Sequence[FreshText]) -> tuple[list[Sized], list[Sized]]:
    """The lost pages and the missed pages of each order."""
    return [one.lost for one in fresh], [one.missed for one in fresh]


def _median_worst(counts: Sequence[int]) -> str:
    return f"{median(counts):g}, {max(counts)}" if counts else ""


def first_pages(figures: Figures) -> str:
    """The effect of care for a host's first pages."""
    if not figures.first_pages:
        return ""
    rows = [_care(step, name) for step in figures.first_pages for name in step.by_set]
    note = paragraph(f"""
        The template text of a host is unknown at first. While a host has fewer pages than the first column says, shared
        words of its pages may be template text: nearly all of a page must be contained, and no word may be fresh.
        Counted are the first {FIRST_PAGES} pages of every host, and the later ones, in all orders together: emitted
        copies of all duplicates, and novel pages lost of all novel ones.
    """)
    header = [
        "care for pages",
        "set",
        "first pages: emitted",
        "first pages: lost",
        "later: emitted",
        "later: lost",
    ]
    return f"## First pages of a host\n\n{note}\n\n" + table(header, rows, 2)


def _care(step: FirstPages, name: str) -> list[str]:
    first, later = step.by_set[name]
    return [str(step.few_pages), name, *_of(first), *_of(later)]


def _of(arrivals: Arrivals) -> tuple[str, str]:
    return f"{arrivals.missed} of {arrivals.duplicates:,}", f"{arrivals.lost} of {arrivals.novel:,}"
