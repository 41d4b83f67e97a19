"""Runs a set in several orders: the effect of the order of arrival, and the cost of the first pages of a host."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from statistics import median

from bench.quality.ours import JudgedSet
from bench.quality.sets import LabelledSet
from spotsieve.stream.research.scoring import Label

ORDERS = 5
"""The file's own order, then shuffled ones."""
FIRST_PAGES = 20
"""The pages of a host that count as its first."""


@dataclass(frozen=True)
class OrderRuns:
    """A set's figures in several orders."""

    runs: Sequence[JudgedSet]

    @cached_property
    def f1(self) -> list[float]:
        """Page F1 of each order."""
        return [run.f1 for run in self.runs]

    @cached_property
    def recall(self) -> list[float]:
        """Share of the duplicates found in each order."""
        return [run.scores.pages.retrieval.recall or 0.0 for run in self.runs]

    @cached_property
    def lost(self) -> list[int]:
        """Novel pages dropped in each order."""
        return [run.lost for run in self.runs]

    @property
    def median_lost(self) -> float:
        """Novel pages dropped, median over the orders."""
        return median(self.lost)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Counts over all orders: duplicates and the missed ones, novel pages and the lost ones."""

    duplicates: int
    missed: int
    novel: int
    lost: int


def in_orders(labelled: LabelledSet, count: int = ORDERS) -> Iterator[LabelledSet]:
    """The set in its own order, then in orders shuffled by the seeds 1, 2, ..."""
    yield labelled
    for seed in range(1, count):
        places = list(range(len(labelled.pages)))
        Random(seed).shuffle(places)
        yield labelled.in_order(places)


def count_arrivals(runs: Sequence[tuple[LabelledSet, JudgedSet]]) -> tuple[Arrivals, Arrivals]:
    """The verdicts of the first pages of every host, and of the later ones."""
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for labelled, judged in runs:
        arrived = Counter[str]()
        places = zip(labelled.hosts, labelled.truth.labels, judged.originals, strict=True)
        for host, (label, _), original in places:
            arrived[host] += 1
            found = counts[arrived[host] > FIRST_PAGES]
            if label is Label.DUPLICATE:
                found.update(duplicates=1, missed=int(original is None))
            elif label is Label.NOVEL:
                found.update(novel=1, lost=int(original is not None))
    first, later = (Arrivals(*(found[name] for name in ("duplicates", "missed", "novel", "lost"))) for found in counts)
    return first, later
