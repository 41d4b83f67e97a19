"""The schemes of minwise hashing: `minhash` (Williams, Giles 2013) and `onebit` (Yuan, Long, Zhang, Gui 2012).

`minhash`: shingles and sketches of minimum hashes (Williams, Giles, DocEng 2013, sec. 3.2).

    shingles of w tokens -> the least value under each of h functions (A x + B) mod p -> equal minima of two pages / h

The paper lists all pairs of a minimum and a page, joins pages by equal minima, counts and divides by h. Here a page is
indexed under pairs of a function and its minimum. Its candidates are the earlier pages that share one, and the count is
over the sketches in their entries. Only h - n + 1 of the h functions are looked up (43 of 84 for 50 %), where n is the
number of equal minima that a resemblance of R needs: two pages with n equal minima agree on at least one of any
h - n + 1 functions, so no pair is lost. Two settings limit the search: at most index.candidate_limit of the earlier
pages that share a minimum are compared, and a minimum holds at most index.bucket_cap pages. Metrics count both losses;
raising the limits costs reads of h * 4 bytes per candidate and 5 bytes per posting.

Defaults: h = 84 (sec. 4.1), and w = 5 and R = 50 %, which have the best F-score of figure 1. Pages of fewer than 15
tokens are not judged (sec. 4). Shingles are of tokens in lower case, with stop-words and without stemming; the paper
says "standard information retrieval processing".

`onebit`: 1-bit minwise fingerprints and fingerprint group merging (Yuan, Long, Zhang, Gui 2012).

    shingles -> the lowest bit of each of k minima -> R ~ 1 - 2 D / k for two pages that differ in D bits (Eq. 5)
    resemblance >= r   <=>   D <= r_h = k (1 - r) / 2 (Eq. 10)

The search is alg. H (sec. 4): the fingerprint is cut into m = r_h + c groups, all of them in one index as (group,
bits), and pages that share at least c are compared. r_h changed bits leave c of r_h + c groups unchanged, so every page
within r_h is a candidate, for any c. bench/papers/grouping.py searches batches in memory.

A group has k / m bits: 19 with k = 400, r = 0.9 and c = 1, so few pages share one by chance. With the r = 0.7 of
section 5.3 it has 6 bits. Half of all unrelated pages then share one, and with c = 1 they fill the candidate limit
before the copies are reached (7 of 76 found on newsgroups, docs/measured/papers.md). A larger c helps there: one
unrelated page in a thousand shares 6 groups. Buckets still fill up after some thousand pages (index.bucket_cap), and
pages that are not indexed are not found. The paper states no default r; ours has groups that tell pages apart.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import MinhashSettings, OnebitSettings
from spotsieve.stream.base.settings.schemes.minwise import MOST_GROUPS
from spotsieve.stream.base.signature import CandidateColumns, Signatures
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.fingerprints.minhash import cut_groups, group_values, linear_hashes, minimum_hashes
from spotsieve.stream.sign.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.sign.schemes.identity import make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import CandidateSearch, candidate_probes, placed_keys
from spotsieve.stream.sign.text.tokens import extract_tokens


class MinhashScheme(CandidateSearch):
    """Shingles, h minima, pages that share one, resemblance >= R (Williams, Giles 2013, sec. 3.2)."""

    name = "minhash"

    def __init__(self, settings: MinhashSettings) -> None:
        self.settings = settings
        self.functions = linear_hashes(settings.h)
        # Subtracting 0.0005 keeps R = 0.29 of h = 100 from needing 30 equal minima.
        self.least_equal = max(1, math.ceil(settings.resemblance * settings.h - 0.0005))

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Take the minima over the shingles of pages with at least min_tokens tokens and one shingle."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        counts = sizes_of(bounds)
        status = status_of(pages, (tokens.counts >= self.settings.min_tokens) & (counts > 0))
        minima = minimum_hashes(shingles, bounds, self.functions)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_minima(minima))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and the minima of the first h - n + 1 functions."""
        looked_up = self.settings.h - self.least_equal + 1
        minima = unpack_minima(signatures.sketch)[:, :looked_up].astype(np.uint64)
        return candidate_probes(signatures, placed_keys(minima))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs with enough equal minima; the score is their share of h."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, way.tests[0].had / self.settings.h)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Number of equal minima."""
        equal = unpack_minima(pages.sketch) == unpack_minima(others.sketch)
        count = np.count_nonzero(equal[:, : self.settings.h], axis=1).astype(np.float64)
        name = f"equal minima of {self.settings.h}"
        return (Criterion("the resemblance is enough", (ThresholdTest(name, count, self.least_equal, "minima"),)),)


def pack_minima(minima: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Pack two minima into a word, the first low, zero padded: uint32[n, h] -> uint64[n, (h + 1) // 2]."""
    padded = np.zeros((len(minima), minima.shape[1] + minima.shape[1] % 2), "<u4")
    padded[:, : minima.shape[1]] = minima
    return padded.view("<u8").astype(np.uint64)


def unpack_minima(sketch: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Unpack the minima of sketches: uint64[n, s] -> uint32[n, 2 * s]."""
    return np.ascontiguousarray(sketch).astype("<u8").view("<u4").astype(np.uint32)


class OnebitScheme(CandidateSearch):
    """Shingles, k bits, groups, Hamming distance <= r_h (Yuan, Long, Zhang, Gui 2012, alg. H)."""

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
        """Keep the lowest bit of each minimum over the shingles of pages with enough of them."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        counts = sizes_of(bounds)
        bits = minimum_hashes(shingles, bounds, self.functions) & np.uint32(1)
        status = status_of(pages, counts >= self.settings.min_shingles)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_bits(bits))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and the groups of the fingerprint (sec. 4)."""
        groups = [group_values(signatures.sketch, self.groups, group) for group in range(len(self.groups) - 1)]
        probes = candidate_probes(signatures, placed_keys(np.stack(groups, axis=1)))
        return replace(probes, least_shared=self.c)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs by Hamming distance (Eq. 10); the score is the estimated resemblance (Eq. 5)."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, np.maximum(1.0 - 2.0 * way.tests[0].had / self.settings.k, 0.0))

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Hamming distance of the fingerprints."""
        distance = np.bitwise_count(pages.sketch ^ others.sketch).sum(axis=1, dtype=np.int64).astype(np.float64)
        name = f"bits of {self.settings.k} that differ"
        return (
            Criterion("the fingerprints are near", (ThresholdTest(name, distance, self.r_h, "bits", at_most=True),)),
        )


def pack_bits(bits: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Pack bits into words, zero padded: uint32[n, k], 0 or 1 -> uint64[n, (k + 63) // 64].

    Bit b is bit b % 64 of word b // 64.
    """
    padded = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
