"""The default scheme `spotsieve`: block fingerprints, title, MinHash values and 1-bit sketch of the main text.

    body -> title; blocks, each kept or dropped for a reason
         -> fingerprints of all blocks, 3-shingles of the main text -> MinHash values (bottom-k), 1-bit minwise sketch

A page is indexed under keys that never depend on the memory of its host:

- the digest of its body, which is decisive;
- its MinHash values (Broder 1997), which find copies on any host;
- its heaviest block fingerprints and the words of its title, mixed with its host.

All keys except the digest only find candidates. A key that many novel pages share is a common phrase or template text.
Its bucket takes few pages, so even pages built to share every key are compared with a bounded number of others.

The judge confirms a candidate with its memory of every host (stream/judge/by_host/pairs.py): on one host by the
distinctive text of both pages, their titles and their sketches (Yuan et al. 2012, sec. 3); across hosts by their
sketches. docs/measured/quality.md has the figures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import SpotsieveSettings
from spotsieve.stream.base.signature import FINGERPRINTED, IN_NEED, CandidateColumns, Signatures, empty_rows, has_keys
from spotsieve.stream.sign.features.block_fingerprints import (
    CLASS_MASK,
    IDENTITY_SHIFT,
    MIDDLE_FEATURES,
    SHORT_FEATURES,
)
from spotsieve.stream.sign.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    DIGEST_TAG,
    KEY_MASK,
    MINIMA_TAG,
    PRINT_TAG,
    TITLE_TAG,
    tagged,
)
from spotsieve.stream.sign.schemes import (
    CANDIDATE_LIMIT,
    UNCAPPED,
    Confirmations,
    Criterion,
    HostThresholds,
    Probes,
    ThresholdTest,
)
from spotsieve.stream.sign.schemes.identity import hash_hosts_and_sites, make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import mixed_with_host

PRINT_CAP = 4
"""Most pages of a host under one block fingerprint: a fingerprint of more novel pages is template text."""
FEW_KEYS, SOME_KEYS, MOST_KEYS = 2, 4, 6
"""Numbers of block fingerprints under which a page is indexed: MOST_KEYS if it has fewer than SHORT_FEATURES
features, SOME_KEYS below MIDDLE_FEATURES, otherwise FEW_KEYS."""


class SpotsieveScheme:
    """Indexes by distinctive text, titles and MinHash values; compares sketches and block fingerprints."""

    name = "spotsieve"
    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def __init__(self, settings: SpotsieveSettings) -> None:
        self.settings = settings
        self.sieve = SieveSettings(settings.shingle_words, settings.minima, settings.sketch_bits)
        self.bars = HostThresholds(
            settings.template_share,
            settings.min_containment,
            float(settings.max_fresh_words),
            one_host=False,
            drop_parts=False,
            keep_variants=False,
        )

    def with_policy(self, keep_variants: bool, drop_parts: bool) -> "SpotsieveScheme":
        """The same scheme with policies: variants are not copies, and small parts of longer pages are."""
        scheme = SpotsieveScheme(self.settings)
        scheme.bars = self.bars._replace(keep_variants=keep_variants, drop_parts=drop_parts)
        return scheme

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body, and fingerprint those that are text.

        A page with too little main text has only a digest and a host.
        """
        batch = lay_out(pages)
        sieved = sieve_pages(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self.sieve)
        status = status_of(pages, sieved.feature_counts >= self.settings.min_features)
        judged = status == FINGERPRINTED
        prints, prints_bounds = empty_rows(sieved.prints, sieved.print_bounds, judged)
        titles, titles_bounds = empty_rows(sieved.titles, sieved.title_bounds, judged)
        hosts, sites = hash_hosts_and_sites(pages)
        return make_signatures(
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
        """Keys of each page: body digest, MinHash values, block fingerprints and title if it is fingerprinted.

        A page without a fingerprint has only its body digest, and an empty page has no keys.
        """
        status, own = signatures.status, signatures
        return Probes(
            *_probe_kernel(
                *(has_keys(status), status == FINGERPRINTED, own.digest, own.features, own.features_bounds),
                *(own.titles, own.titles_bounds, own.prints, own.prints_bounds, own.host, own.feature_count),
                self.settings.minima_cap,
            )
        )

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Raises NotImplementedError: the judge confirms candidates (stream/judge/by_host)."""
        raise NotImplementedError("the judge confirms the candidates of a scheme with host memories")

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Raises NotImplementedError, as confirm() does."""
        raise NotImplementedError("the judge confirms the candidates of a scheme with host memories")

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Scores of decisive pairs: 1, because only equal digests are decisive."""
        return np.ones(len(distance))


@kernel
def _probe_kernel(
    indexed, judged, digest, minima, minima_bounds, titles, title_bounds, prints, print_bounds, host, size, cap
):
    # indexed: bool[n], pages with the key of a digest  judged: bool[n], pages with the other keys
    # digest: uint64[n, 2]  minima: uint64[m], titles: uint16[t], prints: uint32[p], each with bounds: int64[n + 1]
    # host: uint64[n]  size: uint32[n], number of features  cap: int64, of keys of MinHash values and titles
    # ->  keys, bounds, inline, limit, decisive, cap: the fields of Probes
    pages = len(indexed)
    most = pages * (2 + MOST_KEYS) + len(minima)
    keys, inline, caps = np.empty(most, np.uint64), np.zeros(most, np.uint64), np.full(most, cap)
    decisive, bounds = np.zeros(most, np.bool_), np.zeros(pages + 1, np.int64)
    weights, at = np.empty(MOST_KEYS, np.uint32), 0
    for page in range(pages):
        if indexed[page]:
            keys[at], inline[at] = tagged(DIGEST_TAG, digest[page, 0]), digest[page, 1]
            decisive[at], caps[at] = True, UNCAPPED
            at += 1
        if judged[page]:
            for place in range(minima_bounds[page], minima_bounds[page + 1]):
                keys[at] = tagged(MINIMA_TAG, minima[place])
                at += 1
            first, end = title_bounds[page], title_bounds[page + 1]
            if first < end:
                words = _title_words(titles, first, end) & KEY_MASK
                keys[at] = tagged(TITLE_TAG, mixed_with_host(words, host[page]))
                at += 1
            few = SOME_KEYS if size[page] < MIDDLE_FEATURES else FEW_KEYS
            wanted = MOST_KEYS if size[page] < SHORT_FEATURES else few
            first, end = print_bounds[page], print_bounds[page + 1]
            chosen = _heaviest(prints, first, end, host[page], min(wanted, end - first), weights, keys, at)
            caps[at : at + chosen] = PRINT_CAP
            at += chosen
        bounds[page + 1] = at
    return keys[:at], bounds, inline[:at], np.zeros(at, np.uint8), decisive[:at], caps[:at]


@part
def _heaviest(prints, first, end, host, wanted, weights, keys, at):
    """Write the heaviest of prints[first:end] as keys, in order; of equal weights, the least mixed keys come first.

    Weights are equal if the fingerprints have the same pair of weight classes.

    prints: uint32[p]  host: uint64  wanted: int64, number of keys  weights: uint32[MOST_KEYS], overwritten
    ->  keys: uint64[...], written from `at` on; returns their number: int64
    """
    held = 0
    for place in range(first, end):
        weight = (prints[place] & CLASS_MASK) // np.uint32(2)
        key = tagged(PRINT_TAG, mixed_with_host(np.uint64(prints[place] >> np.uint32(IDENTITY_SHIFT)), host))
        slot = held
        while slot > 0 and (weight > weights[slot - 1] or (weight == weights[slot - 1] and key < keys[at + slot - 1])):
            slot -= 1
        if slot < wanted:
            held = min(held + 1, wanted)
            for later in range(held - 1, slot, -1):
                weights[later], keys[at + later] = weights[later - 1], keys[at + later - 1]
            weights[slot], keys[at + slot] = weight, key
    return held


@part
def _title_words(titles, first, end):
    """Hash of the words titles[first:end]: uint16[t] -> uint64 (FNV-1a over 16-bit words)."""
    mixed = np.uint64(0xCBF29CE484222325)
    for place in range(first, end):
        mixed = (mixed ^ np.uint64(titles[place])) * np.uint64(0x100000001B3)
    return mixed
