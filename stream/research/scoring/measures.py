"""Measures verdicts by page, by link and by cluster."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from spotsieve.stream.research.scoring.truth import Label, Truth

UNLISTED = "unlisted"
"""The kind of a link whose two pages are no listed pair."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Precision, recall and their harmonic mean; None instead of a division by 0."""

    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, right: float, reported: float, expected: float) -> "Retrieval":
        """right: how many are both reported and expected."""
        return cls(share(right, reported), share(right, expected), share(2 * right, reported + expected))


@dataclass(frozen=True, slots=True)
class PageScores:
    """What the user of a stream notices: duplicates let through, novel pages lost.

    found: (dropped, all) duplicates by the kind of their closest earlier pair
    lost: (dropped, all) novel pages by their kind
    """

    retrieval: Retrieval
    found: dict[str, tuple[int, int]]
    lost: dict[str, tuple[int, int]]
    ignored: int

    @property
    def found_count(self) -> int:
        """Duplicates that were dropped."""
        return sum(dropped for dropped, _ in self.found.values())

    @property
    def lost_count(self) -> int:
        """Novel pages that were dropped."""
        return sum(dropped for dropped, _ in self.lost.values())

    @property
    def duplicates(self) -> int:
        """Pages that are duplicates."""
        return sum(count for _, count in self.found.values())

    @property
    def novel(self) -> int:
        """Pages that are novel."""
        return sum(count for _, count in self.lost.values())


@dataclass(frozen=True, slots=True)
class LinkScores:
    """How similar a page and its reported original really are. by_kind: kind of pair -> links by label"""

    by_kind: dict[str, Counter[Label]]

    def count(self, label: Label) -> int:
        """Links of this label."""
        return sum(counts[label] for counts in self.by_kind.values())

    @property
    def links(self) -> int:
        """All links."""
        return sum(counts.total() for counts in self.by_kind.values())


@dataclass(frozen=True, slots=True)
class ClusterScores:
    """Pairs of pages that the links join, compared with pairs that the positive pairs join, both transitively.

    A pair between the bounds that only the filter joins is excused: it does not count. The adjusted
    Rand index (Hubert, Arabie 1985) compares the two partitions as they are.
    """

    expected_pairs: int
    reported_pairs: int
    excused_pairs: int
    retrieval: Retrieval
    adjusted_rand: float


@dataclass(frozen=True, slots=True)
class Scores:
    """All three levels."""

    pages: PageScores
    links: LinkScores
    clusters: ClusterScores


def score(truth: Truth, originals: Sequence[int | None]) -> Scores:
    """All measures. originals: for each place of the stream that of its reported original, or None (check_verdicts)"""
    return Scores(_score_pages(truth, originals), _score_links(truth, originals), _score_clusters(truth, originals))


def share(part: float, whole: float) -> float | None:
    """The share of the part in the whole; None if the whole is 0."""
    return part / whole if whole else None


def _score_pages(truth: Truth, originals: Sequence[int | None]) -> PageScores:
    pages: Counter[tuple[Label, str]] = Counter()
    dropped: Counter[tuple[Label, str]] = Counter()
    for counted_under, original in zip(truth.labels, originals, strict=True):
        pages[counted_under] += 1
        dropped[counted_under] += original is not None

    def by_kind(label: Label) -> dict[str, tuple[int, int]]:
        return {kind: (dropped[key], pages[key]) for key in sorted(pages) for of, kind in [key] if of is label}

    found, lost = by_kind(Label.DUPLICATE), by_kind(Label.NOVEL)
    right, wrong = (sum(count for count, _ in part.values()) for part in (found, lost))
    retrieval = Retrieval.of(right, right + wrong, sum(count for _, count in found.values()))
    return PageScores(
        retrieval, found, lost, sum(count for (label, _), count in pages.items() if label is Label.IGNORED)
    )


def _score_links(truth: Truth, originals: Sequence[int | None]) -> LinkScores:
    by_kind: dict[str, Counter[Label]] = {}
    for place, original in enumerate(originals):
        if original is not None:
            pair = truth.listed.get((original, place))
            label = truth.label(pair.similarity if pair else 0.0)
            by_kind.setdefault(pair.kind if pair else UNLISTED, Counter())[label] += 1
    return LinkScores(dict(sorted(by_kind.items())))


def _score_clusters(truth: Truth, originals: Sequence[int | None]) -> ClusterScores:
    pages = len(truth.ids)
    by_label: dict[Label, list[tuple[int, int]]] = {label: [] for label in Label}
    for pair in truth.pairs:
        by_label[truth.label(pair.similarity)].append((pair.earlier, pair.later))
    expected = join(pages, by_label[Label.DUPLICATE])
    reported = join(pages, ((place, original) for place, original in enumerate(originals) if original is not None))
    in_both = _pairs_of_equals(zip(expected, reported, strict=True))
    in_expected, in_reported = _pairs_of_equals(expected), _pairs_of_equals(reported)
    excused = sum(
        reported[one] == reported[other] and expected[one] != expected[other] for one, other in by_label[Label.IGNORED]
    )
    by_chance = in_expected * in_reported / max(1, pages * (pages - 1) // 2)
    most = (in_expected + in_reported) / 2
    return ClusterScores(
        in_expected,
        in_reported,
        excused,
        Retrieval.of(in_both, in_reported - excused, in_expected),
        1.0 if most == by_chance else (in_both - by_chance) / (most - by_chance),
    )


def join(count: int, links: Iterable[tuple[int, int]]) -> list[int]:
    """The connected components of 0..count-1 under the links: for each member the least one of its component."""
    parent = list(range(count))

    def root(member: int) -> int:
        while parent[member] != member:
            parent[member] = member = parent[parent[member]]
        return member

    for one, other in links:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    return [root(member) for member in range(count)]


def _pairs_of_equals(values: Iterable[Hashable]) -> int:
    return sum(count * (count - 1) // 2 for count in Counter(values).values())
