"""The scheme `spotsieve`, the default: own text beside the template of a host, smallest hashes, 1-bit sketch.

    body -> title; blocks, each kept or left out for a reason
         -> prints of all blocks, 3-shingles of the kept text -> the smallest hashes, 1-bit minwise sketch

A page is filed under keys that never depend on what is known of its host:

- the digest of its body, which decides;
- its smallest hashes (Broder 1997), which find copies on any host;
- its heaviest prints and the words of its title, for its own host.

All but the digest only name candidates. A key that many novel pages have is a common phrase or part of a template: it
takes few pages, so pages built to share every key are compared with a bounded number of others.

A candidate is confirmed by the judge, which remembers every host (stream/judge/by_host/pairs.py): on one host by what
both own beside its template, by their titles, and by their sketches (Yuan et al. 2012, sec. 3); across hosts by
their sketches. docs/quality.md has the figures.
"""

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features.prints import CLASS_MASK, IDENTITY_SHIFT, MIDDLE_FEATURES, SHORT_FEATURES
from spotsieve.stream.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, KEY_MASK, MINIMA_TAG, PRINT_TAG, TITLE_TAG, tagged
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import CANDIDATE_LIMIT, Bar, Bars, Confirmed, Probes, Way
from spotsieve.stream.schemes.identity import hash_hosts_and_sites, signed, status_of
from spotsieve.stream.schemes.probes import Keys, build_probes, digest_keys, listed, mixed_with_host
from spotsieve.stream.settings.schemes import SpotsieveSettings
from spotsieve.stream.signature import IN_NEED, Compared, Signatures, Status, emptied, has_keys

PRINT_CAP = 4
"""Pages of a host under one print: more novel pages have only its template."""
FEW_KEYS, SOME_KEYS, MOST_KEYS = 2, 4, 6
"""Prints that a page is filed under: most where it is shorter than SHORT_FEATURES, some below MIDDLE_FEATURES."""


class SpotsieveScheme:
    """Own text, titles and smallest hashes -> sketch against sketch, prints against prints."""

    name = "spotsieve"
    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def __init__(self, settings: SpotsieveSettings) -> None:
        self.settings = settings
        self.sieve = SieveSettings(settings.shingle_words, settings.minima, settings.sketch_bits)
        self.bars = Bars(
            settings.template_share,
            settings.min_alike,
            settings.other_title_min_alike,
            settings.no_title_min_alike,
            settings.min_jaccard,
            settings.thin_min_jaccard,
            one_host=False,
            keep_variants=False,
        )

    def keeping_variants(self) -> "SpotsieveScheme":
        """The same scheme, under which pages of one host that differ in numbers alone are no copies."""
        scheme = SpotsieveScheme(self.settings)
        scheme.bars = self.bars._replace(keep_variants=True)
        return scheme

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; sieve those that are text. Pages with too little kept text have digest and host alone."""
        batch = lay_out(pages)
        sieved = sieve_pages(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self.sieve)
        status = status_of(pages, sieved.feature_counts >= self.settings.min_features)
        judged = status == Status.FINGERPRINTED
        prints, prints_bounds = emptied(sieved.prints, sieved.print_bounds, judged)
        titles, titles_bounds = emptied(sieved.titles, sieved.title_bounds, judged)
        hosts, sites = hash_hosts_and_sites(pages)
        return signed(
            pages,
            sieved.body_digest,
            status=status,
            feature_count=sieved.feature_counts,
            host=hosts,
            language=np.where(sieved.weak, sieved.language | np.uint8(IN_NEED), sieved.language),
            features=sieved.minima,
            features_bounds=sieved.minima_bounds,
            sketch=sieved.sketch,
            site=sites,
            prints=prints,
            prints_bounds=prints_bounds,
            titles=titles,
            titles_bounds=titles_bounds,
        )

    def probe(self, signatures: Signatures) -> Probes:
        """Body digest, smallest hashes, prints and title of a fingerprinted page; the body digest of one without; none
        of an empty one.
        """
        cap, judged = self.settings.minima_cap, signatures.status == Status.FINGERPRINTED
        minima = listed(tagged(MINIMA_TAG, signatures.features), signatures.features_bounds, judged)
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(signatures.status)),
            minima._replace(cap=cap),
            _title_keys(signatures, judged)._replace(cap=cap),
            _print_keys(signatures, judged)._replace(cap=PRINT_CAP),
        )

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """By estimated Jaccard alone, as pages of two hosts of which nothing is known; the judge asks stream/judge."""
        (way,) = self.ways(pages, others)
        return Confirmed(way.reached, way.bars[0].had)

    def ways(self, pages: Compared, others: Compared) -> tuple[Way, ...]:
        """As of confirm(); what the judge asks, stream/judge/by_host/ways.py has."""
        differing = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64)
        jaccard = np.maximum(1.0 - 2.0 * differing / self.settings.sketch_bits, 0.0)
        name = "Jaccard of the kept texts, by their sketches"
        return (Way("the Jaccard is enough", (Bar(name, jaccard, self.settings.min_jaccard),)),)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))


def _mixed(values: NDArray[np.uint64], bounds: NDArray[np.int64], host: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Values of pages, below 2^56, mixed with the hosts of these: host: uint64[n]."""
    return mixed_with_host(values, np.repeat(host, np.diff(bounds)))


def _title_keys(signatures: Signatures, judged: NDArray[np.bool_]) -> Keys:
    """One key for all words of a page's title, where there are any. judged: bool[n], the pages that have keys"""
    bounds, counts = signatures.titles_bounds, np.diff(signatures.titles_bounds)
    words = _title_words(signatures.titles, bounds)
    keys = tagged(TITLE_TAG, mixed_with_host(words & KEY_MASK, signatures.host))
    return Keys(keys, np.arange(len(keys)), ((counts > 0) & judged).astype(np.int64), np.zeros(len(keys), np.uint64))


def _print_keys(signatures: Signatures, judged: NDArray[np.bool_]) -> Keys:
    """The heaviest prints of each page; of equal class pairs those first whose mixed key is the least.

    judged: bool[n], the pages that have keys
    """
    bounds = signatures.prints_bounds
    keys = tagged(
        PRINT_TAG, _mixed((signatures.prints >> np.uint32(IDENTITY_SHIFT)).astype(np.uint64), bounds, signatures.host)
    )
    length = signatures.feature_count
    wanted = np.where(length < SHORT_FEATURES, MOST_KEYS, np.where(length < MIDDLE_FEATURES, SOME_KEYS, FEW_KEYS))
    counts = np.minimum(np.diff(bounds), wanted) * judged
    heaviest = _heaviest(keys, signatures.prints, bounds, counts)
    return Keys(heaviest, np.arange(len(counts)) * MOST_KEYS, counts, np.zeros(len(counts), np.uint64))


@numba.njit(nogil=True, cache=True)
def _heaviest(keys, prints, bounds, counts):  # type: ignore[no-untyped-def]
    # keys: uint64[p], prints: uint32[p], of n pages by bounds: int64[n + 1]  counts: int64[n], how many are wanted
    # ->  uint64[n * MOST_KEYS], page i has the first counts[i] from i * MOST_KEYS on, kept in order as they come in
    chosen = np.empty(len(counts) * MOST_KEYS, np.uint64)
    weights = np.empty(MOST_KEYS, np.uint32)
    for page in range(len(counts)):
        first, wanted, held = page * MOST_KEYS, counts[page], 0
        for place in range(bounds[page], bounds[page + 1]):
            weight, key = (prints[place] & CLASS_MASK) // np.uint32(2), keys[place]
            at = held
            while at > 0 and (weight > weights[at - 1] or (weight == weights[at - 1] and key < chosen[first + at - 1])):
                at -= 1
            if at < wanted:
                held = min(held + 1, wanted)
                for later in range(held - 1, at, -1):
                    weights[later], chosen[first + later] = weights[later - 1], chosen[first + later - 1]
                weights[at], chosen[first + at] = weight, key
    return chosen


@numba.njit(nogil=True, cache=True)
def _title_words(titles, bounds):  # type: ignore[no-untyped-def]
    # titles: uint16[t]  bounds: int64[n + 1]  ->  uint64[n], a hash of each page's words (FNV-1a over 16-bit words)
    hashes = np.empty(len(bounds) - 1, np.uint64)
    for page in range(len(hashes)):
        mixed = np.uint64(0xCBF29CE484222325)
        for place in range(bounds[page], bounds[page + 1]):
            mixed = (mixed ^ np.uint64(titles[place])) * np.uint64(0x100000001B3)
        hashes[page] = mixed
    return hashes
