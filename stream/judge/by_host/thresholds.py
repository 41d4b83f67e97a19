"""Names the thresholds of the default scheme's rule and the criteria that combine them, for kernels and explanations.

For every pair, stream/judge/by_host/pairs.py records the value of the pair and the required value at each threshold. A
pair is accepted if it reaches all thresholds of one criterion, and has the reason of the first such criterion. So an
explanation does not have to judge the pair again.

thresholds_of_pages lays out the values that apply to each page: those of the scheme, or of the rule for the page's URL.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.sign.schemes import HostThresholds
from spotsieve.stream.sign.schemes.url_rules import PageRules

ALIKE, OTHER_TITLES, SAME_TITLE, BOTH_LONG, SAME_TITLE_SHARED = range(5)
INSIDE, INSIDE_LEAST, INSIDE_MOST, INSIDE_ALIKE, INSIDE_TITLE = range(5, 10)
SAME_HEADLINE, HELD, HELD_ALIKE, NOT_A_VARIANT = range(10, 14)
HOSTS_MEET, OWN_SHARE, ONE_SITE, JACCARD = range(14, 18)
ACROSS_LONG, ACROSS_TITLE, ACROSS_WORDS, ACROSS_HELD, ACROSS_JACCARD = range(18, 23)
THRESHOLDS = 23
"""The number of thresholds."""

(
    PAIR_JACCARD,
    PAIR_TITLE,
    PAIR_OWN,
    PAIR_OTHERS,
    PAIR_SHARED,
    PAIR_BY_PRINTS,
    PAIR_BY_SKETCHES,
    PAIR_ALIKE,
) = range(8)
FIGURES = 8
"""The number of other values that are recorded for a pair."""
NONE = -1.0
"""The value of a figure that a pair does not have: no titles, or too little text for its sketches to count."""


class ThresholdInfo(NamedTuple):
    """The description of a threshold. unit: unit of its value, "" for a share  at_most: the value must not be higher"""

    name: str
    unit: str = ""
    at_most: bool = False


class HostCriterion(NamedTuple):
    """A criterion that accepts a pair: the pair reaches all of these thresholds. name: its meaning, for people"""

    name: str
    reason: Reason
    bars: tuple[int, ...]


ABOUT: dict[int, ThresholdInfo] = {
    ALIKE: ThresholdInfo("distinctive text in common"),
    OTHER_TITLES: ThresholdInfo("words of distinctive text, as the titles differ", "words"),
    SAME_TITLE: ThresholdInfo("rare title words in common"),
    BOTH_LONG: ThresholdInfo("distinctive text of the shorter page", "words"),
    SAME_TITLE_SHARED: ThresholdInfo("distinctive text in common"),
    INSIDE: ThresholdInfo("containment of the shorter page's distinctive text in the other"),
    INSIDE_LEAST: ThresholdInfo("distinctive text of the shorter page", "words"),
    INSIDE_MOST: ThresholdInfo("distinctive text of the longer page", "words", at_most=True),
    INSIDE_ALIKE: ThresholdInfo("distinctive text in common"),
    INSIDE_TITLE: ThresholdInfo("rare title words in common, if there are any"),
    SAME_HEADLINE: ThresholdInfo("rare title words in common"),
    HELD: ThresholdInfo("containment of the shorter page's distinctive text in the other"),
    HELD_ALIKE: ThresholdInfo("distinctive text in common"),
    NOT_A_VARIANT: ThresholdInfo("the pages differ in more than numbers (policy.variants = keep)", "yes"),
    HOSTS_MEET: ThresholdInfo("pages of two hosts may match (index.scope)", "yes"),
    OWN_SHARE: ThresholdInfo("share of the main text that is not template text of the host"),
    ONE_SITE: ThresholdInfo("Jaccard, as both hosts belong to one site"),
    JACCARD: ThresholdInfo("Jaccard of the main texts, by sketches"),
    ACROSS_LONG: ThresholdInfo("features of the shorter page", "features"),
    ACROSS_TITLE: ThresholdInfo("rare title words in common"),
    ACROSS_WORDS: ThresholdInfo("rare words in the page's title", "words"),
    ACROSS_HELD: ThresholdInfo("containment of the shorter page's features in the other"),
    ACROSS_JACCARD: ThresholdInfo("Jaccard of the main texts, by sketches"),
}
ON_HOST = (
    HostCriterion("enough distinctive text in common", Reason.OWN_TEXT, (ALIKE, OTHER_TITLES, NOT_A_VARIANT)),
    HostCriterion(
        "similar titles, and much of two long texts in common",
        Reason.SAME_TITLE,
        (SAME_TITLE, BOTH_LONG, SAME_TITLE_SHARED, NOT_A_VARIANT),
    ),
    HostCriterion(
        "a short text is contained in the other",
        Reason.CONTAINED,
        (INSIDE, INSIDE_LEAST, INSIDE_MOST, INSIDE_ALIKE, INSIDE_TITLE, NOT_A_VARIANT),
    ),
    HostCriterion(
        "a long text is contained in the other, under the same title",
        Reason.CONTAINED,
        (SAME_HEADLINE, BOTH_LONG, HELD, HELD_ALIKE, NOT_A_VARIANT),
    ),
)
ACROSS = (
    HostCriterion("enough main text in common", Reason.NEAR, (HOSTS_MEET, OWN_SHARE, ONE_SITE, JACCARD)),
    HostCriterion(
        "one text is contained in the other, under the same title",
        Reason.NEAR,
        (
            *(HOSTS_MEET, OWN_SHARE, ONE_SITE),
            *(ACROSS_LONG, ACROSS_TITLE, ACROSS_WORDS, ACROSS_HELD, ACROSS_JACCARD),
        ),
    ),
)


def thresholds_of_pages(
    signatures: Signatures, bars: HostThresholds, rules: PageRules | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The thresholds of each page: its row in a table (int64[n]), and the table.

    The table is float64[r, 8]; each row holds the fields of HostThresholds.
    """
    if rules is None:
        return np.zeros(len(signatures), np.int64), np.array([bars], np.float64)
    return rules.bars_of(signatures.addresses()), rules.bars_table(bars)


@inlined
def thresholds_in(table, row):  # float64[r, 8], int64 -> HostThresholds
    """A row of the table, in the form that the rule for two pages takes."""
    return HostThresholds(
        table[row, 0],
        table[row, 1],
        table[row, 2],
        table[row, 3],
        table[row, 4],
        table[row, 5],
        table[row, 6] != 0,
        table[row, 7] != 0,
    )
