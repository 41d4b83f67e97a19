"""The schemes of SpotSigs (Theobald, Siddharth, Paepcke, SIGIR 2008): `spotsigs`, `spotsigs-lsh`, `imatch`, `imatch-s`.

`spotsigs`: spots, length partitions, inverted index, exact Jaccard (sec. 4).

    spots in the IDF range, as a multiset, rarest first -> (partition, spot) keys -> multiset Jaccard >= tau

The paper knows its whole collection; here a page is compared with earlier pages. Its parts become:

- Partitions (sec. 4.2): p_0 = 1, p_k+1 is the smallest integer with p_k+1 - p_k > (1 - tau) p_k+1. A page is indexed in
  the partition of its length. It also looks into the others that its bound admits, |d| tau to |d| / tau, which are at
  most the two neighbours (condition A). The paper sees each pair once and looks only to the right.
- The inverted index (sec. 4.3): a key is a partition and a spot, a bucket the pages of that partition with that spot,
  in the order of indexing. The paper sorts lists by length, which a stream cannot.
- delta_1 (Algorithm 1, lines 24 to 28): spots are visited from the rarest on until the remaining ones cannot reach tau.
  With |d| spots, tau and pages of at least l spots, two copies share a = tau / (1 + tau) (|d| + l) of them, so at least
  one of the first |d| - a + 1. Both sides need no more, so a page is indexed under no more.
- Counting: if tau is low, a page shares one rare spot with one unrelated page in 40, and these fill the candidate
  limit. So both sides have c - 1 more keys (scheme.c), and pages that share fewer than c of them are not compared: two
  copies share c, because no prefix of l + c - 1 rarest spots misses c of them if that of l misses none (Wang, Li, Feng
  2012).
- delta_2 (lines 12 to 18): the comparison of a pair ends when its lengths or remaining spots cannot reach tau.

The order of spots is that of the whole sample, not of a partition, because it must be the same for all pages. A spot is
its rank in the model, the rarest first, and the number of equal spots of the page before it. So a multiset is a set of
different features, and its Jaccard (Eq. 4) that of the sets. Every page within tau is found unless a bucket is full or
a page has more candidates than the limit, which is higher than for other schemes. Metrics count both losses
(spotsieve_capped_filings, spotsieve_cut_pages).

Every page within tau is found while no bucket is full and no page meets more candidates than the limit, which is higher
here than for other schemes; both are counted (spotsieve_capped_postings, spotsieve_candidate_limited_pages).

The scheme `spotsigs-lsh`: spots, minwise bands and their Jaccard (LSH-S of Theobald et al. 2008, sec. 5.2).

    spots in the IDF range, as a multiset -> k * l minwise hashes -> l bands of k -> Jaccard >= tau

Pages that agree on a whole band of k minima are candidates, which has the probability 1 - (1 - J^k)^l for a Jaccard of
J. Defaults are those of table 1: k = 6, l = 32 (precision 0.96, recall 0.90 at tau = 0.44) and an IDF in [0.2, 0.85];
pages of at least 5 spots are judged (sec. 5.4). The multiset's Jaccard, sum of the least over sum of the greatest
counts, is that of a set in which a spot's repeats are numbered. The paper compares candidates by their whole vectors;
here the k * l minima of an entry are compared, of which a share J is equal, with a standard error of at most 0.036 for
192 minima. The paper's functions (a x + b) mod P number the spots of a known corpus; here x is a spot's hash and P is
2^32 - 1 (stream/sign/fingerprints/minhash.py). The IDF range suits a sample in which a story has many copies; the
paper's has 32 on average. If most stories have two or three copies, their spots have an IDF above 0.85, and mostly
template text remains. idf_max = 1 keeps those spots.

`imatch` and `imatch-s`: one SHA-1 of a page's distinctive terms (sec. 5.2).

    tokens without stop-words (imatch) or spots (imatch-s) -> those in the IDF range -> SHA-1 -> equal digests

I-Match (Chowdhury, Frieder, Grossman 2002, the paper's [22]) as Theobald et al. ran it against SpotSigs, and with spots
in place of tokens. A term's IDF is log(N / df) / log(N) over a sample of N pages that is frozen in a model. The range
[0.4, 0.75] is the best of table 1, where I-Match had precision 1.00 and recall 0.03, I-Match-S 0.96 and 0.23. The paper
hashes "a concatenation of tokens"; here, as in [22], each term counts once and in a fixed order, so moved or repeated
text changes nothing. 120 of the 160 bits decide. Terms that the sample lacks are in no range. Pages with fewer than 5
terms in the range are not judged: the paper's bound for spots (sec. 5.4), without which all pages without a term would
be copies of each other.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.schemes import (
    ImatchSettings,
    ImatchSSettings,
    SpotsigsLshSettings,
    SpotsigsSettings,
)
from spotsieve.stream.base.signature import (
    MAX_FEATURES,
    MAX_SKETCH_WORDS,
    CandidateColumns,
    Signatures,
    has_keys,
    is_judged,
)
from spotsieve.stream.sign.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.sign.fingerprints.permuted_tables import DIGEST_TAG, MINIMA_TAG, TEXT_TAG, tagged
from spotsieve.stream.sign.schemes import NOT_INDEXED, Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.sign.schemes.identity import features_compared, make_signatures, status_of
from spotsieve.stream.sign.schemes.minwise import pack_minima, unpack_minima
from spotsieve.stream.sign.schemes.probes import (
    CandidateSearch,
    DecisiveSearch,
    build_probes,
    candidate_probes,
    digest_keys,
    listed,
    placed_keys,
)
from spotsieve.stream.sign.schemes.terms import (
    keep_lexicon_terms,
    lexicon_of,
    order_repeats,
    ranked_lexicon,
    ranks_of,
    terms_of,
)

REPEAT_BITS = 16
"""Low bits of a feature: the number of equal spots of the page before it. The other bits are the spot's rank."""
SLACK = 1e-9
"""Widening of the bounds on lengths, so that rounding loses no page. The Jaccard itself decides."""
MOST_MINIMA = 2 * MAX_SKETCH_WORDS
BAND_BITS = 48
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# spotsigs


class SpotsigsScheme(CandidateSearch):
    """Spots, partitions and inverted index, exact multiset Jaccard >= tau (sec. 4)."""

    name = "spotsigs"
    compares_features = True
    candidate_limit = 4_096
    """With c = 1 and tau = 0.44 a page shares a rare spot with one in 40 other pages. Among 30,000 generated pages, a
    limit of 256 candidates misses half of the copies, and 4,096 none (docs/measured/papers.md)."""

    def __init__(self, settings: SpotsigsSettings) -> None:
        """Raises SettingError if the model is missing or another one, the range is empty, or a word is no token."""
        self.settings = settings
        self.terms = terms_of(settings)
        self.lexicon, self.rank = ranked_lexicon(settings, self.terms.about)
        self.c = settings.least_shared
        if self.c > settings.most_shared:
            raise SettingError(
                "scheme.c",
                f"must be at most {settings.most_shared}: two copies of {settings.min_spots} spots may share no more",
                self.c,
                "lower it, or raise scheme.min_spots or scheme.tau",
            )
        self.boundaries = partition_boundaries(settings.tau, MAX_FEATURES)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Rank the spots in the IDF range, the rarest first, of pages with at least min_spots of them."""
        ranks, bounds = ranks_of(*self.terms.of(pages), self.lexicon, self.rank)
        counts = sizes_of(bounds)
        ordered, before = order_repeats(ranks, bounds)
        features = ordered << np.uint64(REPEAT_BITS) | before
        compared = features_compared(status_of(pages, counts >= self.settings.min_spots), features, bounds)
        return make_signatures(pages, feature_count=counts, **compared)

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and the rarest spots in the page's partition, where it is indexed, and in neighbours."""
        status, features_bounds = signatures.status, signatures.features_bounds
        lengths = sizes_of(features_bounds) * is_judged(status)
        own, others, tau = np.zeros_like(lengths), np.zeros_like(lengths), self.settings.tau
        _count_keys(lengths, self.boundaries, tau, self.c, own, others)
        bounds = bounds_of(own + others)
        keys = np.empty(bounds[-1], np.uint64)
        _fill_keys(signatures.features, features_bounds, lengths, self.boundaries, tau, self.c, bounds, keys)
        spots = listed(tagged(MINIMA_TAG, keys), bounds)
        probes = build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)),
            spots._replace(counts=own),
            spots._replace(first=bounds[:-1] + own, counts=others, cap=NOT_INDEXED),
        )
        return replace(probes, least_shared=self.c)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs whose multisets have a Jaccard >= tau (Eq. 4); the score is the Jaccard."""
        tau = self.settings.tau
        jaccard = np.asarray(_jaccard(pages.features, pages.spans, others.features, others.spans, tau))
        return Confirmations(jaccard >= tau, jaccard)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Jaccard of the multisets, computed in full and not only until tau is out of reach (delta_2)."""
        jaccard = np.asarray(_jaccard(pages.features, pages.spans, others.features, others.spans, 0.0))
        return (
            Criterion("the Jaccard is enough", (ThresholdTest("Jaccard of the spots", jaccard, self.settings.tau),)),
        )


def partition_boundaries(tau: float, longest: int) -> NDArray[np.int64]:
    """Boundaries p_0 = 1, p_1, ... up to the first above `longest`; partition k has lengths p_k..p_k+1 - 1."""
    boundaries = [1]
    while boundaries[-1] <= longest:
        boundaries.append(int(boundaries[-1] / tau + SLACK) + 1)
    return np.array(boundaries, np.int64)


@kernel
def _lengths_admitted(length, tau):
    # Shortest and longest length of a page within tau of a page of this length (Eq. 6).
    return np.int64(np.ceil(length * tau - SLACK)), min(np.int64(length / tau + SLACK), np.int64(MAX_FEATURES))


@kernel
def _prefix(length, shortest, tau):
    # Number of the rarest spots that include one of every page within tau that has `shortest` spots or more (delta_1).
    return length - np.int64(np.ceil(tau / (1 + tau) * (length + shortest) - SLACK)) + 1


@kernel
def _partition(length, boundaries):
    return np.searchsorted(boundaries, length, side="right") - 1


@kernel
def _partitions_admitted(length, boundaries, tau):
    # Partitions that can hold pages within tau.
    shortest, longest = _lengths_admitted(length, tau)
    return range(_partition(shortest, boundaries), _partition(longest, boundaries) + 1)


@kernel
def _rarest(length, partition, boundaries, tau, c):
    # Number of a page's spots, the rarest first, that are keys of a partition.
    # In its own partition, later pages of any admitted length must find the page: the bound is that of the shortest.
    least = _lengths_admitted(length, tau)[0]
    if partition != _partition(length, boundaries):
        least = max(least, boundaries[partition])
    return min(max(_prefix(length, least, tau) + c - 1, 0), length)


@kernel
def _count_keys(lengths, boundaries, tau, c, own, others):
    # lengths: int64[n], 0 for pages that are not compared  boundaries: int64[p]
    # ->  own, others: int64[n], number of keys in the page's own partition and in others
    for page in range(len(lengths)):
        length = lengths[page]
        if length == 0:
            continue
        indexed = _partition(length, boundaries)
        for partition in _partitions_admitted(length, boundaries, tau):
            rarest = _rarest(length, partition, boundaries, tau, c)
            if partition == indexed:
                own[page] = rarest
            else:
                others[page] += rarest


@kernel
def _fill_keys(features, features_bounds, lengths, boundaries, tau, c, bounds, keys):
    # features: uint64[m]  features_bounds: int64[n + 1]  lengths: int64[n]  boundaries: int64[p]
    # bounds: int64[n + 1], of the keys  ->  keys: uint64[k], those of a page's own partition first
    for page in range(len(lengths)):
        length, first = lengths[page], features_bounds[page]
        if length == 0:
            continue
        own = _partition(length, boundaries)
        slot = bounds[page]
        others = bounds[page] + _rarest(length, own, boundaries, tau, c)
        for partition in _partitions_admitted(length, boundaries, tau):
            at = slot if partition == own else others
            rarest = _rarest(length, partition, boundaries, tau, c)
            for place in range(rarest):
                keys[at + place] = _mixed(features[first + place], np.uint64(partition))
            if partition != own:
                others += rarest


@kernel
def _mixed(feature, partition):
    # The finalizer of splitmix64 (Steele et al. 2014) over feature and partition.
    word = feature * np.uint64(0x9E3779B97F4A7C15) + (partition + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def _jaccard(features, spans, other_features, other_spans, tau):
    # features, other_features: uint64[...]  spans, other_spans: int64[c, 2]  ->  float64[c], 0 where it is below tau
    jaccard = np.zeros(len(spans))
    for row in range(len(spans)):
        at, end = spans[row]
        other, other_end = other_spans[row]
        one, two, shared = end - at, other_end - other, 0
        # The number of spots that must be shared, which exceeds both if the lengths differ too much (delta_2).
        least = tau / (1 + tau) * (one + two) - SLACK
        while at < end and other < other_end and shared + min(end - at, other_end - other) >= least:
            left, right = features[at], other_features[other]
            shared += left == right
            at += left <= right
            other += right <= left
        if shared >= least and shared > 0:
            jaccard[row] = shared / (one + two - shared)
    return jaccard


# spotsigs-lsh


class SpotsigsLshScheme(CandidateSearch):
    """Spots, l bands of k minima, Jaccard >= tau (LSH-S, sec. 5.2)."""

    name = "spotsigs-lsh"

    def __init__(self, settings: SpotsigsLshSettings) -> None:
        """Raises SettingError if the model is missing or has another digest, or k * l minima exceed an entry."""
        minima = settings.k * settings.l
        if minima > MOST_MINIMA:
            raise SettingError("scheme.k * scheme.l", f"must be at most {MOST_MINIMA}", minima, "the paper took 6 * 32")
        self.settings = settings
        self.functions = linear_hashes(minima)
        self.terms = terms_of(settings)
        self.lexicon = lexicon_of(settings, self.terms.about)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Take the minima over the numbered spots of pages with at least min_spots in the IDF range."""
        spots, bounds = keep_lexicon_terms(*self.terms.of(pages), self.lexicon)
        counts = sizes_of(bounds)
        minima = minimum_hashes(number_equal(spots, bounds), bounds, self.functions)
        status = status_of(pages, counts >= self.settings.min_spots)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_minima(minima))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and a hash of the k minima of each band."""
        k, l = self.settings.k, self.settings.l  # noqa: E741 - the paper's names
        bands = unpack_minima(signatures.sketch)[:, : k * l].reshape(-1, l, k).astype(np.uint64)
        values = np.zeros(bands.shape[:2], np.uint64)
        for place in range(k):
            values = _mixed_bands(values ^ bands[:, :, place])
        return candidate_probes(signatures, placed_keys(values >> np.uint64(64 - BAND_BITS)))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs whose share of equal minima reaches tau; the score is that share, an estimate of the Jaccard."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, way.tests[0].had)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Share of equal minima."""
        minima = len(self.functions.A)
        equal = unpack_minima(pages.sketch)[:, :minima] == unpack_minima(others.sketch)[:, :minima]
        jaccard = np.count_nonzero(equal, axis=1) / minima
        name = f"Jaccard of the spots, by {minima} minima"
        return (Criterion("the Jaccard is enough", (ThresholdTest(name, jaccard, self.settings.tau),)),)


def number_equal(spots: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes of (spot, number of equal spots of the page before it): uint64[m].

    They are in the order of the pages, and within a page in ascending order of the spots.
    """
    ordered, before = order_repeats(spots, bounds)
    return _mixed_bands(ordered + before * _GOLDEN)


def _mixed_bands(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64 (Steele et al. 2014), after a step: uint64[...] -> uint64[...]."""
    words = words + _GOLDEN
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


# imatch and imatch-s


class ImatchScheme(DecisiveSearch):
    """Terms in the IDF range, SHA-1, equal digests. The settings choose between `imatch` and `imatch-s`."""

    def __init__(self, settings: ImatchSettings | ImatchSSettings) -> None:
        """Raises SettingError if the model is missing or another one, the range is empty, or a word is no token."""
        self.name: str = settings.name
        self.min_terms = settings.min_terms
        self.terms = terms_of(settings)
        self.lexicon = lexicon_of(settings, self.terms.about)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest the terms of pages with at least min_terms in the IDF range."""
        hashes, bounds = keep_lexicon_terms(*self.terms.of(pages), self.lexicon)
        distinct = [np.unique(hashes[first:last]) for first, last in pairwise(bounds.tolist())]
        counts = np.array([len(terms) for terms in distinct], np.int64)
        raw = b"".join([hashlib.sha1(terms.astype("<u8").tobytes()).digest()[:16] for terms in distinct])
        digests = np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, 2)
        status = status_of(pages, counts >= self.min_terms)
        judged = is_judged(status)[:, None]
        return make_signatures(
            pages, status=status, feature_count=counts, text_digest=np.where(judged, digests, np.uint64(0))
        )

    def probe(self, signatures: Signatures) -> Probes:
        """Digests of the body and of the terms. An empty page has no keys."""
        status = signatures.status
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)),
            digest_keys(TEXT_TAG, signatures.text_digest, is_judged(status)),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """1 for every match, because only equal digests decide."""
        return np.ones(len(distance))
