"""A scheme for tests and benchmarks that uses all of the seam: decisive digests, candidates, and confirmation.

Not a published system: it takes its signatures as they are given, and shows what a scheme has to do.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import CandidateColumns, Signatures, SignatureStatus, is_judged
from spotsieve.stream.sign.fingerprints.permuted_tables import (
    DIGEST_TAG,
    KEY_BITS,
    MAX_TABLES,
    MINIMA_TAG,
    TEXT_TAG,
    TITLE_TAG,
    TableDesign,
)
from spotsieve.stream.sign.schemes import UNCAPPED, Confirmations, Criterion, Probes, ThresholdTest

MINIMA_CAP = 3
LOW_BITS = np.uint64(2**KEY_BITS - 1)


class ConfirmingScheme:
    """Body and text digests decide; tables, minima and host give candidates; sketches confirm.

    most_bits: differing bits of a sketch of one word that a copy may have.
    """

    name = "confirming"
    compares_features = False
    candidate_limit = 256
    host_thresholds = None

    def __init__(self, design: TableDesign, most_bits: int) -> None:
        self.design = design
        self.most_bits = most_bits
        self.limits, self.caps = np.zeros(256, np.uint8), np.full(256, UNCAPPED)
        self.limits[:MAX_TABLES] = design.max_distance_bits
        self.caps[MINIMA_TAG], self.caps[TITLE_TAG] = MINIMA_CAP, 1
        self.confirmed_pairs = 0

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures are made by the tests themselves."""
        raise NotImplementedError

    def probe(self, signatures: Signatures) -> Probes:
        """A page without a fingerprint has its digests only; an empty one has no keys; text digest 0, 0 is none."""
        status = signatures.status
        some, judged = status != SignatureStatus.EMPTY, is_judged(status)
        texts = some & signatures.text_digest.any(axis=1)
        tables = self.design.keys(signatures.fingerprint)
        owner = np.repeat(np.arange(len(status)), np.diff(signatures.features_bounds))
        used = judged[owner]
        hosted, nothing = judged & (signatures.host != 0), np.zeros(len(owner) + len(status), np.uint64)
        parts = [
            _digests(signatures.digest, DIGEST_TAG, some),
            _digests(signatures.text_digest, TEXT_TAG, texts),
            *(
                (np.flatnonzero(judged), tables[judged, table], signatures.fingerprint[judged])
                for table in range(len(self.design))
            ),
            (owner[used], _tagged(signatures.features[used], MINIMA_TAG), nothing[: used.sum()]),
            (np.flatnonzero(hosted), _tagged(signatures.host[hosted], TITLE_TAG), nothing[: hosted.sum()]),
        ]
        page, keys, inline = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(page, kind="stable")
        page, keys, inline = page[order], keys[order], inline[order]
        tag = keys >> np.uint64(KEY_BITS)
        bounds = np.searchsorted(page, np.arange(len(status) + 1))
        return Probes(keys, bounds, inline, self.limits[tag], tag >= TEXT_TAG, self.caps[tag])

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The sketches' Hamming distance."""
        self.confirmed_pairs += len(pages)
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, 1 - way.tests[0].had / 64)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """A small distance."""
        differing = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64).astype(np.float64)
        return (
            Criterion("near", (ThresholdTest("bits that differ", differing, self.most_bits, "bits", at_most=True),)),
        )

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide."""
        return 1.0 - distance / 64


def _digests(
    digest: NDArray[np.uint64], tag: int, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    return np.flatnonzero(chosen), _tagged(digest[chosen, 0], tag), digest[chosen, 1]


def _tagged(words: NDArray[np.uint64], tag: int) -> NDArray[np.uint64]:
    return words & LOW_BITS | np.uint64(tag << KEY_BITS)
