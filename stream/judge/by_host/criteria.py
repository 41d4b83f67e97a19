"""Names the criteria of the default scheme's rule, for kernels and explanations.

For every pair, stream/judge/by_host/pairs.py records the value of the pair and the required value of each criterion
that it was compared with. A pair is accepted if it reaches all of them.

thresholds_of_pages lays out the values that apply to each page: those of the scheme, or of the rule for the page's URL.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.judge.by_host.containment import PairComparison, new_comparison
from spotsieve.stream.sign.schemes import Confirmations, HostThresholds
from spotsieve.stream.sign.schemes.url_rules import PageRules

HOSTS_MATCH, LENGTH, TITLE, NOT_A_VARIANT = range(4)
PART_FIRST = 4
"""The containment of the first part (stream/judge/by_host/containment.py); then its fresh words, and the next parts."""
CRITERIA = PART_FIRST + 8
"""The number of criteria."""
PAIR_TITLE = 0
OTHER_VALUES = 1
"""The number of other values that are recorded for a pair."""
NONE = -1.0
"""The value of a criterion that a pair was not compared with, and of a title that neither page has."""


class PairResult(NamedTuple):
    """The result for the pair that was compared last. All but values and other_values have one element.

    confirmed: accepted and score  reason: uint8 (Reason)
    values: float64[CRITERIA, 2], the values of the pair and the required values
    other_values: float64[OTHER_VALUES], the other values of the pair
    compared: scratch space
    """

    confirmed: Confirmations
    reason: NDArray[np.uint8]
    values: NDArray[np.float64]
    other_values: NDArray[np.float64]
    compared: PairComparison


def new_pair_result() -> PairResult:
    """The result before the first comparison."""
    return PairResult(
        Confirmations(np.zeros(1, np.bool_), np.zeros(1)),
        np.zeros(1, np.uint8),
        np.zeros((CRITERIA, 2)),
        np.zeros(OTHER_VALUES),
        new_comparison(),
    )


class CriterionInfo(NamedTuple):
    """The description of a criterion. unit: unit of its value, "" for a share  at_most: the value must not be higher"""

    name: str
    unit: str = ""
    at_most: bool = False


PART_NAMES = ("distinctive main text", "distinctive text", "template text", "main text with common text")
"""The parts of a page that are measured, in the order of stream/judge/by_host/containment.py."""
ABOUT: dict[int, CriterionInfo] = {
    HOSTS_MATCH: CriterionInfo("pages of two hosts may match (index.scope)", "yes"),
    LENGTH: CriterionInfo("length of the earlier page (policy.parts = keep)", "words", at_most=True),
    TITLE: CriterionInfo("similarity of the titles, by rare words"),
    NOT_A_VARIANT: CriterionInfo("the pages differ in more than numbers (policy.variants = keep)", "yes"),
}
for _part, _name in enumerate(PART_NAMES):
    ABOUT[PART_FIRST + 2 * _part] = CriterionInfo(f"containment of the {_name}")
    ABOUT[PART_FIRST + 2 * _part + 1] = CriterionInfo(f"fresh words in the {_name}", "words", at_most=True)


@inlined
def record_part(result, part, contained, needed, fresh, most_fresh):  # int64, float64 each  ->  result: PairResult
    """Record the values of a part, and the required ones."""
    row = PART_FIRST + 2 * part
    result.values[row, 0], result.values[row, 1] = contained, needed
    result.values[row + 1, 0], result.values[row + 1, 1] = fresh, most_fresh


def thresholds_of_pages(
    signatures: Signatures, values: HostThresholds, rules: PageRules | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The thresholds of each page: its row in a table (int64[n]), and the table.

    The table is float64[r, 6]; each row holds the fields of HostThresholds.
    """
    if rules is None:
        return np.zeros(len(signatures), np.int64), _table_of(values)
    return rules.rows_of(signatures.url_texts()), rules.table_of(values)


@cache
def _table_of(values: HostThresholds) -> NDArray[np.float64]:
    return np.array([values], np.float64)


@inlined
def thresholds_in(table, row):  # float64[r, 6], int64 -> HostThresholds
    """A row of the table, in the form that the rule for two pages takes."""
    return HostThresholds(
        table[row, 0], table[row, 1], table[row, 2], table[row, 3] != 0, table[row, 4] != 0, table[row, 5] != 0
    )
