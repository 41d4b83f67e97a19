"""A scheme for tests and benchmarks that uses all of the seam: decisive digests, candidates, and confirmation.

Not a published system: it takes its signatures as they are given, and shows what a scheme has to do.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.fingerprints.tables import (
    CHECK_BITS,
    CHECKED_MINIMA_TAG,
    DIGEST_TAG,
    KEY_BITS,
    MAX_TABLES,
    MINIMA_TAG,
    TEXT_TAG,
    TableDesign,
)
from stream.page import Page
from stream.schemes import Probes
from stream.signature import Compared, Signatures, Status

CHECKED = np.uint64(2**CHECK_BITS - 1)
LOW_BITS = np.uint64(2**KEY_BITS - 1)


class ConfirmingScheme:
    """Body and text digests decide; tables and minima give candidates; sketches confirm, more strictly on one host.

    check_limit: differing bits of the part of the sketch that postings of minima carry; None: they carry none
    most_bits: differing bits of a sketch that a copy may have  most_bits_same_host: the same for pages of one host
    """

    name = "confirming"

    def __init__(
        self, design: TableDesign, most_bits: int, most_bits_same_host: int, check_limit: int | None = None
    ) -> None:
        self.design = design
        self.most_bits = most_bits
        self.most_bits_same_host = most_bits_same_host
        self.minima_tag = MINIMA_TAG if check_limit is None else CHECKED_MINIMA_TAG
        self.limits = np.zeros(256, np.uint8)
        self.limits[:MAX_TABLES] = design.max_distance_bits
        self.limits[CHECKED_MINIMA_TAG] = check_limit or 0
        self.confirmed_pairs = 0

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures are made by the tests themselves."""
        raise NotImplementedError

    def probe(self, signatures: Signatures) -> Probes:
        """A page without a fingerprint has its digests only; an empty one has no keys; text digest 0, 0 is none."""
        status = signatures.status
        some, whole = status != Status.EMPTY, status == Status.FINGERPRINTED
        texts = some & signatures.text_digest.any(axis=1)
        tables = self.design.keys(signatures.fingerprint)
        owner = np.repeat(np.arange(len(status)), np.diff(signatures.minima_bounds))
        used = whole[owner]
        check = (
            signatures.sketch[:, 0] & CHECKED
            if self.minima_tag == CHECKED_MINIMA_TAG
            else np.zeros(len(status), np.uint64)
        )
        parts = [
            _digests(signatures.digest, DIGEST_TAG, some),
            _digests(signatures.text_digest, TEXT_TAG, texts),
            *(
                (np.flatnonzero(whole), tables[whole, table], signatures.fingerprint[whole])
                for table in range(len(self.design))
            ),
            (owner[used], _tagged(signatures.minima[used], self.minima_tag), check[owner[used]]),
        ]
        page, keys, inline = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(page, kind="stable")
        page, keys, inline = page[order], keys[order], inline[order]
        tag = keys >> np.uint64(KEY_BITS)
        return Probes(
            keys, np.searchsorted(page, np.arange(len(status) + 1)), inline, self.limits[tag], tag >= TEXT_TAG
        )

    def confirm(self, pages: Compared, others: Compared) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """The sketches' Hamming distance."""
        self.confirmed_pairs += len(pages)
        differing = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1)
        most = np.where(pages.host == others.host, self.most_bits_same_host, self.most_bits)
        return differing <= most, 1 - differing / (64 * max(pages.sketch.shape[1], 1))

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Only digests decide."""
        return 1.0 - distance / 64


def _digests(
    digest: NDArray[np.uint64], tag: int, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64]]:
    return np.flatnonzero(chosen), _tagged(digest[chosen, 0], tag), digest[chosen, 1]


def _tagged(words: NDArray[np.uint64], tag: int) -> NDArray[np.uint64]:
    return words & LOW_BITS | np.uint64(tag << KEY_BITS)
