"""Measures the precision and recall of sampled shingles against all shingles, and chooses sampling ratios.

This is the experiment of Ye, Wen, Ma (sec. 5). A trial takes the shingles of one remainder modulo n; for each n all n
remainders are tried and their figures averaged (sec. 4.4). P_N is the set of pairs whose resemblance reaches the
threshold without sampling, P_S the set of pairs that reach it with sampling. Then precision = |P_N and P_S| / |P_S| and
recall = |P_N and P_S| / |P_N|.

`spotsieve calibrate` does it for a sample of a crawl: the shingles of all distinct texts, by page size.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.progress import OnPages
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.models.term_counter import batches_of
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.text.tokens import extract_tokens


class Trials(NamedTuple):
    """The counts of pairs of some pages, with and without sampling.

    similar: pairs in P_N
    found: int64[l, s], pairs in P_S; row i is for n = 2^i, a column for a remainder, and columns beyond n are 0
    both: int64[l, s], pairs in P_S and P_N
    sampled: float64[l], the average number of shingles of a trial
    """

    similar: int
    found: NDArray[np.int64]
    both: NDArray[np.int64]
    sampled: NDArray[np.float64]

    def precision(self, level: int) -> float | None:
        """The average precision for n = 2^level over the trials that found a pair; None if no trial did."""
        found, both = self.found[level], self.both[level]
        return float(np.mean(both[found > 0] / found[found > 0])) if found.any() else None

    def recall(self, level: int) -> float | None:
        """The average recall for n = 2^level over its trials; None if no pair is similar."""
        return float(self.both[level].sum() / (self.similar << level)) if self.similar else None


@dataclass(frozen=True, slots=True)
class SizeClass:
    """A class of pages by size.

    words: the least words of a page; the next class begins at its own least words
    pages: the number of pages
    """

    words: int
    pages: int
    trials: Trials


def sampling_trials(
    shingles: NDArray[np.uint64], bounds: NDArray[np.int64], threshold: float, fewest: int, levels: int
) -> Trials:
    """Compare all pairs of n pages, at the ratios 1, 1/2, ..., 1/2^(levels - 1).

    shingles: uint64[m], the distinct shingles of page i are shingles[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    threshold: the least resemblance of a pair
    fewest: a page with fewer sampled shingles is in no pair of P_S; at least 1

    Time: one step for each shingle that two pages share, and 2^levels steps for each pair that shares any.
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
    # sizes: int64[n, w], shingles of each remainder modulo w  ->  found, both: int64[l, w]; returns pairs of P_N
    pages, widest = sizes.shape
    shared = np.zeros((pages, widest), np.int64)
    is_candidate = np.zeros(pages, np.bool_)
    candidates = np.empty(pages, np.int64)
    common, left, right = np.empty(widest, np.int64), np.empty(widest, np.int64), np.empty(widest, np.int64)
    similar = 0
    for page in range(pages):
        count = 0
        for place in range(bounds[page], bounds[page + 1]):
            for posting in range(posting_bounds[number[place]], posting_bounds[number[place] + 1]):
                other = postings[posting]
                if other >= page:
                    break
                if not is_candidate[other]:
                    is_candidate[other], candidates[count] = True, other
                    count += 1
                shared[other, remainder[place]] += 1
        for candidate in range(count):
            other = candidates[candidate]
            common[:], left[:], right[:] = shared[other], sizes[page], sizes[other]
            shared[other], is_candidate[other] = 0, False
            total = common.sum()
            is_similar = total / (left.sum() + right.sum() - total) >= threshold
            similar += is_similar
            width = widest
            for level in range(len(found) - 1, -1, -1):
                for trial in range(width):
                    in_both = common[trial]
                    if in_both == 0 or min(left[trial], right[trial]) < fewest:
                        continue
                    if in_both / (left[trial] + right[trial] - in_both) >= threshold:
                        found[level, trial] += 1
                        both[level, trial] += is_similar
                width //= 2
                for trial in range(width):
                    common[trial] += common[trial + width]
                    left[trial] += left[trial + width]
                    right[trial] += right[trial + width]
    return similar


def choose_ratios(classes: Sequence[SizeClass], precision: float) -> list[int]:
    """For each class the n of the smallest ratio 1/n whose precision is at least `precision` (sec. 6), or 1.

    classes: in ascending order of size
    A class without any pair gets the n of the class of smaller pages, because larger pages tolerate smaller samples
    (sec. 5.1).
    """
    chosen: list[int] = []
    for one in classes:
        levels = range(1, len(one.trials.found))
        values = [one.trials.precision(level) for level in levels]
        reached = [1 << level for level, value in zip(levels, values, strict=True) if (value or 0.0) >= precision]
        unknown = not one.trials.similar and all(value is None for value in values)
        chosen.append(chosen[-1] if unknown and chosen else max(reached, default=1))
    return chosen


def share_processed(classes: Sequence[SizeClass], ratios: Sequence[int]) -> float:
    """The share of all shingles that is sampled with these ratios, one for each class."""
    total = sum(one.trials.sampled[0] for one in classes)
    return float(sum(one.trials.sampled[0] / n for one, n in zip(classes, ratios, strict=True)) / max(total, 1))


def merged(words: Sequence[int], ratios: Sequence[int]) -> tuple[list[int], list[int]]:
    """The values of the settings `sizes` and `ratios` for these classes. Neighbours with equal ratios are merged.

    words: the words at which each class begins
    ratios: n of the ratio 1/n of each class
    """
    starts = [place for place, n in enumerate(ratios) if place == 0 or n != ratios[place - 1]]
    return [words[place] for place in starts[1:]], [ratios[place] for place in starts]


LEAST_PAGES = 2
"""The least number of texts, because fewer have no pair."""
MOST_TEXTS = 10_000
"""The most texts of a sample. All pairs of a class are compared, which takes seconds for some thousand pages."""


class SampledPages:
    """The shingles of distinct texts. Memory: 8 bytes per shingle, and some 50 more while pages are compared.

    pages: pages read so far
    """

    def __init__(self, w: int) -> None:
        """w: words per shingle"""
        self._w = w
        self._texts: set[bytes] = set()
        self._shingles: list[NDArray[np.uint64]] = []
        self._words: list[int] = []
        self.pages = 0

    def add(self, pages: Sequence[Page]) -> None:
        """Add the pages whose text is new (sec. 4.2) and has a shingle, up to MOST_TEXTS texts."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
        shingles, bounds = shingle_pages(tokens, self._w, self._w)
        rows = zip(pairwise(tokens.bounds.tolist()), pairwise(bounds.tolist()), strict=True)
        for (token, token_end), (first, last) in rows:
            if len(self) >= MOST_TEXTS:
                break
            self.pages += 1
            text = hashlib.md5(tokens.hashes[token:token_end].tobytes(), usedforsecurity=False).digest()
            if first < last and text not in self._texts:
                self._texts.add(text)
                self._shingles.append(np.unique(shingles[first:last]))
                self._words.append(token_end - token)

    def __len__(self) -> int:
        return len(self._words)

    def classes(self, sizes: Sequence[int], threshold: float, fewest: int, levels: int) -> Iterator[SizeClass]:
        """The pages in classes by size, in ascending order, with the trials of each class.

        sizes: the words at which the next class begins, ascending
        threshold: the least resemblance of a pair
        fewest: the least sampled shingles of a page in a pair
        levels: the number of sampling ratios 1, 1/2, ..., 1/2^(levels - 1)
        """
        place = np.searchsorted(np.array(sizes, np.int64), np.array(self._words, np.int64), side="right")
        for number, words in enumerate((0, *sizes)):
            rows = [self._shingles[page] for page in np.flatnonzero(place == number).tolist()]
            shingles = np.concatenate([np.empty(0, np.uint64), *rows])
            bounds = bounds_of(list(map(len, rows)))
            yield SizeClass(words, len(rows), sampling_trials(shingles, bounds, threshold, fewest, levels))


def read_sample(inputs: Sequence[Input], settings: Settings, w: int, on_pages: OnPages) -> SampledPages:
    """The text pages of the files, up to MOST_TEXTS distinct texts. Records without a page are skipped.

    w: words per shingle
    Raises InputError for a file that cannot be read and for too few texts.
    """
    sample = SampledPages(w)
    for batch, bytes_read in batches_of(inputs, settings):
        sample.add(batch)
        on_pages(sample.pages, 0, bytes_read)
        if len(sample) >= MOST_TEXTS:
            break
    if len(sample) < LEAST_PAGES:
        rule = f"must contain at least {LEAST_PAGES} different texts of {w} words or more"
        raise InputError("FILES", rule, len(sample), "name files with a sample of the crawl")
    return sample
