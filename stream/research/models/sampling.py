"""Measures what sampling costs: it compares the pairs of pages found by samples of shingles with those found by all.

It is the experiment of Ye, Wen, Ma (sec. 5). A trial takes the shingles of one remainder modulo n; for each n all n
remainders are tried and their figures averaged (sec. 4.4). P_N are the pairs whose resemblance reaches the threshold
without sampling, P_S those that reach it with sampling. Then precision = |P_N and P_S| / |P_S| and
recall = |P_N and P_S| / |P_N|.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.jit import kernel


class Trials(NamedTuple):
    """All pairs of some pages, with and without sampling.

    similar: pairs of P_N
    found, both: int64[l, s], pairs of P_S, and pairs of P_S that are in P_N too. Row i stands for n = 2^i, a column for
    a remainder; columns beyond n are 0.
    sampled: float64[l], shingles of a trial, on average
    """

    similar: int
    found: NDArray[np.int64]
    both: NDArray[np.int64]
    sampled: NDArray[np.float64]

    def precision(self, level: int) -> float | None:
        """The precision for n = 2^level, on average over the trials that found a pair; None if none did."""
        found, both = self.found[level], self.both[level]
        return float(np.mean(both[found > 0] / found[found > 0])) if found.any() else None

    def recall(self, level: int) -> float | None:
        """The recall for n = 2^level, on average over its trials; None if no pair is similar."""
        return float(self.both[level].sum() / (self.similar << level)) if self.similar else None


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Pages of at least `words` words and fewer than those of the next class. pages: how many"""

    words: int
    pages: int
    trials: Trials


def sampling_trials(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], threshold: float, fewest: int, levels: int
) -> Trials:
    """Compare all pairs of n pages, at the ratios 1, 1/2, ... 1/2^(levels - 1).

    shingles: uint64[m], different ones of page i shingles[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    threshold: least resemblance of a pair  fewest: pages with fewer sampled shingles are in no pair of P_S; 1 or more

    Time: one step for each shingle that two pages share, and for each pair that shares any 2^levels.
    """
    widest = 1 << (levels - 1)
    remainder = (shingles & np.uint64(widest - 1)).astype(np.int64)
    page = np.repeat(np.arange(len(bounds) - 1), sizes_of(bounds))
    _, number = np.unique(shingles, return_inverse=True)
    posting_bounds = bounds_of(np.bincount(number))
    sizes = np.zeros((len(bounds) - 1, widest), np.int64)
    np.add.at(sizes, (page, remainder), 1)
    found, both = np.zeros((levels, widest), np.int64), np.zeros((levels, widest), np.int64)
    postings = page[np.argsort(number, kind="stable")]
    similar = _compare_all(number, remainder, bounds, postings, posting_bounds, sizes, threshold, fewest, found, both)
    return Trials(int(similar), found, both, len(shingles) / 2.0 ** np.arange(levels))


@kernel
def _compare_all(number, remainder, bounds, postings, posting_bounds, sizes, threshold, fewest, found, both):
    # number, remainder: int64[m]  postings: int64[m], pages of shingle s postings[posting_bounds[s]:...], ascending
    # sizes: int64[n, w], shingles of each remainder modulo w  ->  found, both: int64[l, w]; pairs without sampling
    pages, widest = sizes.shape
    shared = np.zeros((pages, widest), np.int64)
    met = np.zeros(pages, np.bool_)
    others = np.empty(pages, np.int64)
    common, left, right = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64)
    similar = 0
    for page in range(pages):
        count = 0
        for place in range(bounds[page], bounds[page + 1]):
            for posting in range(posting_bounds[number[place]], posting_bounds[number[place] + 1]):
                other = postings[posting]
                if other >= page:
                    break
                if not met[other]:
                    met[other], others[count] = True, other
                    count += 1
                shared[other, remainder[place]] += 1
        for one in range(count):
            other = others[one]
            common[:], left[:], right[:] = shared[other], sizes[page], sizes[other]
            shared[other], met[other] = 0, False
            whole = common.sum()
            alike = whole / (left.sum() + right.sum() - whole) >= threshold
            similar += alike
            width = widest
            for level in range(len(found) - 1, -1, -1):
                for trial in range(width):
                    in_both = common[trial]
                    if in_both == 0 or min(left[trial], right[trial]) < fewest:
                        continue
                    if in_both / (left[trial] + right[trial] - in_both) >= threshold:
                        found[level, trial] += 1
                        both[level, trial] += alike
                width //= 2
                for trial in range(width):
                    common[trial] += common[trial + width]
                    left[trial] += left[trial + width]
                    right[trial] += right[trial + width]
    return similar


def choose_ratios(classes: Sequence[SizeClass], precision: float) -> list[int]:
    """For each class the n of the smallest ratio 1/n whose precision is at least `precision` (sec. 6), or 1.

    Classes ascend by size. A class in which no trial found a pair says nothing. It takes the n of the class of smaller
    pages, since larger pages bear smaller samples (sec. 5.1).
    """
    chosen: list[int] = []
    for one in classes:
        levels = range(1, len(one.trials.found))
        found = [one.trials.precision(level) for level in levels]
        reached = [1 << level for level, value in zip(levels, found, strict=True) if (value or 0.0) >= precision]
        unknown = not one.trials.similar and all(value is None for value in found)
        chosen.append(chosen[-1] if unknown and chosen else max(reached, default=1))
    return chosen


def share_processed(classes: Sequence[SizeClass], ratios: Sequence[int]) -> float:
    """The share of shingles that is sampled, with a ratio for each class."""
    whole = sum(one.trials.sampled[0] for one in classes)
    return float(sum(one.trials.sampled[0] / n for one, n in zip(classes, ratios, strict=True)) / max(whole, 1))


def merged(words: Sequence[int], ratios: Sequence[int]) -> tuple[list[int], list[int]]:
    """The settings `sizes` and `ratios` for these classes, where neighbours with equal ratios become one class.

    words: at which each class begins  ratios: n of the ratio 1/n of each class
    """
    kept = [place for place, n in enumerate(ratios) if place == 0 or n != ratios[place - 1]]
    return [words[place] for place in kept[1:]], [ratios[place] for place in kept]
