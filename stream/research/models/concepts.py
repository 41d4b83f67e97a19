"""Builds the model files of `spotsieve model build`: the frozen statistics of a scheme's terms.

The model of the scheme `concept` counts the shingles of a sample and decomposes its terms into concepts.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.errors import InputError, SettingError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.progress import OnPages
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.files.inputs import Input
from spotsieve.stream.research.models.term_counter import TermCounter, batches_of
from spotsieve.stream.sign.schemes.terms import (
    STEPS,
    ConceptModel,
    ConceptTerms,
    IdfModel,
    Terms,
    encode_concepts,
    encode_model,
)
from spotsieve.stream.sign.text.tokens import PageTokens

LEAST_PAGES = 2
"""The least number of pages, because an IDF is divided by log(N), which is 0 for one page."""
MOST_SHINGLES = 2**21
"""The most shingles of a model: 10 bytes each, 20 MiB. Rarer shingles weigh as if they were on one page."""
MOST_TERMS = 2**15
"""The most terms of a model: 8 bytes and 2 bytes per dimension each, 13 MiB with 200 dimensions. Rarer terms are
ignored."""
MOST_DECOMPOSED = 20_000
"""The number of pages whose terms are decomposed, from the beginning of the sample: some 12 bytes for each distinct
term of a page. The terms of all pages are counted."""
LEAST_FREQUENCY = 2
"""The least number of pages of a shingle or term. Most are on only one page and carry no information on others."""
_SEED = 20_160_901
_POWER_ITERATIONS = 7
_LEAST_SINGULAR_VALUE = 1e-9
_GREATEST_ROW = 2**15 - 1


class ConceptCounter:
    """Counts shingles and terms of pages, and stores the term vectors of the first MOST_DECOMPOSED pages."""

    def __init__(self, terms: ConceptTerms) -> None:
        self.terms = terms
        self.shingles, self.tokens = TermCounter(), TermCounter()
        self._pages: list[tuple[NDArray[np.uint64], NDArray[np.float32]]] = []

    @property
    def pages(self) -> int:
        """The number of pages counted so far."""
        return self.tokens.pages

    def add(self, pages: Sequence[Page]) -> None:
        """Add pages of the sample, in order."""
        tokens = PageTokens(*self.terms.of(pages))
        self.tokens.add(tokens.hashes, tokens.bounds)
        self.shingles.add(*self.terms.shingles(tokens))
        for first, last in pairwise(tokens.bounds[: MOST_DECOMPOSED - len(self._pages) + 1].tolist()):
            different, times = np.unique(tokens.hashes[first:last], return_counts=True)
            self._pages.append((different, (times / max(last - first, 1)).astype(np.float32)))

    def model(self) -> ConceptModel:
        """The model of the pages so far."""
        shingles, weights = self._most_frequent(self.shingles, MOST_SHINGLES)
        terms, idf = self._most_frequent(self.tokens, MOST_TERMS)
        return ConceptModel(
            self.terms.about,
            self.pages,
            int(np.rint(np.log(self.pages) * STEPS)),
            shingles,
            np.rint(weights * STEPS).astype(np.uint16),
            terms,
            decompose(self._matrix(terms, idf), idf, self.terms.dimensions),
        )

    def _most_frequent(self, counter: TermCounter, most: int) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        """The most frequent terms: hashes uint64[t], ascending, and log(N / df) of each, float64[t].

        Of equally frequent terms those with the least hashes are chosen.
        """
        hashes, frequencies = counter.counted()
        order = np.lexsort((hashes, -frequencies.astype(np.int64)))[:most]
        kept = np.sort(order[frequencies[order] >= LEAST_FREQUENCY])
        return hashes[kept], np.log(self.pages / frequencies[kept])

    def _matrix(self, terms: NDArray[np.uint64], idf: NDArray[np.float64]) -> Any:
        """TF-IDF of the terms on the stored pages, divided by the page's length: sparse float64[t, pages]."""
        from scipy.sparse import csr_matrix

        sizes = [len(different) for different, _ in self._pages]
        tokens = np.concatenate([different for different, _ in self._pages])
        frequency = np.concatenate([times for _, times in self._pages])
        page = np.repeat(np.arange(len(sizes)), sizes)
        place = np.minimum(np.searchsorted(terms, tokens), max(len(terms) - 1, 0))
        known = terms[place] == tokens if len(terms) else np.zeros(len(tokens), np.bool_)
        place = place[known]
        shape = (len(terms), len(sizes))
        return csr_matrix((frequency[known] * idf[place], (place, page[known])), shape=shape)


def decompose(matrix: Any, idf: NDArray[np.float64], dimensions: int) -> NDArray[np.int16]:
    """IDF times U of the truncated singular value decomposition, scaled to integers: int16[t, dimensions].

    matrix: sparse float64[t, pages]  idf: float64[t]
    The randomised method of Halko, Martinsson, Tropp (SIAM Review 2011) works with ranks below `dimensions`. Its random
    numbers have a fixed seed. Concepts beyond the number of terms or pages are 0.
    """
    rows = np.zeros((matrix.shape[0], dimensions))
    concepts = min(dimensions, *matrix.shape)
    if concepts and matrix.count_nonzero():
        from sklearn.decomposition import TruncatedSVD

        decomposition = TruncatedSVD(concepts, n_iter=_POWER_ITERATIONS, random_state=_SEED).fit(matrix.T)
        u = decomposition.components_.T
        real = decomposition.singular_values_ > decomposition.singular_values_[0] * _LEAST_SINGULAR_VALUE
        rows[:, : u.shape[1]] = np.where(real, u, 0.0) * idf[:, None]
    greatest = np.abs(rows).max(initial=0.0)
    scaled: NDArray[np.int16] = np.rint(rows * (_GREATEST_ROW / greatest if greatest else 0.0)).astype(np.int16)
    return scaled


def _check_installed() -> None:
    """Check that scikit-learn and SciPy are installed. Only building a model needs them. Raises SettingError."""
    try:
        import scipy.sparse  # noqa: F401
        import sklearn.decomposition  # noqa: F401
    except ImportError:
        raise SettingError(
            "scheme.name", "needs scikit-learn to build its model", "concept", "pip install 'spotsieve[lsi]'"
        ) from None


def build_model(inputs: Sequence[Input], settings: Settings, terms: Terms, on_pages: OnPages) -> bytes:
    """The bytes of a model of the files' pages, for a scheme with these terms.

    Raises InputError for a file that cannot be read and for too few pages, and SettingError if the model of `concept`
    needs a package that is not installed.
    """
    if isinstance(terms, ConceptTerms):
        _check_installed()
        concepts = ConceptCounter(terms)
        _count(inputs, settings, concepts.add, on_pages)
        return encode_concepts(concepts.model())
    counter = TermCounter()
    _count(inputs, settings, lambda pages: counter.add(*terms.of(pages)), on_pages)
    hashes, frequencies = counter.counted()
    return encode_model(IdfModel(terms.about, counter.pages, hashes, frequencies))


def _count(
    inputs: Sequence[Input], settings: Settings, add: Callable[[Sequence[Page]], None], on_pages: OnPages
) -> None:
    """Add the text pages of the files. Raises InputError for a file that cannot be read and for too few pages."""
    pages = 0
    for batch, bytes_read in batches_of(inputs, settings):
        add(batch)
        pages += len(batch)
        on_pages(pages, 0, bytes_read)
    if pages < LEAST_PAGES:
        rule = f"must contain at least {LEAST_PAGES} pages of text"
        raise InputError("FILES", rule, pages, "name files with a sample of the crawl")
