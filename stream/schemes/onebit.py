"""The scheme `onebit`: 1-bit minwise fingerprints and fingerprint group merging (Yuan, Long, Zhang, Gui 2012).

    shingles -> the lowest bit of each of k minima -> R ~ 1 - 2 D / k of two pages that differ in D bits (Eq. 5)
    resemblance >= r   <=>   D <= r_h = k (1 - r) / 2 (Eq. 10)

Search is alg.H (sec. 4): the fingerprint is cut into m = r_h + 1 groups, all of them in one index as (group, bits), and
pages that share one are compared. r_h changed bits leave one of r_h + 1 groups untouched, so every page within r_h is
met. The paper takes m = r_h + c and counts shared groups, at least c, before it compares; with more groups than r_h + 1
each is shorter and shared by more pages, which pays where lists are merged in memory and not where each posting is
read: c is 1 here, and the set found is the same. tests/measure/papers/grouping.py searches batches
in memory with the paper's c.

A group has k / m bits: 19 with k = 400 and r = .9, so that few pages share one by chance; 6 with the r = .7 of section
5.3, where every bucket is full after some thousand pages (index.bucket_cap) and most copies are then missed. The paper
names no default; these have groups that tell pages apart.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.features.page_shingles import shingle_pages
from spotsieve.stream.fingerprints.grouping import cut_groups, group_values
from spotsieve.stream.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import Bar, Confirmed, Probes, Way
from spotsieve.stream.schemes.candidates import CandidateSearch, candidate_probes, placed_keys
from spotsieve.stream.schemes.identity import signed, status_of
from spotsieve.stream.settings.schemes import OnebitSettings
from spotsieve.stream.signature import Compared, Signatures
from spotsieve.stream.text.tokens import extract_tokens


class OnebitScheme(CandidateSearch):
    """Shingles -> k bits -> groups -> Hamming distance <= r_h."""

    name = "onebit"

    def __init__(self, settings: OnebitSettings) -> None:
        self.settings = settings
        self.functions = linear_hashes(settings.k)
        # the half of a thousandth keeps 400 * (1 - .9) / 2 from being 19
        self.r_h = int(settings.k * (1 - settings.r) / 2 + 0.0005)
        self.groups = cut_groups(settings.k, self.r_h + 1)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; keep one bit of each minimum over the shingles of pages that have enough of them."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        counts = np.diff(bounds)
        bits = minimum_hashes(shingles, bounds, self.functions) & np.uint32(1)
        status = status_of(pages, counts >= self.settings.min_shingles)
        return signed(pages, status=status, feature_count=counts, sketch=pack_bits(bits))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest and the groups."""
        groups = [group_values(signatures.sketch, self.groups, group) for group in range(self.r_h + 1)]
        values = np.stack(groups, axis=1)
        return candidate_probes(signatures, placed_keys(values))

    def confirm(self, pages: Compared, others: Compared) -> Confirmed:
        """The Hamming distance; the score is the resemblance that it estimates."""
        (way,) = self.ways(pages, others)
        return Confirmed(way.reached, np.maximum(1.0 - 2.0 * way.bars[0].had / self.settings.k, 0.0))

    def ways(self, pages: Compared, others: Compared) -> tuple[Way, ...]:
        """A Hamming distance that is small enough."""
        distance = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64).astype(np.float64)
        name = f"bits of {self.settings.k} that differ"
        return (Way("the fingerprints are near", (Bar(name, distance, self.r_h, "bits", at_most=True),)),)


def pack_bits(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """uint32[n, k], 0 or 1 -> uint64[n, (k + 63) // 64]: bit b is bit b % 64 of word b // 64; 0 fills up."""
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
