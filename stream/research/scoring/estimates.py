"""Estimates shares of a whole crawl from labels of a stratified sample, with intervals that respect the strata.

A judged pair of stratum h stands for N_h / n_h pairs (Horvitz, Thompson 1952). A share is the ratio of two such
estimated totals; its variance is the variance of the linearized ratio (Cochran, Sampling Techniques, 3rd edition 1977,
sec. 6.11 and 5A.12), with the finite population correction. The interval is Wilson's (1927), for the effective sample
size of this variance (Korn, Graubard 1998, Survey Methodology 24:193; compared by Franco, Little, Louis, Slud 2019,
Journal of Survey Statistics and Methodology 7:334). Unlike an interval from the variance alone, it does not shrink to a
point if all labels agree.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Z = 1.959964
"""The normal quantile of 95 % intervals."""


class Estimate(NamedTuple):
    """A share and its 95 % interval."""

    value: float
    low: float
    high: float


class StratifiedSample(NamedTuple):
    """The judged units of a stratified sample.

    stratum: int64[n], the stratum of each judged unit
    sizes: int64[h], the number of units N of each stratum in the crawl
    """

    stratum: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of judged units of each stratum: int64[h]."""
        return np.bincount(self.stratum, minlength=len(self.sizes))

    @property
    def weights(self) -> NDArray[np.float64]:
        """The number of units of the crawl that each judged unit stands for: float64[n]."""
        return (self.sizes / np.maximum(self.counts, 1))[self.stratum]


def estimate_share(part: NDArray[np.bool_], whole: NDArray[np.bool_], sample: StratifiedSample) -> Estimate | None:
    """The share of `whole` that is also in `part`; None if no judged unit is in `whole`.

    part, whole: bool[n], whether each judged unit is in the set
    """
    weights = sample.weights
    total = float(weights @ whole)
    if not total:
        return None
    value = float(weights @ (part & whole)) / total
    return Estimate(value, *wilson(value, _effective_size(part, whole, sample, value, total)))


def wilson(share: float, size: float) -> tuple[float, float]:
    """The 95 % interval of a share of `size` independent units. size: any positive number; infinity gives the share"""
    if math.isinf(size):
        return share, share
    square = Z * Z
    middle = (share + square / (2 * size)) / (1 + square / size)
    half = Z / (1 + square / size) * math.sqrt(share * (1 - share) / size + square / (4 * size * size))
    # A share of 0 or 1 is also the end of its interval; do not let rounding move the end beyond it.
    return (0.0 if share == 0 else max(middle - half, 0.0)), (1.0 if share == 1 else min(middle + half, 1.0))


def _effective_size(
    part: NDArray[np.bool_], whole: NDArray[np.bool_], sample: StratifiedSample, value: float, total: float
) -> float:
    """The size of a simple random sample with the same variance; infinite if every unit is judged.

    value: the estimated share; total: the estimated size of `whole`
    """
    counts, sizes, judged = sample.counts, sample.sizes, int(whole.sum())
    touched = np.unique(sample.stratum[whole])
    if (counts[touched] == sizes[touched]).all():
        return math.inf
    weights = sample.weights[whole]
    by_weights = float(weights.sum() ** 2 / (weights @ weights))
    if value in (0.0, 1.0):
        return by_weights
    residual = np.where(whole, part - value, 0.0) / total
    variance = 0.0
    for stratum in touched.tolist():
        own = residual[sample.stratum == stratum]
        # A stratum with one label has no variance of its own; use the variance of the share.
        spread = own.var(ddof=1) if len(own) > 1 else value * (1 - value) / total**2
        size, count = float(sizes[stratum]), float(counts[stratum])
        variance += size * size * (1 - count / size) * spread / count
    # Few labels that agree within their strata must not count as more labels than there are.
    return min(value * (1 - value) / variance, float(judged)) if variance else by_weights
