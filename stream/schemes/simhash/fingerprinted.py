"""Holds what the schemes share whose page is one 64-bit fingerprint: tables, and a Hamming distance that decides.

Pages with too few features have no fingerprint: with a handful of features, fingerprints of different pages meet.
These pages, and those that are not text, are compared by their digest alone, of which 120 of 128 bits decide.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.simhash import simhash64
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, FINGERPRINT_BITS, TableDesign
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import Probes
from spotsieve.stream.schemes.decisive import DecisiveSearch
from spotsieve.stream.schemes.identity import make_signatures, status_of
from spotsieve.stream.schemes.probes import build_probes, digest_keys, table_keys
from spotsieve.stream.signature import FINGERPRINTED, Signatures, has_keys


def fold_signatures(
    pages: Sequence[Page],
    features: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    counts: NDArray[np.int64],
    fewest: int,
) -> Signatures:
    """Sign pages: fold the features of those that have at least `fewest` into a simhash.

    features, bounds: as of spotsieve.stream.fingerprints.simhash.simhash64  counts: int64[n], what `fewest` counts
    """
    fingerprints, present = simhash64(features, bounds)
    status = status_of(pages, present & (counts >= fewest))
    return make_signatures(
        pages,
        fingerprint=np.where(status == FINGERPRINTED, fingerprints, np.uint64(0)),
        status=status,
        feature_count=counts,
    )


class FingerprintSearch(DecisiveSearch):
    """Pages whose fingerprints differ in at most k bits are copies; the tables find all of them. Holds the design."""

    def __init__(self, design: TableDesign) -> None:
        self.design = design

    def probe(self, signatures: Signatures) -> Probes:
        """T tagged keys for a fingerprinted page, the digest key for one without, none for an empty one."""
        status = signatures.status
        judged = status == FINGERPRINTED
        without = ~judged & has_keys(status)
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, without),
            table_keys(self.design, signatures.fingerprint, judged)._replace(decisive=True),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The share of fingerprint bits that agree."""
        return 1.0 - distance / FINGERPRINT_BITS
