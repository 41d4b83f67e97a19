"""Owns what schemes share that meet candidates under some keys and compare sketches: keys, and answers without hosts.

A page is also filed under its body's digest, which decides: so it finds itself when it comes again, however many
candidates lie before it, and pages without a sketch are compared by that alone.
"""

import numpy as np
from numpy.typing import NDArray

from stream.fingerprints.tables import DIGEST_TAG, KEY_BITS, MINIMA_TAG
from stream.schemes import CANDIDATE_LIMIT, OTHER_HOST, REFUSED, UNCAPPED, Confirmed, Probes
from stream.signature import Compared, Signatures, Status

_LOW_BITS = np.uint64(2**KEY_BITS - 1)


class CandidateSearch:
    """Probes of a decisive digest and any number of candidate keys; templates are not looked at."""

    compares_features = False
    candidate_limit = CANDIDATE_LIMIT

    def template_limits(self, pages: Compared) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """These papers compare pages of one host as any others."""
        return np.zeros(len(pages), np.int64), np.zeros(len(pages), np.int64)

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide, and equal ones do."""
        return np.ones(len(distance))


def candidate_probes(signatures: Signatures, values: NDArray[np.uint64]) -> Probes:
    """Probes of n pages: the digest of each, and of those with a sketch one key a value, tagged with its place.

    values: uint64[n, s], below 2^48, s at most 256; rows of pages that are not FINGERPRINTED are not used
    """
    status = signatures.status
    compared = np.flatnonzero(status == Status.FINGERPRINTED)
    sizes = np.ones(len(status), np.int64)
    sizes[compared] += values.shape[1]
    sizes[status == Status.EMPTY] = 0
    bounds = np.zeros(len(status) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    keys, inline = np.empty(bounds[-1], np.uint64), np.zeros(bounds[-1], np.uint64)
    decisive = np.zeros(len(keys), np.bool_)
    digested = np.flatnonzero(sizes)
    first = bounds[digested]
    keys[first] = np.uint64(DIGEST_TAG << KEY_BITS) | signatures.digest[digested, 0] & _LOW_BITS
    inline[first], decisive[first] = signatures.digest[digested, 1], True
    place = np.arange(values.shape[1])
    tag = np.uint64(MINIMA_TAG << KEY_BITS) | place.astype(np.uint64) << np.uint64(48)
    keys[bounds[compared][:, None] + 1 + place] = tag | values[compared]
    return Probes(keys, bounds, inline, np.zeros(len(keys), np.uint8), decisive, np.full(len(keys), UNCAPPED))


def confirmed_by(accepted: NDArray[np.bool_], score: NDArray[np.float64]) -> Confirmed:
    """Of c pairs: bool[c], float64[c] -> what the judge is told, the same for pages of one host as of two."""
    return Confirmed(np.where(accepted, UNCAPPED, REFUSED), np.full(len(accepted), OTHER_HOST, np.int64), score)
