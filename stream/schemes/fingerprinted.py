"""Owns what schemes share whose page is one 64-bit fingerprint: tables, and a Hamming distance that decides.

Pages with too few features have no fingerprint: a handful of features makes fingerprints of different pages meet. They,
and pages that are not text, are compared by their digest alone: limit 0 over 64 inline bits, in a bucket whose key
holds another 56 bits of the digest; 120 of 128 bits of XXH3-128 decide.
"""

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.simhash import simhash64
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, FINGERPRINT_BITS, KEY_BITS, TableDesign
from spotsieve.stream.page import Page
from spotsieve.stream.schemes import UNCAPPED, Probes
from spotsieve.stream.schemes.decisive import DecisiveSearch
from spotsieve.stream.schemes.identity import identity_columns, status_of
from spotsieve.stream.signature import Signatures, Status, unused_columns


def fold_signatures(
    pages: Sequence[Page],
    features: NDArray[np.uint64],
    bounds: NDArray[np.int64],
    counts: NDArray[np.int64],
    fewest: int,
) -> Signatures:
    """Signatures of pages whose features are folded into a simhash where a page has at least `fewest`.

    features, bounds: as of spotsieve.stream.fingerprints.simhash.simhash64  counts: int64[n], what `fewest` counts
    """
    fingerprints, present = simhash64(features, bounds)
    status = status_of(pages, present & (counts >= fewest))
    return Signatures(
        **identity_columns(pages),
        fingerprint=np.where(status == Status.FINGERPRINTED, fingerprints, np.uint64(0)),
        status=status,
        feature_count=counts.astype(np.uint32),
        **unused_columns(len(pages)),
    )


class FingerprintSearch(DecisiveSearch):
    """Pages whose fingerprints differ in at most k bits are copies; the tables find all of them. Holds the design."""

    def __init__(self, design: TableDesign) -> None:
        self.design = design

    def probe(self, signatures: Signatures) -> Probes:
        """T tagged keys for a fingerprinted page, the digest key for one without, none for an empty one."""
        tables = self.design.keys(signatures.fingerprint)
        status = signatures.status
        sizes = np.ones(len(status), np.int64)
        sizes[status == Status.FINGERPRINTED] = len(self.design)
        sizes[status == Status.EMPTY] = 0
        bounds = np.zeros(len(status) + 1, np.int64)
        np.cumsum(sizes, out=bounds[1:])
        keys = np.empty(bounds[-1], np.uint64)
        inline = np.empty(len(keys), np.uint64)
        limit = np.empty(len(keys), np.uint8)
        _fill_probes(
            tables,
            status,
            signatures.fingerprint,
            signatures.digest,
            np.uint8(self.design.max_distance_bits),
            bounds,
            keys,
            inline,
            limit,
        )
        return Probes(keys, bounds, inline, limit, np.ones(len(keys), np.bool_), np.full(len(keys), UNCAPPED, np.int64))

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The share of fingerprint bits that agree."""
        return 1.0 - distance / FINGERPRINT_BITS


@numba.njit(nogil=True, cache=True)
def _fill_probes(tables, status, fingerprint, digest, max_distance, bounds, keys, inline, limit):  # type: ignore[no-untyped-def]
    # tables: uint64[n, T]  status: uint8[n]  fingerprint: uint64[n]  digest: uint64[n, 2]  max_distance: uint8
    # bounds: int64[n + 1]  ->  keys: uint64[m]  inline: uint64[m]  limit: uint8[m]
    low_bits = (np.uint64(1) << np.uint64(KEY_BITS)) - np.uint64(1)
    tag = np.uint64(DIGEST_TAG) << np.uint64(KEY_BITS)
    for page in range(len(status)):
        first, last = bounds[page], bounds[page + 1]
        if status[page] == 0:  # Status.FINGERPRINTED
            for slot in range(first, last):
                keys[slot] = tables[page, slot - first]
                inline[slot] = fingerprint[page]
                limit[slot] = max_distance
        elif last > first:
            keys[first] = tag | (digest[page, 0] & low_bits)
            inline[first] = digest[page, 1]
            limit[first] = 0
