"""Lays out the bars that pages are held to: those of the scheme, or of the rule that a page's address has."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.jit import inlined
from spotsieve.stream.schemes import HostThresholds
from spotsieve.stream.schemes.by_address.rules import PageRules
from spotsieve.stream.signature import Signatures


def thresholds_of_pages(
    signatures: Signatures, bars: HostThresholds, rules: PageRules | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """-> the row of the table that each page is held to: int64[n], and the table, a row of HostThresholds each: float64[r, 8]."""
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
