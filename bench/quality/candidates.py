"""Counts the keys that found the originals: a digest, one kind of keys alone, or several."""

from bench.quality.ours import JudgedSet
from spotsieve.stream.base.verdict import KeyKind
from spotsieve.stream.research.scoring import Label, Truth

WAYS = {
    KeyKind.TABLES: "tables only",
    KeyKind.MINIMA: "MinHash values only",
    KeyKind.BLOCKS: "blocks only",
    KeyKind.TITLE: "title only",
}
EXACT, SEVERAL = "exact digest", "several"


def ways_of_finding(judged: JudgedSet, truth: Truth) -> dict[str, int]:
    """The number of duplicates by the kinds of keys that found their original; a page found by a digest too counts
    there alone.
    """
    ways = dict.fromkeys((EXACT, *WAYS.values(), SEVERAL), 0)
    for (label, _), found_by in zip(truth.labels, judged.found_by, strict=True):
        if label is Label.DUPLICATE and found_by:
            exact = found_by & (KeyKind.BODY | KeyKind.TEXT)
            ways[EXACT if exact else WAYS.get(KeyKind(found_by), SEVERAL)] += 1
    return ways
