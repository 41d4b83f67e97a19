"""Counts which keys found the originals: a digest, one kind of keys alone, or several."""

from bench.quality.ours import Judged
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.research.scoring import Label, Truth

WAYS = {
    KeyKind.TABLES: "tables only",
    KeyKind.MINIMA: "smallest hashes only",
    KeyKind.PRINTS: "prints only",
    KeyKind.TITLE: "title only",
}
EXACT, SEVERAL = "exact digest", "several"


def ways_of_finding(judged: Judged, truth: Truth) -> dict[str, int]:
    """How many duplicates met their original under which kinds of keys; a page that met it under a digest too counts
    there alone.
    """
    ways = dict.fromkeys((EXACT, *WAYS.values(), SEVERAL), 0)
    for (label, _), found_by in zip(truth.labels, judged.found_by, strict=True):
        if label is Label.DUPLICATE and found_by:
            exact = found_by & (KeyKind.BODY | KeyKind.TEXT)
            ways[EXACT if exact else WAYS.get(KeyKind(found_by), SEVERAL)] += 1
    return ways
