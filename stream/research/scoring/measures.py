"""Computes the scores of verdicts by page, by link and by cluster."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from spotsieve.stream.research.scoring.truth import Label, Truth

UNLISTED = "unlisted"
"""The kind of a link between two pages that are not a listed pair."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Precision, recall and F1, their harmonic mean. A division by 0 gives None."""

    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, right: float, reported: float, expected: float) -> "Retrieval":
        """The measures of three counts. right: the number that is both reported and expected"""
        return cls(share(right, reported), share(right, expected), share(2 * right, reported + expected))


@dataclass(frozen=True, slots=True)
class PageScores:
    """The scores by page: duplicates that were dropped, and novel pages that were lost.

    found: (dropped, all) duplicates by the kind of the pair with their closest earlier page
    lost: (dropped, all) novel pages by their kind
    ignored: the number of pages that do not count
    """

    retrieval: Retrieval
    found: dict[str, tuple[int, int]]
    lost: dict[str, tuple[int, int]]
    ignored: int

    @property
    def found_count(self) -> int:
        """The number of dropped duplicates."""
        return sum(dropped for dropped, _ in self.found.values())

    @property
    def lost_count(self) -> int:
        """The number of dropped novel pages."""
        return sum(dropped for dropped, _ in self.lost.values())

    @property
    def duplicates(self) -> int:
        """The number of duplicates."""
        return sum(count for _, count in self.found.values())

    @property
    def novel(self) -> int:
        """The number of novel pages."""
        return sum(count for _, count in self.lost.values())


@dataclass(frozen=True, slots=True)
class LinkScores:
    """The labels of the links between a page and its reported original. by_kind: links by label, by kind of pair"""

    by_kind: dict[str, Counter[Label]]

    def count(self, label: Label) -> int:
        """The number of links with this label."""
        return sum(counts[label] for counts in self.by_kind.values())

    @property
    def links(self) -> int:
        """The number of all links."""
        return sum(counts.total() for counts in self.by_kind.values())


@dataclass(frozen=True, slots=True)
class ClusterScores:
    """The pairs of pages joined by links against the pairs joined by positive pairs, both transitively.

    excused_pairs: pairs with a similarity between the two bounds that only the links join; they do not count
    adjusted_rand: the adjusted Rand index of the two partitions (Hubert, Arabie 1985), with the excused pairs
    """

    expected_pairs: int
    reported_pairs: int
    excused_pairs: int
    retrieval: Retrieval
    adjusted_rand: float


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of all three levels."""

    pages: PageScores
    links: LinkScores
    clusters: ClusterScores


def score(truth: Truth, originals: Sequence[int | None]) -> Scores:
    """All scores. originals: for each place of the stream the place of its reported original, or None"""
    return Scores(_score_pages(truth, originals), _score_links(truth, originals), _score_clusters(truth, originals))


def share(part: float, whole: float) -> float | None:
    """The part divided by the whole; None if the whole is 0."""
    return part / whole if whole else None


def _score_pages(truth: Truth, originals: Sequence[int | None]) -> PageScores:
    pages: Counter[tuple[Label, str]] = Counter()
    dropped: Counter[tuple[Label, str]] = Counter()
    for counted_under, original in zip(truth.labels, originals, strict=True):
        pages[counted_under] += 1
        dropped[counted_under] += original is not None

    def by_kind(label: Label) -> dict[str, tuple[int, int]]:
        return {kind: (dropped[key], pages[key]) for key in sorted(pages) for other, kind in [key] if other is label}

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
    """The connected components of 0..count-1 under the links, as the least member of each member's component."""
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
