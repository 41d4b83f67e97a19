"""Names the bars of the default scheme's rule, and the ways of reaching enough of them, for kernels and explanations.

stream/judge/by_host/pairs.py notes of every pair what it has and what it needs at each bar. A pair is accepted where it
reaches every bar of one way, and has the reason of the first of these ways. So whoever tells people why need not judge
again.

Lays out the bars that pages are held to: those of the scheme, or of the rule that a page's address has.
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
"""How many bars there are."""

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
"""How many figures of a pair are noted beside its bars."""
NONE = -1.0
"""The figure of what a pair does not have: titles, or enough text for its sketches to count."""


class ThresholdInfo(NamedTuple):
    """What a bar asks for. unit: what it is counted in, "" for a share  at_most: less is better"""

    name: str
    unit: str = ""
    at_most: bool = False


class HostCriterion(NamedTuple):
    """A way to be accepted: all of these bars are reached. name: what it means, for people"""

    name: str
    reason: Reason
    bars: tuple[int, ...]


ABOUT: dict[int, ThresholdInfo] = {
    ALIKE: ThresholdInfo("own text that both share"),
    OTHER_TITLES: ThresholdInfo("words of own text that pages with other titles need", "words"),
    SAME_TITLE: ThresholdInfo("rare title words that both have"),
    BOTH_LONG: ThresholdInfo("own text of the shorter one", "words"),
    SAME_TITLE_SHARED: ThresholdInfo("own text that both share"),
    INSIDE: ThresholdInfo("of the shorter one's own text, what stands in the other"),
    INSIDE_LEAST: ThresholdInfo("own text of the shorter one", "words"),
    INSIDE_MOST: ThresholdInfo("own text of the longer one", "words", at_most=True),
    INSIDE_ALIKE: ThresholdInfo("own text that both share"),
    INSIDE_TITLE: ThresholdInfo("rare title words that both have, where there are any"),
    SAME_HEADLINE: ThresholdInfo("rare title words that both have"),
    HELD: ThresholdInfo("of the shorter one's own text, what stands in the other"),
    HELD_ALIKE: ThresholdInfo("own text that both share"),
    NOT_A_VARIANT: ThresholdInfo("differs in more than numbers (policy.variants = keep)", "yes"),
    HOSTS_MEET: ThresholdInfo("pages of two hosts may meet (index.scope)", "yes"),
    OWN_SHARE: ThresholdInfo("of what the page keeps, what is not its host's template"),
    ONE_SITE: ThresholdInfo("Jaccard, as both hosts are of one site"),
    JACCARD: ThresholdInfo("Jaccard of the kept texts, by their sketches"),
    ACROSS_LONG: ThresholdInfo("features of the shorter one", "features"),
    ACROSS_TITLE: ThresholdInfo("rare title words that both have"),
    ACROSS_WORDS: ThresholdInfo("rare words in the page's title", "words"),
    ACROSS_HELD: ThresholdInfo("of the shorter one's features, what the other has"),
    ACROSS_JACCARD: ThresholdInfo("Jaccard of the kept texts, by their sketches"),
}
ON_HOST = (
    HostCriterion("enough of their own text is the same", Reason.OWN_TEXT, (ALIKE, OTHER_TITLES, NOT_A_VARIANT)),
    HostCriterion(
        "their titles agree, and much of two long texts",
        Reason.SAME_TITLE,
        (SAME_TITLE, BOTH_LONG, SAME_TITLE_SHARED, NOT_A_VARIANT),
    ),
    HostCriterion(
        "one short text stands in the other",
        Reason.CONTAINED,
        (INSIDE, INSIDE_LEAST, INSIDE_MOST, INSIDE_ALIKE, INSIDE_TITLE, NOT_A_VARIANT),
    ),
    HostCriterion(
        "one long text stands in the other, under the same title",
        Reason.CONTAINED,
        (SAME_HEADLINE, BOTH_LONG, HELD, HELD_ALIKE, NOT_A_VARIANT),
    ),
)
ACROSS = (
    HostCriterion("enough of their kept text is the same", Reason.NEAR, (HOSTS_MEET, OWN_SHARE, ONE_SITE, JACCARD)),
    HostCriterion(
        "one text stands in the other, under the same title",
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
    """-> the row of the table that each page is held to: int64[n], and the table, a row of HostThresholds each:
    float64[r, 8].
    """
    if rules is None:
        return np.zeros(len(signatures), np.int64), np.array([bars], np.float64)
    return rules.bars_of(signatures.addresses()), rules.bars_table(bars)


@inlined
def thresholds_in(table, row):  # float64[r, 8], int64 -> HostThresholds
    """A row of the table as the rule for two pages takes it."""
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
