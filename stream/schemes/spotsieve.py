"""The scheme `spotsieve`, the default: kept blocks, shingles at every place, smallest hashes, 1-bit sketch.

    body -> blocks, each kept or left out for a reason -> 3-shingles of the kept text -> text digest, simhash 64,
    the smallest hashes, 1-bit minwise sketch

A page meets earlier ones through the digests of its body and of its kept text, which decide, and through permuted
tables (Manku et al. 2007) and its smallest hashes (Broder 1997), which only name candidates. A smallest hash that many
novel pages have is a common phrase or part of a template: it takes no more than minima_cap pages, and so does a
table's bucket, so that pages built to share every key are compared with 16 others a key at most. Before a page is
dropped as a near copy, sketch is held against sketch (Yuan et al. 2012, sec. 3):

    J = 1 - 2 d / k where d of k sketch bits differ        J (a + b) / (1 + J) features shared of a and b

Pages of different hosts share no template, so what they share is text: J decides, and its low bar finds trimmed and
edited copies. Pages of one host also share what the scorecard kept of their template, which can be most of a page with
a short text. So the judge knows the template of every filed page, the most features that it shares with an earlier
novel page of its host (stream/schemes), and a pair is a copy only if both share enough of what is left:

    (s - t) / (u - t) >= same_host_min_own        s features shared, u in either of them, t the template

Every page meets the first page of its host through a key of its own, so only that first page has a template that
nobody knows; of this page a share is presumed. docs/quality.md has the figures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features.sieve import SieveSettings, sieve_pages
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, HOST_TAG, MINIMA_TAG, design_tables, tagged
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import CANDIDATE_LIMIT, OTHER_HOST, REFUSED, UNCAPPED, Confirmed, Probes
from spotsieve.stream.schemes.identity import hash_hosts, identity_columns, status_of
from spotsieve.stream.schemes.probes import build_probes, digest_keys, listed, same_number
from spotsieve.stream.settings.schemes import SpotsieveSettings
from spotsieve.stream.signature import IN_NEED, Compared, Signatures, Status, has_keys

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
            fingerprint=np.zeros(len(pages), dtype=np.uint64),
            status=status_of(pages, sieved.feature_counts >= self.settings.min_features),
            feature_count=sieved.feature_counts,
            text_digest=np.zeros((len(pages), 2), dtype=np.uint64),
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
        status, host, cap = signatures.status, signatures.host, self.settings.minima_cap
        judged = status == Status.FINGERPRINTED
        hosts = same_number(tagged(HOST_TAG, host)[:, None], judged & (host != 0))
        minima = listed(tagged(MINIMA_TAG, signatures.features), signatures.features_bounds, judged)
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)),
            minima._replace(cap=cap),
            hosts._replace(cap=FIRST_PAGE),
        )

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
