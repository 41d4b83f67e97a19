"""Counts which keys found the originals: permuted tables, smallest hashes, the host's alone, or a digest."""

from spotsieve.stream.scoring import Label, Truth
from spotsieve.stream.verdict import FoundBy
from tests.measure.quality.ours import Judged

WAYS = {
    FoundBy.TABLES: "tables only",
    FoundBy.MINIMA: "smallest hashes only",
    FoundBy.TABLES | FoundBy.MINIMA: "both",
    FoundBy(0): "first page of the host only",
}


def ways_of_finding(judged: Judged, truth: Truth) -> dict[str, int]:
    """How many duplicates met their original under which kinds of keys; a page that met it under a digest too counts
    there alone.
    """
    ways = dict.fromkeys(("exact digest", *WAYS.values()), 0)
    for (label, _), found_by in zip(truth.labels, judged.found_by, strict=True):
        if label is Label.DUPLICATE and found_by:
            exact = found_by & (FoundBy.BODY | FoundBy.TEXT)
            ways["exact digest" if exact else WAYS[FoundBy(found_by) & ~FoundBy.HOST]] += 1
    return ways
