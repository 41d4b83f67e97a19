"""Reads a sample of pages for `spotsieve calibrate`: the shingles of all distinct texts, by page size."""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.progress import OnPages
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.models.sampling import SizeClass, sampling_trials
from spotsieve.stream.research.models.term_counter import batches_of
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.text.tokens import extract_tokens

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
