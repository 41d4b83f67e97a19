"""The scheme `onebit`: 1-bit minwise fingerprints and fingerprint group merging (Yuan, Long, Zhang, Gui 2012).

    shingles -> the lowest bit of each of k minima -> R ~ 1 - 2 D / k of two pages that differ in D bits (Eq. 5)
    resemblance >= r   <=>   D <= r_h = k (1 - r) / 2 (Eq. 10)

Search is alg.H (sec. 4): the fingerprint is cut into m = r_h + c groups, all of them in one index as (group, bits), and
pages that share at least c are compared. r_h changed bits leave c of r_h + c groups untouched, so every page within r_h
is met, whatever c is. bench/papers/grouping.py searches batches in memory.

A group has k / m bits: 19 with k = 400, r = .9 and c = 1, so that few pages share one by chance. With the r = .7 of
section 5.3 it has 6: a page shares one with every second stranger, and with c = 1 these use up the candidate limit
before its copies come (7 of 76 found on newsgroups, docs/measured/papers.md). There c counts: one stranger in a
thousand shares 6 groups. Buckets are full after some thousand pages all the same (index.bucket_cap), and what is not
filed is not found. The paper names no default r; ours has groups that tell pages apart.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.errors import SettingError
from spotsieve.stream.features.page_shingles import shingle_pages
from spotsieve.stream.fingerprints.grouping import cut_groups, group_values
from spotsieve.stream.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.schemes.candidates import CandidateSearch, candidate_probes, placed_keys
from spotsieve.stream.schemes.identity import make_signatures, status_of
from spotsieve.stream.settings.schemes import OnebitSettings
from spotsieve.stream.settings.schemes.minhash import MOST_GROUPS
from spotsieve.stream.signature import CandidateColumns, Signatures
from spotsieve.stream.text.tokens import extract_tokens


class OnebitScheme(CandidateSearch):
    """Shingles -> k bits -> groups -> Hamming distance <= r_h."""

    name = "onebit"

    def __init__(self, settings: OnebitSettings) -> None:
        self.settings = settings
        self.functions = linear_hashes(settings.k)
        self.r_h, self.c = settings.r_h, settings.least_shared
        if self.r_h + self.c > min(settings.k, MOST_GROUPS):
            raise SettingError(
                "scheme.c",
                f"must leave at most {min(settings.k, MOST_GROUPS)} groups, r_h + c, and r_h is {self.r_h}",
                self.c,
                "lower it, or raise scheme.r",
            )
        self.groups = cut_groups(settings.k, self.r_h + self.c)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; keep one bit of each minimum over the shingles of pages that have enough of them."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        counts = sizes_of(bounds)
        bits = minimum_hashes(shingles, bounds, self.functions) & np.uint32(1)
        status = status_of(pages, counts >= self.settings.min_shingles)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_bits(bits))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest and the groups."""
        groups = [group_values(signatures.sketch, self.groups, group) for group in range(len(self.groups) - 1)]
        probes = candidate_probes(signatures, placed_keys(np.stack(groups, axis=1)))
        return replace(probes, least_shared=self.c)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The Hamming distance; the score is the resemblance that it estimates."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, np.maximum(1.0 - 2.0 * way.bars[0].had / self.settings.k, 0.0))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """A Hamming distance that is small enough."""
        distance = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64).astype(np.float64)
        name = f"bits of {self.settings.k} that differ"
        return (
            Criterion("the fingerprints are near", (ThresholdTest(name, distance, self.r_h, "bits", at_most=True),)),
        )


def pack_bits(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """uint32[n, k], 0 or 1 -> uint64[n, (k + 63) // 64]: bit b is bit b % 64 of word b // 64; 0 fills up."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
