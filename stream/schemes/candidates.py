"""Holds what the schemes share that look for candidates and compare sketches: their probes, and their score.

A page is also filed under its body's digest, which decides. So it finds itself when it comes again, however many
candidates lie before it; a page without a sketch is compared by the digest alone.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.tables import DIGEST_TAG, KEY_BITS, MINIMA_TAG
from spotsieve.stream.schemes import CANDIDATE_LIMIT, Probes
from spotsieve.stream.schemes.probes import build_probes, digest_keys, same_number
from spotsieve.stream.signature import FINGERPRINTED, Signatures, has_keys


class CandidateSearch:
    """Probes of a decisive digest and any number of candidate keys. Pages of one host are compared like any others."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT
    bars = None

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))


def candidate_probes(
    signatures: Signatures, keys: NDArray[np.uint64], inline: NDArray[np.uint64] | None = None, limit: int = 0
) -> Probes:
    """Probes of n pages: the digest of each, and of those that are FINGERPRINTED their candidate keys.

    keys: uint64[n, s], different within a row; rows of other pages are not used
    inline: uint64[n], of all keys of a page, None for none  limit: as of Probes, of these keys
    """
    status = signatures.status
    candidates = same_number(keys, status == FINGERPRINTED, inline)._replace(limit=limit)
    return build_probes(digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)), candidates)


def placed_keys(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """values: uint64[n, s], below 2^48, s at most 256 -> keys tagged with their place: uint64[n, s]."""
    place = np.arange(values.shape[1]).astype(np.uint64)
    keys: NDArray[np.uint64] = np.uint64(MINIMA_TAG << KEY_BITS) | place << np.uint64(48) | values
    return keys
