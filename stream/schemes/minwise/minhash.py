"""The scheme `minhash`: shingles and sketches of minimum hashes (Williams, Giles, DocEng 2013, sec. 3.2).

    shingles of w tokens -> the least value under each of h functions (A x + B) mod p -> equal ones of two pages / h

The paper lists all pairs of a minimum and a page, joins pages by equal minima, counts and divides by h. Here a page is
filed under pairs of a function and its minimum, meets the earlier pages that share one, and the count is over the
sketches in their entries. Of h functions only h - n + 1 are looked up, n the equal ones that a resemblance of R needs
(43 of 84 for 50 %): two pages with n equal minima agree on at least one of any h - n + 1 functions, so nothing is lost.
What is lost is stated by two settings: beyond index.candidate_limit earlier pages that share a minimum the next ones
are not compared, and beyond index.bucket_cap a minimum takes no more pages. Both are counted in metrics; raising them
costs reads of h * 4 bytes a candidate and 5 bytes a posting.

Defaults: h = 84 (sec. 4.1), and w = 5 and R = 50 %, which had the best F-score of figure 1; pages of fewer than 15
tokens are not judged (sec. 4). Shingles are of tokens in lower case, with stop-words and without stemming; the paper
says "standard information retrieval processing".
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.page_shingles import shingle_pages
from spotsieve.stream.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.page import Page, lay_out
from spotsieve.stream.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.schemes.candidates import CandidateSearch, candidate_probes, placed_keys
from spotsieve.stream.schemes.identity import make_signatures, status_of
from spotsieve.stream.settings.schemes import MinhashSettings
from spotsieve.stream.signature import CandidateColumns, Signatures
from spotsieve.stream.text.tokens import extract_tokens


class MinhashScheme(CandidateSearch):
    """Shingles -> h minima -> pages that share one -> resemblance >= R."""

    name = "minhash"

    def __init__(self, settings: MinhashSettings) -> None:
        self.settings = settings
        self.functions = linear_hashes(settings.h)
        # the half of a thousandth keeps R = .29 of 100 from asking for 30
        self.least_equal = max(1, math.ceil(settings.resemblance * settings.h - 0.0005))

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Digest every body; take the minima over the shingles of pages that have at least min_tokens and a shingle."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup.view(np.bool_))
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        counts = sizes_of(bounds)
        status = status_of(pages, (tokens.counts >= self.settings.min_tokens) & (counts > 0))
        minima = minimum_hashes(shingles, bounds, self.functions)
        return make_signatures(pages, status=status, feature_count=counts, sketch=pack_minima(minima))

    def probe(self, signatures: Signatures) -> Probes:
        """The body's digest, and the minima of as many functions as two pages of resemblance R cannot all differ in."""
        looked_up = self.settings.h - self.least_equal + 1
        minima = unpack_minima(signatures.sketch)[:, :looked_up].astype(np.uint64)
        return candidate_probes(signatures, placed_keys(minima))

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """The share of functions under which both have the same minimum."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, way.bars[0].had / self.settings.h)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Enough equal minima."""
        equal = unpack_minima(pages.sketch) == unpack_minima(others.sketch)
        count = np.count_nonzero(equal[:, : self.settings.h], axis=1).astype(np.float64)
        name = f"equal minima of {self.settings.h}"
        return (Criterion("the resemblance is enough", (ThresholdTest(name, count, self.least_equal, "minima"),)),)


def pack_minima(minima: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """uint32[n, h] -> two in a word, the first low; 0 fills up: uint64[n, (h + 1) // 2]."""
    padded = np.zeros((len(minima), minima.shape[1] + minima.shape[1] % 2), "<u4")
    padded[:, : minima.shape[1]] = minima
    return padded.view("<u8").astype(np.uint64)


def unpack_minima(sketch: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """uint64[n, s] -> uint32[n, 2 * s]."""
    return np.ascontiguousarray(sketch).astype("<u8").view("<u4").astype(np.uint32)
