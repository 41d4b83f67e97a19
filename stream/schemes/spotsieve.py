"""Owns the scheme `spotsieve`, the default: kept blocks, shingles at every place, smallest hashes, 1-bit sketch.

    body -> blocks, each kept or left out for a reason -> 3-shingles of the kept text -> text digest, simhash 64,
    the smallest hashes, 1-bit minwise sketch

A page meets earlier ones through the digests of its body and of its kept text, which decide, and through permuted
tables (Manku et al. 2007) and its smallest hashes (Broder 1997), which only name candidates. A smallest hash that many
novel pages have is a common phrase or part of a template: it takes no more than minima_cap pages, and so does a
table's bucket, so that pages built to share every key are compared with 16 others a key at most. Before a page is
dropped as a near copy, sketch is held against sketch (Yuan et al. 2012, sec. 3):

    J = 1 - 2 d / k where d of k sketch bits differ        J (a + b) / (1 + J) features shared of a and b

Pages of different hosts share no template, so what they share is text: J decides, and its low bar finds trimmed and
edited copies. Pages of one host share also what the scorecard kept of their template, which can be most of a page with
a short text. So of every filed page its template is known, the most features that it shares with an earlier novel page
of its host (stream/schemes), and a pair is a copy only if enough of what is left of both is shared:

    (s - t) / (u - t) >= same_host_min_own        s features shared, u in either of them, t the template

Every page meets the first page of its host through a key of its own, so that only that first page has a template that
nobody knows; of that one a share is presumed. docs/quality.md has the figures.
"""

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, HOST_TAG, KEY_BITS, MINIMA_TAG, TEXT_TAG, design_tables
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import CANDIDATE_LIMIT, OTHER_HOST, REFUSED, UNCAPPED, Confirmed, Probes
from spotsieve.stream.schemes.identity import hash_hosts, identity_columns, status_of
from spotsieve.stream.settings.schemes import SpotsieveSettings
from spotsieve.stream.signature import IN_NEED, Compared, Signatures, Status

DIGESTS = 2
"""Keys of a page that decide by digest: its body's and its kept text's."""
MOST_TEMPLATE = 0.9
"""Of a page's features: a page that lies whole in a longer one of its host still has copies."""
MOST_PRESUMED = 128
"""Features of a host's first page that are taken for template, at most: what the scorecard keeps of one is no longer.
Without it 155 of 1,000 pages with a tenth of their words replaced are missed on a host that has no other page, with it
43; news loses one page more, and made wire pages as many."""
FIRST_PAGE = 1
"""The cap of a host's key: only its first page is met through it."""


class SpotsieveScheme:
    """Kept text -> tables and smallest hashes -> sketch against sketch."""

    name = "spotsieve"
    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def __init__(self, settings: SpotsieveSettings) -> None:
        """Raises SettingError where no table design has the wished number of tables for k."""
        self.settings = settings
        self.design = design_tables(settings.max_distance_bits, settings.tables)
        self.sieve = SieveSettings(settings.shingle_words, settings.minima, settings.sketch_bits)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; sieve those that are text. Pages with too little kept text have no fingerprint."""
        batch = lay_out(pages)
        sieved = sieve_pages(batch.buffer, batch.bounds, batch.markup.view(np.bool_), self.sieve)
        return Signatures(
            **identity_columns(pages, sieved.body_digest),
            fingerprint=sieved.simhash,
            status=status_of(pages, sieved.feature_counts >= self.settings.min_features),
            feature_count=sieved.feature_counts,
            text_digest=sieved.text_digest,
            host=hash_hosts(pages),
            language=np.where(sieved.weak, sieved.language | np.uint8(IN_NEED), sieved.language),
            features=sieved.minima,
            features_bounds=sieved.minima_bounds,
            sketch=sieved.sketch,
        )

    def probe(self, signatures: Signatures) -> Probes:
        """Body digest, text digest, tables, smallest hashes and host of a fingerprinted page; the body digest of one
        without; none of an empty one.
        """
        status = signatures.status
        sizes = DIGESTS + len(self.design) + np.diff(signatures.features_bounds) + (signatures.host != 0)
        sizes[status != Status.FINGERPRINTED] = 1
        sizes[status == Status.EMPTY] = 0
        bounds = np.zeros(len(status) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        keys = np.empty(bounds[-1], np.uint64)
        inline, limit = np.zeros(len(keys), np.uint64), np.zeros(len(keys), np.uint8)
        decisive, cap = np.zeros(len(keys), np.bool_), np.full(len(keys), UNCAPPED, np.int64)
        _fill_probes(
            self.design.keys(signatures.fingerprint),
            status,
            signatures.fingerprint,
            signatures.digest,
            signatures.text_digest,
            signatures.features,
            signatures.features_bounds,
            signatures.host,
            np.uint8(self.design.max_distance_bits),
            self.settings.minima_cap,
            bounds,
            keys,
            inline,
            limit,
            decisive,
            cap,
        )
        return Probes(keys, bounds, inline, limit, decisive, cap)

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """By estimated Jaccard, and on one host by what is shared beside the template; the score is the Jaccard."""
        settings = self.settings
        differing = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64)
        jaccard = np.maximum(1.0 - 2.0 * differing / settings.sketch_bits, 0.0)
        one, other = pages.feature_count.astype(np.float64), others.feature_count.astype(np.float64)
        shared = _shared(jaccard, one, other)
        own = settings.same_host_min_own
        # (s - t) / (u - t) >= own, solved for t; the half keeps whole numbers from falling short by a rounding error
        most_template = np.floor((shared - own * (one + other - shared)) / (1.0 - own) + 0.5).astype(np.int64)
        same_host = (pages.host == others.host) & (pages.host != 0)
        alike = jaccard >= np.where(same_host, settings.same_host_min_jaccard, settings.min_jaccard)
        at_least = np.maximum(jaccard - 2.0 * np.sqrt((1.0 - jaccard * jaccard) / settings.sketch_bits), 0.0)
        return Confirmed(
            np.where(alike, np.where(same_host, most_template, UNCAPPED), REFUSED),
            np.where(same_host, _shared(at_least, one, other).astype(np.int64), OTHER_HOST),
            jaccard,
        )

    def template_limits(self, pages: Compared) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Features of a page: presumed of a host's first page, and MOST_TEMPLATE of any."""
        count = pages.feature_count.astype(np.float64)
        presumed = np.minimum(count * self.settings.presumed_template, MOST_PRESUMED)
        return presumed.astype(np.int64), (count * MOST_TEMPLATE).astype(np.int64)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))


def _shared(jaccard: NDArray[np.float64], one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features of both of two pages, from their Jaccard and how many each has."""
    return np.minimum(jaccard * (one + other) / (1.0 + jaccard), np.minimum(one, other))


@numba.njit(nogil=True, cache=True)
def _fill_probes(  # type: ignore[no-untyped-def]
    tables,
    status,
    fingerprint,
    digest,
    text_digest,
    minima,
    minima_bounds,
    host,
    max_distance,
    minima_cap,
    bounds,
    keys,
    inline,
    limit,
    decisive,
    cap,
):
    # tables: uint64[n, T]  status: uint8[n]  fingerprint: uint64[n]  digest, text_digest: uint64[n, 2]
    # minima: uint64[h], minima_bounds: int64[n + 1]  host: uint64[n]  max_distance: uint8  bounds: int64[n + 1]
    # ->  keys: uint64[m]  inline, limit, decisive: [m], zero before  cap: int64[m], UNCAPPED before
    low_bits = (np.uint64(1) << np.uint64(KEY_BITS)) - np.uint64(1)
    body_tag, text_tag = np.uint64(DIGEST_TAG) << np.uint64(KEY_BITS), np.uint64(TEXT_TAG) << np.uint64(KEY_BITS)
    minima_tag, host_tag = np.uint64(MINIMA_TAG) << np.uint64(KEY_BITS), np.uint64(HOST_TAG) << np.uint64(KEY_BITS)
    for page in range(len(status)):
        slot, last = bounds[page], bounds[page + 1]
        if last == slot:
            continue
        keys[slot] = body_tag | (digest[page, 0] & low_bits)
        inline[slot], decisive[slot] = digest[page, 1], True
        if last == slot + 1:
            continue
        slot += 1
        keys[slot] = text_tag | (text_digest[page, 0] & low_bits)
        inline[slot], decisive[slot] = text_digest[page, 1], True
        for table in range(tables.shape[1]):
            slot += 1
            keys[slot] = tables[page, table]
            inline[slot], limit[slot], cap[slot] = fingerprint[page], max_distance, minima_cap
        for place in range(minima_bounds[page], minima_bounds[page + 1]):
            slot += 1
            keys[slot], cap[slot] = minima_tag | (minima[place] & low_bits), minima_cap
        if host[page] != 0:
            slot += 1
            keys[slot], cap[slot] = host_tag | (host[page] & low_bits), FIRST_PAGE
