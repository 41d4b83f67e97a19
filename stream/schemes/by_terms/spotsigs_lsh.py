"""The scheme `spotsigs-lsh`: spots, minwise bands and their Jaccard (LSH-S of Theobald et al. 2008, sec. 5.2).

    spots in the IDF range, as a multiset -> k * l minwise hashes -> l bands of k -> Jaccard >= tau

Pages that agree on one whole band of k minima are candidates: with a Jaccard of J that is so with the probability
1 - (1 - J^k)^l. Defaults are those of table 1: k = 6, l = 32 (precision .96, recall .90 at tau = .44) and an IDF in
[.2, .85]; pages of at least 5 spots are judged (sec. 5.4).

The multiset's Jaccard, sum of the least over sum of the greatest counts, is that of a set in which a spot's repeats
are numbered. The paper compares candidates by their whole vectors; here by the k * l minima that an entry holds, of
which a share J is equal: its standard error is at most .036 with 192. The paper's functions (a x + b) mod P number the
spots of a corpus that is known before; here x is a spot's hash and P is 2^32 - 1 (stream/fingerprints/minhash.py).

The range suits a sample in which a story has many copies, as the paper's has 32 on average: where most stories have two
or three, their spots have an IDF above .85, and what is left is the templates. idf_max = 1 keeps them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.errors import SettingError
from spotsieve.stream.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.schemes.by_terms.idf import keep_lexicon_terms, lexicon_of
from spotsieve.stream.schemes.by_terms.terms import order_repeats, terms_of
from spotsieve.stream.schemes.candidates import CandidateSearch, candidate_probes, placed_keys
from spotsieve.stream.schemes.identity import make_signatures, status_of
from spotsieve.stream.schemes.minwise.minhash import pack_minima, unpack_minima
from spotsieve.stream.settings.schemes import SpotsigsLshSettings
from spotsieve.stream.signature import MAX_SKETCH_WORDS, CandidateColumns, Signatures

MOST_MINIMA = 2 * MAX_SKETCH_WORDS
BAND_BITS = 48
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class SpotsigsLshScheme(CandidateSearch):
    """Spots -> l bands of k minima -> Jaccard >= tau."""

    name = "spotsigs-lsh"

    def __init__(self, settings: SpotsigsLshSettings) -> None:
        """Raises SettingError where the model is missing or another, or k * l minima do not fit into an entry."""
        minima = settings.k * settings.l
        if minima > MOST_MINIMA:
            raise SettingError("scheme.k * scheme.l", f"must be at most {MOST_MINIMA}", minima, "the paper took 6 * 32")
        self.settings = settings
        self.functions = linear_hashes(minima)
        self.terms = terms_of(settings)
        self.lexicon = lexicon_of(settings, self.terms.about)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; take the minima over the numbered spots of pages that have enough in the range."""
        spots, bounds = keep_lexicon_terms(*self.terms.of(pages), self.lexicon)
        counts = sizes_of(bounds)
        minima = minimum_hashes(number_equal(spots, bounds), bounds, self.functions)
        status = status_of(pages, counts >= self.settings.min_spots)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_minima(minima))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and each band as a hash of its k minima."""
        k, l = self.settings.k, self.settings.l  # noqa: E741 - the paper's names
        bands = unpack_minima(signatures.sketch)[:, : k * l].reshape(-1, l, k).astype(np.uint64)
        values = np.zeros(bands.shape[:2], np.uint64)
        for place in range(k):
            values = _mixed(values ^ bands[:, :, place])
        return candidate_probes(signatures, placed_keys(values >> np.uint64(64 - BAND_BITS)))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The Jaccard that equal minima estimate."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, way.bars[0].had)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Enough Jaccard."""
        minima = len(self.functions.A)
        equal = unpack_minima(pages.sketch)[:, :minima] == unpack_minima(others.sketch)[:, :minima]
        jaccard = np.count_nonzero(equal, axis=1) / minima
        name = f"Jaccard of the spots, by {minima} minima"
        return (Criterion("the Jaccard is enough", (ThresholdTest(name, jaccard, self.settings.tau),)),)


def number_equal(spots: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Spots of pages -> hashes of (spot, how many equal ones of the page are counted before): uint64[m].

    Page by page, ascending by the spot: their order within a page is lost.
    """
    ordered, before = order_repeats(spots, bounds)
    return _mixed(ordered + before * _GOLDEN)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (Steele et al. 2014), after a step: uint64[...] -> uint64[...]."""
    words = words + _GOLDEN
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)
