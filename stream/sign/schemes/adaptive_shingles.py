"""The scheme `adaptive-shingles`: shingles sampled at a ratio that depends on the page's size (Ye, Wen, Ma).

    MD5 of the text -> equal: a copy; else w-shingles -> those that are 0 mod n, n by size in words -> resemblance >= t

Resemblance (shared over all) is that of the sampled sets. The paper compares pages of one size class, in a batch. Here
pages of two classes are compared at the coarser of their ratios. Ratios are powers of two, so the finer sample contains
the coarser one, and pages on both sides of a class boundary are compared like any others.

The search uses prefixes and finds every pair that reaches t, as comparing all sampled sets would. Two sets with a
resemblance of t share at least t |A| of A's shingles. So, in any fixed order of shingles, the first
|A| - ceil(t |A|) + 1 of A and the first |B| - ceil(t |B|) + 1 of B have one in common. The order here is that of the
reversed bits (stream/sign/features/shingles.py): a coarser sample is the head of the finer one, and its prefix, which
is not longer, is the head of the finer one's prefix. So one prefix, of the page's own sample, serves any ratio of the
other page.

Two settings limit the search: a shingle holds at most index.bucket_cap pages, and a page is compared with at most
index.candidate_limit others, here 1,024. Metrics count both losses.

Defaults: t = 0.6, ratio 1/8 below 500 words and 1/16 above, the table that the paper chose for a precision of 0.8 (sec.
6); `spotsieve calibrate` makes a table from a sample. The paper's text does not state its w: "moderate". A page with
fewer than min_shingles sampled shingles is compared by its body's digest only, because one shared shingle proves
nothing.
"""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.schemes import AdaptiveShinglesSettings
from spotsieve.stream.base.signature import (
    MAX_FEATURES,
    CandidateColumns,
    Signatures,
    has_keys,
    is_judged,
)
from spotsieve.stream.sign.features.shingles import RatioTable, head_sizes, sample_shingles, shingle_pages
from spotsieve.stream.sign.fingerprints.minhash import count_shared
from spotsieve.stream.sign.fingerprints.permuted_tables import DIGEST_TAG, KEY_BITS, MINIMA_TAG, TEXT_TAG, tagged
from spotsieve.stream.sign.schemes import Confirmations, Criterion, Probes, ThresholdTest
from spotsieve.stream.sign.schemes.identity import features_compared, make_signatures, status_of
from spotsieve.stream.sign.schemes.probes import CandidateSearch, Keys, build_probes, digest_keys, listed
from spotsieve.stream.sign.text.tokens import PageTokens, extract_tokens

_DROPPED = np.uint64(64 - KEY_BITS)


class AdaptiveShinglesScheme(CandidateSearch):
    """Text digest, or shingles sampled by page size and resemblance >= t (Ye, Wen, Ma)."""

    name = "adaptive-shingles"
    compares_features = True
    candidate_limit = 1_024
    """Four times index.bucket_cap. The buckets of template text make other pages of the template candidates before the
    original. On 12,288 generated pages, half of each its host's template, 256 candidates found 13 % of the copies and
    1,024 all of them, for 100 to 300 us per page."""

    def __init__(self, settings: AdaptiveShinglesSettings) -> None:
        """Raises SettingError if sizes and ratios do not form a table, or min_shingles exceeds most_shingles."""
        if settings.min_shingles > settings.most_shingles:
            rule = f"must be at most most_shingles = {settings.most_shingles}"
            raise SettingError("scheme.min_shingles", rule, settings.min_shingles, "lower it: 4 is the default")
        self.settings = settings
        self.table = RatioTable(settings.sizes, settings.ratios)
        self._prefixes = prefix_lengths(np.arange(MAX_FEATURES + 1), settings.resemblance)

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Sample the shingles of each page (secs. 4.4, 6), and digest the text of pages with enough (sec. 4.2)."""
        batch = lay_out(pages)
        tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
        shingles, bounds = shingle_pages(tokens, self.settings.w, self.settings.w)
        sample = sample_shingles(shingles, bounds, self.table.of(tokens.counts), self.settings.most_shingles)
        counts = sizes_of(sample.bounds)
        status = status_of(pages, counts >= self.settings.min_shingles)
        columns = features_compared(status, sample.shingles, sample.bounds)
        judged = is_judged(status)[:, None]
        columns["text_digest"] = np.where(judged, text_digests(tokens), np.uint64(0))
        columns["sketch"] = sample.ratios[:, None]
        # feature_count is that of the whole page, because sizes of samples do not tell which page is longer.
        return make_signatures(pages, feature_count=sizes_of(bounds), **columns)

    def probe(self, signatures: Signatures) -> Probes:
        """Digests of body and text, which decide, and the prefix of the sample as candidate keys."""
        status = signatures.status
        return build_probes(
            digest_keys(DIGEST_TAG, signatures.digest, has_keys(status)),
            digest_keys(TEXT_TAG, signatures.text_digest, is_judged(status)),
            self._prefix_keys(signatures),
        )

    def _prefix_keys(self, signatures: Signatures) -> Keys:
        """Candidate keys of each page, all different within a page."""
        starts = signatures.features_bounds[:-1]
        lengths = self._prefixes[sizes_of(signatures.features_bounds)]
        page = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(page)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        # Keys are the high bits, so equal keys of a page are adjacent.
        values = signatures.features[starts[page] + place] >> _DROPPED
        first = np.ones(len(page), np.bool_)
        first[1:] = (values[1:] != values[:-1]) | (page[1:] != page[:-1])
        bounds = bounds_of(np.bincount(page[first], minlength=len(lengths)))
        return listed(tagged(MINIMA_TAG, values[first]), bounds)

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Accept pairs whose samples have a resemblance >= t at the coarser ratio; the score is the resemblance."""
        (way,) = self.ways(pages, others)
        return Confirmations(way.reached, way.tests[0].had)

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Resemblance of the samples, at the coarser ratio."""
        coarser = np.maximum(pages.sketch[:, 0], others.sketch[:, 0])
        # A shingle in both samples is in both at the coarser ratio, too.
        shared = count_shared(pages, others)
        either = head_sizes(pages.features, pages.spans, coarser) + head_sizes(others.features, others.spans, coarser)
        resemblance = shared / np.maximum(either - shared, 1)
        name = "resemblance of the sampled shingles, at the coarser ratio"
        return (Criterion("the resemblance is enough", (ThresholdTest(name, resemblance, self.settings.resemblance),)),)


def prefix_lengths(sizes: NDArray[np.int64], threshold: float) -> NDArray[np.int64]:
    """Number of first shingles that are looked up, by sample size: int64[...] -> int64[...].

    It is size - least + 1, where least is the smallest number of shared shingles with which the resemblance, a quotient
    rounded to 53 bits, can reach the threshold.
    """
    positive = np.maximum(sizes, 1)
    least = np.ceil(threshold * positive).astype(np.int64)
    least -= (least - 1) / positive >= threshold
    least += least / positive < threshold
    lengths: NDArray[np.int64] = np.where(sizes > 0, sizes - least + 1, 0)
    return lengths


def text_digests(tokens: PageTokens) -> NDArray[np.uint64]:
    """MD5 of each page's tokens in order (sec. 4.2): uint64[n, 2]."""
    hashes, bounds = tokens.hashes.astype("<u8", copy=False), tokens.bounds.tolist()
    raw = b"".join(
        hashlib.md5(hashes[first:last].tobytes(), usedforsecurity=False).digest() for first, last in pairwise(bounds)
    )
    return np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, 2)
